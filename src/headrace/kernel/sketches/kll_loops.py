"""The loops of KLL sketches: bytes in, items by levels, bytes out. An item of level h stands for 2^h values.

Items come as sorted blocks, those of a slot and level together. A level that is full keeps one of every two neighbours
for the next level: the even or the odd ones, by a coin that is a hash of what it decides on, so a replay decides alike.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from headrace.kernel.compiling import compiled

Bytes = NDArray[np.uint8]
Integers = NDArray[np.int64]
Doubles = NDArray[np.float64]
Flags = NDArray[np.bool_]

LEAST_WIDTH = 8
"""Of a level, whatever its height (DataSketches' m)."""
MOST_LEVELS = 61
MOST_VALUES = 1 << 53
"""In one state: up to here counts are exact as DOUBLEs too."""
SHORT, HEAD = 8, 20
"""Bytes before the item of a single-item form, and before the starts of levels in the general form."""
EMPTY, SORTED, SINGLE = 1, 2, 4
FAMILY = 15


# Capacities, as DataSketches computes them: the levels that bytes tell count from the end of it


@compiled
def shrunk(width: int, depth: int) -> int:
    """The width times (2/3)^depth, rounded."""
    power = 1
    for _ in range(depth):
        power *= 3
    return (((width << 1) << depth) // power + 1) >> 1


@compiled
def level_capacity(k: int, levels: int, level: int) -> int:
    depth = levels - level - 1
    if depth <= 30:
        return max(LEAST_WIDTH, shrunk(k, depth))
    return max(LEAST_WIDTH, shrunk(shrunk(k, depth // 2), depth - depth // 2))


@compiled
def capacity(k: int, levels: int) -> int:
    total = 0
    for level in range(levels):
        total += level_capacity(k, levels, level)
    return total


# Bytes


@compiled
def number(data: Bytes, at: int, size: int) -> int:
    """Little-endian; of 8 bytes, with their sign."""
    found = 0
    for place in range(size):
        found |= int(data[at + place]) << (8 * place)
    return found


@compiled
def put_number(data: Bytes, at: int, size: int, value: int) -> int:
    for place in range(size):
        data[at + place] = (value >> (8 * place)) & 255
    return at + size


@compiled
def copy(source: Bytes | Doubles, begin: int, count: int, target: Bytes | Doubles, at: int) -> int:
    """To `target`; where it ends there. An assignment of slices would do the same and take seconds to compile."""
    for place in range(count):
        target[at + place] = source[begin + place]
    return at + count


@compiled
def put_items(data: Bytes, at: int, items: Doubles, count: int) -> int:
    return copy(items.view(np.uint8), 0, 8 * count, data, at)


@compiled
def measure(data: Bytes, offsets: Integers, levels: Integers, retained: Integers, trailing: Flags) -> int:
    """Into the arrays: the levels and items of each state, and whether NaNs follow. The first bad state, or -1."""
    for row in range(len(levels)):
        begin, size = offsets[row], offsets[row + 1] - offsets[row]
        levels[row] = retained[row] = 0
        trailing[row] = False
        if size == 0:
            continue
        if size < SHORT or data[begin + 2] != FAMILY or data[begin + 6] != LEAST_WIDTH:
            return row
        form, version, flags, k = data[begin], data[begin + 1], data[begin + 3] & ~SORTED, number(data, begin + 4, 2)
        if k < LEAST_WIDTH:
            return row
        if form == 2 and version == 1 and flags == EMPTY:
            expected = SHORT
        elif form == 2 and version == 2 and flags == SINGLE:
            levels[row] = retained[row] = 1
            expected = SHORT + 8
        elif form == 5 and version == 1 and flags == 0 and size >= HEAD:
            count = int(data[begin + 18])
            if not 1 <= count <= MOST_LEVELS or size < HEAD + 4 * count + 16:
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
def unpack(
    data: Bytes,
    offsets: Integers,
    first_runs: Integers,
    first_items: Integers,
    trailing: Flags,
    runs: Integers,
    items: Doubles,
    counts: Integers,
    extremes: Doubles,
) -> int:
    """The runs of items by level; counts of numbers and NaNs, and the least k. The first bad state, or -1."""
    words = items.view(np.uint8)
    limits = extremes.reshape(extremes.size).view(np.uint8)
    for row in range(len(first_runs) - 1):
        begin, end, first = offsets[row], offsets[row + 1], first_items[row]
        levels, retained = first_runs[row + 1] - first_runs[row], first_items[row + 1] - first
        counts[row, 2] = 1 << 16
        if trailing[row]:
            end -= 8
            counts[row, 1] = number(data, end, 8)
            if not 0 < counts[row, 1] <= MOST_VALUES:
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
        if least_k < LEAST_WIDTH:
            return row
    runs[first_runs[-1]] = first_items[-1]
    return -1


@compiled
def inspect(first_runs: Integers, runs: Integers, items: Doubles, counts: Integers, extremes: Doubles) -> int:
    """Whether the levels are sorted, lie between the extremes and stand for as many values as the state says."""
    for row in range(len(first_runs) - 1):
        low, high, total = extremes[row, 0], extremes[row, 1], np.int64(0)
        for run in range(first_runs[row], first_runs[row + 1]):
            size, level = runs[run + 1] - runs[run], run - first_runs[row]
            if size > MOST_VALUES >> level:
                return row
            total += size << level
            before = low
            for place in range(runs[run], runs[run + 1]):
                if not before <= items[place] <= high:
                    return row
                before = items[place]
        if total != counts[row, 0] or total > MOST_VALUES:
            return row
    return -1


# Items to their places


@compiled
def count_values(slots: Integers, values: Doubles, valid: Flags | None, counts: Integers, nans: Integers) -> None:
    for row in range(len(slots)):
        if valid is None or valid[row]:
            slot = np.uint64(slots[row])
            missing = values[row] != values[row]
            counts[slot] += not missing
            nans[slot] += missing


@compiled
def place_values(
    slots: Integers, values: Doubles, valid: Flags | None, wholes: Integers, jumps: Integers, placed: Doubles
) -> None:
    """`wholes` is where the next value of a slot goes; where its blocks end, `jumps`, it goes on with the rest."""
    for row in range(len(slots)):
        value = values[row]
        if (valid is None or valid[row]) and value == value:
            slot = np.uint64(slots[row])
            at = wholes[slot]
            if at == jumps[slot, 0]:
                at = jumps[slot, 1]
            placed[np.uint64(at)] = value + 0.0
            wholes[slot] = at + 1


@compiled
def place_runs(
    groups: Integers, runs: Integers, items: Doubles, wholes: Integers, jumps: Integers, placed: Doubles
) -> None:
    for run in range(len(groups)):
        group = groups[run]
        at = wholes[group]
        for place in range(runs[run], runs[run + 1]):
            if at == jumps[group, 0]:
                at = jumps[group, 1]
            placed[np.uint64(at)] = items[place]
            at += 1
        wholes[group] = at


@compiled
def gather(slots: Integers, counts: Integers, extremes: Doubles, totals: Integers, limits: Doubles) -> int:
    """The numbers that a slot's states have in common; the first state that makes too many values of it, or -1."""
    for row in range(len(slots)):
        slot = slots[row]
        totals[slot, 2] = min(totals[slot, 2], counts[row, 2])
        for place in range(2):
            totals[slot, place] += counts[row, place]
            if totals[slot, place] > MOST_VALUES:
                return row
        if counts[row, 0] > 0:
            limits[slot, 0] = min(limits[slot, 0], extremes[row, 0])
            limits[slot, 1] = max(limits[slot, 1], extremes[row, 1])
    return -1


# Levels


@compiled
def merge(left: Doubles, right: Doubles, merged: Doubles) -> None:
    """Which of the two is less can't be foreseen, so nothing branches on it."""
    one, first, second = np.uint64(1), np.uint64(0), np.uint64(0)
    ends, at = (np.uint64(len(left)), np.uint64(len(right))), np.uint64(0)
    while first < ends[0] and second < ends[1]:
        ours, theirs = left[first], right[second]
        less = np.uint64(theirs < ours)
        merged[at] = theirs if theirs < ours else ours
        second += less
        first += one - less
        at += one
    while first < ends[0]:
        merged[at] = left[first]
        first += one
        at += one
    while second < ends[1]:
        merged[at] = right[second]
        second += one
        at += one


@compiled
def toss(coin: np.uint64, items: Doubles, level: int) -> np.uint64:
    """The next coin, from this one, the items that it decides on and their level. The last bit is what fell."""
    bits = items.view(np.uint64)
    total = coin + np.uint64(level + 1) * np.uint64(0x9E3779B97F4A7C15)
    for place in range(len(bits)):
        total += bits[place]
    total = (total ^ (total >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    total = (total ^ (total >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return total ^ (total >> np.uint64(31))


@compiled
def halve(items: Doubles, coin: np.uint64, halves: Doubles) -> Doubles:
    """Of an even number of items."""
    first = np.int64(coin & np.uint64(1))
    for place in range(len(items) // 2):
        halves[place] = items[2 * place + first]
    return halves[: len(items) // 2]


@compiled
def hold(held: Doubles, sizes: Integers, level: int, run: Doubles, spare: Doubles) -> None:
    size = sizes[level] + len(run)
    merge(held[level][: sizes[level]], run, spare)
    copy(spare, 0, size, held[level], 0)
    sizes[level] = size


@compiled
def add_run(
    held: Doubles,
    sizes: Integers,
    level: int,
    run: Doubles,
    width: int,
    spare: Doubles,
    halves: Doubles,
    coin: np.uint64,
) -> np.uint64:
    """A sorted run of at most `width` items into its level; as long as a level is full, half of it into the next."""
    while True:
        size = sizes[level] + len(run)
        if size < width:
            hold(held, sizes, level, run, spare)
            return coin
        if len(run) < width:
            merge(held[level][: sizes[level]], run, spare)
            run = spare[:size]
            sizes[level] = size & 1
            held[level, 0] = run[0]
            run = run[size & 1 :]
        coin = toss(coin, run, level)
        run = halve(run, coin, halves)
        level += 1


@compiled
def total(sizes: Integers) -> int:
    found = 0
    for size in sizes:
        found += size
    return found


@compiled
def settle(
    held: Doubles, sizes: Integers, levels: int, k: int, spare: Doubles, halves: Doubles, coin: np.uint64
) -> int:
    """As few items as a sketch of so many levels may have; the lowest give first. How many levels those are then."""
    while levels > 1 and sizes[levels - 1] == 0:
        levels -= 1
    while total(sizes) > capacity(k, levels):
        level = 0
        while sizes[level] <= level_capacity(k, levels, level):
            level += 1
        odd = sizes[level] & 1
        run = held[level][odd : sizes[level]]
        coin = toss(coin, run, level)
        sizes[level] = odd
        hold(held, sizes, level + 1, halve(run, coin, halves), spare)
        levels = max(levels, level + 2)
    return levels


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
    out[at + 6], out[at + 7] = LEAST_WIDTH, 0
    at += SHORT
    if not single and not empty:
        at = put_number(out, at, 8, totals[0])
        at = put_number(out, at, 2, min(k, totals[2]))
        at = put_number(out, at, 2, levels)
        start = capacity(k, levels) - total(sizes)
        for level in range(levels):
            at = put_number(out, at, 4, start)
            start += sizes[level]
        at = put_items(out, at, limits, 2)
    if not empty:
        for level in range(levels):
            at = put_items(out, at, held[level], sizes[level])
    return put_number(out, at, 8, totals[1]) if totals[1] else at


@compiled
def build(
    first_groups: Integers,
    levels: Integers,
    counts: Integers,
    starts: Integers,
    placed: Doubles,
    width: int,
    k: int,
    totals: Integers,
    limits: Doubles,
    out: Bytes,
    offsets: Integers,
) -> None:
    """For each slot the state of its blocks: of each group, which is a level, the whole ones and then the rest."""
    held, sizes = np.empty((MOST_LEVELS + 3, 2 * width)), np.zeros(MOST_LEVELS + 3, np.int64)
    spare, halves = np.empty(4 * width), np.empty(2 * width)
    for slot in range(len(totals)):
        at = offsets[slot]
        offsets[slot + 1] = at
        if totals[slot, 0] + totals[slot, 1] == 0:
            continue
        for level in range(len(sizes)):
            sizes[level] = 0
        coin = np.uint64(totals[slot, 0])
        for group in range(first_groups[slot], first_groups[slot + 1]):
            level, begin, whole = levels[group], starts[group, 0], counts[group] // width
            for block in range(whole):
                run = placed[begin + block * width : begin + (block + 1) * width]
                coin = add_run(held, sizes, level, run, width, spare, halves, coin)
            begin, rest = starts[group, 1], counts[group] - whole * width
            if rest:
                coin = add_run(held, sizes, level, placed[begin : begin + rest], width, spare, halves, coin)
        used = settle(held, sizes, MOST_LEVELS + 1, k, spare, halves, coin)
        offsets[slot + 1] = pack(out, at, k, totals[slot], limits[slot], held, sizes, used)


# Answers


@compiled
def block_extremes(counts: Integers, starts: Integers, placed: Doubles, width: int, limits: Doubles) -> None:
    for slot in range(len(counts)):
        whole = counts[slot] // width
        rest = counts[slot] - whole * width
        for block in range(whole):
            begin = starts[slot, 0] + block * width
            limits[slot, 0] = min(limits[slot, 0], placed[begin])
            limits[slot, 1] = max(limits[slot, 1], placed[begin + width - 1])
        if rest:
            limits[slot, 0] = min(limits[slot, 0], placed[starts[slot, 1]])
            limits[slot, 1] = max(limits[slot, 1], placed[starts[slot, 1] + rest - 1])


@compiled
def find_ranks(
    first_runs: Integers,
    runs: Integers,
    items: Doubles,
    counts: Integers,
    extremes: Doubles,
    ranks: Integers,
    answers: Doubles,
) -> None:
    """For each state the items at its ranks, which ascend from 1; a rank beyond the numbers leaves its answer alone."""
    heads = np.zeros(MOST_LEVELS, np.int64)
    for row in range(len(first_runs) - 1):
        first, levels = first_runs[row], first_runs[row + 1] - first_runs[row]
        for level in range(levels):
            heads[level] = runs[first + level]
        seen, value = np.int64(0), -math.inf
        for place in range(ranks.shape[1]):
            rank = ranks[row, place]
            if rank > counts[row, 0]:
                break
            while seen < rank:
                best = -1
                for level in range(levels):
                    if heads[level] < runs[first + level + 1]:
                        item = items[heads[level]]
                        if best < 0 or item < value:
                            best, value = level, item
                heads[best] += 1
                seen += np.int64(1) << best
            if rank == 1:
                answers[row, place] = extremes[row, 0]
            elif rank == counts[row, 0]:
                answers[row, place] = extremes[row, 1]
            else:
                answers[row, place] = value
