"""The experiments of HIFI 6 over generated SYN packets: what six plans send, and how much they compute.

Every plan is run by the kernel, for one edge as in the paper. In some sets of queries the packets are dealt to three
edges, all plans are run up to the results at the root, and these must be equal.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from statistics import fmean
from time import perf_counter

import numpy as np
import pyarrow as pa
import rich_click as click

from benchmarks.counts import cut_into_panes
from benchmarks.data import Queries, generate_data, queries_of
from benchmarks.hifi.plans import Edge, execute, sliced_plan, windows_at_edge
from benchmarks.tables import Document, Row, show_figures, show_lines
from headrace.cli.progress import Report, progress_bar
from headrace.engine.answers import answer
from headrace.expressions.static_tables import Data
from headrace.kernel.close.retained_partials import Retained
from headrace.kernel.combine import NodePartials
from headrace.kernel.interchange import pack
from headrace.model.errors import DataError
from headrace.planner.placement.push_down import WAYS, PushDown, Spreads, Way, sent_nodes
from headrace.planner.plan import Plan
from headrace.planner.statistics import draw
from headrace.windows import instances_of

SIZES = (2, 4, 8, 16, 32)
"""Queries in a set [HIFI table 5]."""
EDGES = 3
"""Among which the packets are dealt where results are checked."""
PANED = "shared partial, paned"
RAW, PARTIAL, FULL = (Way(True, push_down).name for push_down in PushDown)
UNSHARED_RAW, UNSHARED_PARTIAL, UNSHARED_FULL = (Way(False, push_down).name for push_down in PushDown)
SCHEMES = (UNSHARED_RAW, UNSHARED_PARTIAL, UNSHARED_FULL, RAW, PANED, PARTIAL, FULL)


@dataclass(frozen=True, slots=True)
class Counts:
    """Of one plan and set of queries: tuples sent in the whole time, their bytes, and aggregate operations.

    An operation puts a row into a partial, or a partial into a window, at the edge or at the root [HIFI 3.3].
    `predicted` is what placement expects to be sent, from a sample.
    """

    tuples: float
    bytes: float
    predicted: float
    operations: float


@dataclass(frozen=True)
class Case:
    """Means over the sets of one size, by plan; of those that were checked the seconds from rows to results."""

    is_grouped: bool
    queries: int
    counts: Mapping[str, Counts]
    seconds: Mapping[str, float]


@dataclass(frozen=True)
class Measured:
    rows: int
    sets: int
    checked_sets: int
    cases: Sequence[Case]

    @property
    def sizes(self) -> list[int]:
        return sorted({case.queries for case in self.cases})

    def case(self, is_grouped: bool, queries: int) -> Case:
        return next(case for case in self.cases if (case.is_grouped, case.queries) == (is_grouped, queries))

    def growth(self, scheme: str, is_grouped: bool) -> float:
        """Return tuples of the largest sets over those of the smallest."""
        few, many = (self.case(is_grouped, size).counts[scheme] for size in (self.sizes[0], self.sizes[-1]))
        return many.tuples / few.tuples

    @property
    def worst_prediction(self) -> float:
        """Return the largest factor between tuples predicted and sent, above 1."""
        counts = [each for case in self.cases for each in case.counts.values()]
        return max(max(each.predicted / each.tuples, each.tuples / each.predicted) for each in counts)

    def wins(self, scheme: str, is_grouped: bool, of: Callable[[Counts], float]) -> bool:
        """Return whether no other plan sends less, whatever the number of queries."""
        cases = [case for case in self.cases if case.is_grouped == is_grouped]
        return all(of(case.counts[scheme]) <= min(map(of, case.counts.values())) for case in cases)


def measure_sets(data: Data, sets: int, checked: int, report: Report, sizes: Sequence[int] = SIZES) -> Measured:
    """Measure all sets; `checked` of each size are run to the end."""
    cases: list[Case] = []
    total = 2 * len(sizes) * sets
    for is_grouped in (False, True):
        bench = Bench(data, is_grouped)
        for size in sizes:
            found, timed = [], []
            for number in range(sets):
                report(len(cases) * sets + number, total)
                queries = query_set(is_grouped, size, number)
                found.append(bench.count(queries))
                if number < checked:
                    timed.append(check_results(data, queries, deal(data, queries)))
            seconds = {scheme: fmean(each[scheme] for each in timed) for scheme in SCHEMES if timed}
            cases.append(Case(is_grouped, size, means(found), seconds))
    return Measured(data.rows.num_rows, sets, 2 * len(sizes) * min(sets, checked), cases)


def query_set(is_grouped: bool, size: int, number: int) -> Queries:
    return queries_of("hifi-grouped" if is_grouped else "hifi-ungrouped", size, 1_000 * size + number)


def means(found: Sequence[Mapping[str, Counts]]) -> Mapping[str, Counts]:
    return {
        scheme: Counts(
            fmean(each[scheme].tuples for each in found),
            fmean(each[scheme].bytes for each in found),
            fmean(each[scheme].predicted for each in found),
            fmean(each[scheme].operations for each in found),
        )
        for scheme in SCHEMES
    }


class Bench:
    """One edge that reads all packets; they are coded once."""

    def __init__(self, data: Data, is_grouped: bool) -> None:
        some = query_set(is_grouped, 1, 0)
        self.edge = Edge(data, some)
        self.rows: int = self.edge.data.rows.num_rows
        sample = draw(data, some.values())
        self.spreads, self.rows_per_s = Spreads(sample), sample.rows_per_s

    def count(self, queries: Queries) -> Mapping[str, Counts]:
        """Count for each plan. Windows are made from every query's own slices: from shared ones they are the same."""
        shared, paned_plan = sliced_plan(queries), sliced_plan(queries, cut_into_panes)
        apart = [sliced_plan({name: query}) for name, query in queries.items()]
        slices, panes = self.edge.partials(shared), self.edge.partials(paned_plan)
        own = [self.edge.partials(plan) for plan in apart]
        windows = [self.windows(plan, found, queries) for plan, found in zip(apart, own, strict=True)]
        each_alone = [self.rows + partials_combined(plan, found) for plan, found in zip(apart, own, strict=True)]
        unshared, common = sum(each_alone), self.rows + partials_combined(shared, slices)
        many, rows, row_bytes = len(queries), self.rows, self.edge.data.rows.nbytes
        full = *self.count_sent(windows), self.predict_rows(Way(True, PushDown.FULL), shared)
        return {
            UNSHARED_RAW: Counts(many * rows, many * row_bytes, many * rows, unshared),
            UNSHARED_PARTIAL: Counts(
                *self.count_sent([found.values() for found in own]),
                self.predict_rows(Way(False, PushDown.PARTIAL), shared),
                unshared,
            ),
            UNSHARED_FULL: Counts(*full, unshared),
            RAW: Counts(rows, row_bytes, rows, common),
            PANED: Counts(
                *self.count_sent([panes.values()]),
                self.predict_rows(Way(True, PushDown.PARTIAL), paned_plan),
                self.rows + partials_combined(paned_plan, panes),
            ),
            PARTIAL: Counts(
                *self.count_sent([slices.values()]), self.predict_rows(Way(True, PushDown.PARTIAL), shared), common
            ),
            FULL: Counts(*full, common),
        }

    def windows(self, plan: Plan, slices: Mapping[int, NodePartials], queries: Queries) -> list[NodePartials]:
        retained = Retained()
        retained.add(plan, slices)
        return [part for name in plan.demands for part in windows_at_edge(queries[name], plan, retained)]

    def count_sent(self, messages: Iterable[Iterable[NodePartials]]) -> tuple[int, int]:
        """Return rows and bytes, as interchange tables."""
        tables = [table for parts in messages for table in pack(self.edge.data.stream.name, parts)]
        return sum(table.num_rows for table in tables), sum(table.nbytes for table in tables)

    def predict_rows(self, way: Way, plan: Plan) -> float:
        """Return what placement predicts, for as long as the packets came."""
        hours = self.rows / self.rows_per_s / 3_600
        rows = [
            self.spreads.of(sent.node).rows_per_hour(sent.intervals, self.rows_per_s) for sent in sent_nodes(way, plan)
        ]
        return hours * sum(rows)


