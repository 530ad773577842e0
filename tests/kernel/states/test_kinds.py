"""Hand cases of aggregate states: overflow, what is not finite, far-off means, empty slots, refusals."""

from __future__ import annotations

import math
from collections.abc import Sequence
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from headrace.aggregates.partials import partials_of
from headrace.aggregates.registry import AGGREGATES
from headrace.kernel.states.kinds import STATES, Slots, lower
from headrace.model.expressions import Aggregate, ColumnRef
from headrace.model.types import (
    BIGINT,
    BOOLEAN,
    DOUBLE,
    MAX_BIGINT,
    MIN_BIGINT,
    NULL,
    STRING,
    DataType,
    decimal,
)

NAN, INF, LARGEST = math.nan, math.inf, 1.7976931348623157e308
STATISTICS = ("var_pop", "var_samp", "stddev_pop", "stddev_samp")
WIDE = decimal(38, 0)


def aggregate_of(function: str, data_type: DataType, distinct: bool = False) -> Aggregate:
    column = ColumnRef("s", "x", data_type)
    return Aggregate(function, (column,), AGGREGATES[function].result_type((column,)), distinct)


def as_column(values: Sequence[Any], data_type: DataType) -> pa.Array:
    arrow = {"BIGINT": pa.int64(), "DOUBLE": pa.float64(), "STRING": pa.string(), "BOOLEAN": pa.bool_()}
    if data_type.name == "DECIMAL":
        return pa.array(values, pa.decimal128(data_type.precision, data_type.scale))
    return pa.array(values, arrow.get(data_type.name, pa.null()))


def lower_split(function: str, values: Sequence[Any], data_type: DataType, distinct: bool = False) -> tuple[Any, bool]:
    """The result, and whether it failed; each value is a partial first, and all of them combine."""
    aggregate = aggregate_of(function, data_type, distinct)
    states = {}
    for partial in partials_of(aggregate):
        state = STATES[partial.kind]
        lifted = state.lift(np.arange(len(values)), len(values), as_column(values, data_type))
        states[partial.kind] = state.combine(np.zeros(len(values), np.int64), 1, lifted)
    results = lower(aggregate, states)
    return results.values.to_pylist()[0], results.failed is not None and bool(results.failed[0])


def lower_at_once(function: str, values: Sequence[Any], data_type: DataType) -> Any:
    aggregate = aggregate_of(function, data_type)
    slots, column = np.zeros(len(values), np.int64), as_column(values, data_type)
    states = {partial.kind: STATES[partial.kind].lift(slots, 1, column) for partial in partials_of(aggregate)}
    return lower(aggregate, states).values.to_pylist()[0]


def slots_of(*numbers: int) -> Slots:
    return np.array(numbers, np.int64)


# Sums of whole numbers


@pytest.mark.parametrize("values", [[MAX_BIGINT, 1], [MIN_BIGINT, -1], [MAX_BIGINT] * 1000])
def test_a_sum_beyond_64_bits_fails(values: list[int]) -> None:
    assert lower_split("sum", values, BIGINT) == (None, True)
    assert lower_split("avg", values, BIGINT) == (sum(values) / len(values), False)


def test_a_sum_may_leave_64_bits_on_its_way() -> None:
    values = [MAX_BIGINT, MAX_BIGINT, MIN_BIGINT, 1 - MAX_BIGINT]
    assert lower_split("sum", values, BIGINT) == (0, False)
    assert lower_split("sum", [*values, MIN_BIGINT], BIGINT) == (MIN_BIGINT, False)
    assert lower_split("sum", [*values, MAX_BIGINT], BIGINT) == (MAX_BIGINT, False)


def test_only_the_slot_that_overflows_fails() -> None:
    states = STATES["sum"].lift(slots_of(0, 1, 1, 3), 4, pa.array([5, MAX_BIGINT, 1, -1]))
    assert states[0].to_pylist() == [5, 2**63, None, -1]
    results = lower(aggregate_of("sum", BIGINT), {"sum": states})
    assert results.values.to_pylist() == [5, None, None, -1]
    assert results.failed is not None
    assert results.failed.tolist() == [False, True, False, False]


def test_a_decimal_sum_has_38_digits() -> None:
    half = Decimal("5" + "0" * 37)
    assert lower_split("sum", [half, half, -half], WIDE) == (half, False)
    assert lower_split("sum", [half, half], WIDE) == (None, True)
    assert lower_split("sum", [-half] * 7, WIDE) == (None, True)
    assert lower_split("avg", [half, half], WIDE) == (5e37, False)


