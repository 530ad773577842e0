"""The loops of the low levels [UDAF 4.1]: rows in a fixed room; when it is full they leave, and the next begin anew."""

from __future__ import annotations

import numpy as np

from benchmarks.sketches.gk_loops import allowed, compress, copy_row, set_row
from headrace.kernel.jit import compiled
from headrace.model.arrays import Doubles, Integers


@compiled
def place_of(rows: Doubles, size: int, value: float) -> int:
    """The first row whose value is not less."""
    low, high = 0, size
    while low < high:
        middle = (low + high) // 2
        if rows[middle, 0] < value:
            low = middle + 1
        else:
            high = middle
    return low


@compiled
def insert(rows: Doubles, size: int, value: float) -> int:
    """Where the value went. It may have any rank that the row after it allows."""
    at = place_of(rows, size, value)
    for row in range(size, at, -1):
        copy_row(rows, row - 1, rows, row)
    set_row(rows, at, value, 1.0, 0.0 if at in (0, size) else rows[at + 1, 1] + rows[at + 1, 2] - 1.0)
    return at


@compiled
def probe(rows: Doubles, size: int, row: int, limit: float) -> int:
    """This row goes into the next one, if it may. How many rows there are then."""
    if not 0 < row < size - 1 or rows[row, 1] + rows[row + 1, 1] + rows[row + 1, 2] > limit:
        return size
    rows[row + 1, 1] += rows[row, 1]
    for later in range(row, size - 1):
        copy_row(rows, later + 1, rows, later)
    return size - 1


@compiled
def lift_low(
    ends: Integers,
    ordered: Doubles,
    room: int,
    error: float,
    whole_sweeps: bool,
    rows: Doubles,
    owners: Integers,
    made: Integers,
) -> int:
    """The summaries that leave, with their slots. After each value the whole summary is swept, or two places of it."""
    held, begin, at, flushed = np.empty((room, 3)), 0, 0, 0
    for slot in range(len(ends)):
        size, count = 0, 0
        for row in range(begin, ends[slot]):
            place = insert(held, size, ordered[row])
            size, count = size + 1, count + 1
            limit = allowed(error, count)
            if whole_sweeps:
                size = compress(held, size, limit)
            else:
                size = probe(held, size, place, limit)
                size = probe(held, size, (count * 0x9E3779B1 >> 7) % size, limit)
            if size == room or row == ends[slot] - 1:
                for kept in range(size):
                    copy_row(held, kept, rows, at + kept)
                at += size
                owners[flushed], made[flushed] = slot, at
                flushed += 1
                size = count = 0
        begin = ends[slot]
    return flushed
