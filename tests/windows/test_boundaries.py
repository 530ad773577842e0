"""Boundaries: the papers' examples, and properties on random windows."""

from __future__ import annotations

from itertools import combinations, pairwise, product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.counts import cut_into_panes
from headrace.model.windows import AnyWindow, Interval, SlicedWindow, Window
from headrace.windows import (
    Boundaries,
    boundaries_between,
    compose,
    horizon,
    paired_boundaries,
    slice_vector,
    slices_between,
)

plain_windows = st.builds(Window, st.integers(1, 40), st.integers(1, 30), st.integers(0, 50))
sliced_windows = st.builds(
    SlicedWindow, st.lists(st.integers(1, 9), min_size=1, max_size=4).map(tuple), st.integers(0, 50)
)
windows = st.one_of(plain_windows, sliced_windows)
times = st.integers(-200, 200)


def instances(window: AnyWindow, start_us: int, end_us: int) -> list[Interval]:
    """The instances that lie in [start, end)."""
    return [instance for instance in window.ending_between(start_us, end_us) if instance.start_us >= start_us]


# 0              12 15             27 30
# |---------------|--|--------------|--|      paired: (12, 3)
# |--|--|--|--|--|--|--|--|--|--|--|--|       paned: 3 each
#             [------------------)            an instance of W[18, 15]
def test_paired_and_paned_of_the_papers_window() -> None:
    window = Window(18, 15)
    assert slice_vector(paired_boundaries(window), 15) == (12, 3)
    assert slice_vector(cut_into_panes(window), 15) == (3, 3, 3, 3, 3)


def test_composition_of_the_papers_windows() -> None:
    """HIFI 4.2: U(12, 3) with V(6, 3) over 45; the vector printed in OTF 3.2.1 is a misprint."""
    parts = compose([paired_boundaries(SlicedWindow((12, 3))), paired_boundaries(SlicedWindow((6, 3)))])
    cuts = boundaries_between(parts, 0, 45)
    assert np.diff(cuts, prepend=0).tolist() == [6, 3, 3, 3, 3, 6, 3, 3, 3, 3, 6, 3]


def test_one_slice_per_period_if_the_range_is_a_multiple_of_the_slide() -> None:
    assert paired_boundaries(Window(15, 5)) == Boundaries(5, (0,))


@given(windows)
def test_paired_never_has_more_slices_than_paned(window: AnyWindow) -> None:
    period, offset = paired_boundaries(window).period_us, window.offset_us
    assert len(slice_vector(paired_boundaries(window), period, offset)) <= len(
        slice_vector(cut_into_panes(window), period, offset)
    )


@given(st.lists(windows, min_size=1, max_size=4), times, st.integers(0, 100))
def test_boundaries_between_are_those_of_each_window(chosen: list[AnyWindow], start: int, length: int) -> None:
    parts = [paired_boundaries(window) for window in chosen]
    expected = [
        time
        for time in range(start + 1, start + length + 1)
        if any(time % part.period_us in part.residues_us for part in parts)
    ]
    assert boundaries_between(compose(parts), start, start + length).tolist() == expected


@given(st.lists(plain_windows, min_size=1, max_size=3), times)
def test_windows_can_be_put_together_from_slices(chosen: list[Window], start: int) -> None:
    parts = compose(paired_boundaries(window) for window in chosen)
    slices = slices_between(parts, start, start + 120)
    assert slices.starts_us[0] <= start
    assert slices.ends_us[-1] >= start + 120
    assert slices.starts_us[1:].tolist() == slices.ends_us[:-1].tolist()
    for window in chosen:
        for instance in instances(window, start, start + 120):
            assert instance.start_us in slices.starts_us
            assert instance.end_us in slices.ends_us


@given(st.lists(st.tuples(st.integers(1, 12), st.integers(2, 12)), min_size=1, max_size=3))
def test_no_composition_has_fewer_slices_than_the_paired_one(sizes: list[tuple[int, int]]) -> None:
    """OTF theorem 1, by brute force: any set of cuts that lets every window be put together holds the paired ones."""
    chosen = [Window(range_us, slide_us) for range_us, slide_us in sizes]
    least = set(boundaries_between(compose(paired_boundaries(window) for window in chosen), 0, 24).tolist())
    needed = {
        bound for window in chosen for instance in window.ending_between(0, 60) for bound in instance if 0 < bound <= 24
    }
    assert least == needed


@given(st.integers(2, 5), st.lists(st.integers(1, 12), min_size=1, max_size=3))
def test_no_composition_of_sliced_windows_has_fewer_slices(slide_us: int, ranges_us: list[int]) -> None:
    """OTF theorem 1 to the letter: all sliced windows of each window, composed in all ways."""
    chosen = [Window(range_us, slide_us) for range_us in ranges_us]
    fewest = len(boundaries_between(compose(paired_boundaries(window) for window in chosen), 0, slide_us))
    cuts = [frozenset(cut) for size in range(slide_us + 1) for cut in combinations(range(slide_us), size)]
    sliced = [[cut for cut in cuts if can_be_put_together(window, cut)] for window in chosen]
    assert min(len(frozenset().union(*ways)) for ways in product(*sliced)) == fewest


def can_be_put_together(window: Window, cuts: frozenset[int]) -> bool:
    """Every instance begins and ends at a cut; cuts repeat with each slide."""
    instances = window.ending_between(0, 2 * window.slide_us)
    return all(bound % window.slide_us in cuts for instance in instances for bound in instance)


@given(st.lists(windows, min_size=1, max_size=3), times)
def test_nothing_before_the_horizon_is_in_an_open_window(chosen: list[AnyWindow], watermark: int) -> None:
    first = horizon(chosen, watermark)
    assert first is not None
    open_instances = [each for window in chosen for each in window.ending_between(watermark, watermark + 100)]
    assert first == min(instance.start_us for instance in open_instances)


def test_no_windows_need_nothing() -> None:
    assert horizon([], 0) is None


def test_a_thousand_windows_without_a_common_divisor_stay_small() -> None:
    """Their least common multiple has thousands of digits; a span of boundaries has at most two per instance."""
    primes = [n for n in range(1_000, 12_000) if all(n % d for d in range(2, int(n**0.5) + 1))][:1_000]
    chosen = [Window(range_us, slide_us) for range_us, slide_us in pairwise([*primes, 12_007])]
    parts = compose(paired_boundaries(window) for window in chosen)
    cuts = boundaries_between(parts, 0, 360_000)
    assert len(cuts) <= sum(2 * (360_000 // window.slide_us + 1) for window in chosen)
    assert (np.diff(cuts) > 0).all()


@pytest.mark.parametrize(("period_us", "residues_us"), [(5, ()), (0, (0,)), (-5, (0,)), (5.0, (0,)), (5, (0.5,))])
def test_boundaries_that_are_none_are_refused(period_us: int, residues_us: tuple[int, ...]) -> None:
    """Compiled loops would read beyond their arrays."""
    with pytest.raises(ValueError, match="no boundaries"):
        Boundaries(period_us, residues_us)
