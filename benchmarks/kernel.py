"""How fast the kernel answers a workload: by the chosen plan, without inner nodes, and beside DuckDB and Polars."""

from __future__ import annotations

import resource
from collections.abc import Callable, Mapping
from contextlib import ExitStack, suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from statistics import median

import numpy as np
import pyarrow as pa

from benchmarks.data import WORKLOADS, Queries, generate_data, queries_of
from benchmarks.peers import (
    THREADS,
    Peer,
    compare,
    duckdb_peer,
    import_polars,
    own_answers,
    polars_peer,
    with_numbers,
)
from benchmarks.tables import Document, show_figures
from benchmarks.timing import seconds, time_call
from headrace.cli.progress import Report, progress_bar
from headrace.engine.answers import (
    BATCH_ROWS,
    Answers,
    answer,
    plan_for,
)
from headrace.expressions.static_tables import Data
from headrace.kernel.close.windows import Closed
from headrace.kernel.level1.reader import Reader
from headrace.kernel.level1.reader import ReadResult as Run
from headrace.model.query import Query
from headrace.planner.cost import Constants, Cost
from headrace.planner.demand import demand
from headrace.planner.draft import apart, price_plan
from headrace.planner.plan import Plan
from headrace.planner.statistics import draw
from headrace.spark.single_query import split_query

WARM_ROWS = 20_000
SINGLE_QUERIES = 5
REPEATS = 3
"""The kernel with all queries, and a peer with each, are timed this often, and the best counts."""
FORGET_PEAK = "5"
"""Written to /proc/self/clear_refs, makes the peak of resident memory what is resident now."""


def measure(workload: str, queries: int | None, rows: int | None, sample: int) -> Document:
    chosen = WORKLOADS[workload]
    asked = queries_of(chosen.name, queries or chosen.query_count)
    data = generate_data(chosen.kind, rows or chosen.row_count)
    with progress_bar("checking results") as report:
        return {"workload": workload, **measure_kernel(data, asked, sample, report)}


show = show_figures


def measure_kernel(data: Data, queries: Queries, sample: int, report: Report) -> Mapping[str, float]:
    """Compare results with the peers', then time answering: one process, all in memory, loops compiled."""
    sampled = spread(queries, sample)
    plan_for(first_rows(data, WARM_ROWS), sampled)
    plan_s, plan = time_call(lambda: plan_for(data, queries))
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


def spread(queries: Queries, count: int) -> Queries:
    """Draw `count` queries at random: those at even distances may be alike."""
    names, taken = list(queries), min(count, len(queries))
    places = np.sort(np.random.default_rng(0).choice(len(names), taken, replace=False))
    return {names[place]: queries[names[place]] for place in places}


def first_rows(data: Data, rows: int) -> Data:
    return replace(data, rows=data.rows.slice(0, rows))


def answer_warm(data: Data, queries: Queries, plan: Plan) -> None:
    """Answer over few rows in two batches, so that everything a run needs is compiled."""
    answer(first_rows(data, WARM_ROWS), queries, plan, batch_rows=WARM_ROWS // 2)


def best(run: Callable[[], object]) -> float:
    return min(seconds(run) for _ in range(REPEATS))


# The kernel


def check_first_run(data: Data, queries: Queries, plan: Plan, check: Callable[[Answers], int]) -> tuple[float, int]:
    """Return the MB by which resident memory grew at its peak, and the result of `check` on the answers."""
    with suppress(OSError):  # where there is no such file, the peak is that of the whole process
        Path("/proc/self/clear_refs").write_text(FORGET_PEAK)
    before_kb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    answers = answer(data, queries, plan)
    grown_kb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before_kb
    return grown_kb / 1_024, check(answers)


def count_level1_rows(data: Data, queries: Queries, plan: Plan) -> int:
    """Count rows of all shipped nodes and batches, before batches are combined."""
    reader, count = Reader(data, queries, plan), 0
    for begin in range(0, data.rows.num_rows, BATCH_ROWS):
        run = Run()
        reader.take_batch(run, data.rows.slice(begin, BATCH_ROWS))
        count += run.retained.rows
    return count


def rows_per_s_alone(data: Data, queries: Queries) -> float:
    """Return the median over queries, each answered alone by its own plan."""
    found: list[float] = []
    for name, query in queries.items():
        plan = plan_for(data, {name: query})
        answer_warm(data, {name: query}, plan)
        found.append(data.rows.num_rows / seconds(partial(answer, data, {name: query}, plan, threads=1)))
    return median(found)


def measure_gain(data: Data, queries: Queries, plan: Plan) -> Mapping[str, float]:
    """Compare every leaf from the stream with the chosen plan, both over at most one batch: the first is slow.

    Over much fewer rows the time to close windows, which no plan saves, would hide the difference.
    """
    some = first_rows(data, BATCH_ROWS)
    demands = {name: demand(query) for name, query in queries.items()}
    cost = Cost(draw(some, queries.values(), BATCH_ROWS), Constants())
    unshared = price_plan(apart(demands), demands, cost, plan.alone_ns)
    answer_warm(data, queries, unshared)
    apart_s = seconds(lambda: answer(some, queries, unshared, threads=1))
    chosen_s = seconds(lambda: answer(some, queries, plan, threads=1))
    return {"lattice_gain": apart_s / chosen_s, "apart_s": apart_s, "apart_rows": some.rows.num_rows}


# The peers


def time_peer(peer: Peer, sampled: Queries, queries: int) -> float:
    """Return the seconds for all queries one after the other, scaled from those that are sampled."""
    return sum(best(partial(peer, query)) for query in sampled.values()) * queries / len(sampled)


def check(answers: Answers, sampled: Queries, peers: Mapping[str, Peer], report: Report) -> int:
    """Count the rows of windows that are equal to the peers'; one that is not is an error."""
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
    """Return results by instance, as peers give them."""
    return own_answers(query, with_numbers(closed.table))
