"""How good plans are and how fast they are made: against the best of all trees, against no sharing, and in seconds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import combinations
from statistics import fmean, median

import numpy as np
import pyarrow as pa

from benchmarks.data import generate_data
from benchmarks.tables import Document, show_figures
from benchmarks.timing import time_call
from headrace.cli.progress import Report, progress_bar
from headrace.datasets import workload
from headrace.expressions.static_tables import Data
from headrace.planner.construction import make_plan
from headrace.planner.cost import Constants, Cost
from headrace.planner.demand import Demand, demand, leaves_of
from headrace.planner.lattice import Node, union
from headrace.planner.plan import STREAM
from headrace.planner.plan_changes import add_query, drop_query
from headrace.planner.search import ArcCost, Effort, Graph, search
from headrace.planner.statistics import draw
from headrace.sql import Script, parse_script

MAX_LEAVES = 6
SHARED_QUERIES = 12
ADDED = 12


def measure(instances: int, unshared_instances: int, queries: Sequence[int], rows: int) -> Document:
    figures: dict[str, float] = {}
    with progress_bar("against the optimum") as report:
        figures |= compare_with_optimum(instances, report)
    with progress_bar("against no sharing") as report:
        figures |= compare_with_unshared(unshared_instances, report)
    trades = generate_data("trades", rows)
    for count in queries:
        figures |= time_planning(trades, count, rows)
    figures |= time_adding(trades, queries[0], rows)
    return figures


show = show_figures


def compare_with_optimum(instances: int, report: Report) -> Mapping[str, float]:
    """Compare the search over the leaves of small instances with the optimum; a better tree counts as 1.

    With so few leaves the search tries every union. `drawn_` are the same with random unions, as with many leaves.
    """
    ratios = []
    for seed in range(instances):
        report(seed, instances)
        ratios.append(ratios_to_optimum(random_instance(seed, MAX_LEAVES)))
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
    """Count the plans that are predicted to cost more than their queries run apart."""
    above = 0
    for seed in range(instances):
        report(seed, instances)
        instance = random_instance(1_000_000 + seed, SHARED_QUERIES)
        plan = make_plan(instance.demands, instance.cost)
        above += plan.cost_ns > sum(plan.alone_ns.values()) * (1 + 1e-9)
    return {"unshared_instances": instances, "above_unshared": above}


def time_planning(trades: Data, queries: int, batch_rows: int) -> Mapping[str, float]:
    """Time planning, from queries as values to a plan, the evaluation of the sample included."""
    script = parse_script(workload("otf-low", queries, 7))
    cost = trades_cost(trades, script, batch_rows)
    demands = {named.name: demand(named.query) for named in script.queries}
    seconds, plan = time_call(lambda: make_plan(demands, cost))
    return {f"plan_{queries}_s": seconds, f"gain_{queries}": sum(plan.alone_ns.values()) / plan.cost_ns}


def time_adding(trades: Data, queries: int, batch_rows: int) -> Mapping[str, float]:
    """Time adding one more query to a plan, and dropping it again: the slowest of some, and the median."""
    script = parse_script(workload("otf-low", queries, 7))
    more = parse_script(workload("otf-low", ADDED, 8))
    cost = trades_cost(trades, script, batch_rows, more)
    plan = make_plan({named.name: demand(named.query) for named in script.queries}, cost)
    added, dropped = [], []
    for named in more.queries:
        name, asked = f"new_{named.name}", demand(named.query)
        seconds, wider = time_call(lambda name=name, asked=asked: add_query(plan, name, asked, cost))  # type: ignore[misc]
        added.append(1_000 * seconds)
        seconds, _ = time_call(lambda name=name, wider=wider: drop_query(wider, name, cost))  # type: ignore[misc]
        dropped.append(1_000 * seconds)
    return {"add_one_ms": max(added), "add_one_ms_p50": median(added), "drop_one_ms": max(dropped)}


def trades_cost(trades: Data, script: Script, batch_rows: int, more: Script | None = None) -> Cost:
    queries = [*script.queries, *(more.queries if more else ())]
    return Cost(draw(trades, [named.query for named in queries], batch_rows), Constants())


# Random planning problems: a few queries over a stream of five attributes, and rows for it

ATTRIBUTES = ("a", "b", "c", "d", "e")
STREAM_SQL = f"CREATE STREAM S (t TIMESTAMP, {', '.join(f'{name} BIGINT' for name in ATTRIBUTES)}) EVENT TIME t;\n"
AGGREGATES = ("count(*)", "sum(e)", "count(*), sum(e)", "avg(d), max(e)")
SPAN_US = 600_000_000


@dataclass(frozen=True)
class Instance:
    demands: dict[str, Demand]
    cost: Cost


def random_instance(seed: int, max_queries: int, rows: int = 2_000) -> Instance:
    """Draw two or more different queries; attributes have domains of 3 to 1,000 values, some of them skewed."""
    rng = np.random.default_rng(seed)
    domains = {name: int(10 ** rng.uniform(0.5, 3)) for name in ATTRIBUTES}
    texts = [random_query(rng, domains) for _ in range(int(rng.integers(2, max_queries + 1)))]
    script = parse_script(STREAM_SQL + ";\n".join(dict.fromkeys(texts)))
    demands = {named.name: demand(named.query) for named in script.queries}
    return Instance(demands, Cost(draw(random_rows(rng, script, domains, rows), [q.query for q in script.queries])))


def random_query(rng: np.random.Generator, domains: dict[str, int]) -> str:
    groups = [name for name in ATTRIBUTES if rng.random() < 0.45]
    slide_s = int(rng.integers(10, 300))
    range_s = slide_s + int(rng.integers(0, 2)) * int(rng.integers(0, 300))
    filtered = ATTRIBUTES[int(rng.integers(len(ATTRIBUTES)))]
    where = f" WHERE {filtered} < {int(rng.integers(1, domains[filtered] + 1))}" if rng.random() < 0.5 else ""
    select = ", ".join([*groups, AGGREGATES[int(rng.integers(len(AGGREGATES)))]])
    group_by = f" GROUP BY {', '.join(groups)}" if groups else ""
    return f"SELECT {select} FROM S [RANGE {range_s} SLIDE {slide_s}]{where}{group_by}"


def random_rows(rng: np.random.Generator, script: Script, domains: dict[str, int], rows: int) -> Data:
    columns = {"t": pa.array(np.sort(rng.integers(0, SPAN_US, rows))).cast(pa.timestamp("us", tz="UTC"))}
    for name, size in domains.items():
        skew = rng.uniform(1, 3)
        columns[name] = pa.array((size * rng.random(rows) ** skew).astype(np.int64))
    return Data(script.catalog, script.catalog.streams[0], pa.table(columns), {})


# The best of all trees, for a few leaves


def optimum(leaves: Sequence[Node], cost: ArcCost) -> float:
    """Return the least cost of a tree whose inner nodes are leaves, or unions of leaves with two or more children.

    Sets of leaves are bit masks. `below(u, set)` is the least cost of all that serves `set` below u: the child that
    serves the lowest leaf of the set is tried in all ways, and the rest is the same problem again.
    """
    graph = Graph(leaves, cost)
    sets = [members for size in range(2, len(leaves) + 1) for members in combinations(range(len(leaves)), size)]
    unions = dict.fromkeys(union([leaves[place] for place in members]) for members in sets)
    nodes = [graph.place(node) for node in dict.fromkeys([*leaves, *unions])] + [STREAM]

    @cache
    def serve(place: int, members: int) -> float:
        """Return the least cost of one child of node `place` that serves all `members`: one of them, or a union."""
        costs = []
        for child, node in enumerate(nodes[:-1]):
            arc = graph.arc(nodes[place], node)
            if child < len(leaves) and members >> child & 1:
                costs.append(arc + below(child, members ^ (1 << child), False) if np.isfinite(arc) else np.inf)
            elif child >= len(leaves) and members.bit_count() > 1 and np.isfinite(arc):
                costs.append(arc + below(child, members, True))
        return min(costs)

    @cache
    def below(place: int, members: int, at_least_two: bool) -> float:
        if members == 0:
            return 0.0
        lowest = members & -members
        rest, best = members ^ lowest, float("inf")
        part = rest
        while True:
            chosen = lowest | part
            if not (at_least_two and chosen == members):
                first = serve(place, chosen)
                if first < best:
                    best = min(best, first + below(place, members ^ chosen, False))
            if part == 0:
                return best
            part = (part - 1) & rest

    return float(below(len(nodes) - 1, (1 << len(leaves)) - 1, False))
