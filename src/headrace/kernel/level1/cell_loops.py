"""Compiled searches: from values to cells, and from times to slices."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from headrace.kernel.jit import compiled
from headrace.model.arrays import Integers

MAGNITUDE = 0x7FFFFFFFFFFFFFFF
INFINITY = 0x7FF0000000000000
NOT_A_NUMBER = 0x7FF8000000000000
"""Bits of a DOUBLE."""


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
