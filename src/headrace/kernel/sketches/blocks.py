"""Values in sorted blocks, which KLL sketches and Greenwald-Khanna summaries are made from."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from headrace.kernel.sketches.block_loops import count_values, place_values
from headrace.kernel.sketches.packed_bytes import offsets_of
from headrace.kernel.states.columns import Slots, find_valid, numbers, readable
from headrace.model.arrays import Doubles, Integers


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


def lay_out(slots: Slots, count: int, values: pa.Array, width: int) -> tuple[Layout, Integers]:
    """The numbers of each slot in sorted blocks, and how many NaNs it has beside them."""
    data, valid, slots = numbers(values, np.float64), find_valid(values), readable(slots)
    counts, nans = np.zeros(count, np.int64), np.zeros(count, np.int64)
    count_values(slots, data, valid, counts, nans)
    layout = Layout.of(counts, width)
    place_values(slots, data, valid, layout.next_places(), layout.jumps(), layout.placed)
    layout.sort()
    return layout, nans


def sort_each(values: Doubles, sizes: Integers) -> Doubles:
    """Each of the lists that follow one another, NaNs last."""
    width = 1 << int(sizes.max(initial=8)).bit_length()
    layout = Layout.of(sizes, width)
    layout.placed[:] = np.nan
    places = np.arange(len(values)) + np.repeat(layout.starts[:, 1] - offsets_of(sizes)[:-1], sizes)
    layout.placed[places] = values
    layout.sort()
    found: Doubles = layout.placed[places]
    return found