def partials_combined(plan: Plan, shipped: Mapping[int, NodePartials]) -> int:
    """Count the partials that go into windows: each into all that it lies in, of all queries."""
    total = 0
    for answered in plan.answers:
        part = shipped[answered.place]
        starts_us, first_rows, rows = np.unique(part.starts_us, return_index=True, return_counts=True)
        ends_us = part.ends_us[first_rows]
        for ask in answered.leaf.asks:
            first, last = instances_of(ask.window, starts_us, ends_us)
            total += int(rows @ np.maximum(last - first + 1, 0))
    return total


def deal(data: Data, queries: Queries) -> list[Edge]:
    """Deal packets at random among edges."""
    owners = np.random.default_rng(1).integers(0, EDGES, data.rows.num_rows)
    parts = [replace(data, rows=data.rows.filter(pa.array(owners == edge))) for edge in range(EDGES)]
    return [Edge(part, queries) for part in parts]


def check_results(data: Data, queries: Queries, edges: Sequence[Edge]) -> Mapping[str, float]:
    """Compare all plans over what the edges read with the kernel over all packets; return the seconds of each."""
    truth = answer(data, queries).closed
    runs = {way.name: (way, sliced_plan(queries)) for way in WAYS}
    runs[PANED] = Way(True, PushDown.PARTIAL), sliced_plan(queries, cut_into_panes)
    seconds = {}
    for scheme, (way, plan) in runs.items():
        begin = perf_counter()
        executed = execute(way, edges, queries, plan)
        seconds[scheme] = perf_counter() - begin
        for name in queries:
            if not executed.results[name].equals(truth[name].table):
                raise DataError("wrong-result", f"{scheme}: the results of {name} differ from those without edges")
    return seconds


