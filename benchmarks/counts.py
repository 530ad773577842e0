"""Aggregate operations that the plans of OTF need on given rows, and our plan on the same rows [OTF 6.2-6.4].

The paper's schemes are counted without running them.

Partial operations put rows into partials; all rows of the span count, also those of windows that end later. Final
operations put partials together, for the instances that end in the span: one operation for each slice inside, empty or
not. The stream begins with the span, so an instance that began earlier is put together from the slices since then.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property, partial

import numpy as np
import numpy.typing as npt
import rich_click as click

from benchmarks.data import generate_data, queries_of
from benchmarks.execution import run_plan, windows_combined
from benchmarks.fragments import fragments, observed_cells, truth_matrix
from benchmarks.tables import Column, Document, show_table
from headrace.expressions.static_tables import Data
from headrace.model.query import Query
from headrace.model.time import SECOND_US
from headrace.model.windows import AnyWindow, Interval, SlicedWindow, Window
from headrace.planner.construction import make_plan
from headrace.planner.cost import Constants, Cost
from headrace.planner.demand import demand
from headrace.planner.plan import STREAM, Plan
from headrace.planner.statistics import BatchSample, draw
from headrace.predicates import union_dimensions
from headrace.windows import Boundaries, boundaries_between, compose, paired_boundaries

Slicing = Callable[[AnyWindow], Boundaries]
Times = npt.NDArray[np.int64]


def measure(workloads: Sequence[str], queries: int, rows: int) -> Document:
    trades = generate_data("trades", rows)
    return {name: as_document(count_workload(name, queries, trades, Constants())) for name in workloads}


def show(document: Document) -> None:
    for name, found in document.items():
        rows = [
            {
                "scheme": scheme,
                **counted,
                "fewer": found["fewer"].get(scheme, 1.0),
                "paper": found["paper"].get(scheme, {}),
            }
            for scheme, counted in found["counted"].items()
        ]
        show_table(f"{name}: {found['queries']} queries, {found['rows']:,} rows", rows, COLUMNS)
        click.echo(f"  predicted time: each query apart / our plan = {found['predicted_gain']:.1f}\n")


COLUMNS = (
    Column("", "scheme"),
    Column("partial", "partial", ","),
    Column("final", "final", ","),
    Column("all / ours", "fewer", ".1f"),
    Column("paper: partial", lambda row: row["paper"].get("partial"), ","),
    Column("final", lambda row: row["paper"].get("final"), ","),
)


@dataclass(frozen=True, slots=True)
class Counts:
    partial: int
    final: int

    @property
    def total(self) -> int:
        return self.partial + self.final


@dataclass(frozen=True, eq=False)
class Subject:
    """The rows of one span and the queries over them: the cell of each row, and for each cell which queries it passes.

    `truth` has one row per cell and one column per query. Queries without predicates have one cell.
    """

    span: Interval
    times_us: Times
    windows: tuple[AnyWindow, ...]
    cell_of_row: npt.NDArray[np.intp]
    truth: npt.NDArray[np.bool_]

    def __post_init__(self) -> None:
        if len(self.times_us) != len(self.cell_of_row) or self.truth.shape[1] != len(self.windows):
            raise ValueError("each row needs a time and a cell, and each query a window and a column of truth")
        if ((self.times_us < self.span.start_us) | (self.times_us >= self.span.end_us)).any():
            raise ValueError("all rows must lie in the span")

    @cached_property
    def rows_of_cell(self) -> npt.NDArray[np.intp]:
        return np.bincount(self.cell_of_row, minlength=len(self.truth))

    def cuts(self, slicing: Slicing) -> Times:
        """Return the ends of the slices that all queries share."""
        return boundaries_between(compose(slicing(window) for window in self.windows), *self.span)


def subject_of(queries: Mapping[str, Query], sample: BatchSample, span: Interval | None = None) -> Subject:
    """Return the subject of a sample that holds all rows. The default span is that of the rows, in whole seconds."""
    demands = [demand(query) for query in queries.values()]
    predicates = [asked.predicate for asked in demands]
    dimensions = union_dimensions([predicate.dimensions for predicate in predicates])
    codes = [dimension.codes(sample.evaluation.evaluate(dimension.expression).values) for dimension in dimensions]
    cells, cell_of_row = observed_cells(codes, len(sample.times_us))
    return Subject(
        span or whole_seconds(sample.times_us),
        sample.times_us,
        tuple(asked.window for asked in demands),
        cell_of_row,
        truth_matrix(predicates, dimensions, cells),
    )


def whole_seconds(times_us: Times) -> Interval:
    if not len(times_us):
        return Interval(0, 0)
    first, last = int(times_us.min()), int(times_us.max())
    return Interval(first - first % SECOND_US, last - last % SECOND_US + SECOND_US)


# The plans


def count_unshared(subject: Subject, slicing: Slicing) -> Counts:
    """Count for each query by itself, over its own slices [OTF 3.1]."""
    final = 0
    for window in subject.windows:
        final += slices_combined(window, boundaries_between([slicing(window)], *subject.span), subject.span)
    return Counts(rows_passed(subject), final)


def shared_slices(subject: Subject, slicing: Slicing) -> Counts:
    """Count for queries with one predicate, over the slices of all [OTF 3.2]."""
    if not (subject.truth == subject.truth[:, :1]).all():
        raise ValueError("slices alone are shared by queries with the same predicate")
    return Counts(rows_wanted(subject), all_slices_combined(subject, subject.cuts(slicing)))


def unshared_tumbling(subject: Subject) -> Counts:
    """Count for each query by itself; rows go into the one tumbling window without partials [OTF table 5]."""
    check_tumbling(subject)
    return Counts(0, rows_passed(subject))


def shared_fragments(subject: Subject) -> Counts:
    """Count for queries with one tumbling window, over the fragments of each instance [OTF 4.3]."""
    check_tumbling(subject)
    return Counts(rows_wanted(subject), fragments_forwarded(subject, subject.cuts(paired_boundaries)))


def shared_shards(subject: Subject) -> Counts:
    """Count for any queries: fragments of each shared slice go to their queries, then slices make windows [OTF 5]."""
    cuts = subject.cuts(paired_boundaries)
    return Counts(rows_wanted(subject), fragments_forwarded(subject, cuts) + all_slices_combined(subject, cuts))


def check_tumbling(subject: Subject) -> None:
    window = subject.windows[0]
    if set(subject.windows) != {window} or not isinstance(window, Window) or window.range_us != window.slide_us:
        raise ValueError("fragments alone are shared by queries with the same tumbling window")


def cut_into_panes(window: AnyWindow) -> Boundaries:
    """Cut a window into equal slices of the greatest common divisor [OTF 3.1]: never fewer than paired ones."""
    if isinstance(window, SlicedWindow):
        width = math.gcd(*window.slices_us)
    else:
        width = math.gcd(window.range_us, window.slide_us)
    return Boundaries(width, (window.offset_us,))


# What they count


def rows_passed(subject: Subject) -> int:
    """Count rows, each once for every query that it passes."""
    return int(subject.rows_of_cell @ subject.truth.sum(axis=1))


def rows_wanted(subject: Subject) -> int:
    """Count rows that pass at least one query."""
    return int(subject.rows_of_cell[subject.truth.any(axis=1)].sum())


def slices_combined(window: AnyWindow, cuts: Times, span: Interval) -> int:
    """Count the slices inside each instance that ends in the span; `cuts` are the ends of the slices."""
    instances = np.array(list(window.ending_between(*span)), dtype=np.int64).reshape(-1, 2)
    before = np.searchsorted(cuts, np.maximum(instances[:, 0], span.start_us), side="right")
    until = np.searchsorted(cuts, instances[:, 1], side="right")
    return int((until - before).sum())


def all_slices_combined(subject: Subject, cuts: Times) -> int:
    return sum(slices_combined(window, cuts, subject.span) for window in subject.windows)


def fragments_forwarded(subject: Subject, cuts: Times) -> int:
    """Count, for each slice that ends in the span and each fragment in it, the queries it goes to [OTF algorithm 2]."""
    found = fragments(subject.truth)
    slice_of_row = np.searchsorted(cuts, subject.times_us, side="right")
    ended = slice_of_row < len(cuts)
    fragment_of_row = found.of_cell[subject.cell_of_row[ended]]
    shards = np.unique(slice_of_row[ended] * len(found.signatures) + fragment_of_row)
    queries_of_fragment = found.signatures.sum(axis=1)
    return int(queries_of_fragment[shards % max(1, len(found.signatures))].sum())


# The paper's experiments

Count = Callable[[Subject], Counts]

SCHEMES: Mapping[str, Mapping[str, Count]] = {
    "otf-windows": {
        "unshared paired": partial(count_unshared, slicing=paired_boundaries),
        "unshared paned": partial(count_unshared, slicing=cut_into_panes),
        "shared paired": partial(shared_slices, slicing=paired_boundaries),
        "shared paned": partial(shared_slices, slicing=cut_into_panes),
    },
    "otf-predicates": {"unshared": unshared_tumbling, "shared fragments": shared_fragments},
    "otf-regular": {
        "unshared paired": partial(count_unshared, slicing=paired_boundaries),
        "shared shards": shared_shards,
    },
    "otf-low": {"unshared paired": partial(count_unshared, slicing=paired_boundaries), "shared shards": shared_shards},
}
"""What is compared on each workload [OTF 6.2, 6.3, 6.4.1, 6.4.2]."""

PAPER: Mapping[str, Mapping[str, Counts]] = {
    "otf-windows": {
        "unshared paired": Counts(291_490_816, 6_813),
        "shared paired": Counts(1_138_636, 1_462_391),
        "shared paned": Counts(1_138_636, 2_340_842),
    },
    "otf-predicates": {
        "unshared": Counts(0, 116_101_112),
        "shared fragments": Counts(1_094_947, 6_677_009),
    },
    "otf-regular": {
        "unshared paired": Counts(100_902_960, 6_955),
        "shared shards": Counts(1_138_636, 2_256_496),
    },
    "otf-low": {
        "unshared paired": Counts(120_672_210, 6_812),
        "shared shards": Counts(1_294_064, 63_984_043),
    },
}
"""What the paper counted for 256 queries over its own data. It leaves out unshared paned, and the partial operations of
shared paned, which are those of shared paired."""


# The schemes and our plan on one workload

OURS = "our plan"


@dataclass(frozen=True, slots=True)
class WorkloadCounts:
    """What was counted for each scheme, and what the paper counted on its data where it says so."""

    workload: str
    queries: int
    rows: int
    counted: Mapping[str, Counts]
    paper: Mapping[str, Counts]
    predicted_gain: float

    def fewer(self, scheme: str) -> float:
        """Return how many times fewer operations our plan needs."""
        return self.counted[scheme].total / self.counted[OURS].total


def count_workload(name: str, queries: int, data: Data, constants: Constants, seed: int = 7) -> WorkloadCounts:
    """Count over all rows as one batch of one task, as in the paper."""
    named = queries_of(name, queries, seed)
    whole = draw(data, named.values(), None, None)
    subject = subject_of(named, whole)
    counted = {scheme: count(subject) for scheme, count in SCHEMES[name].items()}
    plan = make_plan({key: demand(query) for key, query in named.items()}, Cost(draw(data, named.values()), constants))
    counted[OURS] = plan_counts(plan, whole, subject.span.end_us)
    gain = sum(plan.alone_ns.values()) / plan.cost_ns
    return WorkloadCounts(name, queries, len(whole.times_us), counted, PAPER[name], gain)


def as_document(found: WorkloadCounts) -> Document:
    return {
        "queries": found.queries,
        "rows": found.rows,
        "counted": {scheme: asdict(counted) for scheme, counted in found.counted.items()},
        "paper": {scheme: asdict(counted) for scheme, counted in found.paper.items()},
        "fewer": {scheme: found.fewer(scheme) for scheme in found.counted if scheme != OURS},
        "predicted_gain": found.predicted_gain,
    }


def plan_counts(plan: Plan, rows: BatchSample, until_us: int) -> Counts:
    """Count partial operations, which take rows of the stream, and final ones, which take partials."""
    runs = run_plan(plan, rows)
    pairs = list(zip(plan.nodes, runs, strict=True))
    partial = sum(run.taken for each, run in pairs if each.parent == STREAM)
    between = sum(run.taken for each, run in pairs if each.parent != STREAM)
    return Counts(partial, between + windows_combined(plan, runs, until_us))
