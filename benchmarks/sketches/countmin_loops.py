"""The loops of count-min sketches. Counts lie in one array per sketch: level after level, each row after row.

Level 0 counts keys, the others their prefixes, each shorter by `step_bits`; behind them lie the exact counts of the
shortest prefixes. `multipliers` has a row per level and in it one number per row of counts: prefix times multiplier,
modulo 2 ** 64, begins with the place (Dietzfelbinger and others, 1997). Counts stop at the greatest BIGINT.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from headrace.kernel.jit import compiled
from headrace.kernel.sketches.counters_loops import add_up
from headrace.model.types import MAX_BIGINT

Integers = NDArray[np.int64]
Multipliers = NDArray[np.uint64]


@compiled
def place_in(prefix: int, multiplier: np.uint64, width_bits: int) -> int:
    return np.int64((np.uint64(prefix) * multiplier) >> np.uint64(64 - width_bits))  # type: ignore[return-value]


@compiled
def update(cells: Integers, multipliers: Multipliers, width_bits: int, step_bits: int, key: int, weight: int) -> None:
    """One more weight in every row of every level."""
    levels, depth = multipliers.shape
    begin, prefix = 0, key
    for level in range(levels):
        for row in range(depth):
            place = begin + place_in(prefix, multipliers[level, row], width_bits)
            cells[place] = add_up(cells[place], weight)
            begin += 1 << width_bits
        prefix >>= step_bits
    cells[begin + prefix] = add_up(cells[begin + prefix], weight)


@compiled
def estimate(cells: Integers, multipliers: Multipliers, width_bits: int, level: int, prefix: int) -> int:
    """The least count of a prefix in its level, which is never below its weight; one more level is the exact one."""
    levels, depth = multipliers.shape
    begin = (level * depth) << width_bits
    if level == levels:
        return cells[begin + prefix]  # type: ignore[no-any-return]
    least = cells[begin + place_in(prefix, multipliers[level, 0], width_bits)]
    for row in range(1, depth):
        begin += 1 << width_bits
        least = min(least, cells[begin + place_in(prefix, multipliers[level, row], width_bits)])
    return least  # type: ignore[no-any-return]


@compiled
def update_slots(
    slots: Integers,
    keys: Integers,
    weights: Integers,
    multipliers: Multipliers,
    width_bits: int,
    step_bits: int,
    cells: Integers,
    totals: Integers,
) -> None:
    """Rows into the sketches of their slots; one whose weight is not above 0 does not count."""
    for row in range(len(slots)):
        if weights[row] > 0:
            slot = slots[row]
            totals[slot] = add_up(totals[slot], weights[row])
            update(cells[slot], multipliers, width_bits, step_bits, keys[row], weights[row])


@compiled
def add_sketches(slots: Integers, more: Integers, cells: Integers) -> None:
    for row in range(len(slots)):
        held, added = cells[slots[row]], more[row]
        for place in range(len(held)):
            held[place] = add_up(held[place], added[place])


# The search, always on from the largest prefix that is left. Equal ones come by their smallest keys


@compiled
def precedes(heap: Integers, first: int, second: int) -> bool:
    """Rows of the heap: estimate, level, prefix, smallest key."""
    if heap[first, 0] != heap[second, 0]:
        return bool(heap[first, 0] > heap[second, 0])
    if heap[first, 3] != heap[second, 3]:
        return bool(heap[first, 3] < heap[second, 3])
    return bool(heap[first, 1] > heap[second, 1])


@compiled
def swap(heap: Integers, first: int, second: int) -> None:
    for part in range(4):
        heap[first, part], heap[second, part] = heap[second, part], heap[first, part]


@compiled
def rise(heap: Integers, at: int) -> None:
    while at > 0 and precedes(heap, at, (at - 1) // 2):
        swap(heap, at, (at - 1) // 2)
        at = (at - 1) // 2


@compiled
def sink(heap: Integers, size: int) -> None:
    at = 0
    while True:
        best = at
        for child in range(2 * at + 1, min(2 * at + 3, size)):
            if precedes(heap, child, best):
                best = child
        if best == at:
            return
        swap(heap, at, best)
        at = best


@compiled
def push(heap: Integers, at: int, value: int, level: int, prefix: int, key: int) -> None:
    heap[at, 0], heap[at, 1], heap[at, 2], heap[at, 3] = value, level, prefix, key
    rise(heap, at)


@compiled
def search(
    cells: Integers,
    multipliers: Multipliers,
    width_bits: int,
    step_bits: int,
    least: int,
    most: int,
    found: Integers,
    heap: Integers,
) -> int:
    """Keys with estimates of at least `least`, the largest `most` of them; how many.

    -1 if that takes more memory than there is, or more steps than `found` has rows: any counts come to an end.
    """
    levels, depth = multipliers.shape
    size, count = 0, 0
    level, limit = levels, MAX_BIGINT
    first, last = 0, len(cells) - ((levels * depth) << width_bits)
    for _ in range(len(found)):
        for prefix in range(first, last):
            value = min(limit, estimate(cells, multipliers, width_bits, level, prefix))
            if value >= least:
                if size == len(heap):
                    return -1
                push(heap, size, value, level, prefix, prefix << (level * step_bits))
                size += 1
        expanded = False
        while size > 0 and not expanded:
            limit, level, first = heap[0, 0], heap[0, 1], heap[0, 2]
            size -= 1
            swap(heap, 0, size)
            sink(heap, size)
            expanded = level > 0
            if not expanded:
                if count == len(found):
                    return -1
                found[count, 0], found[count, 1] = first, limit
                count += 1
                if count == most:
                    return count
        if not expanded:
            return count
        level -= 1
        first, last = first << step_bits, (first + 1) << step_bits
    return -1
