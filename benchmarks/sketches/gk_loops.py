"""The loops of Greenwald-Khanna summaries. A summary is rows of (value, g, delta), in the order of values [UDAF 4.1].

The sum of g up to a row is the least rank that its value may have, that and delta the greatest. Counts are DOUBLEs,
exact up to 2^53. No loop drops the first or the last row: they are the least and the greatest value.
"""

from __future__ import annotations

import math

import numpy as np

from benchmarks.sketches.gk_byte_loops import SUMMARY
from headrace.kernel.jit import compiled
from headrace.model.arrays import Doubles, Integers


@compiled
def compute_limit(error: float, count: float) -> float:
    """Return what g and delta of a row may add up to."""
    return math.floor(2.0 * error * count)


@compiled
def set_row(rows: Doubles, at: int, value: float, g: float, delta: float) -> None:
    rows[at, 0], rows[at, 1], rows[at, 2] = value, g, delta


@compiled
def copy_row(source: Doubles, row: int, target: Doubles, at: int) -> None:
    set_row(target, at, source[row, 0], source[row, 1], source[row, 2])


@compiled
def compress(rows: Doubles, size: int, limit: float) -> int:
    """From the end, a row goes into the next one while that stays within the limit. How many of some rows are left."""
    kept = size - 1
    for row in range(size - 2, -1, -1):
        if row > 0 and rows[row, 1] + rows[kept, 1] + rows[kept, 2] <= limit:
            rows[kept, 1] += rows[row, 1]
        else:
            kept -= 1
            copy_row(rows, row, rows, kept)
    for row in range(kept, size):
        copy_row(rows, row, rows, row - kept)
    return size - kept


@compiled
def merge(left: Doubles, left_size: int, right: Doubles, right_size: int, limit: float, merged: Doubles) -> int:
    """[UDAF figure 1]: beside the ranks in its own summary, a value has those that the other allows. How many rows.

    Unlike there, rows of equal values stay apart where one for both would be wider than the limit: many summaries of
    few values each would else make rows of any width, and errors with them.
    """
    first = second = at = 0
    while first < left_size or second < right_size:
        if second == right_size:
            copy_row(left, first, merged, at)
            first += 1
        elif first == left_size or right[second, 0] < left[first, 0]:
            more = left[first, 1] + left[first, 2] - 1.0 if first < left_size else 0.0
            set_row(merged, at, right[second, 0], right[second, 1], right[second, 2] + more)
            second += 1
        else:
            more = right[second, 1] + right[second, 2]
            if left[first, 0] == right[second, 0] and left[first, 1] + left[first, 2] + more <= limit:
                g, delta = left[first, 1] + right[second, 1], left[first, 2] + right[second, 2]
                second += 1
            else:
                g, delta = left[first, 1], left[first, 2] + more - 1.0
            set_row(merged, at, left[first, 0], g, delta)
            first += 1
        at += 1
    return at


@compiled
def total(rows: Doubles, begin: int, end: int) -> float:
    found = 0.0
    for row in range(begin, end):
        found += rows[row, 1]
    return found


@compiled
def add_block(held: Doubles, size: int, count: int, block: Doubles, run: Doubles, spare: Doubles, error: float) -> int:
    """Sorted values into a summary of `count` values, each as if it came alone, and one compression after all."""
    for place in range(len(block)):
        set_row(run, place, block[place], 1.0, 0.0)
    limit = compute_limit(error, count + len(block))
    made = compress(spare, merge(held, size, run, len(block), limit, spare), limit)
    for row in range(made):
        copy_row(spare, row, held, row)
    return made


@compiled
def lift_slots(
    counts: Integers, starts: Integers, placed: Doubles, width: int, error: float, rows: Doubles, ends: Integers
) -> None:
    """For each slot the summary of its sorted blocks: the whole ones, then the rest."""
    most = counts.max() if len(counts) else 0
    held, spare, run = np.empty((most + 1, 3)), np.empty((most + 1, 3)), np.empty((width, 3))
    at = 0
    for slot in range(len(counts)):
        whole, size = counts[slot] // width, 0
        for block in range(whole):
            begin = starts[slot, 0] + block * width
            size = add_block(held, size, block * width, placed[begin : begin + width], run, spare, error)
        rest, begin = counts[slot] - whole * width, starts[slot, 1]
        if rest:
            size = add_block(held, size, whole * width, placed[begin : begin + rest], run, spare, error)
        for row in range(size):
            copy_row(held, row, rows, at + row)
        at += size
        ends[slot] = at


@compiled
def combine_slots(
    order: Integers,
    ends: Integers,
    states: Integers,
    forms: Integers,
    rows: Doubles,
    error: float,
    out: Doubles,
    made: Integers,
) -> None:
    """The states of a slot one after the other: values go in one by one, summaries are compressed and then merged."""
    most = 0
    for state in range(len(states) - 1):
        most = max(most, states[state + 1] - states[state])
    held, spare, run = np.empty((len(rows), 3)), np.empty((len(rows), 3)), np.empty((most, 3))
    at = begin = 0
    for slot in range(len(ends)):
        size, count = 0, 0.0
        for place in range(begin, ends[slot]):
            first, last = states[order[place]], states[order[place] + 1]
            if first == last:
                continue
            for row in range(first, last):
                copy_row(rows, row, run, row - first)
            more, brief = total(rows, first, last), last - first
            if forms[order[place]] == SUMMARY:
                brief = compress(run, brief, compute_limit(error, more))
            count += more
            limit = compute_limit(error, count)
            size = compress(spare, merge(held, size, run, brief, limit, spare), limit)
            held, spare = spare, held
        for row in range(size):
            copy_row(held, row, out, at + row)
        at += size
        made[slot], begin = at, ends[slot]


@compiled
def cap(states: Integers, rows: Doubles, most: Integers, made: Integers) -> None:
    """Compress each state by the least limit that leaves at most `most` rows; in place."""
    trial, at = np.empty((len(rows), 3)), 0
    for state in range(len(most)):
        first, last = states[state], states[state + 1]
        size, limit, step = last - first, 0.0, 1.0
        while step <= total(rows, first, last):
            step *= 2.0
        while size > max(most[state], 2) and step >= 1.0:
            for row in range(first, last):
                copy_row(rows, row, trial, row - first)
            if compress(trial, last - first, limit + step) > max(most[state], 2):
                limit += step
            step /= 2.0
            if step < 1.0:
                size = compress(rows[first:last], last - first, limit + 1.0)
        for row in range(size):
            copy_row(rows, first + row, rows, at + row)
        at += size
        made[state] = at


# Answers


@compiled
def find_ranks(states: Integers, rows: Doubles, counts: Doubles, ranks: Integers, answers: Doubles) -> None:
    """For each rank that numbers have, the value whose possible ranks are nearest to it."""
    for state in range(len(states) - 1):
        first, last = states[state], states[state + 1]
        for place in range(ranks.shape[1]):
            rank = float(ranks[state, place])
            if rank > counts[state]:
                continue
            if rank == counts[state]:
                answers[state, place] = rows[last - 1, 0]
                continue
            least, nearest = 0.0, math.inf
            for row in range(first, last if rank > 1.0 else first + 1):
                least += rows[row, 1]
                distance = max(rank - least, least + rows[row, 2] - rank)
                if distance < nearest:
                    nearest, answers[state, place] = distance, rows[row, 0]


# The low levels [UDAF 4.1]: rows in a fixed room; when it is full they leave, and it starts empty again


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
            limit = compute_limit(error, count)
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
