"""Bucket sketches (of the DDSketch family, Masson, Rim and Lee 2019): quantiles within a relative error of the value.

Every octave, from a power of 2 to the next, is cut into the same number of parts, whose ends have the same ratio, so
small that one value is within `accuracy` of all in it. A state is rows of (bucket, count), a sum with one more key: it
has the same bytes whatever the order and grouping. Buckets are never collapsed. All DOUBLEs have 146,864 of them at 1%,
so a state has at most some 300 kB of small counts; values within one power of 10 have at most 118, about 300 bytes.
Subnormal DOUBLEs, below 2.3e-308, lie apart by more than 1% and may be off by half of the least DOUBLE more.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import pyarrow as pa

from headrace.kernel.sketches import buckets_loops as loops
from headrace.kernel.sketches.buckets_loops import BucketRows, BucketTally, OctaveCuts
from headrace.kernel.sketches.packed_bytes import (
    STATE,
    Bytes,
    expect_good,
    offsets_of,
    open_states,
    pack_states,
    refuse,
)
from headrace.kernel.sketches.quantile_states import answers_at, check_totals
from headrace.kernel.states.columns import Columns, Slots, find_valid, numbers, readable, values_by_slot
from headrace.model.arrays import Doubles, Integers

WHAT = "bucket sketch"
MAX_PARTS = 1 << 10


@dataclass(frozen=True, slots=True)
class Buckets:
    """An answer differs from the exact value at its nearest rank by at most `accuracy` times that value."""

    accuracy: float = 0.01

    def __post_init__(self) -> None:
        if not 0.001 <= self.accuracy <= 0.5:
            raise ValueError(f"the accuracy is from 0.001 to 0.5, not {self.accuracy}")

    @property
    def parts(self) -> int:
        """Of an octave: as few as keep the ratio of a bucket's ends within (1 + accuracy) / (1 - accuracy)."""
        return math.ceil(math.log(2.0) / (2.0 * math.atanh(self.accuracy)))

    def columns(self) -> tuple[pa.DataType, ...]:
        return (STATE,)

    def lift(self, slots: Slots, count: int, values: pa.Array) -> Columns:
        ordered, starts = values_by_slot(slots, count, numbers(values, np.float64), find_valid(values))
        # a row needs 4 bytes for its bucket, and another for each 7 bits of its count: 5 for each value are enough
        room = int(np.minimum(5 * np.diff(starts), 12 * bucket_count(self.parts)).sum()) + loops.HEAD * count
        out, offsets = np.empty(room, np.uint8), np.zeros(count + 1, np.int64)
        loops.lift_slots(starts, ordered, octave_cuts(self.parts), empty_tally(self.parts), out, offsets)
        return (pack_states(out, offsets),)

    def combine(self, slots: Slots, count: int, states: Columns) -> Columns:
        held = parse(states[0], self.parts)
        check_totals(WHAT, slots, count, held.totals)
        has_rows = readable(np.diff(held.rows.first_rows) > 0)
        ordered, starts = values_by_slot(slots, count, np.arange(len(slots)), has_rows)
        # no bucket or count needs more bytes beside others than it needed alone
        out, offsets = np.empty(held.byte_count, np.uint8), np.zeros(count + 1, np.int64)
        loops.combine_slots(starts, ordered, held.rows, self.parts, empty_tally(self.parts), out, offsets)
        return (pack_states(out, offsets),)


def bucket_count(parts: int) -> int:
    return 2 * loops.OCTAVES * parts + 4


def empty_tally(parts: int) -> BucketTally:
    blocks = (bucket_count(parts) >> loops.BLOCK) + 1
    return BucketTally(np.zeros(blocks << loops.BLOCK, np.int64), np.zeros(blocks, np.bool_))


@lru_cache(maxsize=16)
def octave_cuts(parts: int) -> OctaveCuts:
    bounds = np.rint((2.0 ** (np.arange(parts + 1) / parts) - 1.0) * 2.0**52).astype(np.int64)
    bits = math.ceil(-math.log2(2.0 ** (1.0 / parts) - 1.0)) + 1  # at most one bound between two guesses
    starts = np.arange(1 << bits) << (52 - bits)
    guesses = np.searchsorted(bounds, starts, side="right") - 1
    return OctaveCuts(parts, bounds, guesses, 52 - bits)


def middles_of(cuts: OctaveCuts, buckets: Integers) -> Doubles:
    """Return the value that is relatively as far from one end of its bucket as from the other."""
    side = loops.OCTAVES * cuts.parts
    keys = np.where(buckets > side, buckets - side - 2, side - buckets)
    octaves, places = np.divmod(np.clip(keys, 0, side - 1), cuts.parts)
    lower, upper = (1.0 + cuts.bounds[places + end] / 2.0**52 for end in (0, 1))
    sizes = np.ldexp(2.0 * lower * upper / (lower + upper), octaves - 1074)
    values: Doubles = np.where(buckets > side, sizes, -sizes)
    values[buckets == side + 1] = 0.0
    values[buckets == 0] = -np.inf
    values[buckets == 2 * side + 2] = np.inf
    values[buckets == 2 * side + 3] = np.nan
    return values


# States that are read


@dataclass(frozen=True, slots=True, eq=False)
class BucketStates:
    """States whose bytes were checked."""

    cuts: OctaveCuts
    byte_count: int
    totals: Integers
    rows: BucketRows


def parse(states: pa.Array, parts: int | None = None) -> BucketStates:
    """Parse states, all with the same buckets: those of `parts`, or else those of the first state."""
    data, offsets = open_states(states)
    cuts = octave_cuts(first_parts(data, offsets) if parts is None else parts)
    counts, totals = np.zeros(len(states), np.int64), np.zeros(len(states), np.int64)
    expect_good(WHAT, loops.measure(data, offsets, cuts, counts, totals))
    size = int(counts.sum())
    extremes = np.full((len(states), 2), np.nan)
    rows = BucketRows(offsets_of(counts), np.empty(size, np.int64), np.empty(size, np.int64), extremes)
    loops.unpack(data, offsets, rows)
    return BucketStates(cuts, int(offsets[-1] - offsets[0]), totals, rows)


def first_parts(data: Bytes, offsets: Integers) -> int:
    held = np.flatnonzero(np.diff(offsets))
    if len(held) == 0:
        return 1
    row = int(held[0])
    begin, end = (int(place) for place in offsets[row : row + 2])
    parts = int.from_bytes(data[begin + 2 : begin + 4].tobytes(), "little") if end - begin >= loops.HEAD else 0
    if not 1 <= parts <= MAX_PARTS:
        refuse(WHAT, row)
    return parts


def counts(states: pa.Array) -> Integers:
    """How many values each state stands for, NaNs among them."""
    return parse(states).totals


def quantiles(states: pa.Array, fractions: Doubles) -> Doubles:
    """A row for each state: about the values at the nearest ranks. NaN where there is no value, or where it is NaN."""
    held = parse(states)

    def find(ranks: Integers) -> Doubles:
        buckets = np.zeros(ranks.shape, np.int64)
        loops.find_ranks(held.rows, ranks, buckets)
        low, high = held.rows.extremes[:, :1], held.rows.extremes[:, 1:]
        middles = middles_of(held.cuts, buckets)
        answers = np.where(np.isnan(middles), np.nan, np.fmin(np.fmax(middles, low), high))
        return np.where(ranks == 1, low, np.where(ranks >= held.totals[:, None], high, answers))

    return answers_at(held.totals, fractions, find)
