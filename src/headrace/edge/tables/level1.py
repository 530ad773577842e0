"""Level 1 at the edge: rows into partials of shipped nodes, in fixed memory."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from headrace.edge.tables.coders import Growing, ValueCoder
from headrace.edge.tables.operands import is_tabular
from headrace.edge.tables.row_layout import RowPiece, attributes_of
from headrace.edge.tables.table_set import LiveTables, Part, TableSet
from headrace.edge.tables.tables import Flush, Replacement, TableCounts
from headrace.expressions.static_tables import Data, Positions
from headrace.kernel.combine import NodePartials, combine
from headrace.kernel.interchange import pack
from headrace.kernel.level1.fold import finest_dimensions, fold_all
from headrace.kernel.level1.join import Joiner, codes_by_table
from headrace.kernel.level1.rows import StreamRows
from headrace.kernel.row_errors import RowErrors
from headrace.model.arrow import one_array
from headrace.model.errors import ExpressionFailure, UsageError
from headrace.model.expressions import Call, Expression
from headrace.model.schema import Catalog
from headrace.planner.explain.labels import NodePrinter
from headrace.planner.lattice import Node
from headrace.planner.phantoms.configuration import Configuration
from headrace.planner.plan import Plan
from headrace.predicates import Dimension
from headrace.predicates.dimensions import Codes
from headrace.wire.orders import Orders

MEMORY_BYTES = 4 << 20
MAX_ROWS, MIN_ROWS, ROW_BYTES = 1 << 16, 1 << 14, 32
"""Rows coded at a time: their columns stay in a processor's cache, and what they add to the output in the memory."""
SPAN_ROWS = 256
"""If slices have fewer rows on average, the kernel folds them sooner than tables turn from one to the next."""
VALUES_SHARE, OUTPUT_SHARE = 8, 4
"""Values take an eighth of the memory, if there are any, what waits to be sent a quarter, and tables the rest."""


class Unfolded(NamedTuple):
    """Rows [begin, end) of those that were fed which are in no partial: an expression can't be computed for them."""

    begin: int
    end: int
    problem: ExpressionFailure


