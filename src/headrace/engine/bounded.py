"""Bounded data answered in this process: a plan, level 1 over batches, combine, and every window closed at the end."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headrace.expressions.joins import Positions
from headrace.kernel.close.retained import Retained
from headrace.kernel.close.windows import MAX_EMPTY, Closed, close
from headrace.kernel.combine import NodePartials
from headrace.kernel.failures import failures_named, failures_of
from headrace.kernel.level1.fold import BUDGET_BYTES, finest_dimensions, fold_chunk, level_one
from headrace.kernel.level1.join import Joiner, codes_by_table
from headrace.kernel.level1.rows import StreamRows
from headrace.kernel.row_errors import RowErrors
from headrace.kernel.threads import available_cores, in_order
from headrace.model.arrow import one_array
from headrace.model.errors import ExpressionFailure
from headrace.model.query import Query
from headrace.model.windows import Interval
from headrace.planner.construction import make_plan
from headrace.planner.cost import Constants, Cost
from headrace.planner.demand import demand
from headrace.planner.plan import STREAM, Plan
from headrace.planner.sample import Data, draw
from headrace.predicates import Dimension
from headrace.predicates.dimensions import Codes

BATCH_ROWS = 1_000_000
CHUNK_ROWS = 200_000
"""A column of so many numbers fits a processor's cache."""
MANY_ROWS = 1 << 15
"""If queries have fewer partials on average, closing them in threads would only make these wait for each other."""
Folded = tuple[Mapping[int, NodePartials], Mapping[str, int]]
"""Rows of the nodes that are computed from the stream, by place, and how many values failed, by query."""
Report = Callable[[int, int], None]


@dataclass(slots=True)
class Run:
    """What was read so far: partials of shipped nodes, and counts."""

    retained: Retained = field(default_factory=Retained)
    rows: int = 0
    dropped: int = 0
    errors: dict[str, int] = field(default_factory=dict)


@dataclass(frozen=True, eq=False)
class Answers:
    """Of each query its windows; `dropped` rows had no event time."""

    closed: Mapping[str, Closed]
    rows: int
    dropped: int


def plan_for(data: Data, queries: Mapping[str, Query], batch_rows: int = BATCH_ROWS) -> Plan:
    with failures_named(queries):
        cost = Cost(draw(data, queries.values(), batch_rows), Constants())
        return make_plan({name: demand(query) for name, query in queries.items()}, cost)


def answer(
    data: Data,
    queries: Mapping[str, Query],
    plan: Plan | None = None,
    batch_rows: int = BATCH_ROWS,
    max_empty: int = MAX_EMPTY,
    report: Report | None = None,
    threads: int | None = None,
) -> Answers:
    """All windows of the queries that hold a row. Functions of users are called in one thread."""
    workers = 1 if data.catalog.functions else threads or available_cores()
    run = Run(Retained(data.catalog.functions, data.stream.zone))
    if data.rows.num_rows == data.rows[data.stream.event_time].null_count:
        return Answers({name: close(query, []) for name, query in queries.items()}, *(data.rows.num_rows,) * 2)
    chosen = plan or plan_for(data, queries, batch_rows)
    reader = Reader(data, queries, chosen, threads=workers)
    for begin in range(0, data.rows.num_rows, batch_rows):
        if report is not None:
            report(begin, data.rows.num_rows)
        reader.take_batch(run, data.rows.slice(begin, batch_rows))
    closed = close_all(run, data, queries, max_empty, workers)
    return Answers(closed, run.rows, run.dropped)


