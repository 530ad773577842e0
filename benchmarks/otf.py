"""Operation counts of OTF 6.2-6.4 on generated trades: the paper's schemes, and our plan, run over the same rows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from benchmarks.counts import PAPER, SCHEMES, Counts, subject_of
from benchmarks.execution import run_plan, windows_combined
from headrace.datasets import workload
from headrace.expressions.static_tables import Data
from headrace.model.query import Query
from headrace.planner.construction import make_plan
from headrace.planner.cost import Constants, Cost
from headrace.planner.demand import demand
from headrace.planner.plan import STREAM, Plan
from headrace.planner.sample import draw
from headrace.planner.statistics import Sample
from headrace.sql import parse_script

OURS = "our plan"


@dataclass(frozen=True, slots=True)
class WorkloadCounts:
    """Of each scheme what was counted and, where it says, what the paper counted on its data."""

    workload: str
    queries: int
    rows: int
    counted: Mapping[str, Counts]
    paper: Mapping[str, Counts]
    predicted_gain: float

    def fewer(self, scheme: str) -> float:
        """How many times fewer operations our plan needs."""
        return self.counted[scheme].total / self.counted[OURS].total


def count_workload(name: str, queries: int, data: Data, constants: Constants, seed: int = 7) -> WorkloadCounts:
    """All rows are one batch of one task, as in the paper."""
    named = {each.name: each.query for each in parse_script(workload(name, queries, seed)).queries}
    whole = draw(data, named.values(), None, None)
    subject = subject_of(named, whole)
    counted = {scheme: count(subject) for scheme, count in SCHEMES[name].items()}
    plan = make_plan({key: demand(query) for key, query in named.items()}, Cost(some_rows(data, named), constants))
    counted[OURS] = plan_counts(plan, whole, subject.span.end_us)
    gain = sum(plan.alone_ns.values()) / plan.cost_ns
    return WorkloadCounts(name, queries, len(whole.times_us), counted, PAPER[name], gain)


def some_rows(data: Data, queries: Mapping[str, Query]) -> Sample:
    return draw(data, queries.values())


def plan_counts(plan: Plan, rows: Sample, until_us: int) -> Counts:
    """Partial operations take rows of the stream; final ones take partials, from node to node and into windows."""
    runs = run_plan(plan, rows)
    pairs = list(zip(plan.nodes, runs, strict=True))
    partial = sum(run.taken for each, run in pairs if each.parent == STREAM)
    between = sum(run.taken for each, run in pairs if each.parent != STREAM)
    return Counts(partial, between + windows_combined(plan, runs, until_us))
