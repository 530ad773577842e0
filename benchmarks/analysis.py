"""The papers' formulas: what sharing costs and saves, by windows, rates and numbers of fragments [OTF 3-4, HIFI 3-5].

Costs are aggregate operations per second where rates go in, and per period or window where rows go in. The papers take
every paired window to have two slices per slide, the worst case; we take as many as it has.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from headrace.datasets.workloads.otf import windows as otf_windows
from headrace.model.windows import AnyWindow, Window
from headrace.windows import Boundaries, boundaries_between, paired

Slicing = Callable[[AnyWindow], Boundaries]

SECOND_US = 1_000_000
LONG_SPAN_S = 1_000_000
"""Over this span slices are counted: the slides' least common multiple may be longer than any stream."""


@dataclass(frozen=True, slots=True)
class Cost:
    partial: float
    final: float

    @property
    def total(self) -> float:
        return self.partial + self.final


@dataclass(frozen=True, slots=True)
class Load:
    """Queries' windows, and per second the rows (lambda) and the slices that all share (OTF's gamma, HIFI's beta)."""

    windows: tuple[Window, ...]
    rows_per_second: float
    slices_per_second: float

    @property
    def overlap(self) -> float:
        """The open instances of all queries: r / s, summed."""
        return sum(window.range_us / window.slide_us for window in self.windows)

    @property
    def own_slices_combined(self) -> float:
        """Per second, without sharing: 2 r / s^2, summed."""
        return sum(combined_per_second(window, paired) for window in self.windows)

    @property
    def results_per_second(self) -> float:
        """1 / s, summed."""
        return sum(SECOND_US / window.slide_us for window in self.windows)


def load_of(windows: Sequence[Window], rows_per_second: float, span_s: int = LONG_SPAN_S) -> Load:
    return Load(tuple(windows), rows_per_second, float(slices_per_second(windows, paired, span_s)[-1]))


# Slices


def slices_per_slide(window: Window, slicing: Slicing) -> int:
    boundaries = slicing(window)
    return window.slide_us // boundaries.period_us * len(boundaries.residues_us)


def combined_per_second(window: Window, slicing: Slicing) -> float:
    """(slices per second) (r / s)."""
    slices = slices_per_slide(window, slicing) * SECOND_US / window.slide_us
    return slices * window.range_us / window.slide_us


def slices_per_second(
    windows: Sequence[Window], slicing: Slicing = paired, span_s: int = LONG_SPAN_S
) -> npt.NDArray[np.float64]:
    """The rate of the composed slices of the first 1, 2, ... windows, counted over a span from the epoch on."""
    runs = [boundaries_between([slicing(window)], 0, span_s * SECOND_US) for window in windows]
    owner = np.repeat(np.arange(len(runs)), [len(run) for run in runs])
    _, first = np.unique(np.concatenate(runs), return_index=True)
    return np.cumsum(np.bincount(owner[first], minlength=len(runs))) / span_s


# Slices of one query, and of many [OTF 3.1, 3.2]


def sliced(window: Window, rows: float, slicing: Slicing) -> Cost:
    """OTF table 2, per slide: `rows`, and r / g for paned or 2 r / s for paired windows."""
    return Cost(rows, math.ceil(slices_per_slide(window, slicing) * window.range_us / window.slide_us))


def unshared_slices(load: Load) -> Cost:
    """OTF table 3, first line, per second."""
    final = sum(sliced(window, 0, paired).final * SECOND_US / window.slide_us for window in load.windows)
    return Cost(len(load.windows) * load.rows_per_second, final)


def shared_slices(load: Load) -> Cost:
    """OTF table 3, second line, per second."""
    return Cost(load.rows_per_second, load.slices_per_second * load.overlap)


def break_even_rate(load: Load) -> float:
    """Above it sharing takes less time [OTF inequality 1], below it not sharing does [HIFI inequality 3]."""
    if len(load.windows) < 2:
        raise ValueError("one query alone has nothing to share")
    return (load.slices_per_second * load.overlap - load.own_slices_combined) / (len(load.windows) - 1)


# Fragments of one window [OTF 4.3.3]


def unshared_fragments(rows: float, queries_per_row: float) -> Cost:
    """OTF table 5, first line; the queries that a row satisfies are alpha."""
    return Cost(0, rows * queries_per_row)


def shared_fragments(rows: float, fragments: float, queries_per_fragment: float) -> Cost:
    """OTF table 5, second line; the fragments are k, the queries that one belongs to beta."""
    return Cost(rows, fragments * queries_per_fragment)


