"""How fast the kernel answers a workload: by the chosen plan, without inner nodes, and beside DuckDB and Polars."""

from __future__ import annotations

import resource
from collections.abc import Callable, Mapping
from contextlib import ExitStack, suppress
from dataclasses import replace
from functools import partial, reduce
from pathlib import Path
from statistics import median

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from benchmarks.peers import (
    INSTANCE,
    THREADS,
    Peer,
    duckdb_peer,
    import_polars,
    polars_peer,
    with_numbers,
)
from benchmarks.planner import timed
from headrace.datasets import workload
from headrace.engine.bounded import (
    BATCH_ROWS,
    Answers,
    answer,
    plan_for,
)
from headrace.expressions.static_tables import Data
from headrace.kernel.close.windows import Closed
from headrace.kernel.level1.reader import Reader, ReadResult
from headrace.model.expressions import WINDOW_END
from headrace.model.query import Query
from headrace.planner.cost import Constants, Cost
from headrace.planner.demand import demand
from headrace.planner.draft import apart, priced
from headrace.planner.plan import Plan
from headrace.planner.sample import draw
from headrace.spark.single_query import QueryParts, split_query
from headrace.sql import parse_script

WARM_ROWS = 20_000
SINGLE_QUERIES = 5
REPEATS = 3
"""The kernel with all queries, and a peer with each, are timed so often, and the best counts."""
TOLERANCE = 1e-9
FORGET_PEAK = "5"
"""Written to /proc/self/clear_refs, makes the peak of resident memory what is resident now."""
Report = Callable[[int, int], None]
Queries = Mapping[str, Query]


def measure_kernel(data: Data, queries: Queries, sample: int, report: Report) -> Mapping[str, float]:
    """Results are compared with the peers' before answering is timed; one process, all in memory, loops compiled."""
    sampled = spread(queries, sample)
    plan_for(first_rows(data, WARM_ROWS), sampled)
    plan_s, plan = timed(lambda: plan_for(data, queries))
    answer_warm(data, queries, plan)
    with ExitStack() as opened:
        peers = {"duckdb": opened.enter_context(duckdb_peer(data)), "polars": polars_peer(data)}
        peak_mb, checked = check_first_run(
            data, queries, plan, partial(check, sampled=sampled, peers=peers, report=report)
        )
        kernel_s = best(lambda: answer(data, queries, plan, threads=1))
        threads_s = best(lambda: answer(data, queries, plan, threads=THREADS))
        peers_s = {f"{name}_s": time_peer(peer, sampled, len(queries)) for name, peer in peers.items()}
    level1_rows = count_level1_rows(data, queries, plan)
    return {
        "queries": len(queries),
        "rows": data.rows.num_rows,
        "checked_rows": checked,
        "plan_s": plan_s,
        "kernel_s": kernel_s,
        "kernel_threads_s": threads_s,
        "rows_per_s": data.rows.num_rows / kernel_s,
        "rows_per_s_one_query": rows_per_s_alone(data, spread(queries, SINGLE_QUERIES)),
        "level1_rows": level1_rows,
        "level1_share": level1_rows / data.rows.num_rows,
        "peak_mb": peak_mb,
        **measure_gain(data, queries, plan),
        **peers_s,
        **{f"{name}_gain": peers_s[f"{name}_s"] / threads_s for name in peers},
        "peer_sampled": len(sampled),
        "polars_threads": import_polars().thread_pool_size(),
    }


def queries_of(name: str, count: int, seed: int = 7) -> Queries:
    return {named.name: named.query for named in parse_script(workload(name, count, seed)).queries}


def spread(queries: Queries, count: int) -> Queries:
    """So many of the queries, drawn at random: what lies at even distances may be alike."""
    names, taken = list(queries), min(count, len(queries))
    places = np.sort(np.random.default_rng(0).choice(len(names), taken, replace=False))
    return {names[place]: queries[names[place]] for place in places}


def first_rows(data: Data, rows: int) -> Data:
    return replace(data, rows=data.rows.slice(0, rows))


