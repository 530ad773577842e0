"""Counts of operations against counting one by one, and against each other."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.counts import (
    PAPER,
    SCHEMES,
    Counts,
    Subject,
    count_unshared,
    cut_into_panes,
    fragments_forwarded,
    shared_fragments,
    shared_shards,
    shared_slices,
    subject_of,
    unshared_tumbling,
)
from headrace.datasets.workloads.otf import windows as otf_windows
from headrace.expressions.evaluation import Evaluation
from headrace.model.time import SECOND_US
from headrace.model.windows import AnyWindow, Interval, SlicedWindow, Window
from headrace.planner.statistics import BatchSample
from headrace.sql import parse_script
from headrace.windows import paired_boundaries

IsCut = Callable[[Window, int], bool]

spans = st.builds(lambda start, length: Interval(start, start + length), st.integers(-30, 30), st.integers(1, 60))
windows = st.builds(Window, st.integers(1, 40), st.integers(1, 30), st.integers(0, 30))
tumbling = st.builds(lambda length, offset: Window(length, length, offset), st.integers(1, 30), st.integers(0, 30))


@st.composite
def subjects(
    draw: st.DrawFn, one_window: st.SearchStrategy[Window] | None = None, one_predicate: bool = False
) -> Subject:
    span, queries, cells = draw(spans), draw(st.integers(1, 4)), draw(st.integers(1, 5))
    times = draw(st.lists(st.integers(span.start_us, span.end_us - 1), max_size=25))
    chosen = [draw(one_window)] * queries if one_window is not None else [draw(windows) for _ in range(queries)]
    columns = 1 if one_predicate else queries
    truth = np.array([[draw(st.booleans()) for _ in range(columns)] for _ in range(cells)])
    cell_of_row = [draw(st.integers(0, cells - 1)) for _ in times]
    return Subject(
        span,
        np.array(times, dtype=np.int64),
        tuple(chosen),
        np.array(cell_of_row, dtype=np.intp),
        np.broadcast_to(truth, (cells, queries)),
    )


# One by one


def paired_cut(window: Window, time: int) -> bool:
    return (time - window.offset_us) % window.slide_us in (0, -window.range_us % window.slide_us)


def paned_cut(window: Window, time: int) -> bool:
    return (time - window.offset_us) % math.gcd(window.range_us, window.slide_us) == 0


def plain(windows: tuple[AnyWindow, ...]) -> list[Window]:
    return [window for window in windows if isinstance(window, Window)]


def slices_in_instances(window: Window, span: Interval, cutting: list[Window], is_cut: IsCut) -> int:
    count = 0
    for end in range(span.start_us + 1, span.end_us + 1):
        if (end - window.offset_us) % window.slide_us == 0:
            for time in range(max(span.start_us, end - window.range_us) + 1, end + 1):
                count += any(is_cut(other, time) for other in cutting)
    return count


def signatures(subject: Subject) -> Iterator[tuple[int, tuple[bool, ...]]]:
    for time, cell in zip(subject.times_us.tolist(), subject.cell_of_row.tolist(), strict=True):
        yield time, tuple(subject.truth[cell].tolist())


def slow_forwarded(subject: Subject) -> int:
    shards = set()
    for time, signature in signatures(subject):
        end = time + 1
        while not any(paired_cut(window, end) for window in plain(subject.windows)):
            end += 1
        if end <= subject.span.end_us:
            shards.add((end, signature))
    return sum(sum(signature) for _, signature in shards)


def slow_wanted(subject: Subject) -> int:
    return sum(any(signature) for _, signature in signatures(subject))


def slow_passed(subject: Subject) -> int:
    return sum(sum(signature) for _, signature in signatures(subject))


def slow_combined(subject: Subject, is_cut: IsCut) -> int:
    chosen = plain(subject.windows)
    return sum(slices_in_instances(window, subject.span, chosen, is_cut) for window in chosen)


@given(subjects())
def test_unshared_one_by_one(subject: Subject) -> None:
    for slicing, is_cut in ((paired_boundaries, paired_cut), (cut_into_panes, paned_cut)):
        chosen = plain(subject.windows)
        final = sum(slices_in_instances(window, subject.span, [window], is_cut) for window in chosen)
        assert count_unshared(subject, slicing) == Counts(slow_passed(subject), final)


@given(subjects(one_predicate=True))
def test_shared_slices_one_by_one(subject: Subject) -> None:
    for slicing, is_cut in ((paired_boundaries, paired_cut), (cut_into_panes, paned_cut)):
        assert shared_slices(subject, slicing) == Counts(slow_wanted(subject), slow_combined(subject, is_cut))


@given(subjects(one_window=tumbling))
def test_shared_fragments_one_by_one(subject: Subject) -> None:
    assert shared_fragments(subject) == Counts(slow_wanted(subject), slow_forwarded(subject))
    assert unshared_tumbling(subject) == Counts(0, slow_passed(subject))


@given(subjects())
def test_shared_shards_one_by_one(subject: Subject) -> None:
    final = slow_forwarded(subject) + slow_combined(subject, paired_cut)
    assert shared_shards(subject) == Counts(slow_wanted(subject), final)


# Among each other


@given(subjects(one_predicate=True))
def test_paired_never_takes_more_than_paned(subject: Subject) -> None:
    assert count_unshared(subject, paired_boundaries).final <= count_unshared(subject, cut_into_panes).final
    assert shared_slices(subject, paired_boundaries).final <= shared_slices(subject, cut_into_panes).final
    assert count_unshared(subject, paired_boundaries).final <= shared_slices(subject, paired_boundaries).final


@given(subjects(one_predicate=True))
def test_with_one_predicate_shards_are_slices_that_go_to_every_query(subject: Subject) -> None:
    shards, slices = shared_shards(subject), shared_slices(subject, paired_boundaries)
    cuts = subject.cuts(paired_boundaries)
    wanted = subject.times_us[subject.truth[subject.cell_of_row, 0]]
    filled = {place for place in np.searchsorted(cuts, wanted, side="right").tolist() if place < len(cuts)}
    assert shards.partial == slices.partial
    assert shards.final == slices.final + len(filled) * len(subject.windows)


@given(subjects(one_window=tumbling))
def test_with_one_tumbling_window_shards_are_fragments_and_a_slice_per_window(subject: Subject) -> None:
    shards, alone = shared_shards(subject), shared_fragments(subject)
    assert shards.partial == alone.partial
    assert shards.final == alone.final + count_unshared(subject, paired_boundaries).final


@given(subjects())
def test_cells_that_pass_the_same_queries_count_as_one(subject: Subject) -> None:
    doubled = Subject(
        subject.span,
        subject.times_us,
        subject.windows,
        subject.cell_of_row + len(subject.truth) * (np.arange(len(subject.times_us)) % 2),
        np.concatenate([subject.truth, subject.truth]),
    )
    assert shared_shards(doubled) == shared_shards(subject)
    assert count_unshared(doubled, paired_boundaries) == count_unshared(subject, paired_boundaries)


# 0       5       10      15      20       rows at 1 and 12, span [0, 20)
# |-------|-------|-------|-------|        W[15, 10]: boundaries every 5
# -------instance-)                        clipped: 2 slices
#         [-------instance--------)        3 slices
def test_an_instance_that_began_before_the_span_has_the_slices_since() -> None:
    one = Subject(
        Interval(0, 20), np.array([1, 12]), (Window(15, 10),), np.zeros(2, dtype=np.intp), np.ones((1, 1), bool)
    )
    assert count_unshared(one, paired_boundaries) == Counts(2, 2 + 3)
    assert fragments_forwarded(one, one.cuts(paired_boundaries)) == 2
    assert shared_shards(one) == Counts(2, 2 + 5)
    assert shared_shards(one).total == 9


def test_no_rows_and_no_cells() -> None:
    none = Subject(
        Interval(0, 20), np.empty(0, np.int64), (Window(10, 10),), np.empty(0, np.intp), np.empty((0, 1), bool)
    )
    assert shared_fragments(none) == Counts(0, 0)
    assert shared_shards(none) == Counts(0, 2)


def test_plans_refuse_queries_that_they_cannot_share() -> None:
    two_predicates = Subject(
        Interval(0, 20), np.array([1]), (Window(10, 5), SlicedWindow((2, 3))), np.array([0]), np.array([[True, False]])
    )
    with pytest.raises(ValueError, match="same predicate"):
        shared_slices(two_predicates, paired_boundaries)
    with pytest.raises(ValueError, match="same tumbling window"):
        shared_fragments(two_predicates)
    with pytest.raises(ValueError, match="in the span"):
        Subject(Interval(0, 20), np.array([20]), (), np.array([0]), np.ones((1, 0), bool))
    with pytest.raises(ValueError, match="a time and a cell"):
        Subject(Interval(0, 20), np.array([2]), (), np.array([0, 0]), np.ones((1, 0), bool))


# From queries and rows

SCRIPT = """
CREATE STREAM S (t TIMESTAMP, a BIGINT, x DOUBLE) EVENT TIME t;
CREATE QUERY one AS SELECT count(*) FROM S [RANGE '6 s' SLIDE '4 s'] WHERE a > 3 AND x < 0.5;
CREATE QUERY two AS SELECT count(*) FROM S [RANGE '5 s' SLIDE '5 s'] WHERE a = 2 OR x IS NULL;
CREATE QUERY three AS SELECT count(*) FROM S [RANGE '5 s' SLIDE '5 s'];
"""


def sample(rows: int) -> BatchSample:
    rng = np.random.default_rng(1)
    times = np.sort(rng.integers(1_200_000, 38_700_000, rows))
    columns = {
        ("S", "a"): pa.array(rng.integers(0, 8, rows)),
        ("S", "x"): pa.array(rng.random(rows), mask=rng.random(rows) < 0.1),
    }
    return BatchSample(Evaluation(columns, rows), times, rows)


def test_subject_of_queries_over_all_rows() -> None:
    script, rows = parse_script(SCRIPT), sample(500)
    subject = subject_of({named.name: named.query for named in script.queries}, rows)
    columns = [rows.evaluation.columns["S", name].to_pylist() for name in ("a", "x")]
    expected = [[a > 3 and x is not None and x < 0.5, a == 2 or x is None, True] for a, x in zip(*columns, strict=True)]
    assert subject.truth[subject.cell_of_row].tolist() == expected
    assert subject.windows == (Window(6_000_000, 4_000_000), Window(5_000_000, 5_000_000), Window(5_000_000, 5_000_000))
    assert subject.span == Interval(1_000_000, 39_000_000)


def test_subject_of_no_rows_and_of_a_given_span() -> None:
    queries = {named.name: named.query for named in parse_script(SCRIPT).queries}
    assert subject_of(queries, sample(0)).span == Interval(0, 0)
    assert shared_shards(subject_of(queries, sample(0))) == Counts(0, 0)
    assert subject_of(queries, sample(9), Interval(0, 40_000_000)).span.end_us == 40_000_000


# The paper's counts


def test_the_papers_schemes_are_counted_here() -> None:
    for workload, schemes in PAPER.items():
        assert set(schemes) <= set(SCHEMES[workload])


def test_the_papers_totals() -> None:
    assert PAPER["otf-predicates"]["shared fragments"].total == 7_771_956
    assert PAPER["otf-regular"]["unshared paired"].total == 100_909_915
    assert PAPER["otf-regular"]["shared shards"].total == 3_395_132
    assert PAPER["otf-low"]["shared shards"].total == 65_278_107
    assert PAPER["otf-low"]["unshared paired"].total == 120_679_022
    assert PAPER["otf-windows"]["unshared paired"].partial == 256 * PAPER["otf-windows"]["shared paired"].partial


def an_hour(seed: int) -> Subject:
    """Windows without rows: the final operations of slices do not depend on rows. All windows begin with the hour."""
    windows = tuple(Window(each.range_s * SECOND_US, each.slide_s * SECOND_US) for each in otf_windows(256, seed))
    no_rows = np.empty(0, np.int64)
    return Subject(Interval(0, 3_600 * SECOND_US), no_rows, windows, no_rows, np.ones((1, 256), bool))


def test_the_papers_final_operations_over_windows() -> None:
    """OTF 6.2, means of ten sets of queries. Shared ones agree if a slice costs each query one operation more."""
    hours = [an_hour(seed) for seed in range(1, 11)]
    paper = PAPER["otf-windows"]
    alone = np.mean([count_unshared(hour, paired_boundaries).final for hour in hours])
    assert alone == pytest.approx(paper["unshared paired"].final, rel=0.03)
    for slicing, scheme in ((paired_boundaries, "shared paired"), (cut_into_panes, "shared paned")):
        combined = np.mean([shared_slices(hour, slicing).final for hour in hours])
        forwarded = np.mean([len(hour.cuts(slicing)) * len(hour.windows) for hour in hours])
        assert combined < 0.65 * paper[scheme].final
        assert combined + forwarded == pytest.approx(paper[scheme].final, rel=0.03)


@given(subjects(one_window=tumbling, one_predicate=True))
def test_every_scheme_of_the_table_counts(subject: Subject) -> None:
    for schemes in SCHEMES.values():
        counted = [count(subject) for count in schemes.values()]
        assert len({each.partial for each in counted}) <= 2
        assert all(each.total >= 0 for each in counted)