# Figures


@dataclass(frozen=True, slots=True)
class Point:
    """Costs at so many queries or fragments."""

    at: int
    shared: float
    unshared: float


TRADES_PER_SECOND = 375.0
LOW_RATE = 0.0005
"""Rows per second of figure 4 [OTF 3.2.2]."""

ROWS_OF_TEN_MINUTES = 189_445
FRAGMENTS_SEEN = 12_068
QUERIES_PER_ROW = 76
"""|T|, k of the actual workload, and alpha = beta of figure 10 [OTF 4.3.3]."""


def drawn_windows(count: int, seed: int) -> tuple[Window, ...]:
    """Different windows with ranges of 600 to 900 and slides of 300 to 600 whole seconds [OTF 6.1]."""
    drawn = otf_windows(count, seed)
    return tuple(Window(each.range_s * SECOND_US, each.slide_s * SECOND_US) for each in drawn)


def figure_4(rows_per_second: float, queries: int = 256, seed: int = 1) -> tuple[Point, ...]:
    """OTF figure 4, per second: by number of queries, each set one query larger than the last."""
    windows = drawn_windows(queries, seed)
    rates = slices_per_second(windows).tolist()
    loads = [Load(windows[:count], rows_per_second, rate) for count, rate in enumerate(rates, 1)]
    return tuple(Point(len(load.windows), shared_slices(load).total, unshared_slices(load).total) for load in loads)


def figure_10(numbers_of_fragments: Iterable[int] | None = None) -> tuple[Point, ...]:
    """OTF figure 10: by number of fragments, from 1 to one per row."""
    chosen = np.linspace(1, ROWS_OF_TEN_MINUTES, 100).astype(int).tolist()
    unshared = unshared_fragments(ROWS_OF_TEN_MINUTES, QUERIES_PER_ROW).total
    return tuple(
        Point(each, shared_fragments(ROWS_OF_TEN_MINUTES, each, QUERIES_PER_ROW).total, unshared)
        for each in (chosen if numbers_of_fragments is None else numbers_of_fragments)
    )


def unshared_wins_from(points: Sequence[Point]) -> int | None:
    """The first point from which on sharing is always dearer, or None if it is not so at the last."""
    wins = None
    for point in reversed(points):
        if point.unshared >= point.shared:
            break
        wins = point.at
    return wins


# Two levels of nodes [HIFI 3.3, 4, 5]


@dataclass(frozen=True, slots=True)
class Resources:
    """Operations per second, and aggregate states that are kept."""

    time: float
    space: float


def sliced_resources(window: Window, rows_per_second: float, slicing: Slicing) -> Resources:
    """HIFI table 1."""
    return Resources(rows_per_second + combined_per_second(window, slicing), 1 + window.range_us / window.slide_us)


def unshared_resources(load: Load) -> Resources:
    """HIFI table 2, subqueries and superqueries together."""
    queries = len(load.windows)
    return Resources(queries * load.rows_per_second + load.own_slices_combined, queries + load.overlap)


def shared_resources(load: Load) -> Resources:
    """HIFI table 3, the subquery and the superqueries together."""
    return Resources(load.rows_per_second + load.slices_per_second * load.overlap, 1 + load.overlap)


@dataclass(frozen=True, slots=True)
class Plan:
    """Which aggregates the lower node computes; `bandwidth` is what it sends per second, in rows or partials."""

    push_down: str
    resources: Callable[[Load], Resources]
    bandwidth: Callable[[Load], float]


def own_slices_per_second(load: Load) -> float:
    """2 / s, summed."""
    return sum(slices_per_slide(window, paired) * SECOND_US / window.slide_us for window in load.windows)


PLANS: Mapping[int, Plan] = {
    1: Plan("none", unshared_resources, lambda load: len(load.windows) * load.rows_per_second),
    2: Plan("partial", unshared_resources, own_slices_per_second),
    3: Plan("full", unshared_resources, lambda load: load.results_per_second),
    4: Plan("none", shared_resources, lambda load: load.rows_per_second),
    5: Plan("partial", shared_resources, lambda load: load.slices_per_second),
    6: Plan("full", shared_resources, lambda load: load.results_per_second),
}
"""HIFI figure 6 and table 4, by the paper's numbers."""


def shared_communication_pays(load: Load) -> bool:
    """HIFI inequality 4: plan (5) sends less than plan (6)."""
    return load.slices_per_second < load.results_per_second
