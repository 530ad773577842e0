"""Exact percentiles against plain Python, through partials of parts and in any order."""

from __future__ import annotations

import math
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.kernel.states.columns import Slots
from headrace.kernel.states.multiset import Multiset, percentiles
from headrace.model.types import BIGINT, DOUBLE, NULL, DataType, decimal
from tests.expressions.batches import values, with_hidden

NAN, INF, LARGEST = math.nan, math.inf, 1.7976931348623157e308
STATE = Multiset()
types = pytest.mark.parametrize("data_type", [BIGINT, DOUBLE, decimal(10, 2), decimal(38, 38)], ids=str)
examples = settings(max_examples=40, deadline=None)
fractions = st.sampled_from([0.0, 0.25, 0.5, 0.9, 0.999, 1.0]) | st.floats(0.0, 1.0)


def slots_of(*numbers: int) -> Slots:
    return np.array(numbers, np.int64)


def sorted_group(group: list[Any]) -> list[Any]:
    return sorted(group, key=lambda value: (math.isnan(value), 0 if math.isnan(value) else value))


def neighbours(group: list[Any], fraction: float) -> tuple[Any, Any, Fraction]:
    """The values at both sides of the position, and how far it is between them."""
    ordered, position = sorted_group(group), fraction * (len(group) - 1)
    below, above = ordered[math.floor(position)], ordered[math.ceil(position)]
    return below, above, Fraction(position) - math.floor(position)


def check(result: float | None, group: list[Any], fraction: float) -> None:
    if not group:
        assert result is None
        return
    assert result is not None
    below, above, share = neighbours(group, fraction)
    if float(below) == float(above) or share == 0 or math.isnan(below):
        assert result == pytest.approx(float(below), abs=0.0, rel=0.0, nan_ok=True)
    elif math.isfinite(below) and math.isfinite(above):
        exact = (1 - share) * Fraction(below) + share * Fraction(above)
        scale = max(abs(Fraction(below)), abs(Fraction(above)))
        assert abs(Fraction(result) - exact) <= scale / 10**15 + Fraction(5e-324)
    else:
        assert result == pytest.approx(float(above) + float(below), nan_ok=True)


@st.composite
def column(draw: st.DrawFn, data_type: DataType) -> tuple[list[Any], pa.Array]:
    """Few different values, so that they repeat; some are NULL and hide something, and it begins in the middle."""
    pool = draw(st.lists(values(data_type), min_size=1, max_size=6))
    listed = draw(st.lists(st.sampled_from(pool), max_size=30))
    hidden = draw(st.lists(st.integers(0, 4).map(lambda n: n == 0), min_size=len(listed), max_size=len(listed)))
    skipped = draw(st.integers(0, min(5, len(listed))))
    plain = [None if gone else value for value, gone in zip(listed, hidden, strict=True)]
    return plain[skipped:], with_hidden(listed, hidden, data_type)[skipped:]


def drawn_slots(data: st.DataObject, length: int, count: int) -> Slots:
    return np.array(data.draw(st.lists(st.integers(0, count - 1), min_size=length, max_size=length)), np.int64)


@types
@examples
@given(data=st.data(), fraction=fractions)
def test_percentiles_are_those_of_plain_python(data_type: DataType, data: st.DataObject, fraction: float) -> None:
    plain, array = data.draw(column(data_type))
    parts, slots = drawn_slots(data, len(plain), 5), drawn_slots(data, 5, 3)
    states = STATE.combine(slots, 3, STATE.lift(parts, 5, array))
    results = percentiles(states, fraction)
    assert results.type == pa.float64()
    for slot, result in enumerate(results.to_pylist()):
        group = [plain[row] for row in np.flatnonzero(slots[parts] == slot) if plain[row] is not None]
        check(result, group, fraction)


