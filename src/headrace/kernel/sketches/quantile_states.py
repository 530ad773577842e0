"""What the quantile sketches have in common: sorted blocks of values, nearest ranks, and a limit."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from headrace.kernel.sketches.block_loops import Blocks, count_values, place_values
from headrace.kernel.sketches.packed_bytes import offsets_of, refuse
from headrace.kernel.states.columns import Slots, find_valid, numbers, readable
from headrace.model.arrays import Doubles, Integers

MAX_VALUES = 1 << 53
"""In one state: up to here counts are exact as DOUBLEs too."""


# Sorted blocks, which KLL sketches and Greenwald-Khanna summaries are made from


@dataclass(frozen=True, slots=True, eq=False)
class BlockLayout:
    """Where the items of each group lie: blocks of full width, then a rest that is padded to a power of 2.

    So NumPy sorts all blocks of a width in one call, many times faster than a compiled loop would.
    """

    blocks: Blocks
    regions: tuple[tuple[int, int, int], ...]

    @staticmethod
    def of(counts: Integers, width: int) -> BlockLayout:
        whole, rest = np.divmod(counts, width)
        starts = np.zeros((len(rest), 2), np.int64)
        end = int(whole.sum()) * width
        starts[:, 0] = (np.cumsum(whole) - whole) * width
        regions = [(0, end, width)]
        size, smaller = 8, 0
        while smaller < width:
            members = np.flatnonzero((rest > smaller) & (rest <= size))
            starts[members, 1] = end + size * np.arange(len(members))
            regions.append((end, end + size * len(members), size))
            end, size, smaller = end + size * len(members), size * 2, size
        return BlockLayout(Blocks(counts, starts, np.full(end, np.inf), width), tuple(regions))

    def next_places(self) -> Integers:
        return self.blocks.starts[:, 0].copy()

    def jumps(self) -> Integers:
        """Return the end of each group's blocks and the start of its rest."""
        jumps = self.blocks.starts.copy()
        jumps[:, 0] += self.blocks.counts // self.blocks.width * self.blocks.width
        return jumps

    def sort(self) -> None:
        for begin, end, size in self.regions:
            self.blocks.placed[begin:end].reshape(-1, size).sort(axis=1)


def lay_out(slots: Slots, count: int, values: pa.Array, width: int) -> tuple[BlockLayout, Integers]:
    """Return the numbers of each slot in sorted blocks, and how many NaNs it has beside them."""
    data, valid, slots = numbers(values, np.float64), find_valid(values), readable(slots)
    counts, nans = np.zeros(count, np.int64), np.zeros(count, np.int64)
    count_values(slots, data, valid, counts, nans)
    layout = BlockLayout.of(counts, width)
    place_values(slots, data, valid, layout.next_places(), layout.jumps(), layout.blocks.placed)
    layout.sort()
    return layout, nans


def sort_each(values: Doubles, sizes: Integers) -> Doubles:
    """Sort each of the lists that follow one another, NaNs last."""
    width = 1 << int(sizes.max(initial=8)).bit_length()
    layout = BlockLayout.of(sizes, width)
    placed = layout.blocks.placed
    placed[:] = np.nan
    places = np.arange(len(values)) + np.repeat(layout.blocks.starts[:, 1] - offsets_of(sizes)[:-1], sizes)
    placed[places] = values
    layout.sort()
    ordered: Doubles = placed[places]
    return ordered


# Ranks


def nearest_ranks(totals: Integers, fractions: Doubles) -> Integers:
    """From 1 to the total, whatever the fraction is."""
    last = np.maximum(totals, 1)[:, None]
    return np.clip(np.ceil(totals[:, None] * fractions), 1, last).astype(np.int64)


def answers_at(totals: Integers, fractions: Doubles, find: Callable[[Integers], Doubles]) -> Doubles:
    """A row for each state; `find` is given its nearest ranks in ascending order."""
    order = np.argsort(fractions)
    ascending = find(nearest_ranks(totals, fractions[order]))
    answers = np.empty_like(ascending)
    answers[:, order] = ascending
    return answers


def check_totals(what: str, slots: Slots, count: int, totals: Integers | Doubles) -> None:
    """Refuse the first state that gives its slot more values than a state may have."""
    sums = np.zeros(count)
    np.add.at(sums, slots, totals.astype(np.float64))
    if (sums > MAX_VALUES).any():
        refuse(what, int(np.flatnonzero(sums[slots] > MAX_VALUES)[0]))
