"""Rows hashed by shared trees and by each query apart, predicted and executed over generated flows [NFC VI]."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass

from benchmarks.data import generate_data
from benchmarks.execution import run_plan
from benchmarks.tables import Column, Document, Table
from headrace.cli.progress import Report, progress_bar
from headrace.datasets import workload
from headrace.expressions.static_tables import Data
from headrace.planner.construction import make_plan
from headrace.planner.cost import Constants, Cost
from headrace.planner.demand import demand, leaves_of
from headrace.planner.lattice import EVERYTHING, Node, union
from headrace.planner.search import Graph
from headrace.planner.statistics import BatchSample, draw
from headrace.planner.steiner import dual_ascent
from headrace.sql import parse_script

ROWS_HASHED = Constants(
    node_ns=0,
    leaf_ns=0,
    join_ns=0,
    evaluate_ns=0,
    code_ns=0,
    slice_ns=0,
    key_ns=0,
    dense_ns=1,
    hash_ns=1,
    large_hash_ns=1,
    addition_ns=0,
    ship_row_ns=0,
    ship_byte_ns=0,
)
"""The paper's cost: one for each row that enters a table [NFC IV]."""

SAMPLE_ROWS = 100_000
PERIODS_S = (60, 300, 600)
RANDOM_PERIOD_S = 300


@dataclass(frozen=True, slots=True)
class Hashed:
    """One set of queries over one aggregation period."""

    workload: str
    queries: int
    period_s: int
    naive: int
    executed: int
    predicted: float
    least: float | None
    """No tree hashes fewer rows; not known for queries with filters."""

    @property
    def best_factor(self) -> float | None:
        return None if self.least is None else self.naive / self.least

    @property
    def factor(self) -> float:
        return self.naive / self.executed

    @property
    def predicted_factor(self) -> float:
        return self.naive / self.predicted


def measure(rows: int, rate: float, queries: Sequence[int]) -> Document:
    flows = generate_data("netflow", rows, rate=rate)
    with progress_bar("query sets") as report:
        found = list(experiments(flows, queries, report))
    derived = "factor", "predicted_factor", "best_factor"
    return {"runs": [asdict(run) | {name: getattr(run, name) for name in derived} for run in found]}


def show(document: Document) -> None:
    TABLE.show(document)


TABLE = Table(
    "runs",
    "rows hashed",
    (
        Column("workload", "workload"),
        Column("queries", "queries"),
        Column("period", lambda row: f"{row['period_s']} s"),
        Column("apart", "naive", ","),
        Column("shared", "executed", ","),
        Column("factor", "factor", ".2f"),
        Column("predicted", "predicted_factor", ".2f"),
        Column("best", "best_factor", ".2f"),
    ),
)


def experiments(data: Data, random_queries: Sequence[int], report: Report, seed: int = 7) -> Iterator[Hashed]:
    """Run FlowCollector's queries over several periods, then random sets of several sizes."""
    cases: list[tuple[str, int | None, int]] = [("nfc-flowcollector", None, period_s) for period_s in PERIODS_S]
    cases += [("nfc-random", queries, RANDOM_PERIOD_S) for queries in random_queries]
    for place, (name, queries, period_s) in enumerate(cases):
        report(place, len(cases))
        yield count_hashed(name, queries, period_s, data, seed)


def count_hashed(name: str, queries: int | None, period_s: int, data: Data, seed: int) -> Hashed:
    script = parse_script(with_period(workload(name, queries, seed), period_s))
    named = {each.name: each.query for each in script.queries}
    demands = {key: demand(query) for key, query in named.items()}
    sample = draw(data, named.values(), sample_rows=SAMPLE_ROWS)
    whole = draw(data, named.values(), sample_rows=None)
    plan = make_plan(demands, Cost(sample, ROWS_HASHED))
    return Hashed(
        workload=name,
        queries=len(named),
        period_s=period_s,
        naive=sum(int(whole.passing(asked.predicate).sum()) for asked in demands.values()),
        executed=sum(run.taken for run in run_plan(plan, whole)),
        predicted=sum(each.cost_ns for each in plan.nodes),
        least=least_rows([leaf.node for leaf in leaves_of(demands)], whole),
    )


def least_rows(leaves: Sequence[Node], whole: BatchSample) -> float | None:
    """Return a lower bound on the rows hashed by any tree: the dual of the Steiner problem over all unions of leaves.

    An inner node that is no union of leaves could be replaced by the union of those below it, which has fewer rows.
    """
    if any(EVERYTHING not in leaf.keep for leaf in leaves):
        return None
    nodes = dict.fromkeys(leaves)
    for leaf in tuple(nodes):
        nodes |= dict.fromkeys([union([leaf, other]) for other in nodes])
    graph = Graph(leaves, lambda parent, node: float(len(whole.times_us)) if parent is None else whole.rows(parent))
    places = [graph.place(node) for node in nodes]
    return dual_ascent(graph.matrix(places), 0, range(1, 1 + len(set(leaves)))).paid


def with_period(script: str, period_s: int) -> str:
    """Return the workload with tumbling windows of another length."""
    return re.sub(r"\[RANGE '\d+ s' SLIDE '\d+ s'\]", f"[RANGE '{period_s} s' SLIDE '{period_s} s']", script)
