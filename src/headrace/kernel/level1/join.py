"""Rows with their partners, for the kernel: what depends on one static table alone is computed once per row of it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np
import pyarrow as pa

from headrace.expressions.evaluation import Evaluation
from headrace.expressions.static_tables import Columns, Data, Partners, Positions
from headrace.kernel.level1.cells import codes_of
from headrace.kernel.strings import StringValues
from headrace.model.expressions import columns_in
from headrace.model.query import Query
from headrace.predicates import Dimension
from headrace.predicates.dimensions import Codes


class LazyColumns(dict[tuple[str, str], pa.Array]):
    """Columns of joined tables are put beside the rows when they are asked for."""

    def __init__(self, columns: Columns, tables: Mapping[str, Columns], positions: Mapping[str, Positions]) -> None:
        super().__init__(columns)
        self.tables = tables
        self.positions = positions

    def __missing__(self, name: tuple[str, str]) -> pa.Array:
        places = self.positions[name[0]]
        column = self[name] = self.tables[name[0]][name].take(pa.array(places, mask=places < 0))
        return column


class Joiner:
    """Prepares batches of the same stream, tables and queries."""

    def __init__(self, data: Data, queries: Iterable[Query]) -> None:
        self.data = data
        self.partners = Partners(data, queries, StringValues)
        self.tables = {identity: self.partners.table_columns(identity) for identity in self.partners.joins}
        self.known: dict[Dimension, tuple[str, Codes] | None] = {}

    def batch(self, rows: pa.Table) -> tuple[Evaluation, Mapping[str, Positions]]:
        columns = self.partners.stream_columns(rows)
        positions = self.partners.positions(columns, rows.num_rows)
        lazy = LazyColumns(columns, self.tables, positions)
        known = self.partners.matches(positions)
        functions, zone = self.data.catalog.functions, self.data.stream.zone
        return Evaluation(lazy, rows.num_rows, functions, zone, known), positions

    def table_codes(self, dimension: Dimension) -> tuple[str, Codes] | None:
        """Of a dimension of one joined table: which, the cell of each of its rows, and behind them that of no row."""
        if dimension not in self.known:
            relations = {column.relation for column in columns_in(dimension.expression)}
            identity = next(iter(relations)) if len(relations) == 1 else ""
            self.known[dimension] = self.codes_in(identity, dimension) if identity in self.tables else None
        return self.known[dimension]

    def codes_in(self, identity: str, dimension: Dimension) -> tuple[str, Codes]:
        columns = {
            name: pa.concat_arrays([column, pa.nulls(1, column.type)]) for name, column in self.tables[identity].items()
        }
        length = len(next(iter(columns.values())))
        evaluation = Evaluation(columns, length, self.data.catalog.functions, self.data.stream.zone)
        return identity, codes_of(dimension, evaluation.evaluate(dimension.expression).values)


def codes_by_table(table: Codes, positions: Positions) -> Codes:
    """The last code of the table is that of rows without a partner, whose position is -1."""
    return np.take(table, positions, mode="wrap")
