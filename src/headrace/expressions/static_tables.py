"""Rows of a stream beside their partners in static tables: a look-up by equal keys, whole columns at once."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from headrace.expressions.columns import canonical
from headrace.expressions.evaluation import Evaluation
from headrace.model.arrow import arrow_type, one_array
from headrace.model.errors import DataError
from headrace.model.expressions import Call, Expression, Literal, columns_in
from headrace.model.query import Join, Query
from headrace.model.schema import Catalog, Stream
from headrace.model.stable_names import stable_text
from headrace.model.types import BOOLEAN, STRING

Columns = dict[tuple[str, str], pa.Array]
Positions = npt.NDArray[np.int32 | np.int64]

NO_PARTNER = -1
EXACT_NUMBER = pa.decimal256(76, 38)
"""Holds every BIGINT and every DECIMAL that a query may name."""


# The look-up


class DuplicateKeyError(Exception):
    """Two rows of a table, by their positions, have the same key."""

    def __init__(self, first: int, second: int) -> None:
        super().__init__(f"rows {first} and {second} have the same key")
        self.rows = first, second


class KeyValues:
    """The distinct values of a key in static tables, each with a number."""

    def __init__(self, columns: Sequence[pa.Array], wanted: pa.DataType) -> None:
        """`wanted` is the type of the rows' keys."""
        self.is_exact = all(column.type == wanted for column in columns)
        self.known = pc.drop_null(pa.concat_arrays([self.comparable(column) for column in columns]).unique())

    def numbers(self, values: pa.Array) -> Positions:
        """The number of each row's key; -1 where it is NULL or not known."""
        if self.is_exact:
            return self.numbers_of_known(values)
        encoded = values.dictionary_encode()
        of_value = np.append(self.numbers_of_known(encoded.dictionary), NO_PARTNER)
        return np.take(of_value, np.asarray(pc.fill_null(encoded.indices, len(encoded.dictionary))))

    def numbers_of_known(self, column: pa.Array) -> Positions:
        """The same for a column of a static table."""
        numbers = pc.index_in(self.comparable(column), value_set=self.known, skip_nulls=True)
        return np.asarray(pc.fill_null(numbers, NO_PARTNER))

    def comparable(self, values: pa.Array) -> pa.Array:
        """In a type in which equal values are equal bytes."""
        return canonical(values) if self.is_exact else pc.cast(values, EXACT_NUMBER)


class Lookup:
    """Rows of a static table by their keys, which are numbers."""

    def __init__(self, table_keys: Sequence[Positions], distinct: Sequence[int]) -> None:
        """`distinct` says how many numbers each key has."""
        table, count = table_keys[0], distinct[0]
        self.parts: list[tuple[int, Positions]] = []
        for more, size in zip(table_keys[1:], distinct[1:], strict=True):
            table = narrow_keys(table, more, size)
            present = np.unique(table[table != NO_PARTNER])
            table, count = places(table, present), len(present)
            self.parts.append((size, present))
        self.row_of_key = positions_of(table, count)

    def partners(self, keys: Sequence[Positions]) -> Positions:
        """For each row the position of the table's row with the same keys, or -1; a NULL key has no partner."""
        rows = keys[0]
        for more, (size, present) in zip(keys[1:], self.parts, strict=True):
            rows = places(narrow_keys(rows, more, size), present)
        return np.take(self.row_of_key, rows, mode="wrap")


def narrow_keys(keys: Positions, more: Positions, distinct: int) -> Positions:
    """Keys so far and one part more; what has no partner in one part has none."""
    return np.where((keys == NO_PARTNER) | (more == NO_PARTNER), NO_PARTNER, keys * np.int64(distinct) + more)


def places(keys: Positions, present: Positions) -> Positions:
    """The place of each key among those present, so that keys stay small whatever the number of their parts."""
    if not len(present):
        return np.full(len(keys), NO_PARTNER, dtype=np.int64)
    nearest = np.minimum(np.searchsorted(present, keys), len(present) - 1)
    return np.where(present[nearest] == keys, nearest, NO_PARTNER)


def positions_of(table: Positions, distinct: int) -> Positions:
    """The row of each key in the table, and behind them, where -1 leads, none."""
    rows = np.flatnonzero(table != NO_PARTNER)
    positions = np.full(distinct + 1, NO_PARTNER, dtype=np.int32)
    positions[table[rows]] = rows
    twice = rows[positions[table[rows]] != rows]
    if len(twice):
        raise DuplicateKeyError(int(twice[0]), int(positions[table[twice[0]]]))
    return positions