def test_an_average_of_exact_numbers_is_rounded_once() -> None:
    # 2^53 + 1 lies halfway between two DOUBLEs; the last of 36 digits decides for the upper one
    assert lower_split("avg", [Decimal("9007199254740993.00000000000000000001")], decimal(38, 20))[0] == 2**53 + 2
    assert lower_split("avg", [MAX_BIGINT, MAX_BIGINT], BIGINT)[0] == float(MAX_BIGINT)
    assert lower_split("avg", [Decimal("0.10"), Decimal("0.20")], decimal(10, 2))[0] == 0.15


# Sums of DOUBLEs


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([INF, 1.0], INF),
        ([-INF, 1.0, -INF], -INF),
        ([INF, -INF], NAN),
        ([NAN, 1.0], NAN),
        ([INF, NAN], NAN),
        ([1e308, 1e308, -INF], -INF),
        ([1e308, 1e308], INF),
        ([1e308, 1e308, -1e308], 1e308),
        ([-1e308, -1e308, -1e308, 1e308, 1e308], -1e308),
        ([1e308, 1e308, 0.5, -1e308, -1e308], 0.5),
        ([LARGEST, 9.979201547673599e291], INF),
        ([0.1] * 10, 1.0),
        ([1e16, 1.0, -1e16], 1.0),
        ([-0.0], 0.0),
    ],
)
def test_sums_of_doubles(values: list[float], expected: float) -> None:
    # within the tolerance of the design: the 0.5 beside 1e308 is far below it
    tolerance = 1e-9 * sum(abs(value) for value in values if math.isfinite(value)) if math.isfinite(expected) else 0.0
    for result in (lower_split("sum", values, DOUBLE)[0], lower_at_once("sum", values, DOUBLE)):
        assert result == pytest.approx(expected, abs=min(tolerance, LARGEST), rel=0, nan_ok=True)
    assert lower_split("avg", values, DOUBLE)[0] == pytest.approx(
        expected / len(values), abs=min(tolerance, LARGEST), nan_ok=True
    )


def test_compensation_keeps_what_cancellation_would_lose() -> None:
    # a plain sum is off by more than the result
    values = [1e16, *([1.0] * 1000), -1e16]
    assert lower_at_once("sum", values, DOUBLE) == lower_split("sum", values, DOUBLE)[0] == 1000.0


def test_a_slot_beyond_the_doubles_leaves_others_alone() -> None:
    column = pa.array([1e308, 0.25, 1e308, None, INF, 0.5])
    states = STATES["sum"].lift(slots_of(0, 1, 0, 1, 2, 1), 4, column)
    results = lower(aggregate_of("sum", DOUBLE), {"sum": states})
    assert results.values.to_pylist() == [INF, 0.75, INF, None]
    back = STATES["sum"].lift(slots_of(0, 0, 2), 4, pa.array([-1e308, -1e308, 1.0]))
    both = tuple(pa.concat_arrays(columns) for columns in zip(states, back, strict=True))
    combined = STATES["sum"].combine(slots_of(0, 1, 2, 3, 0, 1, 2, 3), 4, both)
    assert lower(aggregate_of("sum", DOUBLE), {"sum": combined}).values.to_pylist() == [0.0, 0.75, INF, None]


# Variances


def test_variance_with_a_mean_a_million_times_the_deviation() -> None:
    values = [1e6 - 1, 1e6, 1e6 + 1]
    expected = [2 / 3, 1.0, math.sqrt(2 / 3), 1.0]
    assert [lower_split(name, values, DOUBLE)[0] for name in STATISTICS] == pytest.approx(expected, rel=1e-12)
    assert lower_split("var_pop", [1e15 + place for place in (1, 2, 3, 4)], DOUBLE)[0] == 1.25


def test_variance_of_many_rows_with_a_far_off_mean() -> None:
    deviations = np.random.default_rng(7).normal(size=100_000)
    column, slots = pa.array(1e6 + deviations), np.arange(100_000) % 1_000
    state = STATES["moments"]
    whole = state.lift(np.zeros(100_000, np.int64), 1, column)
    split = state.combine(np.zeros(1_000, np.int64), 1, state.lift(slots, 1_000, column))
    expected = np.var((1e6 + deviations) - 1e6)
    for states in (whole, split):
        result = lower(aggregate_of("var_pop", DOUBLE), {"moments": states}).values[0].as_py()
        assert result == pytest.approx(expected, rel=1e-9)


