"""Bounded data answered in this process: a plan, level 1 over batches, combine, and every window closed at the end."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial

from headrace.expressions.static_tables import Data
from headrace.kernel.close.instances import MAX_EMPTY
from headrace.kernel.close.retained_partials import Retained
from headrace.kernel.close.windows import Closed, close
from headrace.kernel.failures import failures_named, failures_of
from headrace.kernel.level1.reader import Reader, ReadResult
from headrace.kernel.threads import available_cores, in_order
from headrace.model.query import Query
from headrace.planner.construction import make_plan
from headrace.planner.cost import Constants, Cost
from headrace.planner.demand import demand
from headrace.planner.plan import Plan
from headrace.planner.statistics import draw

BATCH_ROWS = 1_000_000
MANY_ROWS = 1 << 15
"""If queries have fewer partials on average, closing them in threads would only make these wait for each other."""
Report = Callable[[int, int], None]


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
    run = ReadResult(Retained(data.catalog.functions, data.stream.zone))
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


def close_all(
    run: ReadResult, data: Data, queries: Mapping[str, Query], max_empty: int, threads: int = 1
) -> Mapping[str, Closed]:
    """Every complete window that holds a row. All rows of the results are given, however many there are."""
    functions, zone = data.catalog.functions, data.stream.zone
    tasks = []
    rows = 0
    for name, query in queries.items():
        gathered = run.retained.gather(demand(query))
        known = query, gathered.parts, gathered.missed, functions, zone, max_empty, None, gathered.foreign
        tasks.append(failures_of(name)(partial(close, *known, max_rows=sys.maxsize)))
        rows += sum(part.leaf.rows for part in gathered.parts)
    closed = zip(queries, in_order(tasks, threads if rows > MANY_ROWS * len(queries) else 1), strict=True)
    return {name: replace(result, errors=result.errors + run.errors.get(name, 0)) for name, result in closed}
