"""Numbered instances against those that the model enumerates."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from headrace.model.windows import AnyWindow, SlicedWindow, Window
from headrace.windows import bounds_of, instances_of, paired_boundaries, slices_between, slices_holding

windows: st.SearchStrategy[AnyWindow] = st.one_of(
    st.builds(Window, st.integers(1, 30), st.integers(1, 20), st.integers(0, 20)),
    st.builds(SlicedWindow, st.lists(st.integers(1, 9), min_size=1, max_size=4).map(tuple), st.integers(0, 30)),
)


@given(windows, windows, st.integers(-50, 50))
def test_a_slice_is_in_the_instances_that_hold_it(window: AnyWindow, other: AnyWindow, start_us: int) -> None:
    slices = slices_between([paired_boundaries(window), paired_boundaries(other)], start_us, start_us + 40)
    first, last = instances_of(window, slices.starts_us, slices.ends_us)
    for place, (begin, end) in enumerate(zip(slices.starts_us.tolist(), slices.ends_us.tolist(), strict=True)):
        starts, ends = bounds_of(window, np.arange(first[place], last[place] + 1))
        holding = [each for each in window.containing(begin) if each.start_us <= begin and end <= each.end_us]
        assert list(zip(starts.tolist(), ends.tolist(), strict=True)) == [tuple(each) for each in holding]


@given(st.lists(windows, min_size=1, max_size=3), st.lists(st.integers(-300, 300)), st.booleans())
def test_each_time_finds_its_slice(chosen: list[AnyWindow], times: list[int], far: bool) -> None:
    """Whether all slices of the span are made or, for times far from each other, only those that are needed."""
    times_us = np.array([time * (10**12 if far else 1) for time in times], dtype=np.int64)
    parts = [paired_boundaries(window) for window in chosen]
    slices, codes = slices_holding(parts, times_us)
    starts, ends = slices.starts_us[codes], slices.ends_us[codes]
    assert (starts <= times_us).all()
    assert (times_us < ends).all()
    for time_us, start_us, end_us in zip(times_us.tolist(), starts.tolist(), ends.tolist(), strict=True):
        exact = slices_between(parts, time_us, time_us + 1)
        assert (exact.starts_us.tolist(), exact.ends_us.tolist()) == ([start_us], [end_us])
