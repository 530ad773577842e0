"""Compiled searches against the plain ones."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from headrace.kernel.level1.cells import codes_of, slice_codes
from headrace.kernel.slots import Keys, find_slots
from headrace.model.expressions import ColumnRef
from headrace.model.types import BIGINT, DOUBLE
from headrace.model.windows import Window
from headrace.predicates import Cut, Dimension, Kind
from headrace.predicates.dimensions import sorted_cuts
from headrace.windows import compose, paired_boundaries, slices_holding

doubles = st.one_of(st.floats(), st.floats(-3, 3).map(lambda value: round(value, 1)))
integers = st.one_of(st.integers(-(2**63), 2**63 - 1), st.integers(-5, 5))


@given(
    st.lists(st.builds(Cut, doubles.filter(lambda each: each == each), st.booleans())), st.lists(st.none() | doubles)
)
def test_doubles_find_their_cells(cuts: list[Cut], values: list[float | None]) -> None:
    dimension = Dimension(ColumnRef("S", "x", DOUBLE), Kind.INTERVAL, sorted_cuts(cuts))
    column = pa.array(values, pa.float64())
    assert codes_of(dimension, column).tolist() == [dimension.cell_of(value) for value in values]


@given(st.lists(st.builds(Cut, integers)), st.lists(st.none() | integers))
def test_whole_numbers_find_their_cells(cuts: list[Cut], values: list[int | None]) -> None:
    dimension = Dimension(ColumnRef("S", "x", BIGINT), Kind.INTERVAL, sorted_cuts(cuts))
    column = pa.array(values, pa.int64())
    assert codes_of(dimension, column).tolist() == [dimension.cell_of(value) for value in values]


@given(
    st.lists(st.builds(Window, st.integers(1, 30), st.integers(1, 20), st.integers(0, 20)), min_size=1, max_size=3),
    st.lists(st.integers(-500, 500)),
)
def test_times_find_their_slices(windows: list[Window], times: list[int]) -> None:
    boundaries = compose(paired_boundaries(window) for window in windows)
    times_us = np.array(times, dtype=np.int64)
    slices, codes = slice_codes(boundaries, times_us)
    exact, expected = slices_holding(boundaries, times_us)
    assert slices.starts_us[codes].tolist() == exact.starts_us[expected].tolist()
    assert slices.ends_us[codes].tolist() == exact.ends_us[expected].tolist()


@given(st.lists(st.integers(-(2**62), 2**62)), st.integers(1, 2**62))
def test_equal_keys_share_a_slot(keys: list[int], size: int) -> None:
    for values in ([key % size for key in keys], keys):
        found = find_slots(np.array(values, dtype=np.int64), size if values is not keys else 2**62)
        assert [values[row] for row in found.first_rows] == list(dict.fromkeys(values))
        assert [values[found.first_rows[slot]] for slot in found.of_row] == values


@given(st.lists(st.tuples(*[st.integers(0, 2**31 - 2)] * 4)))
def test_keys_never_run_out_of_bits(rows: list[tuple[int, ...]]) -> None:
    keys = Keys(len(rows))
    for place in range(4):
        codes = np.array([row[place] for row in rows], dtype=np.int32)
        distinct, small = np.unique(codes, return_inverse=True)
        keys.size = max(keys.size, 2**61)  # as if there had been many codes before
        keys.extend(small.astype(np.int32), max(1, len(distinct)))
    slots = keys.slots()
    assert [rows[slots.first_rows[slot]] for slot in slots.of_row] == rows
