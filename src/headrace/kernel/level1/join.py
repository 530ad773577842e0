"""Rows with their partners, for the kernel: what depends on one static table alone is computed once per row of it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np
import pyarrow as pa

from headrace.expressions.evaluation import Evaluation
from headrace.expressions.static_tables import NO_PARTNER, Columns, Data, KeyValues, Partners, Positions
from headrace.kernel.level1.cells import codes_of
from headrace.kernel.memo import memoize
from headrace.kernel.states.columns import string_buffers
from headrace.kernel.string_loops import fill_table, find_strings
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


class StringValues(KeyValues):
    """Keys of joins, found by a compiled hash table where all are strings."""

    def __init__(self, columns: list[pa.Array], wanted: pa.DataType) -> None:
        super().__init__(columns, wanted)
        self.is_compiled = self.is_exact and pa.types.is_string(wanted)
        if self.is_compiled:
            places = 2 << (2 * len(self.known)).bit_length()
            self.table = np.zeros((places, 2), dtype=np.uint64)
            self.buffers = string_buffers(self.known)
            fill_table(*self.buffers, self.table)

    def numbers(self, values: pa.Array) -> Positions:
        if not self.is_compiled:
            return super().numbers(values)
        rows = np.empty(len(values), dtype=np.int32)
        find_strings(*string_buffers(values), self.table, *self.buffers, rows)
        if values.null_count:
            rows[np.asarray(values.is_null())] = NO_PARTNER
        return rows


class Joiner:
    """Prepares batches of the same stream, tables and queries."""

    def __init__(self, data: Data, queries: Iterable[Query]) -> None:
        self.data = data
        self.partners = Partners(data, queries, StringValues)
        self.tables = {identity: self.partners.table_columns(identity) for identity in self.partners.joins}

    def batch(self, rows: pa.Table) -> tuple[Evaluation, Mapping[str, Positions]]:
        columns = self.partners.stream_columns(rows)
        positions = self.partners.positions(columns, rows.num_rows)
        lazy = LazyColumns(columns, self.tables, positions)
        known = self.partners.matches(positions)
        functions, zone = self.data.catalog.functions, self.data.stream.zone
        return Evaluation(lazy, rows.num_rows, functions, zone, known), positions

    @memoize
    def table_codes(self, dimension: Dimension) -> tuple[str, Codes] | None:
        """Of a dimension of one joined table: which, the cell of each of its rows, and behind them that of no row."""
        relations = {column.relation for column in columns_in(dimension.expression)}
        identity = next(iter(relations)) if len(relations) == 1 else ""
        if identity not in self.tables:
            return None
        columns = {
            name: pa.concat_arrays([column, pa.nulls(1, column.type)]) for name, column in self.tables[identity].items()
        }
        length = len(next(iter(columns.values())))
        evaluation = Evaluation(columns, length, self.data.catalog.functions, self.data.stream.zone)
        return identity, codes_of(dimension, evaluation.evaluate(dimension.expression).values)


def codes_by_table(table: Codes, positions: Positions) -> Codes:
    """The last code of the table is that of rows without a partner, whose position is -1."""
    return np.take(table, positions, mode="wrap")
