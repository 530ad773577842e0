"""The loops of KLL sketches. An item of level h stands for 2^h values.

Items come as sorted blocks, those of a slot and level together. A level that is full keeps one of every two neighbours
for the next level: the even or the odd ones, by a coin that is a hash of what it decides on, so a replay decides alike.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from headrace.kernel.jit import compiled
from headrace.kernel.sketches.block_loops import Blocks
from headrace.kernel.sketches.kll_byte_loops import MAX_LEVELS, KllStates, capacity, level_capacity, pack, total
from headrace.kernel.sketches.packed_byte_loops import copy
from headrace.kernel.sketches.packed_bytes import Bytes
from headrace.kernel.sketches.quantile_states import MAX_VALUES
from headrace.model.arrays import Doubles, Integers


@compiled
def gather(slots: Integers, states: KllStates, totals: Integers, limits: Doubles) -> int:
    """Add up counts and extremes by slot. Return the first state that makes too many values of its slot, or -1."""
    counts, extremes = states.counts, states.extremes
    for row in range(len(slots)):
        slot = slots[row]
        totals[slot, 2] = min(totals[slot, 2], counts[row, 2])
        for place in range(2):
            totals[slot, place] += counts[row, place]
            if totals[slot, place] > MAX_VALUES:
                return row
        if counts[row, 0] > 0:
            limits[slot, 0] = min(limits[slot, 0], extremes[row, 0])
            limits[slot, 1] = max(limits[slot, 1], extremes[row, 1])
    return -1


# Levels


class KllLevels(NamedTuple):
    """The levels of one sketch in the making, how many items each holds, and memory for runs."""

    held: Doubles
    sizes: Integers
    spare: Doubles
    halves: Doubles


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
def hold(levels: KllLevels, level: int, run: Doubles) -> None:
    held, sizes, spare, _ = levels
    size = sizes[level] + len(run)
    merge(held[level][: sizes[level]], run, spare)
    copy(spare, 0, size, held[level], 0)
    sizes[level] = size


@compiled
def add_run(levels: KllLevels, level: int, run: Doubles, width: int, coin: np.uint64) -> np.uint64:
    """A sorted run of at most `width` items into its level; as long as a level is full, half of it into the next."""
    held, sizes, spare, halves = levels
    while True:
        size = sizes[level] + len(run)
        if size < width:
            hold(levels, level, run)
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
def settle(levels: KllLevels, k: int, coin: np.uint64) -> int:
    """Compact to as many items as a sketch may have, lowest levels first. Return how many levels are used."""
    held, sizes, _, halves = levels
    used = MAX_LEVELS + 1
    while used > 1 and sizes[used - 1] == 0:
        used -= 1
    while total(sizes) > capacity(k, used):
        level = 0
        while sizes[level] <= level_capacity(k, used, level):
            level += 1
        odd = sizes[level] & 1
        run = held[level][odd : sizes[level]]
        coin = toss(coin, run, level)
        sizes[level] = odd
        hold(levels, level + 1, halve(run, coin, halves))
        used = max(used, level + 2)
    return used


@compiled
def build(
    first_groups: Integers,
    level_of_group: Integers,
    blocks: Blocks,
    k: int,
    totals: Integers,
    limits: Doubles,
    out: Bytes,
    offsets: Integers,
) -> None:
    """For each slot the state of its blocks: of each group, which is a level, the whole ones and then the rest."""
    counts, starts, placed, width = blocks
    held, sizes = np.empty((MAX_LEVELS + 3, 2 * width)), np.zeros(MAX_LEVELS + 3, np.int64)
    levels = KllLevels(held, sizes, np.empty(4 * width), np.empty(2 * width))
    for slot in range(len(totals)):
        at = offsets[slot]
        offsets[slot + 1] = at
        if totals[slot, 0] + totals[slot, 1] == 0:
            continue
        for level in range(len(sizes)):
            sizes[level] = 0
        coin = np.uint64(totals[slot, 0])
        for group in range(first_groups[slot], first_groups[slot + 1]):
            level, begin, whole = level_of_group[group], starts[group, 0], counts[group] // width
            for block in range(whole):
                run = placed[begin + block * width : begin + (block + 1) * width]
                coin = add_run(levels, level, run, width, coin)
            begin, rest = starts[group, 1], counts[group] - whole * width
            if rest:
                coin = add_run(levels, level, placed[begin : begin + rest], width, coin)
        used = settle(levels, k, coin)
        offsets[slot + 1] = pack(out, at, k, totals[slot], limits[slot], held, sizes, used)


# Answers


@compiled
def find_ranks(states: KllStates, ranks: Integers, answers: Doubles) -> None:
    """For each state the items at its ranks, which ascend from 1; a rank beyond the numbers leaves its answer alone."""
    first_runs, runs, items, counts, extremes = states
    heads = np.zeros(MAX_LEVELS, np.int64)
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