def answer_warm(data: Data, queries: Queries, plan: Plan) -> None:
    """Few rows in two batches, so that everything a run needs is compiled."""
    answer(first_rows(data, WARM_ROWS), queries, plan, batch_rows=WARM_ROWS // 2)


def seconds(run: Callable[[], object]) -> float:
    """What it gives is dropped at once: it may be large."""
    return timed(run)[0]


def best(run: Callable[[], object]) -> float:
    return min(seconds(run) for _ in range(REPEATS))


# The kernel


def check_first_run(data: Data, queries: Queries, plan: Plan, check: Callable[[Answers], int]) -> tuple[float, int]:
    """By how many MB resident memory grew at its peak, and what `check` says of the answers."""
    with suppress(OSError):  # where there is no such file, the peak is that of the whole process
        Path("/proc/self/clear_refs").write_text(FORGET_PEAK)
    before_kb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    answers = answer(data, queries, plan)
    grown_kb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before_kb
    return grown_kb / 1_024, check(answers)


def count_level1_rows(data: Data, queries: Queries, plan: Plan) -> int:
    """Of all shipped nodes and batches, before batches are combined."""
    reader, count = Reader(data, queries, plan), 0
    for begin in range(0, data.rows.num_rows, BATCH_ROWS):
        run = ReadResult()
        reader.take_batch(run, data.rows.slice(begin, BATCH_ROWS))
        count += run.retained.rows
    return count


def rows_per_s_alone(data: Data, queries: Queries) -> float:
    """The median over queries, each answered alone by its own plan."""
    found: list[float] = []
    for name, query in queries.items():
        plan = plan_for(data, {name: query})
        answer_warm(data, {name: query}, plan)
        found.append(data.rows.num_rows / seconds(partial(answer, data, {name: query}, plan, threads=1)))
    return median(found)


def measure_gain(data: Data, queries: Queries, plan: Plan) -> Mapping[str, float]:
    """Every leaf from the stream against the chosen plan, both over at most one batch: the first is slow.

    Over much fewer rows the time to close windows, which no plan saves, would hide the difference.
    """
    some = first_rows(data, BATCH_ROWS)
    demands = {name: demand(query) for name, query in queries.items()}
    cost = Cost(draw(some, queries.values(), BATCH_ROWS), Constants())
    unshared = priced(apart(demands), demands, cost, plan.alone_ns)
    answer_warm(data, queries, unshared)
    apart_s = seconds(lambda: answer(some, queries, unshared, threads=1))
    chosen_s = seconds(lambda: answer(some, queries, plan, threads=1))
    return {"lattice_gain": apart_s / chosen_s, "apart_s": apart_s, "apart_rows": some.rows.num_rows}


# The peers


def time_peer(peer: Peer, sampled: Queries, queries: int) -> float:
    """Seconds for all queries one after the other, from those that are sampled."""
    return sum(best(partial(peer, query)) for query in sampled.values()) * queries / len(sampled)


def check(answers: Answers, sampled: Queries, peers: Mapping[str, Peer], report: Report) -> int:
    """How many rows of windows are equal to the peers'; one that is not is an error."""
    checked = 0
    for place, (name, query) in enumerate(sampled.items()):
        report(place, len(sampled))
        ours = results_of(query, answers.closed[name])
        for peer_name, peer in peers.items():
            theirs = peer(query)
            compare(f"{name}: kernel and {peer_name}", split_query(query), ours, theirs)
            checked += theirs.num_rows
    return checked


def results_of(query: Query, closed: Closed) -> pa.Table:
    """By instance, as peers give them; windows without rows are left out."""
    asked = split_query(query)
    (end,) = (output.name for output in query.outputs if output.expression == WINDOW_END)
    ends_us = np.asarray(closed.table[end].cast(pa.int64()))
    instances = pa.array((ends_us - asked.window.offset_us) // asked.window.slide_us)
    table = with_numbers(closed.table).append_column(INSTANCE, instances)
    if query.group_by:
        return table
    has_rows = [pc.is_valid(table[name]) for name in asked.sums]
    has_rows += [pc.not_equal(table[name], 0) for name in asked.counts]
    return table.filter(reduce(pc.or_, has_rows))


def compare(what: str, asked: QueryParts, ours: pa.Table, theirs: pa.Table) -> None:
    """Both row by row, in the order of windows and groups."""
    keys = [INSTANCE, *asked.groups]
    ours, theirs = (table.sort_by([(key, "ascending") for key in keys]) for table in (ours, theirs))
    if ours.num_rows != theirs.num_rows:
        raise RuntimeError(f"{what} have {ours.num_rows:,} and {theirs.num_rows:,} rows")
    for name in (*keys, *asked.sums, *asked.counts):
        mine, other = ours[name], theirs[name]
        equal = agree(mine, other)
        if not equal.all():
            row = int(np.flatnonzero(~equal)[0])
            where = {key: ours[key][row].as_py() for key in keys}
            raise RuntimeError(f"{what} differ in {name} at {where}: {mine[row]} and {other[row]}")


def agree(mine: pa.ChunkedArray, other: pa.ChunkedArray) -> NDArray[np.bool_]:
    """For each row whether both are NULL, or equal; DOUBLEs are within the tolerance."""
    if pa.types.is_floating(mine.type):
        close = np.isclose(mine.to_numpy(), other.to_numpy(), rtol=TOLERANCE, atol=0, equal_nan=True)
    else:
        close = pc.fill_null(pc.equal(mine, other), True).to_numpy()
    return np.asarray(close & (mine.is_null().to_numpy() == other.is_null().to_numpy()))
