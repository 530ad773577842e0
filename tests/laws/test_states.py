"""The laws of aggregate states, for every kind of partial and every type that queries may aggregate with it."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from fractions import Fraction
from itertools import product
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.aggregates import registry
from headrace.aggregates.partials import partials_of
from headrace.aggregates.registry import AGGREGATES, make_aggregate
from headrace.expressions.columns import Evaluated
from headrace.kernel.states.kinds import STATES, Slots, lower, state_of
from headrace.model.arrow import arrow_type, plain_values
from headrace.model.expressions import Aggregate, ColumnRef, Expression, Literal
from headrace.model.types import BIGINT, DOUBLE, NULL, DataType, decimal
from headrace.reference.aggregates import SKETCHES
from headrace.reference.aggregates import lower as reference_lower
from headrace.reference.functions import ComputationError
from tests.expressions.batches import TYPES, values, with_hidden

ALL_TYPES = [data_type for kind in TYPES if kind != "DECIMAL" for data_type in TYPES[kind]]
ALL_TYPES += [decimal(10, 2), decimal(38, 0), decimal(38, 38)]
TOLERANCE = Fraction(1, 10**9)
RELATIVE = Fraction(1, 100)
LARGEST_SQUARED = 1e150
"""Beyond it, squares or their sums may leave the range of a DOUBLE."""
examples = settings(max_examples=25)
States = tuple[pa.Array, ...]


def aggregates_over(data_type: DataType) -> Iterator[Aggregate]:
    """Every aggregate that queries may write over a column of this type, with and without DISTINCT."""
    column = ColumnRef("s", "x", data_type)
    for function, distinct in product(AGGREGATES.keys() - SKETCHES, (False, True)):
        try:
            yield make_aggregate(function, (column, *BEHIND.get(function, ())), distinct)
        except ValueError:
            continue


BEHIND: dict[str, tuple[Expression, ...]] = {
    "percentile": (Literal(0.3, DOUBLE),),
    "percentile_approx": (Literal(0.7, DOUBLE),),
    "percentile_relative": (Literal(0.9, DOUBLE),),
    "quantiles": (Literal(3, BIGINT),),
    "heavy_hitters": (Literal(0.2, DOUBLE),),
    "top_k": (Literal(2, BIGINT),),
    "min_by": (ColumnRef("s", "y", BIGINT),),
    "max_by": (ColumnRef("s", "y", BIGINT),),
}
"""What stands behind the first argument."""
TWO_COLUMNS = ("least_by", "greatest_by")


PAIRS = sorted(
    {
        (partial.kind, kind)
        for kind in [*ALL_TYPES, NULL]
        for aggregate in aggregates_over(kind)
        for partial in partials_of(aggregate)
    },
    key=str,
)
pairs = pytest.mark.parametrize(("kind", "data_type"), PAIRS, ids=lambda part: str(part).replace(" ", ""))


@st.composite
def rows(draw: st.DrawFn, data_type: DataType) -> tuple[list[Any], pa.Array]:
    """Values with NULLs among them, which hide something; the column may begin in the middle of its memory."""
    if data_type == NULL:
        count = draw(st.integers(0, 9))
        return [None] * count, pa.nulls(count)
    pool = draw(st.lists(values(data_type), min_size=1, max_size=12))
    listed = draw(st.lists(st.sampled_from(pool), max_size=30))
    hidden = draw(st.lists(st.integers(0, 4).map(lambda n: n == 0), min_size=len(listed), max_size=len(listed)))
    skipped = draw(st.integers(0, min(9, len(listed))))
    plain = [None if gone else value for value, gone in zip(listed, hidden, strict=True)]
    return plain[skipped:], with_hidden(listed, hidden, data_type)[skipped:]


def arguments_of(kind: str, array: pa.Array) -> tuple[pa.Array, ...]:
    """Beside the drawn column, for kinds that take two, numbers that meet and NULLs."""
    by = pa.array([None if place % 5 == 4 else place * 7 % 3 for place in range(len(array))], pa.int64())
    return (array, by) if kind in TWO_COLUMNS else (array,)


def types_of(kind: str, data_type: DataType) -> tuple[DataType, ...]:
    return (data_type, BIGINT) if kind in TWO_COLUMNS else (data_type,)


def drawn_slots(data: st.DataObject, length: int, count: int) -> Slots:
    return np.array(data.draw(st.lists(st.integers(0, count - 1), min_size=length, max_size=length)), np.int64)


def groups(slots: Slots, plain: list[Any], count: int) -> list[list[Any]]:
    grouped: list[list[Any]] = [[] for _ in range(count)]
    for slot, value in zip(slots, plain, strict=True):
        if value is not None:
            grouped[slot].append(value)
    return grouped


# When two results are the same


def same(left: Any, right: Any, tolerance: Fraction) -> bool:
    if isinstance(left, tuple) and isinstance(right, tuple):
        return len(left) == len(right) and all(map(same, left, right, [tolerance] * len(left)))
    if not isinstance(left, float) or not isinstance(right, float):
        return type(left) is type(right) and bool(left == right)
    if math.isnan(left) or math.isnan(right):
        return math.isnan(left) and math.isnan(right)
    return left == right or abs(as_fraction(left) - as_fraction(right)) <= tolerance


def as_fraction(value: float) -> Fraction:
    """Infinity as the first number that is not a DOUBLE."""
    return Fraction(value) if math.isfinite(value) else Fraction(2) ** 1024 * (1 if value > 0 else -1)


def tolerance_of(function: str, group: list[Any]) -> Fraction:
    """Sums: as the design says. Variances: also what one rounding of the mean does; sums of squares may overflow."""
    if function in ("median", "percentile", "percentile_relative"):
        reals = [abs(float(value)) for value in group if math.isfinite(value)]
        return Fraction(max(reals, default=0.0)) * (RELATIVE if function == "percentile_relative" else TOLERANCE)
    if function not in ("sum", "avg", "var_pop", "var_samp", "stddev_pop", "stddev_samp"):
        return Fraction(0)
    reals = [float(value) for value in group]
    if not reals or not all(map(math.isfinite, reals)):
        return Fraction(0)
    if function in ("sum", "avg"):
        return TOLERANCE * sum(map(abs, map(Fraction, group)), Fraction(0))
    largest = max(map(abs, reals))
    if largest > LARGEST_SQUARED:
        return Fraction(2) ** 1025
    variance = exact_variance(reals)
    ulps = 8 * len(reals) * Fraction(math.ulp(largest))
    deviation = Fraction(math.sqrt(variance))
    if function.startswith("stddev"):
        return TOLERANCE * deviation + ulps
    return TOLERANCE * variance + ulps * deviation + ulps * ulps


def exact_variance(reals: list[float]) -> Fraction:
    exact = list(map(Fraction, reals))
    mean = sum(exact, Fraction(0)) / len(exact)
    return sum(((value - mean) ** 2 for value in exact), Fraction(0)) / max(1, len(exact) - 1)


def readings(
    kind: str, data_type: DataType, states: States, group_values: list[list[Any]]
) -> list[tuple[Any, Fraction]]:
    """What a state tells: exact columns as they are; DOUBLE sums and moments by what is lowered from them."""
    if kind == "moments":
        return [
            *read("var_pop", {"moments": states}, group_values),
            *read("stddev_samp", {"moments": states}, group_values),
        ]
    if kind == "sum" and data_type.name == "DOUBLE":
        return read("sum", {"sum": states}, group_values)
    return [(canonical(value), Fraction(0)) for column in states for value in list_values(column)]


def read(function: str, states: Mapping[str, States], group_values: list[list[Any]]) -> list[tuple[Any, Fraction]]:
    column = ColumnRef("s", "x", DataType("DOUBLE"))
    results = lower(Aggregate(function, (column,), AGGREGATES[function].result_type((column,))), states)
    assert results.failed is None
    return [
        (value, tolerance_of(function, group))
        for value, group in zip(results.values.to_pylist(), group_values, strict=True)
    ]


def list_values(column: pa.Array) -> list[Any]:
    """Times as numbers: not all of them are dates in Python."""
    numbers = {pa.timestamp("us", tz="UTC"): pa.int64(), pa.list_(pa.timestamp("us", tz="UTC")): pa.list_(pa.int64())}
    return column.cast(numbers.get(column.type, column.type)).to_pylist()  # type: ignore[no-any-return]


def canonical(value: Any) -> Any:
    """A list as a text, in which NaN equals NaN and 0.0 is not -0.0."""
    return repr(value) if isinstance(value, list) else value


def check_same(kind: str, data_type: DataType, left: States, right: States, group_values: list[list[Any]]) -> None:
    expected = list(STATES[kind].columns(*types_of(kind, data_type)))
    assert [column.type for column in left] == [column.type for column in right] == expected
    first, second = (readings(kind, data_type, states, group_values) for states in (left, right))
    assert len(first) == len(second)
    for (one, tolerance), (other, _) in zip(first, second, strict=True):
        assert same(one, other, tolerance), (one, other)


# The laws


def test_every_kind_is_here() -> None:
    assert {kind for kind, _ in PAIRS} == STATES.keys() == registry.KINDS.keys()


@pairs
@examples
@given(data=st.data())
def test_a_split_is_the_whole(kind: str, data_type: DataType, data: st.DataObject) -> None:
    """Rows into any partials, those into any slots: the same as rows into slots at once."""
    plain, array = data.draw(rows(data_type))
    parts = drawn_slots(data, len(plain), 6)
    slots = drawn_slots(data, 6, 3)
    state = STATES[kind]
    arguments = arguments_of(kind, array)
    whole = state.lift(slots[parts], 3, *arguments)
    split = state.combine(slots, 3, state.lift(parts, 6, *arguments))
    check_same(kind, data_type, whole, split, groups(slots[parts], plain, 3))


@pairs
@examples
@given(data=st.data())
def test_combining_is_associative_and_commutative(kind: str, data_type: DataType, data: st.DataObject) -> None:
    plain, array = data.draw(rows(data_type))
    parts = drawn_slots(data, len(plain), 5)
    middle, last = drawn_slots(data, 5, 4), drawn_slots(data, 4, 2)
    order = np.array(data.draw(st.permutations(range(5))), np.int64)
    state = STATES[kind]
    states = state.lift(parts, 5, *arguments_of(kind, array))
    at_once = state.combine(last[middle], 2, states)
    in_steps = state.combine(last, 2, state.combine(middle, 4, states))
    turned = state.combine(last[middle][order], 2, tuple(column.take(pa.array(order)) for column in states))
    of_slots = groups(last[middle][parts], plain, 2)
    check_same(kind, data_type, at_once, in_steps, of_slots)
    check_same(kind, data_type, at_once, turned, of_slots)


@pairs
@examples
@given(data=st.data())
def test_nothing_is_neutral(kind: str, data_type: DataType, data: st.DataObject) -> None:
    plain, array = data.draw(rows(data_type))
    state, none = STATES[kind], np.zeros(0, np.int64)
    slots = drawn_slots(data, len(plain), 2)
    states = state.lift(slots, 2, *arguments_of(kind, array))
    nothing = state.lift(none, 2, *arguments_of(kind, array[:0]))
    both = tuple(pa.concat_arrays(columns) for columns in zip(nothing, states, strict=True))
    check_same(kind, data_type, state.combine(np.array([0, 1, 0, 1]), 2, both), states, groups(slots, plain, 2))
    emptied = state.combine(none, 2, tuple(column[:0] for column in states))
    check_same(kind, data_type, emptied, nothing, [[], []])


@pytest.mark.parametrize("data_type", ALL_TYPES, ids=str)
@examples
@given(data=st.data())
def test_results_are_those_of_the_reference(data_type: DataType, data: st.DataObject) -> None:
    """Through partials of parts, as an engine computes them."""
    plain, array = data.draw(rows(data_type))
    parts, slots = drawn_slots(data, len(plain), 5), drawn_slots(data, 5, 2)
    of_slots = groups(slots[parts], plain, 2)
    for aggregate in aggregates_over(data_type):
        two = len(aggregate.arguments) == 2
        states = {
            partial.kind: state_of(partial).combine(
                slots, 2, state_of(partial).lift(parts, 5, *arguments_of(partial.kind, array))
            )
            for partial in partials_of(aggregate)
        }
        check_reference(aggregate, lower(aggregate, states), pairs_of(array, plain, slots[parts]) if two else of_slots)


def pairs_of(array: pa.Array, plain: list[Any], slots: Slots) -> list[list[Any]]:
    """What the reference is given for two arguments."""
    by = arguments_of("least_by", array)[1].to_pylist()
    pairs = [None if other is None else (value, other) for value, other in zip(plain, by, strict=True)]
    return groups(slots, pairs, 2)


def check_reference(aggregate: Aggregate, lowered: Evaluated, group_values: list[list[Any]]) -> None:
    assert lowered.values.type == arrow_type(aggregate.type)
    failed = [False] * len(group_values) if lowered.failed is None else lowered.failed.tolist()
    results = plain_values(lowered.values, aggregate.type)
    for result, bad, group in zip(results, failed, group_values, strict=True):
        try:
            expected, fails = reference_lower(aggregate, group), False
        except ComputationError:
            expected, fails = None, True
        exact = aggregate.function == "avg" and not any(isinstance(value, float) for value in group)
        tolerance = Fraction(0) if exact else tolerance_of(aggregate.function, group)
        assert bad is fails
        assert same(result, expected, tolerance), (result, expected, group)
