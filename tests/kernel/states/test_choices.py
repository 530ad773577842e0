"""min_by, max_by, bool_and and bool_or against plain Python, through partials of parts and in any order."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.kernel.states.columns import Columns, Slots
from headrace.kernel.states.extremes import GREATEST, LEAST, BooleanExtreme, Choice, as_comparable
from headrace.model.types import ADDRESS, BIGINT, BOOLEAN, DOUBLE, NULL, STRING, TIMESTAMP, DataType, decimal
from tests.expressions.batches import to_arrow, to_plain, values, with_hidden

NAN = math.nan
ALL_TYPES = [BOOLEAN, BIGINT, DOUBLE, decimal(38, 10), STRING, TIMESTAMP, ADDRESS]
MIN_BY, MAX_BY = Choice(LEAST), Choice(GREATEST)
BOOL_AND, BOOL_OR = BooleanExtreme(LEAST), BooleanExtreme(GREATEST)
choices = pytest.mark.parametrize(("choice", "sign"), [(MIN_BY, 1), (MAX_BY, -1)], ids=["min_by", "max_by"])
examples = settings(max_examples=40, deadline=None)


def slots_of(*numbers: int) -> Slots:
    return np.array(numbers, np.int64)


def rank(value: Any) -> tuple[int, Any]:
    """In the order of SQL: NaN is greater than every number."""
    is_nan = isinstance(value, float) and math.isnan(value)
    return (1, 0) if is_nan else (0, value)


def naive(rows: list[tuple[Any, Any]], sign: int) -> list[Any]:
    """The least x, NULL last, among the rows with the best y; then that y. Nothing if no row has one."""
    ranked = sorted({rank(y) for _, y in rows if y is not None})
    if not ranked:
        return [None, None]
    best = ranked[0 if sign > 0 else -1]
    rivals = [(x, y) for x, y in rows if y is not None and rank(y) == best]
    known = sorted((x for x, _ in rivals if x is not None), key=rank)
    return [known[0] if known else None, rivals[0][1]]


def format_value(value: Any) -> str:
    """For comparing: one NaN, one zero."""
    return repr(value + 0.0 if isinstance(value, float) and not math.isnan(value) else value).replace("-nan", "nan")


@st.composite
def column(draw: st.DrawFn, data_type: DataType, length: int) -> tuple[list[Any], pa.Array]:
    """Few different values, so that there are ties; some are NULL and hide something."""
    pool = draw(st.lists(values(data_type), min_size=1, max_size=4))
    listed = draw(st.lists(st.sampled_from(pool), min_size=length, max_size=length))
    hidden = draw(st.lists(st.integers(0, 3).map(lambda n: n == 0), min_size=length, max_size=length))
    plain = [None if gone else value for value, gone in zip(listed, hidden, strict=True)]
    return plain, with_hidden(listed, hidden, data_type)


def drawn_slots(data: st.DataObject, length: int, count: int) -> Slots:
    return np.array(data.draw(st.lists(st.integers(0, count - 1), min_size=length, max_size=length)), np.int64)


@choices
@examples
@given(data=st.data())
def test_choices_are_those_of_plain_python(choice: Choice, sign: int, data: st.DataObject) -> None:
    x_type, y_type = data.draw(st.sampled_from(ALL_TYPES)), data.draw(st.sampled_from(ALL_TYPES))
    length = data.draw(st.integers(0, 25))
    (xs, x), (ys, y) = data.draw(column(x_type, length)), data.draw(column(y_type, length))
    parts, slots = drawn_slots(data, length, 5), drawn_slots(data, 5, 3)
    states = choice.lift(parts, 5, x, y)
    assert tuple(column.type for column in states) == choice.columns(x_type, y_type)
    combined = choice.combine(slots, 3, states)
    results = zip(to_plain(combined[0], x_type), to_plain(combined[1], y_type), strict=True)
    for slot, row in enumerate(results):
        expected = naive([(xs[place], ys[place]) for place in np.flatnonzero(slots[parts] == slot)], sign)
        assert [format_value(value) for value in row] == [format_value(value) for value in expected]
    order = np.array(data.draw(st.permutations(range(length))), np.int64)
    turned = choice.lift(slots[parts][order], 3, x.take(pa.array(order)), y.take(pa.array(order)))
    assert_same(turned, combined)


def assert_same(left: Columns, right: Columns) -> None:
    """To the bit."""
    for one, other in zip(left, right, strict=True):
        assert as_comparable(one).equals(as_comparable(other))


@choices
def test_no_row_differs_from_an_x_that_is_null(choice: Choice, sign: int) -> None:
    states = choice.lift(slots_of(0, 0, 2), 3, pa.array([None, "b", "c"]), pa.array([7, None, None], pa.int64()))
    assert [column.to_pylist() for column in states] == [[None, None, None], [7, None, None]]
    more = choice.lift(slots_of(0, 1), 2, pa.array(["z", "y"]), pa.array([7, 8]))
    both = tuple(pa.concat_arrays(columns) for columns in zip(states, more, strict=True))
    combined = choice.combine(slots_of(0, 1, 1, 0, 1), 2, both)
    assert [column.to_pylist() for column in combined] == [["z", "y"], [7, 8]]


@pytest.mark.parametrize(
    ("ys", "least", "greatest"),
    [
        ([NAN, 1.0, math.inf], 1, 0),
        ([-0.0, 0.0, 0.0], 0, 0),
        ([NAN, -NAN, NAN], 0, 0),
        ([None, -math.inf, NAN], 1, 2),
    ],
)
def test_choices_by_doubles(ys: list[float | None], least: int, greatest: int) -> None:
    x, y = pa.array([0, 1, 2]), pa.array(ys, pa.float64())
    assert MIN_BY.lift(slots_of(0, 0, 0), 1, x, y)[0].to_pylist() == [least]
    assert MAX_BY.lift(slots_of(0, 0, 0), 1, x, y)[0].to_pylist() == [greatest]


@choices
def test_choices_over_nothing(choice: Choice, sign: int) -> None:
    nulls = choice.lift(slots_of(0, 1), 2, pa.array([1, 2]), pa.nulls(2))
    assert [column.to_pylist() for column in nulls] == [[None, None]] * 2
    assert choice.columns(BIGINT, NULL) == (pa.int64(), pa.null())
    chosen = choice.lift(slots_of(0, 0), 1, pa.nulls(2), pa.array(["b", "a"]))
    assert chosen[0].to_pylist() == [None]
    assert chosen[1].to_pylist() == ["a" if sign > 0 else "b"]
    empty = choice.lift(slots_of(), 0, pa.array([], pa.string()), pa.array([], pa.float64()))
    assert [len(column) for column in choice.combine(slots_of(), 0, empty)] == [0, 0]


@pytest.mark.parametrize(("verdict", "fold"), [(BOOL_AND, all), (BOOL_OR, any)], ids=["bool_and", "bool_or"])
@examples
@given(data=st.data())
def test_verdicts(verdict: BooleanExtreme, fold: Any, data: st.DataObject) -> None:
    plain, array = data.draw(column(BOOLEAN, data.draw(st.integers(0, 20))))
    parts, slots = drawn_slots(data, len(plain), 4), drawn_slots(data, 4, 3)
    (truths,) = verdict.combine(slots, 3, verdict.lift(parts, 4, array))
    groups = [[plain[row] for row in np.flatnonzero(slots[parts] == slot)] for slot in range(3)]
    known = [[value for value in group if value is not None] for group in groups]
    assert truths.to_pylist() == [fold(group) if group else None for group in known]
    assert (truths.type,) == verdict.columns(BOOLEAN)


def test_verdicts_over_nothing() -> None:
    for verdict in (BOOL_AND, BOOL_OR):
        (truths,) = verdict.lift(slots_of(0), 2, pa.nulls(1))
        assert truths.equals(to_arrow([None, None], BOOLEAN))
