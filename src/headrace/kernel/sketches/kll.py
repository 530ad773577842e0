"""KLL: quantiles of DOUBLEs within an error of rank (Karnin, Lang and Liberty 2016), however states were combined.

A state's bytes are those of a DataSketches KLL sketch of doubles, which Spark reads too. Up to k values it holds all of
them, and is then the same in every order and grouping. Least and greatest are exact. DataSketches knows no NaN and
drops it. Here 8 bytes that follow the sketch count the NaNs, which are greater than every number. Java, and so Spark,
does not look at these bytes and answers for the numbers alone; C++, and so Python, refuses such a state.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from headrace.kernel.sketches import kll_byte_loops as byte_loops
from headrace.kernel.sketches import kll_loops as loops
from headrace.kernel.sketches.block_loops import Blocks, block_extremes, place_runs
from headrace.kernel.sketches.kll_byte_loops import KllStates
from headrace.kernel.sketches.packed_bytes import (
    STATE,
    Bytes,
    Offsets,
    expect_good,
    offsets_of,
    open_states,
    pack_states,
)
from headrace.kernel.sketches.quantile_states import BlockLayout, answers_at, lay_out, sort_each
from headrace.kernel.states.columns import Columns, Slots, readable
from headrace.model.arrays import Doubles, Integers

WHAT = "KLL sketch of doubles"
ERROR = 0.01
"""Of the rank, as a part of the number of values. With 400 items in its widest level a sketch is within 0.68% in 99 of
100 cases, so that 1% is almost four standard deviations."""
NEUTRAL = (np.inf, -np.inf)
LEVEL_BITS = 6
"""Of a group, which is a slot and a level of it."""


@dataclass(frozen=True, slots=True)
class Kll:
    k: int = 400

    def __post_init__(self) -> None:
        if not byte_loops.MIN_WIDTH <= self.k < 1 << 16:
            raise ValueError(f"k is from {byte_loops.MIN_WIDTH} to {(1 << 16) - 1}, not {self.k}")

    @property
    def width(self) -> int:
        """Of the blocks that are sorted at once: a power of 2 above k, so that a full block is never an exact state."""
        return 1 << self.k.bit_length()

    def columns(self) -> tuple[pa.DataType, ...]:
        return (STATE,)

    def lift(self, slots: Slots, count: int, values: pa.Array) -> Columns:
        layout, nans = lay_out(slots, count, values, self.width)
        totals, limits = no_totals(count), np.tile(NEUTRAL, (count, 1))
        totals[:, 0], totals[:, 1] = layout.blocks.counts, nans
        block_extremes(layout.blocks, limits)
        return (self.build(np.arange(count + 1), np.zeros(count, np.int64), layout.blocks, totals, limits),)

    def combine(self, slots: Slots, count: int, states: Columns) -> Columns:
        held = parse(states[0])
        totals, limits = no_totals(count), np.tile(NEUTRAL, (count, 1))
        expect_good(WHAT, loops.gather(readable(slots), held, totals, limits))
        parents = np.repeat(np.arange(len(slots)), np.diff(held.first_runs))
        keys = (slots[parents] << LEVEL_BITS) + np.arange(len(parents)) - held.first_runs[parents]
        groups, of_runs = np.unique(keys, return_inverse=True)
        counts = np.zeros(len(groups), np.int64)
        np.add.at(counts, of_runs, np.diff(held.runs))
        layout = BlockLayout.of(counts, self.width)
        place_runs(of_runs, held.runs, held.items, layout.next_places(), layout.jumps(), layout.blocks.placed)
        layout.sort()
        first_groups = np.searchsorted(groups, np.arange(count + 1) << LEVEL_BITS)
        levels = groups & ((1 << LEVEL_BITS) - 1)
        return (self.build(first_groups, levels, layout.blocks, totals, limits),)

    def build(
        self, first_groups: Integers, levels: Integers, blocks: Blocks, totals: Integers, limits: Doubles
    ) -> pa.Array:
        items = np.diff(offsets_of(blocks.counts)[first_groups])
        room = int(np.minimum(items, byte_loops.capacity(self.k, byte_loops.MAX_LEVELS)).sum()) * 8
        out = np.empty(room + len(items) * (byte_loops.HEAD + 4 * byte_loops.MAX_LEVELS + 24), np.uint8)
        offsets = np.zeros(len(items) + 1, np.int64)
        loops.build(first_groups, levels, blocks, self.k, totals, limits, out, offsets)
        return pack_states(out, offsets)


def no_totals(count: int) -> Integers:
    """For each slot the count of numbers, that of NaNs, and the least k of what was combined."""
    return np.tile(np.array([0, 0, 1 << 16]), (count, 1))


# States that are read


def parse(states: pa.Array) -> KllStates:
    """Return the states, whose bytes are checked."""
    data, offsets = open_states(states)
    count = len(states)
    levels, retained, trailing = np.zeros(count, np.int64), np.zeros(count, np.int64), np.zeros(count, np.bool_)
    expect_good(WHAT, byte_loops.measure(data, offsets, levels, retained, trailing))
    first_runs, first_items = offsets_of(levels), offsets_of(retained)
    runs, items = np.zeros(first_runs[-1] + 1, np.int64), np.empty(first_items[-1])
    held = KllStates(first_runs, runs, items, np.zeros((count, 3), np.int64), np.tile(NEUTRAL, (count, 1)))
    expect_good(WHAT, byte_loops.unpack(data, offsets, first_items, trailing, held))
    sort_first_levels(data, offsets, held)
    np.add(held.items, 0.0, out=held.items)  # no sketch of ours has -0.0
    np.add(held.extremes, 0.0, out=held.extremes)
    expect_good(WHAT, byte_loops.inspect(held))
    return held


def sort_first_levels(data: Bytes, offsets: Offsets, held: KllStates) -> None:
    """Others than we need not have sorted them."""
    rows = np.flatnonzero(np.diff(held.first_runs))
    rows = rows[(data[offsets[rows] + 3] & byte_loops.SORTED) == 0]
    begins, sizes = held.runs[held.first_runs[rows]], np.diff(held.runs)[held.first_runs[rows]]
    places = np.arange(sizes.sum()) + np.repeat(begins - offsets_of(sizes)[:-1], sizes)
    held.items[places] = sort_each(held.items[places], sizes)


def counts(states: pa.Array) -> Integers:
    """How many values each state stands for, NaNs among them."""
    totals: Integers = parse(states).counts[:, :2].sum(axis=1)
    return totals


def quantiles(states: pa.Array, fractions: Doubles) -> Doubles:
    """A row for each state: the values at the nearest ranks. NaN where there is no value, or where it is NaN."""
    held = parse(states)

    def find(ranks: Integers) -> Doubles:
        answers = np.full(ranks.shape, np.nan)
        loops.find_ranks(held, ranks, answers)
        return answers

    return answers_at(held.counts[:, :2].sum(axis=1), fractions, find)
