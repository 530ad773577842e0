"""Rows of a stream beside their partners in static tables."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

import pyarrow as pa

from headrace.expressions.evaluation import Evaluation
from headrace.expressions.joins import DuplicateKeyError, Lookup, Positions, Values
from headrace.model.arrow import arrow_type, one_array
from headrace.model.errors import DataError
from headrace.model.expressions import Call, Expression, Literal, columns_in
from headrace.model.query import Join, Query
from headrace.model.schema import Catalog, Stream
from headrace.model.stable_names import stable_text
from headrace.model.types import BOOLEAN, STRING

Columns = dict[tuple[str, str], pa.Array]


@dataclass(frozen=True)
class Data:
    """Rows of a stream, in order of arrival, and the static tables, by name, all in declared types."""

    catalog: Catalog
    stream: Stream
    rows: pa.Table
    tables: Mapping[str, pa.Table]


class Partners:
    """Puts beside rows their partners in the static tables, with the columns that the queries name and no others."""

    def __init__(self, data: Data, queries: Iterable[Query], kind: type[Values] = Values) -> None:
        asked = list(queries)
        self.data = data
        self.joins = {join_identity(join): join for join in distinct_joins(asked)}
        self.needed = {column.name for query in asked for tree in query.expressions() for column in columns_in(tree)}
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
        numbers = [each.numbers_of_known(column) for each, column in zip(known, self.key_columns(join), strict=True)]
        try:
            return Lookup(numbers, [len(each.known) for each in known])
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


def distinct_joins(queries: Iterable[Query]) -> Iterator[Join]:
    seen = {join_identity(join): join for query in queries for join in query.joins}
    yield from seen.values()


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