# Rows and tables


@dataclass(frozen=True)
class Data:
    """Rows of a stream, in order of arrival, and the static tables, by name, all in declared types."""

    catalog: Catalog
    stream: Stream
    rows: pa.Table
    tables: Mapping[str, pa.Table]


class Partners:
    """Puts beside rows their partners in the static tables, with the columns that the queries name and no others."""

    def __init__(self, data: Data, queries: Iterable[Query], kind: type[KeyValues] = KeyValues) -> None:
        self.data = data
        self.joins: dict[str, Join] = {}
        self.needed: set[str] = set()
        for query in queries:
            self.joins |= {join_identity(join): join for join in query.joins}
            self.needed |= {column.name for tree in query.expressions() for column in columns_in(tree)}
        columns: dict[Expression, list[pa.Array]] = {}
        for join in self.joins.values():
            for key, column in zip(join.keys, self.key_columns(join), strict=True):
                columns.setdefault(key.expression, []).append(column)
        self.values = {tree: kind(known, arrow_type(tree.type)) for tree, known in columns.items()}
        self.lookups = {identity: self.look_up(join) for identity, join in self.joins.items()}

    def key_columns(self, join: Join) -> list[pa.Array]:
        table = table_of(join, self.data.tables)
        return [one_array(table[key.column]) for key in join.keys]

    def look_up(self, join: Join) -> Lookup:
        """The rows of the join's table by its keys."""
        known = [self.values[key.expression] for key in join.keys]
        pairs = zip(known, self.key_columns(join), strict=True)
        numbers = [key_values.numbers_of_known(column) for key_values, column in pairs]
        try:
            return Lookup(numbers, [len(key_values.known) for key_values in known])
        except DuplicateKeyError as problem:
            raise duplicate_key(join, table_of(join, self.data.tables), problem.rows[0]) from None

    def positions(self, stream_columns: Columns, length: int) -> Mapping[str, Positions]:
        """For each join the row of its table that is the partner of each row, or -1."""
        data = self.data
        plain = Evaluation(stream_columns, length, data.catalog.functions, data.stream.zone)
        numbers = {tree: known.numbers(plain.evaluate(tree).values) for tree, known in self.values.items()}
        return {
            identity: self.lookups[identity].partners([numbers[key.expression] for key in join.keys])
            for identity, join in self.joins.items()
        }

    def stream_columns(self, rows: pa.Table) -> Columns:
        names = [name for name in rows.column_names if name in self.needed]
        return {(self.data.stream.name, name): one_array(rows[name]) for name in names}

    def table_columns(self, identity: str) -> Columns:
        table = table_of(self.joins[identity], self.data.tables)
        return {(identity, name): one_array(table[name]) for name in table.column_names if name in self.needed}

    def matches(self, positions: Mapping[str, Positions]) -> Mapping[Expression, pa.Array]:
        return {match_condition(self.joins[identity]): pa.array(places >= 0) for identity, places in positions.items()}

    def evaluation(self, rows: pa.Table) -> Evaluation:
        """Columns of the stream by its name, of a joined table by the join's identity, and who has a partner."""
        columns = self.stream_columns(rows)
        positions = self.positions(columns, rows.num_rows)
        joined = {
            name: column.take(pa.array(places, mask=places < 0))
            for identity, places in positions.items()
            for name, column in self.table_columns(identity).items()
        }
        data = self.data
        known = self.matches(positions)
        return Evaluation(columns | joined, rows.num_rows, data.catalog.functions, data.stream.zone, known)


def table_of(join: Join, tables: Mapping[str, pa.Table]) -> pa.Table:
    if join.table not in tables:
        raise DataError("missing-table", f"there is no data for table {join.table}")
    return tables[join.table]


def duplicate_key(join: Join, table: pa.Table, row: int) -> DataError:
    shown = ", ".join(f"{key.column} = {table[key.column][row].as_py()!r}" for key in join.keys)
    return DataError("duplicate-key", f"table {join.table} has two rows with {shown}")


def join_identity(join: Join) -> str:
    """The same table joined by the same keys is one relation, whatever the queries call it."""
    return f"{join.table}[{', '.join(f'{key.column} = {stable_text(key.expression)}' for key in join.keys)}]"


def match_condition(join: Join) -> Expression:
    """The condition that a row has a partner in the joined table."""
    return Call("matched", (Literal(join_identity(join), STRING),), BOOLEAN)