class Reader:
    """Reads batches for the same queries and plan."""

    def __init__(
        self,
        data: Data,
        queries: Mapping[str, Query],
        plan: Plan,
        budget_bytes: int = BUDGET_BYTES,
        threads: int = 1,
        closed_us: int | None = None,
    ) -> None:
        self.data = data
        self.queries = queries
        self.plan = plan
        self.budget_bytes = budget_bytes
        self.threads = threads
        self.closed_us = closed_us
        self.joiner = Joiner(data, queries.values())
        self.errors = RowErrors(queries)
        self.finest = finest_dimensions([plan.nodes[place].node for place in plan.children(STREAM)])

    def take_batch(self, run: Run, rows: pa.Table) -> None:
        stream = self.data.stream
        times = rows[stream.event_time]
        timed = rows.filter(pc.is_valid(times)) if times.null_count else rows
        run.rows += rows.num_rows
        run.dropped += rows.num_rows - timed.num_rows
        run.retained.add(self.plan, {}, span_of(timed[stream.event_time]))
        functions = self.data.catalog.functions
        chunks = self.chunks(run, timed)
        with failures_named(self.queries):
            for shipped in level_one(self.plan, chunks, functions, stream.zone, self.budget_bytes, self.threads):
                run.retained.add(self.plan, shipped)

    def chunks(self, run: Run, rows: pa.Table) -> Iterator[Mapping[int, NodePartials]]:
        """The partials of the rows in pieces; what failed on them is counted."""
        pieces = cut(rows, self.threads)
        for folded in in_order([partial(self.fold_in_memory, piece) for piece in pieces], self.threads):
            for found, errors in folded:
                yield found
                for name, failed in errors.items():
                    run.errors[name] = run.errors.get(name, 0) + failed

    def fold_in_memory(self, piece: pa.Table) -> list[Folded]:
        """Fold the rows at once, or half by half where expressions take too much memory for all of them."""
        try:
            return [self.fold(piece)]
        except ExpressionFailure as problem:
            if not problem.is_too_large or piece.num_rows < 2:
                raise
        middle = piece.num_rows // 2
        return [*self.fold_in_memory(piece.slice(0, middle)), *self.fold_in_memory(piece.slice(middle))]

    def fold(self, piece: pa.Table) -> Folded:
        """The nodes computed from some rows with their partners beside them, and the errors of each query."""
        evaluation, positions = self.joiner.batch(piece)
        times_us = np.asarray(one_array(piece[self.data.stream.event_time]).cast(pa.int64()))
        source = StreamRows(evaluation, times_us, self.finest, partial(self.table_codes, positions))
        return fold_chunk(self.plan, source), self.errors.count(evaluation, times_us, self.closed_us)

    def table_codes(self, positions: Mapping[str, Positions], dimension: Dimension) -> Codes | None:
        found = self.joiner.table_codes(dimension)
        return None if found is None else codes_by_table(found[1], positions[found[0]])


def cut(rows: pa.Table, threads: int) -> list[pa.Table]:
    """Into as many chunks for each thread, none too large."""
    rounds = math.ceil(rows.num_rows / (CHUNK_ROWS * threads))
    size = max(1, math.ceil(rows.num_rows / max(1, rounds * threads)))
    return [rows.slice(begin, size) for begin in range(0, rows.num_rows, size)]


def span_of(times: pa.ChunkedArray) -> Interval | None:
    lowest, highest = (each.cast(pa.int64()).as_py() for each in pc.min_max(times).values())
    return None if lowest is None else Interval(lowest, highest + 1)


def close_all(
    run: Run, data: Data, queries: Mapping[str, Query], max_empty: int, threads: int = 1
) -> Mapping[str, Closed]:
    """Every complete window that holds a row. All rows of the results are given, however many there are."""
    functions, zone = data.catalog.functions, data.stream.zone
    tasks = []
    rows = 0
    for name, query in queries.items():
        gathered = run.retained.gather(demand(query))
        known = query, gathered.parts, gathered.missed, functions, zone, max_empty, None, gathered.foreign
        tasks.append(partial(close_named, name, partial(close, *known, max_rows=sys.maxsize)))
        rows += sum(part.leaf.rows for part in gathered.parts)
    closed = zip(queries, in_order(tasks, threads if rows > MANY_ROWS * len(queries) else 1), strict=True)
    return {name: replace(found, errors=found.errors + run.errors.get(name, 0)) for name, found in closed}


def close_named(name: str, task: Callable[[], Closed]) -> Closed:
    with failures_of(name):
        return task()
