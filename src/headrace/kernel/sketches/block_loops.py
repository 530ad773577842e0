"""The loops that put values, or items of states, to their places in blocks that are sorted then."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from headrace.kernel.jit import compiled
from headrace.model.arrays import Doubles, Integers, Mask


class Blocks(NamedTuple):
    """How many items each group has, where its blocks and its rest start, all items, and the width of a block."""

    counts: Integers
    starts: Integers
    placed: Doubles
    width: int


@compiled
def count_values(slots: Integers, values: Doubles, valid: Mask | None, counts: Integers, nans: Integers) -> None:
    for row in range(len(slots)):
        if valid is None or valid[row]:
            slot = np.uint64(slots[row])
            missing = values[row] != values[row]
            counts[slot] += not missing
            nans[slot] += missing


@compiled
def place_values(
    slots: Integers, values: Doubles, valid: Mask | None, wholes: Integers, jumps: Integers, placed: Doubles
) -> None:
    """`wholes` is where the next value of a slot goes; where its blocks end, `jumps`, it continues with the rest."""
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
def block_extremes(blocks: Blocks, limits: Doubles) -> None:
    """Lower and raise the limits of each slot to its least and greatest item."""
    counts, starts, placed, width = blocks
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
