"""Count-min sketches of keys and their prefixes [UDAF 4.2]: point queries, and heavy hitters by search from the top.

Each of `depth` rows adds a key's weight to one of `width` counts, so the least of its counts is never below its weight.
With multipliers drawn at random two keys share a place with a chance of at most 2 / width; a row's estimate is then
too high by 2 * total / width on average. There is a sketch of the keys, one of keys without their last `step_bits`, and
so on; where prefixes are fewer than a sketch has counts, they are counted exactly. The defaults are the paper's:
sketches of 32, 24 and 16 bits and 256 exact counts, though of 64 bits each, so 14 KB where it has 7. Sketches combine
by addition, in any order to the same bytes.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from benchmarks.sketches.countmin_loops import (
    Integers,
    Multipliers,
    add_sketches,
    check_rows,
    estimate_keys,
    search,
    update_slots,
)
from headrace.expressions.columns import raw
from headrace.kernel.sketches.counters import ROUNDING, weights_of
from headrace.kernel.sketches.counters_loops import add_by_slot
from headrace.kernel.sketches.packed_bytes import STATE, opened, packed, refuse
from headrace.kernel.states.columns import Columns, Slots, readable
from headrace.model.errors import DataError, UsageError
from headrace.model.types import MAX_BIGINT, DataType

NAME = "count-min sketch"
VERSION = 1
HEADER = 16
MOST_ROWS, MOST_WIDTH, MOST_KEY_BITS, MOST_STEP_BITS = 16, 1 << 20, 62, 16
SEARCH_STEPS = 1 << 16
"""So many prefixes are looked into, and so many keys found, before a search is given up."""


class Estimates(NamedTuple):
    """Keys by descending estimate, then by key."""

    keys: Integers
    weights: Integers


@dataclass(frozen=True, slots=True)
class CountMin:
    """Keys are from 0 to below 2 ** `key_bits`. The width is a power of two: a place is the first bits of a hash."""

    depth: int = 2
    width: int = 256
    key_bits: int = 32
    step_bits: int = 8

    def __post_init__(self) -> None:
        fits = 1 <= self.depth <= MOST_ROWS and 2 <= self.width <= MOST_WIDTH and self.width.bit_count() == 1
        if not (fits and 1 <= self.key_bits <= MOST_KEY_BITS and 1 <= self.step_bits <= MOST_STEP_BITS):
            raise UsageError("sketch-size", f"there is no sketch {self}")

    # The shape

    @property
    def width_bits(self) -> int:
        return self.width.bit_length() - 1

    @property
    def levels(self) -> int:
        """Those with a sketch: the prefixes above them are fewer than its counts."""
        exact_bits = (self.depth * self.width).bit_length() - 1
        return max(0, -(-(self.key_bits - exact_bits) // self.step_bits))

    @property
    def cells(self) -> int:
        return self.levels * self.depth * self.width + self.exact_cells

    @property
    def exact_cells(self) -> int:
        return 1 << max(0, self.key_bits - self.levels * self.step_bits)

    @property
    def multipliers(self) -> Multipliers:
        return multipliers(self.levels, self.depth)

    # States

    def columns(self, argument: DataType | None) -> tuple[pa.DataType, ...]:
        return (STATE,)

    def lift(self, slots: Slots, count: int, keys: pa.Array, weights: pa.Array | None = None) -> Columns:
        """A NULL as key or weight, or a weight below 0, does not count; a key that is too large is refused."""
        amounts = weights_of(keys, weights)
        numbers = raw(keys.cast(pa.int64()))
        self.check_keys(numbers[amounts > 0])
        totals = np.zeros(count, np.int64)
        add_by_slot(readable(slots), amounts, totals)
        sketches = np.cumsum(totals > 0) - 1
        cells = self.empty(int((totals > 0).sum()))
        self.add(sketches[slots], numbers, amounts, cells, np.zeros(len(cells), np.int64))
        return (self.packed(cells, totals),)

    def combine(self, slots: Slots, count: int, states: Columns) -> Columns:
        sketches, more, amounts = self.unpacked(states[0])
        filled = slots[sketches >= 0]
        totals = np.zeros(count, np.int64)
        add_by_slot(readable(filled), readable(amounts), totals)
        cells = self.empty(int((totals > 0).sum()))
        add_sketches(readable((np.cumsum(totals > 0) - 1)[filled]), readable(more), cells)
        return (self.packed(cells, totals),)

    def estimate(self, states: pa.Array, keys: Integers) -> Integers:
        """At most so much weight has the key in its state: one key for each state."""
        self.check_keys(keys)
        sketches, cells, _ = self.unpacked(states)
        found = np.zeros(len(keys), np.int64)
        estimate_keys(readable(sketches), readable(keys), self.multipliers, self.width_bits, readable(cells), found)
        return found

    def hitters(self, state: pa.Array, phi: float) -> Estimates:
        """All keys of one state with an estimated share of phi: none that has it is missing."""
        _, cells, totals = self.unpacked(state)
        return self.above(cells[0], share(phi, int(totals[0]))) if len(cells) else no_estimates()

    def top(self, state: pa.Array, k: int) -> Estimates:
        """The k keys of one state with the largest estimates."""
        _, cells, _ = self.unpacked(state)
        return self.above(cells[0], 1, k) if len(cells) else no_estimates()

    def packed(self, cells: Integers, totals: Integers) -> pa.Array:
        filled = totals > 0
        data = np.empty((len(cells), HEADER + 8 * self.cells), np.uint8)
        data[:, :8] = self.header()
        data[:, 8:HEADER] = totals[filled].astype("<i8").view(np.uint8).reshape(-1, 8)
        data[:, HEADER:] = cells.astype("<i8", copy=False).view(np.uint8)
        offsets = np.concatenate([np.zeros(1, np.int64), np.cumsum(filled)]) * data.shape[1]
        return packed(data.reshape(-1), offsets)

    def unpacked(self, states: pa.Array) -> tuple[Integers, Integers, Integers]:
        """Checked in full: the number of each state's sketch, -1 for none; the counts of those, and their totals."""
        data, offsets = opened(states)
        length = HEADER + 8 * self.cells
        lengths = np.diff(offsets)
        filled = lengths > 0
        refuse_any(filled & (lengths != length))
        rows = data[offsets[0] : offsets[-1]].reshape(-1, length)
        sketches = np.where(filled, np.cumsum(filled) - 1, -1)
        owners = np.flatnonzero(filled)
        refuse_any((rows[:, :8] != self.header()).any(axis=1), owners)
        totals = np.ascontiguousarray(rows[:, 8:HEADER]).view("<i8").reshape(-1)
        cells = np.ascontiguousarray(rows[:, HEADER:]).view("<i8").reshape(-1, self.cells)
        wrong = check_rows(readable(cells), readable(totals), self.levels * self.depth, self.width_bits)
        if wrong >= 0:
            refuse(NAME, int(owners[wrong]))
        return sketches, cells, totals

    def header(self) -> NDArray[np.uint8]:
        return np.array([VERSION, self.depth, self.width_bits, self.key_bits, self.step_bits, 0, 0, 0], np.uint8)

    # Counts

    def empty(self, sketches: int) -> Integers:
        return np.zeros((sketches, self.cells), np.int64)

    def check_keys(self, keys: Integers) -> None:
        if len(keys) and (keys.min() < 0 or keys.max() >= 1 << self.key_bits):
            raise DataError(
                "sketch-key", f"a {NAME} of {self.key_bits} bits counts keys from 0 to 2^{self.key_bits} - 1"
            )

    def add(self, slots: Slots, keys: Integers, weights: Integers, cells: Integers, totals: Integers) -> None:
        rows, numbers, amounts = readable(slots), readable(keys), readable(weights)
        update_slots(rows, numbers, amounts, self.multipliers, self.width_bits, self.step_bits, cells, totals)

    def above(self, cells: Integers, least: int, most: int = SEARCH_STEPS) -> Estimates:
        if most < 1:
            raise UsageError("sketch-share", f"the largest {most} keys can't be listed")
        found, heap = np.empty((SEARCH_STEPS, 2), np.int64), np.empty((4 * SEARCH_STEPS, 4), np.int64)
        sketch, shape = readable(cells), (self.multipliers, self.width_bits, self.step_bits)
        count = search(sketch, *shape, least, min(most, SEARCH_STEPS), found, heap)
        if count < 0:
            raise UsageError("sketch-width", f"a {NAME} of width {self.width} is too narrow to tell so many keys apart")
        return Estimates(found[:count, 0].copy(), found[:count, 1].copy())