@types
@examples
@given(data=st.data())
def test_states_do_not_depend_on_order_or_grouping(data_type: DataType, data: st.DataObject) -> None:
    plain, array = data.draw(column(data_type))
    parts, middle, last = drawn_slots(data, len(plain), 5), drawn_slots(data, 5, 4), drawn_slots(data, 4, 2)
    order = np.array(data.draw(st.permutations(range(len(plain)))), np.int64)
    in_steps = STATE.combine(last, 2, STATE.combine(middle, 4, STATE.lift(parts, 5, array)))
    at_once = STATE.lift(last[middle][parts][order], 2, array.take(pa.array(order)))
    assert repr([column.to_pylist() for column in in_steps]) == repr([column.to_pylist() for column in at_once])
    assert tuple(column.type for column in in_steps) == STATE.columns(data_type)


def test_states_are_sorted_values_and_their_counts() -> None:
    array = pa.array([NAN, 1.0, -0.0, None, 0.0, -NAN, 1.0])
    lists, counts = STATE.lift(slots_of(0, 0, 0, 0, 0, 0, 2), 3, array)
    assert repr(lists.to_pylist()) == "[[0.0, 1.0, nan], [], [1.0]]"
    assert counts.to_pylist() == [[2, 1, 2], [], [1]]


@pytest.mark.parametrize(
    ("listed", "fraction", "expected"),
    [
        ([1, 2, 3, 4], 0.5, 2.5),
        ([4, 1, 3], 0.5, 3.0),
        ([10, 20], 0.25, 12.5),
        ([7], 0.9, 7.0),
        ([1, 1, 1, 9], 1.0, 9.0),
        ([1.0, NAN], 0.5, NAN),
        ([1.0, INF], 0.5, INF),
        ([-INF, INF], 0.5, NAN),
        ([-LARGEST, LARGEST], 0.5, 0.0),
        ([LARGEST, LARGEST], 0.3, LARGEST),
        ([0.1, 0.1, 0.1], 0.3, 0.1),
        ([Decimal("0.10"), Decimal("0.20")], 0.5, 0.15000000000000002),
    ],
)
def test_percentiles_by_hand(listed: list[Any], fraction: float, expected: float) -> None:
    states = STATE.lift(np.zeros(len(listed), np.int64), 1, pa.array(listed))
    assert percentiles(states, fraction)[0].as_py() == pytest.approx(expected, rel=0, abs=0, nan_ok=True)


def test_percentiles_as_duckdb_has_them() -> None:
    duckdb = pytest.importorskip("duckdb")
    rng = np.random.default_rng(5)
    table = pa.table({"slot": rng.integers(0, 50, 3_000), "x": rng.normal(size=3_000).round(2)})
    states = STATE.lift(table["slot"].to_numpy(), 50, table["x"].combine_chunks())
    for fraction in (0.0, 0.1, 0.5, 0.99, 1.0):
        query = f"SELECT quantile_cont(x, {fraction}) FROM rows GROUP BY slot ORDER BY slot"
        expected = duckdb.connect().register("rows", table).execute(query).fetchall()
        assert percentiles(states, fraction).to_pylist() == pytest.approx([row[0] for row in expected], rel=1e-12)


def test_slices_of_states_and_states_without_values() -> None:
    states = STATE.lift(slots_of(0, 2, 2, 3), 5, pa.array([1, 5, 8, 9]))
    assert percentiles(states, 0.5).to_pylist() == [1.0, None, 6.5, 9.0, None]
    assert percentiles(tuple(column[1:4] for column in states), 0.5).to_pylist() == [None, 6.5, 9.0]
    assert percentiles(tuple(column[4:] for column in states), 0.5).to_pylist() == [None]
    nothing = STATE.lift(slots_of(0, 1), 2, pa.nulls(2))
    assert tuple(column.type for column in nothing) == STATE.columns(NULL)
    assert percentiles(nothing, 0.5).to_pylist() == [None, None]
    assert percentiles(STATE.combine(slots_of(), 0, tuple(column[:0] for column in states)), 0.5).to_pylist() == []


@pytest.mark.parametrize("fraction", [-0.1, 1.5, NAN])
def test_a_fraction_is_from_0_to_1(fraction: float) -> None:
    with pytest.raises(ValueError, match="from 0 to 1"):
        percentiles(STATE.lift(slots_of(0), 1, pa.array([1])), fraction)
