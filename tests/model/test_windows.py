"""Windows: where instances begin and end, which of them hold a row, and how many there are."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.model.time import MAX_DURATION_US
from headrace.model.windows import MAX_OVERLAP, AnyWindow, Interval, SlicedWindow, Window, sliced_window

times = st.integers(-(10**6), 10**6)


@st.composite
def plain_windows(draw: st.DrawFn) -> Window:
    return Window(draw(st.integers(1, 200)), draw(st.integers(1, 50)), draw(st.integers(-1_000, 1_000)))


sliced_windows = st.builds(
    SlicedWindow, st.lists(st.integers(1, 40), min_size=1, max_size=5).map(tuple), st.integers(-100, 100)
)
windows: st.SearchStrategy[AnyWindow] = plain_windows() | sliced_windows


# range 12, slide 5:    (-7......5]            ends aligned: every multiple of 5 is an end
#                            (-2......10]
#                                 (3......15]
def test_ends_are_aligned_and_intervals_half_open() -> None:
    window = Window(12, 5)
    assert list(window.containing(3)) == [Interval(-7, 5), Interval(-2, 10), Interval(3, 15)]
    assert list(window.containing(2)) == [Interval(-7, 5), Interval(-2, 10)]
    assert list(window.containing(5)) == [Interval(-2, 10), Interval(3, 15)]


def test_starts_are_aligned_by_an_offset() -> None:
    window = Window.aligned_at_start(12, 5)
    assert window == Window(12, 5, 2)
    assert [start for start, _ in window.containing(0)] == [-10, -5, 0]
    assert Window.aligned_at_start(12, 5, 1) == Window(12, 5, 3)
    assert Window.aligned_at_start(15, 5) == Window(15, 5)


@given(plain_windows())
def test_the_offset_is_kept_below_the_slide(window: Window) -> None:
    assert 0 <= window.offset_us < window.slide_us
    assert window == Window(window.range_us, window.slide_us, window.offset_us + 7 * window.slide_us)


@given(plain_windows(), times)
def test_a_row_lies_in_every_instance_that_holds_its_time(window: Window, time_us: int) -> None:
    found = list(window.containing(time_us))
    around = range(time_us - window.range_us - window.slide_us, time_us + window.range_us + window.slide_us + 1)
    ends = [end for end in around if (end - window.offset_us) % window.slide_us == 0]
    assert found == [Interval(end - window.range_us, end) for end in ends if end - window.range_us <= time_us < end]


@given(sliced_windows, times)
def test_a_row_lies_in_exactly_one_slice(window: SlicedWindow, time_us: int) -> None:
    (found,) = window.containing(time_us)
    assert found.start_us <= time_us < found.end_us
    assert found.end_us - found.start_us in window.slices_us


@given(windows, times, st.integers(0, 300))
def test_instances_between_two_times(window: AnyWindow, after_us: int, span: int) -> None:
    until_us = after_us + span
    found = list(window.ending_between(after_us, until_us))
    assert all(after_us < interval.end_us <= until_us for interval in found)
    assert [interval.end_us for interval in found] == sorted({interval.end_us for interval in found})
    assert window.count_ending(after_us, until_us) == len(found)


@given(windows, times, st.integers(0, 200), st.integers(0, 200))
def test_what_ends_in_two_spans_ends_in_both_together(window: AnyWindow, start: int, first: int, second: int) -> None:
    middle, end = start + first, start + first + second
    parts = [*window.ending_between(start, middle), *window.ending_between(middle, end)]
    assert list(window.ending_between(start, end)) == parts


@given(windows, times)
def test_the_instances_that_hold_a_row_are_among_those_that_end_after_it(window: AnyWindow, time_us: int) -> None:
    holding = list(window.containing(time_us))
    if holding:
        later = list(window.ending_between(time_us, holding[-1].end_us))
        assert set(holding) <= set(later)


def test_slices_repeat_from_the_offset_on() -> None:
    window = SlicedWindow((12, 3), 1)
    assert list(window.ending_between(0, 31)) == [
        Interval(-2, 1),
        Interval(1, 13),
        Interval(13, 16),
        Interval(16, 28),
        Interval(28, 31),
    ]


def test_slices_are_kept_in_their_shortest_form() -> None:
    assert SlicedWindow((12, 3, 12, 3)) == SlicedWindow((12, 3))
    assert SlicedWindow((12, 3, 12)) != SlicedWindow((12, 3))
    assert SlicedWindow((12, 3), 16) == SlicedWindow((12, 3), 1)
    assert sliced_window((5, 5, 5), 7) == Window(5, 5, 2)
    assert sliced_window((5, 6)) == SlicedWindow((5, 6))


def test_many_slices_are_no_attack() -> None:
    assert len(SlicedWindow((1,) * 30_000 + (2,)).slices_us) == 30_001


@pytest.mark.parametrize(
    ("range_us", "slide_us"),
    [(0, 1), (1, 0), (-1, 1), (1, -1), (MAX_DURATION_US + 1, 1), (1, MAX_DURATION_US + 1), (MAX_OVERLAP + 1, 1)],
)
def test_windows_that_can_not_be(range_us: int, slide_us: int) -> None:
    with pytest.raises(ValueError, match=r"a window needs|use a longer slide"):
        Window(range_us, slide_us)


def test_the_bounds_themselves_are_allowed() -> None:
    assert Window(MAX_OVERLAP, 1).range_us == MAX_OVERLAP
    assert Window(MAX_DURATION_US, MAX_DURATION_US).slide_us == MAX_DURATION_US


@pytest.mark.parametrize("slices", [(), (0,), (1, 0), (-1, 2), (MAX_DURATION_US, 1)])
def test_slices_that_can_not_be(slices: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match="slices"):
        SlicedWindow(slices)
