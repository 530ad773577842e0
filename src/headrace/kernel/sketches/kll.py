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

from headrace.kernel.sketches import kll_loops as loops
from headrace.kernel.sketches.kll_loops import Doubles, Integers
from headrace.kernel.sketches.packing import STATE, Bytes, Offsets, opened, packed, refuse
from headrace.kernel.states_columns import Columns, Slots, counted, numbers, readable

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
        if not loops.LEAST_WIDTH <= self.k < 1 << 16:
            raise ValueError(f"k is from {loops.LEAST_WIDTH} to {(1 << 16) - 1}, not {self.k}")

    @property
    def width(self) -> int:
        """Of the blocks that are sorted at once: a power of 2 above k, so that a full block is never an exact state."""
        return 1 << self.k.bit_length()

    def columns(self) -> tuple[pa.DataType, ...]:
        return (STATE,)

    def lift(self, slots: Slots, count: int, values: pa.Array) -> Columns:
        layout, nans = laid_out(slots, count, values, self.width)
        totals, limits = no_totals(count), np.tile(NEUTRAL, (count, 1))
        totals[:, 0], totals[:, 1] = layout.counts, nans
        loops.block_extremes(layout.counts, layout.starts, layout.placed, self.width, limits)
        return (self.build(np.arange(count + 1), np.zeros(count, np.int64), layout, totals, limits),)

    def combine(self, slots: Slots, count: int, states: Columns) -> Columns:
        found = parse(states[0])
        totals, limits = no_totals(count), np.tile(NEUTRAL, (count, 1))
        bad = loops.gather(readable(slots), found.counts, found.extremes, totals, limits)
        if bad >= 0:
            refuse(WHAT, bad)
        parents = np.repeat(np.arange(len(slots)), found.levels)
        keys = (slots[parents] << LEVEL_BITS) + np.arange(len(parents)) - found.first_runs[parents]
        groups, of_runs = np.unique(keys, return_inverse=True)
        counts = np.zeros(len(groups), np.int64)
        np.add.at(counts, of_runs, np.diff(found.runs))
        layout = Layout.of(counts, self.width)
        loops.place_runs(of_runs, found.runs, found.items, layout.next_places(), layout.jumps(), layout.placed)
        layout.sort()
        first_groups = np.searchsorted(groups, np.arange(count + 1) << LEVEL_BITS)
        return (self.build(first_groups, groups & ((1 << LEVEL_BITS) - 1), layout, totals, limits),)

    def build(
        self, first_groups: Integers, levels: Integers, layout: Layout, totals: Integers, limits: Doubles
    ) -> pa.Array:
        items = np.diff(ends(layout.counts)[first_groups])
        room = int(np.minimum(items, loops.capacity(self.k, loops.MOST_LEVELS)).sum()) * 8
        out = np.empty(room + len(items) * (loops.HEAD + 4 * loops.MOST_LEVELS + 24), np.uint8)
        offsets = np.zeros(len(items) + 1, np.int64)
        blocks = (layout.counts, layout.starts, layout.placed, self.width)
        loops.build(first_groups, levels, *blocks, self.k, totals, limits, out, offsets)
        return packed(out[: offsets[-1]].copy(), offsets)


def no_totals(count: int) -> Integers:
    """For each slot the count of numbers, that of NaNs, and the least k of what was combined."""
    return np.tile(np.array([0, 0, 1 << 16]), (count, 1))


@dataclass(frozen=True, slots=True, eq=False)
class Layout:
    """Where the items of each group lie: blocks of full width, then a rest that is padded to a power of 2.

    So NumPy sorts all blocks of a width in one call, many times faster than a compiled loop would.
    """

    counts: Integers
    starts: Integers
    placed: Doubles
    regions: tuple[tuple[int, int, int], ...]
    width: int

    @staticmethod
    def of(counts: Integers, width: int) -> Layout:
        whole, rest = np.divmod(counts, width)
        starts = np.zeros((len(rest), 2), np.int64)
        end = int(whole.sum()) * width
        starts[:, 0] = (np.cumsum(whole) - whole) * width
        regions = [(0, end, width)]
        size, least = 8, 0
        while least < width:
            members = np.flatnonzero((rest > least) & (rest <= size))
            starts[members, 1] = end + size * np.arange(len(members))
            regions.append((end, end + size * len(members), size))
            end, size, least = end + size * len(members), size * 2, size
        return Layout(counts, starts, np.full(end, np.inf), tuple(regions), width)

    def next_places(self) -> Integers:
        return self.starts[:, 0].copy()

    def jumps(self) -> Integers:
        """Of each group the end of its blocks and the start of its rest."""
        found = self.starts.copy()
        found[:, 0] += self.counts // self.width * self.width
        return found

    def sort(self) -> None:
        for begin, end, size in self.regions:
            self.placed[begin:end].reshape(-1, size).sort(axis=1)


