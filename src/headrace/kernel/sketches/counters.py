"""Heavy hitters by counters: the items with the largest weights, each with a lower and an upper bound.

A summary keeps at most `capacity` items. Up to there it is exact, the exact list of [UDAF 4.2]; beyond it is that of
Misra and Gries, merged as Agarwal and others do ("Mergeable Summaries", PODS 2012): add up, then take the largest count
for which there is no room off every count. What is cut is cut from `capacity` + 1 items at least, so in any tree of
merges count <= true weight <= count + error, and error <= total / (capacity + 1). All rows of a call are counted
before they are cut, so their order does not matter. Weights add up to the greatest BIGINT at most.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from headrace.aggregates.hitters import COUNTERS, MEETING_PLACES
from headrace.expressions.columns import raw
from headrace.kernel.sketches.counters_byte_loops import HEADER, Summaries, check_states, read_states, write_states
from headrace.kernel.sketches.counters_loops import add_by_slot, count_by_slot, fold_slots, group_by_slot, meet
from headrace.kernel.sketches.items import (
    ItemCodes,
    ItemKind,
    decode_items,
    encode_items,
    encode_stored,
    first_misfit,
    is_label,
    kind_labelled,
    kind_of,
)
from headrace.kernel.sketches.packed_bytes import (
    STATE,
    Bytes,
    Offsets,
    expect_good,
    offsets_of,
    open_states,
    pack_states,
    refuse,
)
from headrace.kernel.states.columns import Columns, Slots, find_valid, readable
from headrace.model.arrays import Integers, Mask
from headrace.model.errors import UsageError
from headrace.model.types import MAX_BIGINT, DataType

NAME = "summary of counters"
MAX_CAPACITY = 1 << 24
ROUNDING = 1 - 2.0**-51
"""A share of a total is computed with DOUBLEs; no item may be lost by how they are rounded."""


@dataclass(frozen=True, slots=True)
class Counters:
    """For heavy hitters above a share of phi of the total, `capacity` is at least 1 / phi.

    If `is_compressed`, equal rows are put together before they are counted. The states are the same.
    """

    capacity: int = COUNTERS.default_size
    is_compressed: bool = False

    def __post_init__(self) -> None:
        if not 1 <= self.capacity <= MAX_CAPACITY:
            raise UsageError("sketch-size", f"a summary of {self.capacity} counters can't be kept")

    def columns(self, *_arguments: DataType) -> tuple[pa.DataType, ...]:
        return (STATE,)

    def lift(self, slots: Slots, count: int, values: pa.Array, weights: pa.Array | None = None) -> Columns:
        """A NULL as value or weight, or a weight below 0, does not count."""
        if pa.types.is_null(values.type):
            return (without_values(count),)
        items, amounts = encode_items(values), weights_of(values, weights)
        if self.is_compressed:
            slots, items, amounts = compress_rows(slots, items, amounts)
        totals, errors = np.zeros(count, np.int64), np.zeros(count, np.int64)
        add_by_slot(readable(slots), amounts, totals)
        of_values = values.type.value_type if pa.types.is_dictionary(values.type) else values.type
        return (self.fold_rows(slots, items, amounts, totals, errors, kind_of(of_values)),)

    def combine(self, slots: Slots, count: int, states: Columns) -> Columns:
        held = unpack(states[0])
        if held is None:
            return (without_values(count),)
        totals, errors = np.zeros(count, np.int64), np.zeros(count, np.int64)
        add_by_slot(readable(slots), readable(held.totals), totals)
        add_by_slot(readable(slots), readable(held.errors), errors)
        of_items = np.repeat(slots, np.diff(held.firsts))
        kind = kind_labelled(held.label)
        codes = encode_stored(kind, held.items, held.item_offsets)
        return (self.fold_rows(of_items, codes, readable(held.counts), totals, errors, kind),)

    def fold_rows(
        self, slots: Slots, items: ItemCodes, weights: Integers, totals: Integers, errors: Integers, kind: ItemKind
    ) -> pa.Array:
        starts, codes, amounts = group_by_slot_order(slots, len(totals), items.codes, weights)
        room = int(np.minimum(np.diff(starts), self.capacity).sum())
        firsts = np.empty(len(starts), np.int64)
        kept_codes, kept_counts = np.empty(room, np.int64), np.empty(room, np.int64)
        kept = fold_slots(starts, codes, amounts, self.capacity, errors, firsts, kept_codes, kept_counts)
        data, offsets = items.items(kept_codes[:kept])
        return repack(Summaries(kind.label, kind.width, firsts, totals, errors, kept_counts[:kept], data, offsets))


def weights_of(values: pa.Array, weights: pa.Array | None) -> Integers:
    """1 by default, and 0 for a row that does not count."""
    amounts = np.ones(len(values), np.int64) if weights is None else raw(weights.cast(pa.int64()))
    for valid in (find_valid(values), None if weights is None else find_valid(weights)):
        amounts = amounts if valid is None else np.where(valid, amounts, 0)
    return readable(amounts)


def compress_rows(slots: Slots, items: ItemCodes, weights: Integers) -> tuple[Slots, ItemCodes, Integers]:
    """Fewer rows of the same weight."""
    met = np.empty((3, len(slots)), np.int64)
    bits = min(MEETING_PLACES - 1, len(slots)).bit_length()
    size = meet(readable(slots), items.codes, weights, bits, *met)
    met_slots, codes, amounts = (readable(column[:size]) for column in met)
    return met_slots, replace(items, codes=codes), amounts


def group_by_slot_order(
    slots: Slots, count: int, codes: Integers, weights: Integers
) -> tuple[Integers, Integers, Integers]:
    """Rows slot after slot, and where each slot begins and the last one ends."""
    counts = np.zeros(count, np.int64)
    count_by_slot(readable(slots), weights, counts)
    starts = offsets_of(counts)
    if count == 1 and starts[1] == len(slots):
        return readable(starts), codes, weights
    by_slot, amounts = np.empty(starts[-1], np.int64), np.empty(starts[-1], np.int64)
    group_by_slot(readable(slots), codes, weights, starts[:-1].copy(), by_slot, amounts)
    return readable(starts), readable(by_slot), readable(amounts)


# States


def without_values(count: int) -> pa.Array:
    return pack_states(np.zeros(0, np.uint8), np.zeros(count + 1, np.int64))


def repack(held: Summaries) -> pa.Array:
    item_bytes = np.diff(held.item_offsets[held.firsts]) + (8 if held.width else 12) * np.diff(held.firsts)
    offsets = offsets_of(np.where(held.totals > 0, HEADER + item_bytes, 0))
    data = np.empty(offsets[-1], np.uint8)
    write_states(held, readable(offsets), data)
    return pack_states(data, offsets)


def unpack(states: pa.Array, item_type: pa.DataType | None = None) -> Summaries | None:
    """Return the states, checked in full, or None if none has values. By default they have the type of the first."""
    data, offsets = open_states(states)
    filled = np.flatnonzero(np.diff(offsets))
    if not len(filled):
        return None
    kind = first_kind(data, offsets, int(filled[0])) if item_type is None else kind_of(item_type)
    sizes, lengths = np.empty(len(states), np.int64), np.empty(len(states), np.int64)
    expect_good(NAME, check_states(data, offsets, kind.label, kind.width, sizes, lengths))
    held = allocate_summaries(kind, sizes, int(lengths.sum()))
    read_states(data, offsets, held)
    misfit = first_misfit(kind, held.items, held.item_offsets)
    if misfit is not None:
        refuse(NAME, int(np.searchsorted(held.firsts, misfit, "right")) - 1)
    return held


def first_kind(data: Bytes, offsets: Offsets, row: int) -> ItemKind:
    label = int.from_bytes(data[offsets[row] : offsets[row + 1]][1:4].tobytes(), "little")
    return kind_labelled(label) if is_label(label) else refuse(NAME, row)


def allocate_summaries(kind: ItemKind, sizes: Integers, length: int) -> Summaries:
    firsts = offsets_of(sizes)
    totals, errors = np.zeros(len(sizes), np.int64), np.zeros(len(sizes), np.int64)
    counts, item_offsets = np.empty(firsts[-1], np.int64), np.zeros(firsts[-1] + 1, np.int64)
    items = np.empty(length, np.uint8)
    return Summaries(kind.label, kind.width, readable(firsts), totals, errors, counts, items, item_offsets)


# Results


class Hitters(NamedTuple):
    """Those of state i lie between offsets i and i + 1, by descending lower bound and then by item."""

    offsets: Integers
    items: pa.Array
    lower: Integers
    upper: Integers


def hitters(states: pa.Array, phi: float, item_type: pa.DataType) -> Hitters:
    """All items that may have a share of phi. None is missing if phi is above 1 / (capacity + 1)."""
    if not 0 < phi <= 1:
        raise UsageError("sketch-share", f"{phi} is not a share above 0 and up to 1")
    held = unpack(states, item_type)
    if held is None:
        return no_hitters(len(states), item_type)
    least = np.ceil(held.totals * (phi * ROUNDING))
    return list_hitters(held, upper_bounds(held) >= np.repeat(least, np.diff(held.firsts)), len(held.counts))


def top(states: pa.Array, k: int, item_type: pa.DataType) -> Hitters:
    """The k items with the largest lower bounds."""
    if k < 1:
        raise UsageError("sketch-share", f"the largest {k} items can't be listed")
    held = unpack(states, item_type)
    if held is None:
        return no_hitters(len(states), item_type)
    return list_hitters(held, np.ones(len(held.counts), np.bool_), k)


def no_hitters(states: int, item_type: pa.DataType) -> Hitters:
    none = np.zeros(0, np.int64)
    return Hitters(np.zeros(states + 1, np.int64), pa.array([], item_type), none, none)


def upper_bounds(held: Summaries) -> Integers:
    errors = np.repeat(held.errors, np.diff(held.firsts))
    return np.where(held.counts > MAX_BIGINT - errors, MAX_BIGINT, held.counts + errors)


def list_hitters(held: Summaries, wanted: Mask, limit: int) -> Hitters:
    """Of the wanted items of each state as many as `limit`. Items of a state lie in order, which sorting keeps."""
    states = len(held.totals)
    chosen = np.flatnonzero(wanted)
    parents = np.repeat(np.arange(states), np.diff(held.firsts))[chosen]
    order = np.lexsort((-held.counts[chosen], parents))
    chosen, begins = chosen[order], np.searchsorted(parents, np.arange(states + 1))
    first = np.arange(len(chosen)) - begins[parents] < limit
    chosen, parents = chosen[first], parents[first]
    kind = kind_labelled(held.label)
    items = decode_items(kind, held.items, held.item_offsets).take(pa.array(chosen)).cast(kind.arrow)
    offsets = np.searchsorted(parents, np.arange(states + 1))
    return Hitters(offsets, items, held.counts[chosen], upper_bounds(held)[chosen])
