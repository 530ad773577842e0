"""Aggregate operations that the plans of OTF need on given rows, counted without running a plan [OTF 6.2-6.4].

Partial operations put rows into partials; all rows of the span count, also those of windows that end later. Final
operations put partials together, for the instances that end in the span: one operation for each slice inside, empty or
not. The stream begins with the span, so an instance that began earlier is put together from the slices since then.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property, partial

import numpy as np
import numpy.typing as npt

from headrace.model.query import Query
from headrace.model.time import SECOND_US
from headrace.model.windows import AnyWindow, Interval, Window
from headrace.planner.demand import demand
from headrace.planner.statistics import Sample
from headrace.predicates import fragments, observed_cells, truth_matrix, union_dimensions
from headrace.windows import Boundaries, boundaries_between, compose, paired, paned

Slicing = Callable[[AnyWindow], Boundaries]
Times = npt.NDArray[np.int64]


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
        """The ends of the slices that all queries share."""
        return boundaries_between(compose(slicing(window) for window in self.windows), *self.span)


def subject_of(queries: Mapping[str, Query], sample: Sample, span: Interval | None = None) -> Subject:
    """Of a sample that holds all rows. Without a `span`, it is that of the rows, out to whole seconds."""
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


def unshared(subject: Subject, slicing: Slicing) -> Counts:
    """Each query by itself, over slices of its own [OTF 3.1]."""
    final = 0
    for window in subject.windows:
        final += slices_combined(window, boundaries_between([slicing(window)], *subject.span), subject.span)
    return Counts(rows_passed(subject), final)


def shared_slices(subject: Subject, slicing: Slicing) -> Counts:
    """Queries with one predicate, over the slices of all [OTF 3.2]."""
    if not (subject.truth == subject.truth[:, :1]).all():
        raise ValueError("slices alone are shared by queries with the same predicate")
    return Counts(rows_wanted(subject), all_slices_combined(subject, subject.cuts(slicing)))


def unshared_tumbling(subject: Subject) -> Counts:
    """Each query by itself; rows go into the one tumbling window without partials [OTF table 5]."""
    check_tumbling(subject)
    return Counts(0, rows_passed(subject))


def shared_fragments(subject: Subject) -> Counts:
    """Queries with one tumbling window, over the fragments of each instance [OTF 4.3]."""
    check_tumbling(subject)
    return Counts(rows_wanted(subject), fragments_forwarded(subject, subject.cuts(paired)))


def shared_shards(subject: Subject) -> Counts:
    """Any queries: the fragments of each shared slice go to their queries, then slices make windows [OTF 5]."""
    cuts = subject.cuts(paired)
    return Counts(rows_wanted(subject), fragments_forwarded(subject, cuts) + all_slices_combined(subject, cuts))


def check_tumbling(subject: Subject) -> None:
    window = subject.windows[0]
    if set(subject.windows) != {window} or not isinstance(window, Window) or window.range_us != window.slide_us:
        raise ValueError("fragments alone are shared by queries with the same tumbling window")


# What they count


def rows_passed(subject: Subject) -> int:
    """Rows, each as often as there are queries that it passes."""
    return int(subject.rows_of_cell @ subject.truth.sum(axis=1))


def rows_wanted(subject: Subject) -> int:
    """Rows that pass at least one query."""
    return int(subject.rows_of_cell[subject.truth.any(axis=1)].sum())


def slices_combined(window: AnyWindow, cuts: Times, span: Interval) -> int:
    """The slices inside each instance that ends in the span, summed; `cuts` are the ends of the slices."""
    instances = np.array(list(window.ending_between(*span)), dtype=np.int64).reshape(-1, 2)
    before = np.searchsorted(cuts, np.maximum(instances[:, 0], span.start_us), side="right")
    until = np.searchsorted(cuts, instances[:, 1], side="right")
    return int((until - before).sum())


def all_slices_combined(subject: Subject, cuts: Times) -> int:
    return sum(slices_combined(window, cuts, subject.span) for window in subject.windows)


def slices_forwarded(subject: Subject, slicing: Slicing) -> int:
    """Each shared slice that ends in the span, once for each query: not in `shared_slices`, but it seems in `PAPER`."""
    return len(subject.cuts(slicing)) * len(subject.windows)


def fragments_forwarded(subject: Subject, cuts: Times) -> int:
    """For each slice that ends in the span, and each fragment in it: the queries it goes to [OTF algorithm 2]."""
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
        "unshared paired": partial(unshared, slicing=paired),
        "unshared paned": partial(unshared, slicing=paned),
        "shared paired": partial(shared_slices, slicing=paired),
        "shared paned": partial(shared_slices, slicing=paned),
    },
    "otf-predicates": {"unshared": unshared_tumbling, "shared fragments": shared_fragments},
    "otf-regular": {"unshared paired": partial(unshared, slicing=paired), "shared shards": shared_shards},
    "otf-low": {"unshared paired": partial(unshared, slicing=paired), "shared shards": shared_shards},
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