# What HIFI's text says of its figures 7 and 8: 523,761 SYN packets of one day, sets of 2 to 32 queries

PAPER_ROWS = 523_761
Figures = Mapping[int, Mapping[str, float]]
"""By number of queries, then by plan."""

TUPLES: Mapping[bool, Figures] = {
    False: {
        2: {RAW: PAPER_ROWS, PANED: 86_278, PARTIAL: 177, FULL: 118},
        32: {RAW: PAPER_ROWS, PANED: 86_278, PARTIAL: 1_920, FULL: 1_898},
    },
    True: {
        2: {RAW: PAPER_ROWS, PARTIAL: 86_472},
        4: {RAW: PAPER_ROWS, PANED: 455_401, FULL: 257_675},
        8: {RAW: PAPER_ROWS, FULL: 512_535},
        32: {RAW: PAPER_ROWS, PARTIAL: 183_910},
    },
}
"""Sent from the lower to the upper level, without and with groups [HIFI 6.2, figure 7]."""

SECONDS: Mapping[bool, Figures] = {
    False: {
        2: {UNSHARED_PARTIAL: 17, PANED: 13, PARTIAL: 11},
        32: {UNSHARED_PARTIAL: 241, PANED: 100, PARTIAL: 39},
    },
    True: {
        2: {UNSHARED_PARTIAL: 53, PANED: 94, PARTIAL: 33},
        32: {UNSHARED_PARTIAL: 1_013, PANED: 1_120, PARTIAL: 505},
    },
}
"""Of computation on one node [HIFI 6.3, figure 8]."""


# The command


def measure(rows: int, sets: int, checked: int) -> Document:
    data = generate_data("syn", rows)
    with progress_bar("query sets") as report:
        measured = measure_sets(data, sets, checked, report)
    return {
        "rows": measured.rows,
        "sets": measured.sets,
        "checked_sets": measured.checked_sets,
        "growth_partial_grouped": measured.growth(PARTIAL, True),
        "growth_full_grouped": measured.growth(FULL, True),
        "partial_wins_grouped": measured.wins(PARTIAL, True, lambda counts: counts.tuples),
        "partial_wins_grouped_bytes": measured.wins(PARTIAL, True, lambda counts: counts.bytes),
        "worst_prediction": measured.worst_prediction,
        "cases": [case_document(case) for case in measured.cases],
    }


def case_document(case: Case) -> Document:
    return {
        "is_grouped": case.is_grouped,
        "queries": case.queries,
        "plans": {scheme: asdict(counts) for scheme, counts in case.counts.items()},
        "seconds": case.seconds,
        "paper_tuples": TUPLES[case.is_grouped].get(case.queries, {}),
        "paper_seconds": SECONDS[case.is_grouped].get(case.queries, {}),
    }


def show(document: Document) -> None:
    for is_grouped in (False, True):
        cases = [case for case in document["cases"] if case["is_grouped"] == is_grouped]
        kind = "grouped" if is_grouped else "ungrouped"
        show_plans(f"tuples sent, {kind}", cases, "tuples", "paper_tuples")
        show_plans(f"bytes sent, {kind}", cases, "bytes")
        show_plans(f"aggregate operations, {kind}; the paper's are seconds", cases, "operations", "paper_seconds")
    click.echo(f"{document['checked_sets']} sets run to the results by all plans: equal")
    show_figures(document)


def show_plans(title: str, cases: Sequence[Row], figure: str, paper: str = "") -> None:
    """Print a line for each number of queries, and below it what the paper says."""
    lines = [["queries", *SCHEMES]]
    for case in cases:
        lines.append([str(case["queries"]), *(f"{case['plans'][scheme][figure]:,.0f}" for scheme in SCHEMES)])
        if said := case.get(paper):
            lines.append(["paper", *(f"{said[scheme]:,.0f}" if scheme in said else "" for scheme in SCHEMES)])
    show_lines(title, lines)
