"""The loops between the bytes of KLL sketches, which are those of DataSketches, and their items by levels."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from headrace.kernel.jit import compiled
from headrace.kernel.sketches.packed_byte_loops import copy, number, put_doubles, put_number
from headrace.kernel.sketches.packed_bytes import Bytes
from headrace.kernel.sketches.quantile_states import MAX_VALUES
from headrace.model.arrays import Doubles, Integers, Mask

MIN_WIDTH = 8
"""Of a level, whatever its height (DataSketches' m)."""
MAX_LEVELS = 61
SHORT, HEAD = 8, 20
"""Bytes before the item of a single-item form, and before the starts of levels in the general form."""
EMPTY, SORTED, SINGLE = 1, 2, 4
FAMILY = 15


class KllStates(NamedTuple):
    """States by levels. A run is a level of a state, its items from `runs[i]` to `runs[i + 1]`.

    `counts` are those of numbers and of NaNs, and the least k of what was combined; `extremes` least and greatest.
    """

    first_runs: Integers
    runs: Integers
    items: Doubles
    counts: Integers
    extremes: Doubles


# Capacities, as DataSketches computes them; the stored starts of levels are positions in an array of that size


@compiled
def shrink_width(width: int, depth: int) -> int:
    """The width times (2/3)^depth, rounded."""
    power = 1
    for _ in range(depth):
        power *= 3
    return (((width << 1) << depth) // power + 1) >> 1


@compiled
def level_capacity(k: int, levels: int, level: int) -> int:
    depth = levels - level - 1
    if depth <= 30:
        return max(MIN_WIDTH, shrink_width(k, depth))
    return max(MIN_WIDTH, shrink_width(shrink_width(k, depth // 2), depth - depth // 2))


@compiled
def capacity(k: int, levels: int) -> int:
    total = 0
    for level in range(levels):
        total += level_capacity(k, levels, level)
    return total


# Read


@compiled
def measure(data: Bytes, offsets: Integers, levels: Integers, retained: Integers, trailing: Mask) -> int:
    """Count the levels and items of each state, and say whether NaNs follow. Return the first bad state, or -1."""
    for row in range(len(levels)):
        begin, size = offsets[row], offsets[row + 1] - offsets[row]
        levels[row] = retained[row] = 0
        trailing[row] = False
        if size == 0:
            continue
        if size < SHORT or data[begin + 2] != FAMILY or data[begin + 6] != MIN_WIDTH:
            return row
        form, version, flags, k = data[begin], data[begin + 1], data[begin + 3] & ~SORTED, number(data, begin + 4, 2)
        if k < MIN_WIDTH:
            return row
        if form == 2 and version == 1 and flags == EMPTY:
            expected = SHORT
        elif form == 2 and version == 2 and flags == SINGLE:
            levels[row] = retained[row] = 1
            expected = SHORT + 8
        elif form == 5 and version == 1 and flags == 0 and size >= HEAD:
            count = int(data[begin + 18])
            if not 1 <= count <= MAX_LEVELS or size < HEAD + 4 * count + 16:
                return row
            end = capacity(k, count)
            first = number(data, begin + HEAD, 4)
            if first >= end:
                return row
            levels[row], retained[row] = count, end - first
            expected = HEAD + 4 * count + 16 + 8 * (end - first)
        else:
            return row
        trailing[row] = size == expected + 8
        if size != expected and not trailing[row]:
            return row
    return -1


@compiled
def unpack(data: Bytes, offsets: Integers, first_items: Integers, trailing: Mask, states: KllStates) -> int:
    """Fill in all but the first runs. Return the first bad state, or -1."""
    first_runs, runs, items, counts, extremes = states
    words = items.view(np.uint8)
    limits = extremes.reshape(extremes.size).view(np.uint8)
    for row in range(len(first_runs) - 1):
        begin, end, first = offsets[row], offsets[row + 1], first_items[row]
        levels, retained = first_runs[row + 1] - first_runs[row], first_items[row + 1] - first
        counts[row, 2] = 1 << 16
        if trailing[row]:
            end -= 8
            counts[row, 1] = number(data, end, 8)
            if not 0 < counts[row, 1] <= MAX_VALUES:
                return row
        if levels == 0:
            continue
        copy(data, end - 8 * retained, 8 * retained, words, 8 * first)
        runs[first_runs[row]] = first
        if data[begin] == 2:
            counts[row, 0] = 1
            extremes[row, 0] = extremes[row, 1] = items[first]
            continue
        counts[row, 0] = number(data, begin + 8, 8)
        least_k = number(data, begin + 16, 2)
        counts[row, 2] = least_k if levels > 1 else 1 << 16
        table = begin + HEAD
        copy(data, table + 4 * levels, 16, limits, 16 * row)
        start = number(data, table, 4)
        for level in range(levels):
            place = number(data, table + 4 * level, 4) - start
            if place > retained or place < 0 or first + place < runs[first_runs[row] + max(level - 1, 0)]:
                return row
            runs[first_runs[row] + level] = first + place
        if least_k < MIN_WIDTH:
            return row
    runs[first_runs[-1]] = first_items[-1]
    return -1


@compiled
def inspect(states: KllStates) -> int:
    """Return the first state whose levels are not sorted, leave the extremes or stand for other counts, or -1."""
    first_runs, runs, items, counts, extremes = states
    for row in range(len(first_runs) - 1):
        low, high, total = extremes[row, 0], extremes[row, 1], np.int64(0)
        for run in range(first_runs[row], first_runs[row + 1]):
            size, level = runs[run + 1] - runs[run], run - first_runs[row]
            if size > MAX_VALUES >> level:
                return row
            total += size << level
            before = low
            for place in range(runs[run], runs[run + 1]):
                if not before <= items[place] <= high:
                    return row
                before = items[place]
        if total != counts[row, 0] or total > MAX_VALUES:
            return row
    return -1


# Written


@compiled
def total(sizes: Integers) -> int:
    sum_of_sizes = 0
    for size in sizes:
        sum_of_sizes += size
    return sum_of_sizes


@compiled
def pack(
    out: Bytes, at: int, k: int, totals: Integers, limits: Doubles, held: Doubles, sizes: Integers, levels: int
) -> int:
    """The bytes of one state; where they end."""
    single, empty = totals[0] == 1, totals[0] == 0
    out[at] = 2 if single or empty else 5
    out[at + 1], out[at + 2] = 2 if single else 1, FAMILY
    out[at + 3] = EMPTY if empty else SINGLE if single else SORTED
    put_number(out, at + 4, 2, k)
    out[at + 6], out[at + 7] = MIN_WIDTH, 0
    at += SHORT
    if not single and not empty:
        at = put_number(out, at, 8, totals[0])
        at = put_number(out, at, 2, min(k, totals[2]))
        at = put_number(out, at, 2, levels)
        start = capacity(k, levels) - total(sizes)
        for level in range(levels):
            at = put_number(out, at, 4, start)
            start += sizes[level]
        at = put_doubles(out, at, limits, 2)
    if not empty:
        for level in range(levels):
            at = put_doubles(out, at, held[level], sizes[level])
    return put_number(out, at, 8, totals[1]) if totals[1] else at