class LevelOne:
    """Runs the plan of some orders: rows are fed, and when a frame is cut, all they came to is given.

    Where tables can't do a node's work (sketches, values of any length to compare, no group at all), the kernel folds
    the rows piece by piece.
    """

    def __init__(
        self,
        orders: Orders,
        catalog: Catalog,
        tables: Mapping[str, pa.Table],
        *,
        memory_bytes: int = MEMORY_BYTES,
        replacement: Replacement = Replacement.SECOND_CHANCE,
        flush: Flush = Flush.LAZY,
        span_rows: int = SPAN_ROWS,
    ) -> None:
        stream = catalog.stream(orders.stream)
        if orders.plan is None or stream is None:
            raise UsageError("no-plan", f"there is no plan to run for the stream {orders.stream}")
        self.stream = stream
        self.plan: Plan = orders.plan
        self.joiner = Joiner(Data(catalog, stream, pa.table({}), tables), orders.queries.values())
        self.row_errors = RowErrors(orders.queries)
        self.output_bytes = memory_bytes // OUTPUT_SHARE
        self.piece_rows = max(MIN_ROWS, min(MAX_ROWS, memory_bytes // ROW_BYTES))
        nodes = {place: self.plan.nodes[place].node for place in sorted(self.plan.shipped)}
        self.finest = finest_dimensions(list(nodes.values()))
        dimensions = dimensions_in(nodes.values())
        self.trees = {*trees_in(nodes.values()), *(dimension.expression for dimension in dimensions)}
        self.dimensions = {self.finest.get(dimension.expression, dimension) for dimension in dimensions}
        self.folded = {place: node for place, node in nodes.items() if not is_for_tables(node)}
        others = {place: node for place, node in nodes.items() if place not in self.folded}
        printer = NodePrinter(stream.name, orders.queries.values())
        self.attributes = attributes_of(others.values(), printer, memory_bytes // VALUES_SHARE)
        self.coders = tuple(self.attributes.coders.values())
        has_values = any(isinstance(coder, ValueCoder) for coder in self.coders)
        self.tables_bytes = memory_bytes - self.output_bytes - has_values * (memory_bytes // VALUES_SHARE)
        self.operands = [operand for operand in dict.fromkeys(self.attributes.operands.values()) if operand is not None]
        self.growing: tuple[Growing, ...] = (*self.coders, *self.operands)
        self.table_sets = [
            TableSet(same, self.attributes, self.tables_bytes * len(same) // len(others), span_rows, replacement, flush)
            for same in alike(others)
        ]
        self.parts: dict[int, list[NodePartials]] = {}
        self.held_bytes = 0
        self.combined_bytes = 0
        self.errors: Counter[str] = Counter()
        """Of each query the expressions that failed on rows since the last cut."""

    # What is known of it

    @property
    def nbytes(self) -> int:
        """All memory between calls."""
        tables, values = (sum(part.nbytes for part in parts) for parts in (self.table_sets, self.coders))
        return tables + values + self.held_bytes

    @property
    def is_full(self) -> bool:
        """A frame should be cut: there is much to be sent, or a table of values has no room."""
        return self.waiting_bytes > self.output_bytes or any(coder.is_full for coder in self.coders)

    @property
    def waiting_bytes(self) -> int:
        return self.held_bytes + sum(live.nbytes for live in self.live_tables)

    @property
    def live_tables(self) -> list[LiveTables]:
        return [tables.live for tables in self.table_sets if tables.live is not None]

    @property
    def configurations(self) -> tuple[tuple[Configuration, tuple[TableCounts, ...]], ...]:
        """Of each set of tables in use, and what each table counted since it was made."""
        return tuple((live.configuration, live.tables.counts) for live in self.live_tables)

    # Rows in

    def feed(self, rows: pa.Table) -> list[Unfolded]:
        """Fold rows of the stream in declared types, none without an event time. Return those that can't be folded."""
        unfolded: list[Unfolded] = []
        for begin in range(0, rows.num_rows, self.piece_rows):
            unfolded += self.feed_piece(rows, begin, min(begin + self.piece_rows, rows.num_rows))
            self.tidy()
        return unfolded

    def feed_piece(self, rows: pa.Table, begin: int, end: int) -> list[Unfolded]:
        """In halves if they have more values than there is room for, or if expressions take too much memory."""
        try:
            source = self.prepare_rows(rows.slice(begin, end - begin))
            errors = self.evaluate_all(source)
        except ExpressionFailure as problem:
            if problem.is_too_large and end - begin > 1:
                return self.feed_halves(rows, begin, end)
            return [Unfolded(begin, end, problem)]
        if not self.fits(source):
            self.settle()
            for growing in self.growing:
                growing.grow(source)
            if end - begin > 1 and not self.fits(source):
                return self.feed_halves(rows, begin, end)
        self.errors.update(errors)
        piece = RowPiece(source)
        for operand in self.operands:
            operand.take(source)
        for table_set in self.table_sets:
            self.hold(table_set.feed(piece))
        self.hold(
            (place, fold_all(node, piece.keep_rows(node.keep), self.plan.nodes[place].compressed))
            for place, node in self.folded.items()
        )
        return []

    def feed_halves(self, rows: pa.Table, begin: int, end: int) -> list[Unfolded]:
        middle = (begin + end) // 2
        return self.feed_piece(rows, begin, middle) + self.feed_piece(rows, middle, end)

    def evaluate_all(self, source: StreamRows) -> Mapping[str, int]:
        """Evaluate whatever is folded, and return the errors of each query.

        What can't be computed fails here, before the first row of the piece is in any table.
        """
        for tree in self.trees:
            if isinstance(tree, Call):
                source.evaluation.evaluate(tree)
        for dimension in self.dimensions:
            self.joiner.table_codes(dimension)
        return self.row_errors.count(source.evaluation, source.times_us)

    def prepare_rows(self, rows: pa.Table) -> StreamRows:
        evaluation, positions = self.joiner.batch(rows)
        times_us = np.asarray(one_array(rows[self.stream.event_time]).cast(pa.int64()))
        return StreamRows(evaluation, times_us, self.finest, partial(self.table_codes, positions))

    def table_codes(self, positions: Mapping[str, Positions], dimension: Dimension) -> Codes | None:
        table_codes = self.joiner.table_codes(dimension)
        return None if table_codes is None else codes_by_table(table_codes[1], positions[table_codes[0]])

    def fits(self, source: StreamRows) -> bool:
        return all(growing.fits(source) for growing in self.growing)

    # Partials out

    def cut(self) -> tuple[pa.Table, ...]:
        """Interchange tables of all rows since the last cut. Then nothing is left of them, nor of their errors."""
        self.settle()
        whole = [combine(self.parts[place]) for place in sorted(self.parts)]
        tables = pack(self.stream.name, (part for part in whole if part.rows))
        self.parts.clear()
        self.held_bytes = self.combined_bytes = 0
        self.errors.clear()
        self.adapt()
        return tables

    def adapt(self) -> None:
        """Memory goes to where it saves most, by what was seen since the last cut; tables without rows keep theirs."""
        weights = {table_set: table_set.weight for table_set in self.table_sets}
        idle_bytes = sum(table_set.memory_bytes for table_set, weight in weights.items() if not weight)
        for table_set, weight in weights.items():
            if weight:
                table_set.adapt(int((self.tables_bytes - idle_bytes) * weight / sum(weights.values())))

    def settle(self) -> None:
        """All tables are emptied, so that codes may mean something else."""
        for table_set in self.table_sets:
            self.hold(table_set.settle())
        for growing in self.growing:
            growing.clear()

    def tidy(self) -> None:
        """When much is waiting, and twice as much as the last time, what is of one group is combined."""
        if self.waiting_bytes <= max(self.output_bytes // 2, 2 * self.combined_bytes):
            return
        for table_set in self.table_sets:
            self.hold(table_set.drain())
        self.parts = {place: [combine(parts)] for place, parts in self.parts.items()}
        self.held_bytes = self.combined_bytes = sum(part.nbytes for (part,) in self.parts.values())

    def hold(self, parts: Iterable[Part]) -> None:
        for place, part in parts:
            self.parts.setdefault(place, []).append(part)
            self.held_bytes += part.nbytes


def dimensions_in(nodes: Iterable[Node]) -> set[Dimension]:
    """Those of the cells of nodes, and of the predicates whose rows they keep."""
    return {
        dimension
        for node in nodes
        for dimensions in (node.dimensions, *(predicate.dimensions for predicate in node.keep))
        for dimension in dimensions
    }


def trees_in(nodes: Iterable[Node]) -> Iterator[Expression]:
    """What nodes group by and fold."""
    for node in nodes:
        yield from node.groups
        for folded in node.partials:
            yield from folded.arguments
            yield from () if folded.filter is None else (folded.filter,)


def is_for_tables(node: Node) -> bool:
    return bool(node.dimensions or node.groups) and all(map(is_tabular, node.partials))


def alike(nodes: Mapping[int, Node]) -> Iterator[Mapping[int, Node]]:
    """Those that keep the same rows and have the same boundaries."""
    groups: dict[object, dict[int, Node]] = {}
    for place, node in nodes.items():
        groups.setdefault((node.keep, node.boundaries), {})[place] = node
    yield from groups.values()
