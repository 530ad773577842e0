"""The loops that count items by slot and cut what is beyond the capacity.

A row whose weight is not above 0 does not count. Sums stop at the greatest BIGINT, in any order at the same number.
"""

from __future__ import annotations

import numpy as np

from headrace.kernel.jit import compiled
from headrace.kernel.slot_loops import place_of
from headrace.model.arrays import Integers
from headrace.model.types import MAX_BIGINT

FIRST_BITS = 3
"""Of the table of a slot, which grows as it fills."""
STRIDE = np.uint64(0xC2B2AE3D27D4EB4F)
"""From the codes of one slot to those of the next: large and odd, so that they do not lie on each other."""


@compiled
def add_up(first: int, second: int) -> int:
    """Of two numbers that are not negative. Compiled code may take it that no sum overflows, so none does."""
    return first + second if first <= MAX_BIGINT - second else MAX_BIGINT


@compiled
def add_by_slot(slots: Integers, values: Integers, totals: Integers) -> None:
    for row in range(len(slots)):
        if values[row] > 0:
            slot = np.uint64(slots[row])
            totals[slot] = add_up(totals[slot], values[row])


@compiled
def meet(
    slots: Integers,
    codes: Integers,
    weights: Integers,
    bits: int,
    met_slots: Integers,
    met_codes: Integers,
    met_weights: Integers,
) -> int:
    """Rows of the same slot and code as one, where no other row came between them in its place; how many are left.

    In the table of 2 ** bits places nothing is searched for: the last comer has the place.
    """
    places = np.full(1 << bits, -1, np.int32)
    size = 0
    for row in range(len(slots)):
        if weights[row] > 0:
            slot, code = slots[row], codes[row]
            place = np.uint64(place_of(np.uint64(code) + np.uint64(slot) * STRIDE, bits))  # type: ignore[arg-type]
            last = np.int64(places[place])
            if last >= 0 and met_codes[last] == code and met_slots[last] == slot:
                met_weights[last] = add_up(met_weights[last], weights[row])
            else:
                met_slots[size], met_codes[size], met_weights[size] = slot, code, weights[row]
                places[place] = size
                size += 1
    return size


@compiled
def count_by_slot(slots: Integers, weights: Integers, counts: Integers) -> None:
    for row in range(len(slots)):
        if weights[row] > 0:
            counts[np.uint64(slots[row])] += 1


@compiled
def group_by_slot(
    slots: Integers, codes: Integers, weights: Integers, nexts: Integers, grouped: Integers, grouped_weights: Integers
) -> None:
    """The rows that count, slot after slot; `nexts` is where the next of each slot goes."""
    for row in range(len(slots)):
        if weights[row] > 0:
            slot = np.uint64(slots[row])
            place = np.uint64(nexts[slot])
            nexts[slot] += 1
            grouped[place] = codes[row]
            grouped_weights[place] = weights[row]


@compiled
def find_place(table: Integers, bits: int, code: int) -> int:
    """Where a code is in a table of 2 ** bits places, or the free one for it: there its count is 0."""
    mask = (1 << bits) - 1
    place = place_of(code, bits)
    while table[place, 1] != 0 and table[place, 0] != code:
        place = (place + 1) & mask
    return place


@compiled
def widen(table: Integers, bits: int, wider: Integers) -> None:
    """The same counts in a table of twice as many places."""
    wider[: 2 << bits] = 0
    for place in range(1 << bits):
        if table[place, 1] != 0:
            free = find_place(wider, bits + 1, table[place, 0])
            wider[free, 0], wider[free, 1] = table[place, 0], table[place, 1]


@compiled
def nth_greatest(values: Integers, size: int, rank: int) -> int:
    """Hoare's selection among the first `size`, which it reorders; `rank` counts from 0."""
    low, high = 0, size - 1
    while low < high:
        pivot = values[(low + high) // 2]
        left, right = low, high
        while left <= right:
            while values[left] > pivot:
                left += 1
            while values[right] < pivot:
                right -= 1
            if left <= right:
                values[left], values[right] = values[right], values[left]
                left += 1
                right -= 1
        if rank <= right:
            high = right
        elif rank >= left:
            low = left
        else:
            break
    return values[rank]  # type: ignore[no-any-return]


@compiled
def sort_items(codes: Integers, counts: Integers, begin: int, end: int) -> None:
    """By code, from `begin` to `end`. Shell sort needs no memory, and most slots have few items."""
    gap = 1
    while gap < (end - begin) // 3:
        gap = 3 * gap + 1
    while gap > 0:
        for at in range(begin + gap, end):
            code, count = codes[at], counts[at]
            place = at
            while place >= begin + gap and codes[place - gap] > code:
                codes[place], counts[place] = codes[place - gap], counts[place - gap]
                place -= gap
            codes[place], counts[place] = code, count
        gap //= 3


@compiled
def count_codes(
    codes: Integers, weights: Integers, begin: int, end: int, bits: int, table: Integers, spare: Integers
) -> tuple[Integers, Integers, int, int]:
    """The counts of a slot in a table of 2 ** bits places, and how many there are. It grows when it is half full."""
    size = 0
    if len(table) < 1 << bits:
        table = np.empty((1 << bits, 2), np.int64)
    table[: 1 << bits] = 0
    for row in range(begin, end):
        place = find_place(table, bits, codes[row])
        if table[place, 1] == 0:
            table[place, 0] = codes[row]
            size += 1
        table[place, 1] = add_up(table[place, 1], weights[row])
        if 2 * size > 1 << bits:
            if len(spare) < 2 << bits:
                spare = np.empty((2 << bits, 2), np.int64)
            widen(table, bits, spare)
            table, spare, bits = spare, table, bits + 1
    return table, spare, bits, size


@compiled
def cut_for(table: Integers, bits: int, size: int, capacity: int) -> int:
    """The greatest count for which there is no room."""
    counts = np.empty(size, np.int64)
    filled = 0
    for place in range(1 << bits):
        if table[place, 1] != 0:
            counts[filled] = table[place, 1]
            filled += 1
    return nth_greatest(counts, size, capacity)


@compiled
def fold_slots(
    starts: Integers,
    codes: Integers,
    weights: Integers,
    capacity: int,
    errors: Integers,
    firsts: Integers,
    kept_codes: Integers,
    kept_counts: Integers,
) -> int:
    """Counts by slot and code, those of each slot in order of codes; how many there are.

    The rows of a slot lie together, from its start on. A slot with more codes than `capacity` loses the greatest count
    for which there is no room, from every count; its error grows by as much. A slot's table begins as large as the one
    before ended, unless it has too few rows for that.
    """
    table, spare = np.empty((1 << FIRST_BITS, 2), np.int64), np.empty((1 << FIRST_BITS, 2), np.int64)
    kept, usual = 0, FIRST_BITS
    for slot in range(len(starts) - 1):
        firsts[slot] = kept
        begin, end = starts[slot], starts[slot + 1]
        bits = FIRST_BITS
        while bits < usual and 1 << bits < 2 * (end - begin):
            bits += 1
        table, spare, bits, size = count_codes(codes, weights, begin, end, bits, table, spare)
        usual = max(bits, usual - 1)
        cut = 0
        if size > capacity:
            cut = cut_for(table, bits, size, capacity)
            errors[slot] = add_up(errors[slot], cut)
        for place in range(1 << bits):
            if table[place, 1] > cut:
                kept_codes[kept], kept_counts[kept] = table[place, 0], table[place, 1] - cut
                kept += 1
        sort_items(kept_codes, kept_counts, firsts[slot], kept)
    firsts[len(starts) - 1] = kept
    return kept