def share(phi: float, total: int) -> int:
    """The least weight that is a share of phi."""
    if not 0 < phi <= 1:
        raise UsageError("sketch-share", f"{phi} is not a share above 0 and up to 1")
    return min(max(1, int(np.ceil(total * (phi * ROUNDING)))), MAX_BIGINT)


def no_estimates() -> Estimates:
    return Estimates(np.zeros(0, np.int64), np.zeros(0, np.int64))


def refuse_any(wrong: NDArray[np.bool_], owners: Integers | None = None) -> None:
    if wrong.any():
        row = int(np.argmax(wrong))
        refuse(NAME, row if owners is None else int(owners[row]))


@lru_cache(maxsize=64)
def multipliers(levels: int, depth: int) -> Multipliers:
    """Odd numbers without a pattern, the same everywhere: sketches combine only if they hash alike."""
    numbers = np.array([scrambled(place) | 1 for place in range(levels * depth)], np.uint64)
    table: Multipliers = readable(numbers.reshape(levels, depth))
    return table


def scrambled(number: int) -> int:
    """The finalizer of SplitMix64."""
    number = (number + 1) * 0x9E3779B97F4A7C15 % 2**64
    number = (number ^ number >> 30) * 0xBF58476D1CE4E5B9 % 2**64
    number = (number ^ number >> 27) * 0x94D049BB133111EB % 2**64
    return number ^ number >> 31
