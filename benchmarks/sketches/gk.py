"""Greenwald-Khanna summaries [UDAF 4.1]: quantiles within `error` of their rank, as in the paper's quantile UDAFs.

The paper's low level comes in three variants, which leave states for the high level, `combine`: `lite` buffers values,
`heavy` sweeps its summary after each value, `medium` looks at two places of it only. A merged summary keeps its error
but has no bound on its size; `capped` to the size that it would have without merges, its error grows. KLL keeps both,
and is what to use; this is here to be compared with. NaNs are counted apart and are greater than every number.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from benchmarks.sketches import gk_byte_loops as byte_loops
from benchmarks.sketches import gk_loops as loops
from headrace.kernel.sketches.packed_bytes import STATE, expect_good, offsets_of, open_states, pack_states
from headrace.kernel.sketches.quantile_states import check_totals, lay_out, nearest_ranks, sort_each
from headrace.kernel.states.columns import Columns, Slots, find_valid, numbers, readable, values_by_slot
from headrace.model.arrays import Doubles, Integers

WHAT = "Greenwald-Khanna summary"
WIDTH = 512
"""Values that are sorted and inserted at once."""
LITE, MEDIUM, HEAVY = "lite", "medium", "heavy"


@dataclass(frozen=True, slots=True)
class Gk:
    error: float = 0.01

    def __post_init__(self) -> None:
        if not 0.0 < self.error <= 0.5:
            raise ValueError(f"the error is above 0 and at most 0.5, not {self.error}")

    def columns(self) -> tuple[pa.DataType, ...]:
        return (STATE,)

    def lift(self, slots: Slots, count: int, values: pa.Array) -> Columns:
        layout, nans = lay_out(slots, count, values, WIDTH)
        rows, ends = np.empty((int(layout.blocks.counts.sum()), 3)), np.zeros(count, np.int64)
        loops.lift_slots(*layout.blocks, self.error, rows, ends)
        return (pack(rows, ends, nans),)

    def combine(self, slots: Slots, count: int, states: Columns) -> Columns:
        found = parse(states[0])
        nans = np.zeros(count, np.int64)
        check_totals(WHAT, slots, count, found.counts + found.nans)
        np.add.at(nans, slots, found.nans)
        order = np.argsort(slots, kind="stable")
        ends = np.searchsorted(slots[order], np.arange(count), side="right")
        rows, made = np.empty((len(found.rows), 3)), np.zeros(count, np.int64)
        loops.combine_slots(order, ends, found.states, found.forms, found.rows, self.error, rows, made)
        return (pack(rows, made, nans),)

    def lift_low(self, variant: str, room: int, slots: Slots, count: int, values: pa.Array) -> tuple[Slots, pa.Array]:
        """What a low level with `room` rows for each slot sends: states, and beside each its slot, for `combine`."""
        if room < 3:
            raise ValueError(f"a low level has room for 3 rows or more, not {room}")
        sizes, ordered, nans = by_slot(slots, count, values)
        missing = np.flatnonzero(nans)
        most = len(ordered) // room + count
        if variant == LITE:
            flushes = -(-sizes // room)
            owners = np.repeat(np.arange(count), flushes)
            places = np.arange(1, len(owners) + 1) - (np.cumsum(flushes) - flushes)[owners]
            ends = (np.cumsum(sizes) - sizes)[owners] + np.minimum(places * room, sizes[owners])
            rows = ordered[:, None]
        else:
            rows, owners, ends = np.empty((len(ordered), 3)), np.zeros(most, np.int64), np.zeros(most, np.int64)
            sweeps = {MEDIUM: False, HEAVY: True}[variant]
            flushed = loops.lift_low(np.cumsum(sizes), ordered, room, self.error, sweeps, rows, owners, ends)
            owners, ends = owners[:flushed], ends[:flushed]
        last = ends[-1:] if len(ends) else np.zeros(1, np.int64)
        ends = np.concatenate([ends, np.repeat(last, len(missing))])
        of_states = np.concatenate([np.zeros(len(owners), np.int64), nans[missing]])
        return np.concatenate([owners, missing]), pack(rows, ends, of_states)


def by_slot(slots: Slots, count: int, values: pa.Array) -> tuple[Integers, Doubles, Integers]:
    """How many numbers each slot has, the numbers of one slot after the other as they came, and counts of NaNs."""
    data, valid = numbers(values, np.float64), find_valid(values)
    missing = np.isnan(data) if valid is None else np.isnan(data) & valid
    present = readable(~missing if valid is None else ~missing & valid)
    ordered, starts = values_by_slot(slots, count, data, present)
    return np.diff(starts), ordered + 0.0, np.bincount(slots[missing], minlength=count).astype(np.int64)


def pack(rows: Doubles, ends: Integers, nans: Integers) -> pa.Array:
    """The rows of a state end at its end; they are as wide as their form."""
    form = rows.shape[1]
    last = int(ends[-1]) if len(ends) else 0
    out = np.empty(len(ends) * byte_loops.HEAD + last * 8 * form, np.uint8)
    offsets = np.zeros(len(ends) + 1, np.int64)
    byte_loops.pack(form, ends, nans, np.ascontiguousarray(rows[:last]).reshape(-1).view(np.uint8), out, offsets)
    return pack_states(out, offsets)


# States that are read


@dataclass(frozen=True, slots=True, eq=False)
class Parsed:
    """States whose bytes were checked: the rows of each begin at `states[i]`."""

    states: Integers
    forms: Integers
    rows: Doubles
    counts: Doubles
    nans: Integers


def parse(states: pa.Array) -> Parsed:
    data, offsets = open_states(states)
    count = len(states)
    lengths, forms, nans = (np.zeros(count, np.int64) for _ in range(3))
    expect_good(WHAT, byte_loops.measure(data, offsets, lengths, forms, nans))
    begins = offsets_of(lengths)
    rows, totals = np.empty((int(begins[-1]), 3)), np.zeros(count)
    byte_loops.unpack(data, offsets, begins, forms, rows)
    sort_buffers(lengths, forms, rows)
    expect_good(WHAT, byte_loops.inspect(begins, rows, totals))
    return Parsed(begins, forms, rows, totals, nans)


def sort_buffers(lengths: Integers, forms: Integers, rows: Doubles) -> None:
    buffers = forms == byte_loops.BUFFER
    places = np.flatnonzero(np.repeat(buffers, lengths))
    rows[places, 0] = sort_each(rows[places, 0], lengths[buffers])


def check(states: pa.Array) -> None:
    parse(states)


def counts(states: pa.Array) -> Integers:
    """How many values each state stands for, NaNs among them."""
    found = parse(states)
    return found.counts.astype(np.int64) + found.nans


def sizes(states: pa.Array) -> Integers:
    """How many rows each state has."""
    return np.diff(parse(states).states)


def bounds(states: pa.Array) -> Doubles:
    """The error that each state itself proves, as a part of its numbers: half of the widest gap between known ranks."""
    found = parse(states)
    owners = np.repeat(np.arange(len(states)), np.diff(found.states))
    widest = np.zeros(len(states))
    np.maximum.at(widest, owners, found.rows[:, 1] + found.rows[:, 2])
    errors: Doubles = np.floor(widest / 2.0) / np.maximum(found.counts, 1.0)
    return errors


def cap_states(states: pa.Array, most: Integers) -> pa.Array:
    """Cut each state to at most `most` rows, though never fewer than 2, for the smallest error."""
    found = parse(states)
    made = np.zeros(len(states), np.int64)
    loops.cap(found.states, found.rows, most, made)
    return pack(found.rows, made, found.nans)


def quantiles(states: pa.Array, fractions: Doubles) -> Doubles:
    """A row for each state: values near the nearest ranks. NaN where there is no value, or where it is NaN."""
    found = parse(states)
    ranks = nearest_ranks(found.counts.astype(np.int64) + found.nans, fractions)
    answers = np.full(ranks.shape, np.nan)
    loops.find_ranks(found.states, found.rows, found.counts, ranks, answers)
    return answers
