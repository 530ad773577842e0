"""How good plans are and how fast they are made: against the best of all trees, against no sharing, and in seconds."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from statistics import fmean, median
from typing import TypeVar

from benchmarks.exhaustive import optimum
from benchmarks.instances import Instance, random_instance
from headrace.datasets import workload
from headrace.expressions.static_tables import Data
from headrace.planner.construction import make_plan
from headrace.planner.cost import Constants, Cost
from headrace.planner.demand import demand, leaves_of
from headrace.planner.plan_changes import add_query, drop_query
from headrace.planner.sample import draw
from headrace.planner.search import Effort, search
from headrace.sql import Script, parse_script

MOST_LEAVES = 6
SHARED_QUERIES = 12
ADDED = 12
Result = TypeVar("Result")
Report = Callable[[int, int], None]


def compare_with_optimum(instances: int, report: Report) -> Mapping[str, float]:
    """The search over the leaves of small instances, against the optimum; a better tree than that counts as 1.

    Of so few leaves the search tries every union. `drawn_` are the same with unions drawn at random, as of many leaves.
    """
    ratios = []
    for seed in range(instances):
        report(seed, instances)
        ratios.append(ratios_to_optimum(random_instance(seed, MOST_LEAVES)))
    usual, drawn = zip(*ratios, strict=True)
    return {
        "instances": instances,
        "mean_ratio": fmean(usual),
        "worst_ratio": max(usual),
        "drawn_mean_ratio": fmean(drawn),
        "drawn_worst_ratio": max(drawn),
    }


def ratios_to_optimum(instance: Instance) -> tuple[float, float]:
    """The optimum has unions of leaves as inner nodes; the search may take others too [NFC V]."""
    leaves = list(dict.fromkeys(leaf.node for leaf in leaves_of(instance.demands)))
    best = optimum(leaves, instance.cost.arc)
    efforts = Effort(), Effort(rounds=1, unions=4, all_unions_up_to=0)
    usual, drawn = (max(1.0, search(leaves, instance.cost.arc, effort).cost / best) for effort in efforts)
    return usual, drawn


def compare_with_unshared(instances: int, report: Report) -> Mapping[str, float]:
    """How many plans are predicted to cost more than their queries run apart."""
    above = 0
    for seed in range(instances):
        report(seed, instances)
        instance = random_instance(1_000_000 + seed, SHARED_QUERIES)
        plan = make_plan(instance.demands, instance.cost)
        above += plan.cost_ns > sum(plan.alone_ns.values()) * (1 + 1e-9)
    return {"unshared_instances": instances, "above_unshared": above}


def time_planning(trades: Data, queries: int, batch_rows: int) -> Mapping[str, float]:
    """Seconds from queries as values to a plan, the sample's evaluation included."""
    script = parse_script(workload("otf-low", queries, 7))
    cost = trades_cost(trades, script, batch_rows)
    demands = {named.name: demand(named.query) for named in script.queries}
    seconds, plan = timed(lambda: make_plan(demands, cost))
    return {f"plan_{queries}_s": seconds, f"gain_{queries}": sum(plan.alone_ns.values()) / plan.cost_ns}


def time_adding(trades: Data, queries: int, batch_rows: int) -> Mapping[str, float]:
    """Milliseconds to plan one query more, and to drop it again: the worst of some, and the median."""
    script = parse_script(workload("otf-low", queries, 7))
    more = parse_script(workload("otf-low", ADDED, 8))
    cost = trades_cost(trades, script, batch_rows, more)
    plan = make_plan({named.name: demand(named.query) for named in script.queries}, cost)
    added, dropped = [], []
    for named in more.queries:
        name, asked = f"new_{named.name}", demand(named.query)
        seconds, wider = timed(lambda name=name, asked=asked: add_query(plan, name, asked, cost))  # type: ignore[misc]
        added.append(1_000 * seconds)
        seconds, _ = timed(lambda name=name, wider=wider: drop_query(wider, name, cost))  # type: ignore[misc]
        dropped.append(1_000 * seconds)
    return {"add_one_ms": max(added), "add_one_ms_p50": median(added), "drop_one_ms": max(dropped)}


def trades_cost(trades: Data, script: Script, batch_rows: int, more: Script | None = None) -> Cost:
    queries = [*script.queries, *(more.queries if more else ())]
    return Cost(draw(trades, [named.query for named in queries], batch_rows), Constants())


def timed(work: Callable[[], Result]) -> tuple[float, Result]:
    start = time.perf_counter()
    result = work()
    return time.perf_counter() - start, result