def test_variance_at_the_ends_of_the_doubles() -> None:
    assert lower_split("var_pop", [1e200, -1e200], DOUBLE) == (INF, False)
    assert lower_split("stddev_samp", [LARGEST, -LARGEST, 1.0], DOUBLE) == (INF, False)
    for size in (2, 3, 7, 49):
        for value in (LARGEST, 1e300, 0.1, 5e-324):
            assert (
                lower_at_once("var_pop", [value] * size, DOUBLE)
                == lower_split("var_pop", [value] * size, DOUBLE)[0]
                == 0.0
            )
    for values in ([INF, 1.0], [NAN, 1.0], [INF, -INF], [LARGEST, LARGEST, -INF], [INF]):
        assert math.isnan(lower_split("var_pop", values, DOUBLE)[0])
        assert math.isnan(lower_at_once("stddev_pop", values, DOUBLE))


def test_too_few_values_have_no_variance() -> None:
    assert [lower_split(name, [7, None], BIGINT)[0] for name in STATISTICS] == [0.0, None, 0.0, None]
    assert [lower_split(name, [None], BIGINT)[0] for name in STATISTICS] == [None] * 4


# Extremes and distinct values


def test_extremes_of_doubles() -> None:
    assert (lower_split("min", [NAN, 1.0], DOUBLE)[0], lower_split("max", [INF, 1.0], DOUBLE)[0]) == (
        1.0,
        INF,
    )
    assert math.isnan(lower_split("max", [INF, NAN, 1.0], DOUBLE)[0])
    assert math.isnan(lower_split("min", [NAN, None], DOUBLE)[0])
    for values in ([-0.0, 0.0], [0.0, -0.0], [-0.0]):
        assert [str(lower_split(name, values, DOUBLE)[0]) for name in ("min", "max")] == ["0.0", "0.0"]


def test_extremes_are_no_marks_of_emptiness() -> None:
    assert lower_split("min", [MAX_BIGINT], BIGINT)[0] == MAX_BIGINT
    assert lower_split("max", [MIN_BIGINT, None], BIGINT)[0] == MIN_BIGINT
    assert lower_split("max", [-INF], DOUBLE)[0] == -INF
    assert lower_split("max", [None], BIGINT) == (None, False)


def test_extremes_of_other_types() -> None:
    texts = ["b", "\u00e9", "B", "", None, "\U0001f600", "\uffff"]
    assert (lower_split("min", texts, STRING)[0], lower_split("max", texts, STRING)[0]) == ("", "\U0001f600")
    assert (lower_split("min", [True, False], BOOLEAN)[0], lower_split("max", [None, True], BOOLEAN)[0]) == (
        False,
        True,
    )


def test_distinct_values_are_sorted_lists() -> None:
    column = pa.array([NAN, 1.0, -0.0, None, 0.0, -NAN, 1.0])
    (lists,) = STATES["values"].lift(slots_of(0, 0, 0, 0, 0, 0, 2), 3, column)
    assert repr(lists.to_pylist()) == "[[0.0, 1.0, nan], [], [1.0]]"
    assert lower_split("sum", [3, 3, 5, None], BIGINT, distinct=True) == (8, False)
    assert lower_split("sum", [MAX_BIGINT, 1, 1], BIGINT, distinct=True) == (None, True)
    assert lower_split("avg", [3, 3, 5, None], BIGINT, distinct=True) == (4.0, False)


# Nothing


def test_without_values_there_is_no_result() -> None:
    for data_type in (BIGINT, DOUBLE, WIDE, NULL):
        for function in ("sum", "avg", *STATISTICS):
            for distinct in (False, True):
                assert lower_split(function, [None, None], data_type, distinct) == (None, False)
        assert lower_split("count", [None, None], data_type) == (0, False)
        assert lower_split("count", [None, None], data_type, distinct=True) == (0, False)


def test_no_slots_and_no_rows() -> None:
    none = slots_of()
    for kind in ("count", "sum", "min", "max", "moments", "values"):
        states = STATES[kind].lift(none, 0, pa.array([], pa.float64()))
        assert [len(column) for column in STATES[kind].combine(none, 0, states)] == [0] * len(states)


def test_rows_are_counted_without_an_argument() -> None:
    (counts,) = STATES["count"].lift(slots_of(0, 2, 2), 3, None)
    assert counts.to_pylist() == [1, 0, 2]
    assert STATES["count"].columns(None) == (pa.int64(),)