def laid_out(slots: Slots, count: int, values: pa.Array, width: int) -> tuple[Layout, Integers]:
    """The numbers of each slot in sorted blocks, and how many NaNs it has beside them."""
    data, valid, slots = numbers(values, np.float64), counted(values), readable(slots)
    counts, nans = np.zeros(count, np.int64), np.zeros(count, np.int64)
    loops.count_values(slots, data, valid, counts, nans)
    layout = Layout.of(counts, width)
    loops.place_values(slots, data, valid, layout.next_places(), layout.jumps(), layout.placed)
    layout.sort()
    return layout, nans


# States that are read


@dataclass(frozen=True, slots=True, eq=False)
class Parsed:
    """States whose bytes were checked. A run is a level of a state, its items from `runs[i]` to `runs[i + 1]`."""

    first_runs: Integers
    runs: Integers
    items: Doubles
    counts: Integers
    extremes: Doubles

    @property
    def levels(self) -> Integers:
        return np.diff(self.first_runs)


def parse(states: pa.Array) -> Parsed:
    data, offsets = opened(states)
    count = len(states)
    levels, retained, trailing = np.zeros(count, np.int64), np.zeros(count, np.int64), np.zeros(count, np.bool_)
    expect_good(loops.measure(data, offsets, levels, retained, trailing))
    first_runs, first_items = ends(levels), ends(retained)
    runs, items = np.zeros(first_runs[-1] + 1, np.int64), np.empty(first_items[-1])
    counts, extremes = np.zeros((count, 3), np.int64), np.tile(NEUTRAL, (count, 1))
    expect_good(loops.unpack(data, offsets, first_runs, first_items, trailing, runs, items, counts, extremes))
    sort_first_levels(data, offsets, first_runs, runs, items)
    items += 0.0  # no sketch of ours has -0.0
    extremes += 0.0
    expect_good(loops.inspect(first_runs, runs, items, counts, extremes))
    return Parsed(first_runs, runs, items, counts, extremes)


def expect_good(row: int) -> None:
    if row >= 0:
        refuse(WHAT, row)


def ends(sizes: Integers) -> Integers:
    return np.concatenate([[0], np.cumsum(sizes)])


def sort_first_levels(data: Bytes, offsets: Offsets, first_runs: Integers, runs: Integers, items: Doubles) -> None:
    """Others than we need not have sorted them."""
    rows = np.flatnonzero(np.diff(first_runs))
    rows = rows[(data[offsets[rows] + 3] & loops.SORTED) == 0]
    begins, sizes = runs[first_runs[rows]], np.diff(runs)[first_runs[rows]]
    places = np.arange(sizes.sum()) + np.repeat(begins - ends(sizes)[:-1], sizes)
    items[places] = sort_each(items[places], sizes)


def sort_each(values: Doubles, sizes: Integers) -> Doubles:
    """Each of the lists that follow one another, NaNs last."""
    width = 1 << int(sizes.max(initial=8)).bit_length()
    layout = Layout.of(sizes, width)
    layout.placed[:] = np.nan
    places = np.arange(len(values)) + np.repeat(layout.starts[:, 1] - ends(sizes)[:-1], sizes)
    layout.placed[places] = values
    layout.sort()
    found: Doubles = layout.placed[places]
    return found


def check(states: pa.Array) -> None:
    parse(states)


def counts(states: pa.Array) -> Integers:
    """How many values each state stands for, NaNs among them."""
    found: Integers = parse(states).counts[:, :2].sum(axis=1)
    return found


def quantiles(states: pa.Array, fractions: Doubles) -> Doubles:
    """A row for each state: the values at the nearest ranks. NaN where there is no value, or where it is NaN."""
    found = parse(states)
    order = np.argsort(fractions)
    ranks = nearest_ranks(found.counts[:, :2].sum(axis=1), fractions[order])
    answers = np.full(ranks.shape, np.nan)
    loops.find_ranks(found.first_runs, found.runs, found.items, found.counts, found.extremes, ranks, answers)
    placed = np.empty_like(answers)
    placed[:, order] = answers
    return placed


def nearest_ranks(totals: Integers, fractions: Doubles) -> Integers:
    """From 1 to the total, whatever the fraction is."""
    last = np.maximum(totals, 1)[:, None]
    return np.clip(np.ceil(totals[:, None] * fractions), 1, last).astype(np.int64)
