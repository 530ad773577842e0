"""How fast the kernel answers a workload: by the chosen plan, without inner nodes, and beside DuckDB and Polars."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from statistics import median

import numpy as np
import pyarrow as pa

from headrace.bench.peers import Peer, Sums, duckdb_peer, import_polars, polars_peer, summed, window_of
from headrace.bench.planner import timed
from headrace.datasets import workload
from headrace.kernel.answering import BATCH_ROWS, Answers, answer, plan_for
from headrace.kernel.closing import Closed
from headrace.model.expressions import WINDOW_END
from headrace.model.query import Query
from headrace.planner.cost import Constants, Cost
from headrace.planner.leaves import demand
from headrace.planner.plan import Plan
from headrace.planner.pricing import apart, priced
from headrace.planner.sampling import Data, draw
from headrace.sql import parse_script

WARM_ROWS = 20_000
SINGLE_QUERIES = 5
TOLERANCE = 1e-9
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
        checked = check(answer(data, queries, plan), sampled, peers, report)
        kernel_s, _ = timed(lambda: answer(data, queries, plan))
        peers_s = {f"{name}_s": time_peer(peer, sampled, len(queries)) for name, peer in peers.items()}
    return {
        "queries": len(queries),
        "rows": data.rows.num_rows,
        "checked_rows": checked,
        "plan_s": plan_s,
        "kernel_s": kernel_s,
        "rows_per_s": data.rows.num_rows / kernel_s,
        "rows_per_s_one_query": rows_per_s_alone(data, spread(queries, SINGLE_QUERIES)),
        **measure_gain(data, queries, plan),
        **peers_s,
        "peer_sampled": len(sampled),
        "polars_threads": import_polars().thread_pool_size(),
    }


def queries_of(name: str, count: int, seed: int = 7) -> Queries:
    return {named.name: named.query for named in parse_script(workload(name, count, seed)).queries}


def spread(queries: Queries, count: int) -> Queries:
    """So many of the queries, at even distances."""
    names, taken = list(queries), min(count, len(queries))
    return {names[place * len(names) // taken]: queries[names[place * len(names) // taken]] for place in range(taken)}


def first_rows(data: Data, rows: int) -> Data:
    return replace(data, rows=data.rows.slice(0, rows))


def answer_warm(data: Data, queries: Queries, plan: Plan) -> None:
    """Few rows in two batches, so that everything a run needs is compiled."""
    answer(first_rows(data, WARM_ROWS), queries, plan, batch_rows=WARM_ROWS // 2)


# The kernel


def rows_per_s_alone(data: Data, queries: Queries) -> float:
    """The median over queries, each answered alone by its own plan."""
    found: list[float] = []
    for name, query in queries.items():
        plan = plan_for(data, {name: query})
        answer_warm(data, {name: query}, plan)
        seconds, _ = timed(partial(answer, data, {name: query}, plan))
        found.append(data.rows.num_rows / seconds)
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
    apart_s, _ = timed(lambda: answer(some, queries, unshared))
    chosen_s, _ = timed(lambda: answer(some, queries, plan))
    return {"lattice_gain": apart_s / chosen_s, "apart_s": apart_s, "apart_rows": some.rows.num_rows}


# The peers


def time_peer(peer: Peer, sampled: Queries, queries: int) -> float:
    """Seconds for all queries one after the other, from those that are sampled."""
    return sum(timed(partial(peer, query))[0] for query in sampled.values()) * queries / len(sampled)


def check(answers: Answers, sampled: Queries, peers: Mapping[str, Peer], report: Report) -> int:
    """How many windows are equal to the peers'; one that is not is an error."""
    checked = 0
    for place, (name, query) in enumerate(sampled.items()):
        report(place, len(sampled))
        ours = sums_of(query, answers.closed[name])
        for peer_name, peer in peers.items():
            theirs = peer(query)
            compare(f"{name}: kernel and {peer_name}", ours, theirs)
            checked += len(theirs)
    return checked


def sums_of(query: Query, closed: Closed) -> Sums:
    """By instance, as peers give them; windows without rows are left out."""
    window, (value, _) = window_of(query), summed(query)
    (end,) = (output.name for output in query.outputs if output.expression == WINDOW_END)
    ends_us = np.asarray(closed.table[end].cast(pa.int64()))
    instances = (ends_us - window.offset_us) // window.slide_us
    sums = closed.table[value.name].to_pylist()
    return {int(k): total for k, total in zip(instances, sums, strict=True) if total is not None}


def compare(what: str, ours: Sums, theirs: Sums) -> None:
    if ours.keys() != theirs.keys():
        raise RuntimeError(f"{what} have different windows: {sorted(ours.keys() ^ theirs.keys())[:5]}")
    for instance, total in ours.items():
        if not math.isclose(total, theirs[instance], rel_tol=TOLERANCE):
            raise RuntimeError(f"{what} differ in window {instance}: {total!r} and {theirs[instance]!r}")
