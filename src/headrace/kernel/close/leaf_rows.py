"""Rows of leaves as closing takes them: group by group, with groups numbered in the order of results."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from weakref import WeakKeyDictionary

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headrace.aggregates.partials import Partial
from headrace.expressions.columns import build_column
from headrace.kernel.close.loops import order_by_group
from headrace.kernel.combine import NodePartials
from headrace.kernel.groups import GroupTable, encode, encode_columns, put_together
from headrace.kernel.slots import MAX_KEYS, find_slots
from headrace.kernel.states.totals import IntegerTotals
from headrace.model.arrays import Integers
from headrace.model.expressions import Expression
from headrace.model.query import Order

MANY_GROUPS = 4
"""If a table has more groups per row than this, those that rows have are numbered again."""
MEMORY = pa.system_memory_pool()
"""Arrow's own pool gives memory of this size back at once, and to get it again takes longer than to fill it."""


@dataclass(frozen=True, eq=False)
class LeafRows:
    """Rows group by group, what queries over the same leaves share: the slice and the group of each, and its row there.

    In a group they come by the ends of slices. Slices have bounds. Groups are numbered in the order of results, and
    have values.
    """

    starts_us: Integers
    ends_us: Integers
    slices: Integers
    groups: Integers
    order: Integers
    values: Mapping[Expression, pa.Array]
    known_numbers: dict[tuple[Partial, ...], Integers] = field(default_factory=dict)

    def numbers(self, totals: IntegerTotals, partials: tuple[Partial, ...]) -> Integers:
        """Of each partial those of all rows, in their order."""
        if partials not in self.known_numbers:
            ordered = [np.take(totals.numbers[partial], self.order) for partial in partials]
            self.known_numbers[partials] = np.stack(ordered)
        return self.known_numbers[partials]


def rows_by_slice(parts: Sequence[NodePartials]) -> LeafRows:
    """Of leaves without groups: each row is a slice."""
    starts_us = np.concatenate([part.starts_us for part in parts])
    ends_us = np.concatenate([part.ends_us for part in parts])
    rows = np.arange(len(starts_us))
    return LeafRows(starts_us, ends_us, rows, np.zeros(len(rows), dtype=np.int64), rows, {})


KNOWN_ROWS: WeakKeyDictionary[NodePartials, dict[tuple[Expression, ...], LeafRows]] = WeakKeyDictionary()
"""Of leaves that are in memory, since many queries may have the same one."""


def rows_by_group(parts: Sequence[NodePartials], groups: tuple[Expression, ...]) -> LeafRows:
    if len(parts) > 1:
        return group_rows(parts, groups)
    known = KNOWN_ROWS.setdefault(parts[0], {})
    if groups not in known:
        known[groups] = group_rows(parts, groups)
    return known[groups]


def group_rows(parts: Sequence[NodePartials], trees: tuple[Expression, ...]) -> LeafRows:
    groups = put_together([encode_columns(part.groups, part.rows) for part in parts])
    ranking = ranking_of(groups.table, trees)
    numbers, values = ranking.numbers[groups.codes], ranking.values
    if ranking.count > MANY_GROUPS * len(numbers):
        present, numbers = np.unique(numbers, return_inverse=True)
        values = {tree: take_column(column, present) for tree, column in values.items()}
    starts_us, ends_us, slices = slices_of(parts)
    order = by_number(numbers)
    if (slices[1:] < slices[:-1]).any():
        by_slice = by_number(slices)
        order = by_slice[by_number(numbers[by_slice])]
    return LeafRows(starts_us, ends_us, slices[order], numbers[order], order, values)


def by_number(numbers: Integers) -> Integers:
    """The rows in the order of their numbers; those with the same one stay in order."""
    order = np.empty(len(numbers), dtype=np.int64)
    order_by_group(numbers, np.cumsum(np.bincount(numbers)), order)
    return order


@dataclass(frozen=True, eq=False)
class Ranking:
    """Of each group of a table its number in the order of results, and the values in that order."""

    numbers: Integers
    values: Mapping[Expression, pa.Array]
    count: int


KNOWN_RANKINGS: WeakKeyDictionary[GroupTable, dict[tuple[Expression, ...], Ranking]] = WeakKeyDictionary()
"""Many leaves may have groups of the same table."""


def ranking_of(table: GroupTable, trees: tuple[Expression, ...]) -> Ranking:
    known = KNOWN_RANKINGS.setdefault(table, {})
    if trees not in known:
        numbers, first_rows = numbered_groups([table.columns[tree] for tree in trees])
        values = {tree: take_column(table.columns[tree], first_rows) for tree in trees}
        known[trees] = Ranking(numbers, values, len(first_rows))
    return known[trees]


def numbered_groups(columns: Iterable[pa.Array]) -> tuple[Integers, Integers]:
    """Of each row the number of its group, in the order of results; of each group its first row."""
    keys, size = np.zeros(1, dtype=np.int64), 1
    for column in columns:
        ranks, distinct = rank_values(column)
        if size > MAX_KEYS // distinct:
            known, keys = np.unique(keys, return_inverse=True)
            size = len(known)
        keys, size = keys * distinct + ranks, size * distinct
    slots = find_slots(keys, size)
    by_key = np.argsort(keys[slots.first_rows])
    return invert(by_key)[slots.of_row], slots.first_rows[by_key]


def slices_of(parts: Sequence[NodePartials]) -> tuple[Integers, Integers, Integers]:
    """The starts and ends of slices, each leaf's apart, in the order of ends; and the slice of each row."""
    numbered = [(part, find_slots(part.starts_us, MAX_KEYS)) for part in parts]
    begins = np.cumsum([0, *(slots.count for _, slots in numbered)])
    starts_us = np.concatenate([part.starts_us[slots.first_rows] for part, slots in numbered])
    ends_us = np.concatenate([part.ends_us[slots.first_rows] for part, slots in numbered])
    of_row = np.concatenate([slots.of_row + begin for (_, slots), begin in zip(numbered, begins, strict=False)])
    by_end = np.argsort(ends_us, kind="stable")
    return starts_us[by_end], ends_us[by_end], invert(by_end)[of_row]


def invert(order: Integers) -> Integers:
    """Return the place of each row in the order."""
    places = np.empty(len(order), dtype=np.int64)
    places[order] = np.arange(len(order))
    return places


def rank_values(values: pa.Array, order: Order | None = None) -> tuple[Integers, int]:
    """Of each value a number that sorts as ORDER BY says, by itself NULL first; all are below the second result."""
    encoded = encode(values)
    by_value = np.asarray(pc.sort_indices(encoded.dictionary))
    if order is not None and order.descending:
        by_value = by_value[::-1]
    nulls_first = order is None or order.nulls_first
    ranks = np.empty(encoded.size, dtype=np.int64)
    ranks[by_value] = np.arange(len(by_value)) + nulls_first
    ranks[len(by_value)] = 0 if nulls_first else len(by_value)
    return ranks[encoded.codes], encoded.size


def take_column(column: pa.Array, rows: Integers) -> pa.Array:
    return pc.take(column, build_column(rows, pa.int64()), boundscheck=False, memory_pool=MEMORY)
