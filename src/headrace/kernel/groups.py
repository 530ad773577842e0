"""Groups of rows as numbers into a table of distinct ones; columns of values are made where they are asked for."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple
from weakref import WeakKeyDictionary

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headrace.expressions.columns import build_column, canonical, raw
from headrace.kernel.slots import Codes, Keys, find_slots, is_dense
from headrace.model.arrays import Integers
from headrace.model.expressions import Expression


@dataclass(frozen=True, eq=False)
class GroupTable:
    """Groups, each once: of every group-by expression their values."""

    size: int
    columns: Mapping[Expression, pa.Array]


@dataclass(frozen=True, eq=False)
class Groups(Mapping[Expression, pa.Array]):
    """The group of each row, among others that the rows may not have."""

    table: GroupTable
    codes: Codes

    def __getitem__(self, tree: Expression) -> pa.Array:
        return self.table.columns[tree].take(build_column(self.codes, pa.int32()))

    def __iter__(self) -> Iterator[Expression]:
        return iter(self.table.columns)

    def __len__(self) -> int:
        return len(self.table.columns)

    @property
    def nbytes(self) -> int:
        return self.codes.nbytes + sum(int(column.nbytes) for column in self.table.columns.values())

    def at(self, rows: Codes | Integers | slice) -> Groups:
        return Groups(self.table, self.codes[rows])


@dataclass(frozen=True, eq=False)
class Encoded:
    """Values as numbers into a dictionary; NULL is the number behind the last."""

    codes: Codes
    dictionary: pa.Array

    @property
    def size(self) -> int:
        return len(self.dictionary) + 1

    def values(self, rows: Integers) -> pa.Array:
        codes = self.codes[rows]
        return self.dictionary.take(pa.array(codes, mask=codes == len(self.dictionary)))


def encode(values: pa.Array) -> Encoded:
    """Equal values have equal numbers: NaN equals NaN, and -0.0 equals 0.0."""
    if pa.types.is_int64(values.type) and len(values) and not values.null_count:
        lowest, highest = (bound.as_py() for bound in pc.min_max(values).values())
        if is_dense(highest - lowest + 1, len(values)):
            return encode_dense(values, lowest, highest - lowest + 1)
    encoded = canonical(values).dictionary_encode()
    codes = np.asarray(encoded.indices.fill_null(len(encoded.dictionary)))
    return Encoded(codes.astype(np.int32, copy=False), encoded.dictionary)


def encode_dense(values: pa.Array, lowest: int, size: int) -> Encoded:
    """Whole numbers close to each other, by an array of all: several times faster than by a hash table."""
    whole = raw(values)
    slots = find_slots(whole - lowest, size)
    return Encoded(slots.of_row.astype(np.int32), build_column(whole[slots.first_rows], pa.int64()))


def number_groups(columns: Mapping[Expression, Encoded], rows: int) -> Groups:
    """Rows with equal values have one number; without columns there is one group."""
    if not columns:
        return Groups(GroupTable(1, {}), np.zeros(rows, dtype=np.int32))
    if len(columns) == 1:
        ((tree, only),) = columns.items()
        nulls = pa.nulls(1, only.dictionary.type)
        return Groups(GroupTable(only.size, {tree: pa.concat_arrays([only.dictionary, nulls])}), only.codes)
    keys = Keys(rows)
    for encoded in columns.values():
        keys.extend(encoded.codes, encoded.size)
    slots = keys.slots()
    table = GroupTable(slots.count, {tree: encoded.values(slots.first_rows) for tree, encoded in columns.items()})
    return Groups(table, slots.of_row.astype(np.int32))


def encode_columns(columns: Mapping[Expression, pa.Array], rows: int) -> Groups:
    """As numbers, which they may be already."""
    if isinstance(columns, Groups):
        return columns
    return number_groups({tree: encode(values) for tree, values in columns.items()}, rows)


class United(NamedTuple):
    """One table for several, and of each of these the new numbers of its groups."""

    table: GroupTable
    codes: Sequence[Codes]


KNOWN_UNIONS: WeakKeyDictionary[GroupTable, tuple[tuple[GroupTable, ...], United]] = WeakKeyDictionary()
"""By the first of the tables, which are few: all nodes with the same group-by share those of their chunks."""


def put_together(parts: Sequence[Groups]) -> Groups:
    """The groups of several sets of rows, one after the other."""
    first, *others = (part.table for part in parts)
    if all(other is first for other in others):
        return Groups(first, np.concatenate([part.codes for part in parts]))
    united = united_tables(first, tuple(others))
    codes = [new[part.codes] for new, part in zip(united.codes, parts, strict=True)]
    return Groups(united.table, np.concatenate(codes))


def united_tables(first: GroupTable, others: tuple[GroupTable, ...]) -> United:
    known = KNOWN_UNIONS.get(first)
    if known is not None and known[0] == others:
        return known[1]
    tables = (first, *others)
    columns = {tree: pa.concat_arrays([table.columns[tree] for table in tables]) for tree in first.columns}
    ends = np.cumsum([table.size for table in tables])
    whole = encode_columns(columns, int(ends[-1]))
    united = United(whole.table, np.split(whole.codes, ends[:-1]))
    KNOWN_UNIONS[first] = others, united
    return united
