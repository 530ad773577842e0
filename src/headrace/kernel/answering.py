"""Bounded data answered in this process: a plan, level 1 over batches, combine, and every window closed at the end."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headrace.expressions.joins import Positions
from headrace.kernel.closing import MAX_EMPTY, Closed, close
from headrace.kernel.computing import BUDGET_BYTES, finest_dimensions, level_one
from headrace.kernel.joining import Joiner, codes_by_table
from headrace.kernel.retaining import Retained
from headrace.kernel.row_errors import RowErrors
from headrace.kernel.sources import StreamRows
from headrace.kernel.states import check_supported
from headrace.model.arrow import one_array
from headrace.model.query import Query
from headrace.model.windows import Interval
from headrace.planner.cost import Constants, Cost
from headrace.planner.leaves import demand
from headrace.planner.making import make_plan
from headrace.planner.plan import Plan
from headrace.planner.sampling import Data, draw
from headrace.predicates import Dimension
from headrace.predicates.dimensions import Codes

BATCH_ROWS = 1_000_000
CHUNK_ROWS = 125_000
"""A column of so many numbers fits a processor's cache."""
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
    cost = Cost(draw(data, queries.values(), batch_rows), Constants())
    return make_plan({name: demand(query) for name, query in queries.items()}, cost)


def answer(
    data: Data,
    queries: Mapping[str, Query],
    plan: Plan | None = None,
    batch_rows: int = BATCH_ROWS,
    max_empty: int = MAX_EMPTY,
    report: Report | None = None,
) -> Answers:
    """All windows of the queries that hold a row."""
    for query in queries.values():
        check_supported(query)
    run = Run(Retained(data.catalog.functions, data.stream.zone))
    if data.rows.num_rows == data.rows[data.stream.event_time].null_count:
        return Answers({name: close(query, []) for name, query in queries.items()}, *(data.rows.num_rows,) * 2)
    chosen = plan or plan_for(data, queries, batch_rows)
    reader = Reader(data, queries, chosen)
    for begin in range(0, data.rows.num_rows, batch_rows):
        if report is not None:
            report(begin, data.rows.num_rows)
        reader.take_batch(run, data.rows.slice(begin, batch_rows))
    closed = close_all(run, data, queries, max_empty)
    return Answers(closed, run.rows, run.dropped)


class Reader:
    """Reads batches for the same queries and plan."""

    def __init__(self, data: Data, queries: Mapping[str, Query], plan: Plan, budget_bytes: int = BUDGET_BYTES) -> None:
        self.data = data
        self.budget_bytes = budget_bytes
        self.plan = plan
        self.joiner = Joiner(data, queries.values())
        self.errors = RowErrors(queries)
        self.finest = finest_dimensions(plan)

    def take_batch(self, run: Run, rows: pa.Table) -> None:
        stream = self.data.stream
        times = rows[stream.event_time]
        timed = rows.filter(pc.is_valid(times)) if times.null_count else rows
        run.rows += rows.num_rows
        run.dropped += rows.num_rows - timed.num_rows
        run.retained.add(self.plan, {}, span_of(timed[stream.event_time]))
        for shipped in level_one(
            self.plan, self.chunks(run, timed), self.data.catalog.functions, stream.zone, self.budget_bytes
        ):
            run.retained.add(self.plan, shipped)

    def chunks(self, run: Run, rows: pa.Table) -> Iterator[StreamRows]:
        """The rows in pieces, with their partners beside them; what fails on them is counted."""
        for begin in range(0, rows.num_rows, CHUNK_ROWS):
            piece = rows.slice(begin, CHUNK_ROWS)
            evaluation, positions = self.joiner.batch(piece)
            times_us = np.asarray(one_array(piece[self.data.stream.event_time]).cast(pa.int64()))
            yield StreamRows(evaluation, times_us, self.finest, partial(self.table_codes, positions))
            for name, failed in self.errors.count(evaluation, times_us).items():
                run.errors[name] = run.errors.get(name, 0) + failed

    def table_codes(self, positions: Mapping[str, Positions], dimension: Dimension) -> Codes | None:
        found = self.joiner.table_codes(dimension)
        return None if found is None else codes_by_table(found[1], positions[found[0]])


def span_of(times: pa.ChunkedArray) -> Interval | None:
    lowest, highest = (each.cast(pa.int64()).as_py() for each in pc.min_max(times).values())
    return None if lowest is None else Interval(lowest, highest + 1)


def close_all(run: Run, data: Data, queries: Mapping[str, Query], max_empty: int) -> Mapping[str, Closed]:
    """Every complete window that holds a row."""
    functions, zone = data.catalog.functions, data.stream.zone
    closed = {}
    for name, query in queries.items():
        gathered = run.retained.gather(demand(query))
        found = close(query, gathered.parts, gathered.missed, functions, zone, max_empty)
        closed[name] = replace(found, errors=found.errors + run.errors.get(name, 0))
    return closed
