"""Compiled searches: from values to cells, and from times to slices."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from headrace.kernel.compiling import compiled

Integers = npt.NDArray[np.int64]


@compiled
def count_reached(ranks: Integers, cuts: Integers, shift: int, table: npt.NDArray[np.int32], cells: Any) -> None:
    """One more than the number of cuts at or below each value, both as whole numbers of the same order.

    `table` knows for each range of 2 ** shift numbers, from the first cut on, how many cuts lie below it: few are left
    to compare.
    """
    if len(cuts) == 0:
        cells[:] = 1
        return
    lowest, count = cuts[0], len(cuts)
    last = np.uint64(len(table) - 1)
    bits = np.uint64(shift)
    for row in range(len(ranks)):
        rank = ranks[row]
        if rank < lowest:
            cells[row] = 1
            continue
        distance = np.uint64(rank) - np.uint64(lowest)  # may be more than a signed number holds
        place = table[min(distance >> bits, last)]
        while place < count and cuts[place] <= rank:
            place += 1
        cells[row] = 1 + place


@compiled
def ordered_ranks(bits: Integers, ranks: Integers) -> None:
    """The bits of DOUBLEs as whole numbers of the same order; NaN is behind all."""
    for row in range(len(bits)):
        each = bits[row]
        ranks[row] = each if each >= 0 else each ^ 0x7FFFFFFFFFFFFFFF


@compiled
def find_slices(times_us: Integers, starts_us: Integers, codes: npt.NDArray[np.int32]) -> None:
    """The last start at or before each time: mostly the same as for the row before."""
    current = 0
    count = len(starts_us)
    for row in range(len(times_us)):
        time_us = times_us[row]
        if time_us < starts_us[current] or (current + 1 < count and time_us >= starts_us[current + 1]):
            low, high = 0, count
            while low < high:
                middle = (low + high) >> 1
                if starts_us[middle] <= time_us:
                    low = middle + 1
                else:
                    high = middle
            current = low - 1
        codes[row] = current
