"""Compiled loops of level 1: from values to cells, from times to slices, from rows to slots and to leaves.

Places without a sign spare the test whether they count from the end.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from headrace.kernel.jit import compiled
from headrace.kernel.slot_loops import EMPTY
from headrace.model.arrays import Integers, Mask

MAGNITUDE = 0x7FFFFFFFFFFFFFFF
INFINITY = 0x7FF0000000000000
NOT_A_NUMBER = 0x7FF8000000000000
"""Bits of a DOUBLE."""
LATEST = np.int64(2**63 - 1)


# Cells and slices


@compiled
def rank_of(bits: int) -> int:
    """The bits of a DOUBLE as a whole number of the same order: -0.0 equals 0.0, and NaN is behind all."""
    magnitude = bits & MAGNITUDE
    if magnitude > INFINITY:
        return NOT_A_NUMBER
    return bits if bits >= 0 else -magnitude


@compiled
def count_reached(
    numbers: Integers, are_doubles: bool, cuts: Integers, shift: int, table: npt.NDArray[np.int32], cells: Any
) -> None:
    """One more than the number of cuts at or below each number, which may be the bits of a DOUBLE; cuts are ranks.

    `table` knows for each range of 2 ** shift ranks, from the first cut on, how many cuts lie below it: few are left
    to compare.
    """
    if len(cuts) == 0:
        cells[:] = 1
        return
    lowest, count = cuts[0], len(cuts)
    last = np.uint64(len(table) - 1)
    bits = np.uint64(shift)
    for row in range(len(numbers)):
        rank = rank_of(numbers[row]) if are_doubles else numbers[row]
        if rank < lowest:
            cells[row] = 1
            continue
        distance = np.uint64(rank) - np.uint64(lowest)  # may be more than a signed number holds
        place = table[min(distance >> bits, last)]
        while place < count and cuts[place] <= rank:
            place += 1
        cells[row] = 1 + place


@compiled
def count_few_reached(numbers: Integers, cuts: Integers, cells: npt.NDArray[np.int32]) -> None:
    """The same, into ones, without a branch: several numbers at once."""
    for cut in cuts:
        for row in range(len(numbers)):
            cells[row] += np.int32(numbers[row] >= cut)


@compiled
def rank_doubles(bits: Integers, ranks: Integers) -> None:
    for row in range(len(bits)):
        ranks[row] = rank_of(bits[row])


@compiled
def last_reached(starts_us: Integers, time_us: int) -> int:
    """The place of the last start at or before a time."""
    low, high = 0, len(starts_us)
    while low < high:
        middle = (low + high) >> 1
        if starts_us[middle] <= time_us:
            low = middle + 1
        else:
            high = middle
    return low - 1


@compiled
def find_slices(times_us: Integers, starts_us: Integers, codes: npt.NDArray[np.int32]) -> None:
    """The last start at or before each time: mostly the same as for the row before."""
    current = 0
    count = len(starts_us)
    for row in range(len(times_us)):
        time_us = times_us[row]
        if time_us < starts_us[current] or (current + 1 < count and time_us >= starts_us[current + 1]):
            current = last_reached(starts_us, time_us)
        codes[row] = current


# Slots


@compiled
def slots_by_slice(
    times_us: Integers,
    starts_us: Integers,
    rows: Integers | None,
    codes: npt.NDArray[np.int32],
    size: int,
    slots: Integers,
    keys: Integers,
) -> int:
    """Slots of slice and code in order of first appearance, through an array of all; how many there are.

    The code of a row is at its place in `rows`. A slot's key has slice and code as digits.
    """
    known = np.full(len(starts_us) * size, EMPTY, dtype=np.int32)
    slot_count, last = 0, len(starts_us) - 1
    first, begin_us, end_us = np.uint64(0), np.int64(0), np.int64(0)
    for row in range(len(times_us)):
        time_us = times_us[row]
        if time_us < begin_us or time_us >= end_us:
            current = last_reached(starts_us, time_us)
            first = np.uint64(current * size)
            begin_us = starts_us[current]
            end_us = starts_us[current + 1] if current < last else LATEST
        key = first + np.uint64(codes[row] if rows is None else codes[np.uint64(rows[row])])
        slot = known[key]
        if slot == EMPTY:
            slot = np.int32(slot_count)
            known[key] = slot
            keys[slot_count] = key
            slot_count += 1
        slots[row] = slot
    return slot_count


# Leaves


@compiled
def count_passing(cells: Integers, passes: Mask, counts: Integers) -> None:
    """How many rows are in cells that pass, for each leaf."""
    for leaf in range(len(passes)):
        count = 0
        for row in range(len(cells)):
            count += passes[leaf, np.uint64(cells[row])]
        counts[leaf] = count


@compiled
def take_passing(
    cells: Integers,
    passes: Mask,
    slices: Integers,
    groups: npt.NDArray[np.int32],
    firsts: Integers,
    rows: Integers,
    keys: Integers,
) -> None:
    """Leaf by leaf the rows that pass, and the key of each, from its slice in the leaf and its group."""
    taken = 0
    for leaf in range(len(passes)):
        for row in range(len(cells)):
            if passes[leaf, np.uint64(cells[row])]:
                rows[taken] = row
                keys[taken] = firsts[leaf, np.uint64(slices[row])] + groups[row]
                taken += 1
