"""User functions in the vectorised evaluation: strict, never a danger to the batch, row by row or with whole arrays."""

from __future__ import annotations

import sys
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from headrace.expressions.evaluation import Evaluation
from headrace.model.expressions import Call, ColumnRef, Expression, Literal
from headrace.model.functions import user_function
from headrace.model.schema import UserFunction
from headrace.model.types import ADDRESS, BIGINT, BOOLEAN, DOUBLE, NULL, STRING, TIMESTAMP, DataType, decimal

C, D = ColumnRef("s", "c", BIGINT), ColumnRef("s", "d", BIGINT)
COLUMNS = {("s", "c"): pa.array([1, 2, None, 2]), ("s", "d"): pa.array([10, None, 30, 40])}
MONEY = decimal(5, 2)


def outcome(function: UserFunction, *arguments: Expression) -> tuple[list[Any], list[bool]]:
    tree = Call(function.name, arguments or (C,), function.returns)
    found = Evaluation(COLUMNS, 4, [function]).evaluate(tree)
    return found.values.to_pylist(), [False] * 4 if found.failed is None else found.failed.tolist()


def scalar(implementation: Callable[..., object], returns: DataType = BIGINT, *takes: DataType) -> UserFunction:
    return UserFunction("f", takes or (BIGINT,), returns, implementation)


def vectorized(implementation: Callable[..., object], returns: DataType = BIGINT, *takes: DataType) -> UserFunction:
    return UserFunction("f", takes or (BIGINT,), returns, implementation, vectorized=True)


# Row by row


def test_it_is_called_for_rows_without_null_and_once_for_each_value() -> None:
    called: list[int] = []

    def note(number: int) -> int:
        called.append(number)
        return number * 2

    assert outcome(scalar(note)) == ([2, 4, None, 4], [False] * 4)
    assert called == [1, 2]


def test_several_arguments() -> None:
    assert outcome(scalar(lambda c, d: c + d, BIGINT, BIGINT, BIGINT), C, D) == ([11, None, None, 42], [False] * 4)
    assert outcome(scalar(lambda c, d: c + d, BIGINT, BIGINT, BIGINT), C, Literal(1, BIGINT))[0] == [2, 3, None, 3]
    assert outcome(scalar(lambda c, d: c, BIGINT, BIGINT, BIGINT), C, Literal(None, NULL))[0] == [None] * 4
    assert outcome(scalar(lambda c: c + 1), Literal(1, BIGINT))[0] == [2] * 4


def test_it_may_give_null_or_raise() -> None:
    assert outcome(scalar(lambda c: None)) == ([None] * 4, [False] * 4)
    assert outcome(scalar(lambda c: 1 // (c - 1))) == ([None, 1, None, 1], [True, False, False, False])


@pytest.mark.parametrize(
    ("returns", "value"),
    [
        (BIGINT, 7.0),
        (BIGINT, True),
        (BIGINT, 2**63),
        (BIGINT, np.int64(7)),
        (DOUBLE, "7"),
        (DOUBLE, 10**400),
        (BOOLEAN, 1),
        (STRING, b"seven"),
        (STRING, "\ud800"),
        (TIMESTAMP, 2**63),
        (ADDRESS, -1),
        (ADDRESS, 2**128),
        (MONEY, 7.5),
        (MONEY, Decimal("NaN")),
        (MONEY, Decimal(1000)),
    ],
)
def test_a_result_of_another_type_fails(returns: DataType, value: object) -> None:
    assert outcome(scalar(lambda c: value, returns)) == ([None] * 4, [True, True, False, True])


def test_results_that_fit() -> None:
    assert outcome(scalar(lambda c: c, DOUBLE))[0] == [1.0, 2.0, None, 2.0]
    assert outcome(scalar(lambda c: Decimal("0.005"), MONEY))[0][0] == Decimal("0.01")
    assert outcome(scalar(lambda c: not c, BOOLEAN, BOOLEAN), Literal(True, BOOLEAN))[0] == [False] * 4


def test_of_two_zeros_each_is_passed_on() -> None:
    function = scalar(str, STRING, DOUBLE)
    columns = {("s", "x"): pa.array([0.0, -0.0])}
    tree = Call("f", (ColumnRef("s", "x", DOUBLE),), STRING)
    assert Evaluation(columns, 2, [function]).evaluate(tree).values.to_pylist() == ["0.0", "-0.0"]


def test_a_function_that_was_not_given_is_a_mistake_of_the_caller() -> None:
    with pytest.raises(KeyError):
        Evaluation(COLUMNS, 4).evaluate(Call("f", (C,), BIGINT))


# With whole arrays


def test_it_gets_arrays_without_nulls() -> None:
    seen: list[list[Any]] = []

    def add(first: pa.Array, second: pa.Array) -> pa.Array:
        seen.append([first.to_pylist(), second.to_pylist()])
        return pc.add(first, second)

    function = vectorized(add, BIGINT, BIGINT, BIGINT)
    assert outcome(function, C, D) == ([11, None, None, 42], [False] * 4)
    assert outcome(function, D, Literal(1, BIGINT)) == ([11, None, 31, 41], [False] * 4)
    assert outcome(function, Literal(1, BIGINT), Literal(2, BIGINT)) == ([3] * 4, [False] * 4)
    assert seen == [[[1, 2], [10, 40]], [[10, 30, 40], [1, 1, 1]], [[1], [2]]]


def test_it_is_not_called_for_nothing() -> None:
    tree = Call("f", (C,), BIGINT)
    function = vectorized(lambda c: pytest.fail("called"))
    assert Evaluation({("s", "c"): pa.nulls(2, pa.int64())}, 2, [function]).evaluate(tree).values.null_count == 2


@pytest.mark.parametrize(
    ("returns", "implementation", "expected"),
    [
        (BIGINT, lambda c: np.array([1, 2, 3], np.uint8), [1, 2, None, 3]),
        (BIGINT, lambda c: pa.chunked_array([[1], [None, 3]], pa.int64()), [1, None, None, 3]),
        (DOUBLE, lambda c: np.array([1, 2, 3]), [1.0, 2.0, None, 3.0]),
        (BOOLEAN, lambda c: c.to_numpy() > 1, [False, True, None, True]),
        (STRING, lambda c: c.cast(pa.large_string()), ["1", "2", None, "2"]),
        (STRING, lambda c: np.array(["a", "b", "c"]), ["a", "b", None, "c"]),
        (MONEY, lambda c: c, [Decimal(1), Decimal(2), None, Decimal(2)]),
    ],
)
def test_arrays_that_fit(returns: DataType, implementation: Callable[..., object], expected: list[Any]) -> None:
    assert outcome(vectorized(implementation, returns)) == (expected, [False] * 4)


def test_a_decimal_that_does_not_fit_fails_alone() -> None:
    values = pa.array([Decimal("0.005"), Decimal(1000), None], pa.decimal128(10, 3))
    expected = ([Decimal("0.01"), None, None, None], [False, True, False, False])
    assert outcome(vectorized(lambda c: values, MONEY)) == expected


def fail(c: pa.Array) -> pa.Array:
    raise RuntimeError("no")


@pytest.mark.parametrize(
    ("returns", "implementation"),
    [
        (BIGINT, fail),
        (BIGINT, lambda c: c[:1]),
        (BIGINT, lambda c: c.to_pylist()),
        (BIGINT, lambda c: None),
        (BIGINT, lambda c: c.cast(pa.float64())),
        (BIGINT, lambda c: np.array([1, 2, 2**63], np.uint64)),
        (BIGINT, lambda c: np.ones((3, 1), np.int64)),
        (DOUBLE, lambda c: c.cast(pa.string())),
        (BOOLEAN, lambda c: c),
        (TIMESTAMP, lambda c: c),
        (ADDRESS, lambda c: c),
    ],
)
def test_a_call_that_fails_fails_its_rows(returns: DataType, implementation: Callable[..., object]) -> None:
    assert outcome(vectorized(implementation, returns)) == ([None] * 4, [True, True, False, True])


def test_times_and_addresses_come_as_they_are() -> None:
    moments = pa.array([5, None]).cast(pa.timestamp("us", "UTC"))
    tree = Call("f", (ColumnRef("s", "t", TIMESTAMP),), TIMESTAMP)
    for implementation in (lambda t: t, lambda t: t.to_numpy()):
        function = vectorized(implementation, TIMESTAMP, TIMESTAMP)
        assert Evaluation({("s", "t"): moments}, 2, [function]).evaluate(tree).values.equals(moments)
    addresses = pa.array([b"\1" * 16, None], pa.binary(16))
    tree = Call("f", (ColumnRef("s", "a", ADDRESS),), ADDRESS)
    function = vectorized(lambda a: a, ADDRESS, ADDRESS)
    assert Evaluation({("s", "a"): addresses}, 2, [function]).evaluate(tree).values.equals(addresses)


# Declaring them


def test_it_is_declared_with_the_names_of_its_types() -> None:
    @user_function(parameters=["BIGINT"], returns="DOUBLE", vectorized=True)
    def halves(numbers: Any) -> Any:
        return pc.divide(numbers, 2.0)

    assert halves == UserFunction("halves", (BIGINT,), DOUBLE, pc.divide, vectorized=True)
    assert outcome(halves)[0] == [0.5, 1.0, None, 1.0]


def test_it_needs_a_parameter() -> None:
    with pytest.raises(ValueError, match="needs a parameter"):
        UserFunction("f", (), BIGINT, lambda: 1, vectorized=True)


class Mute(Exception):
    def __str__(self) -> str:
        raise RuntimeError("it has no text")


class Unordered(int):
    def __ge__(self, other: object) -> bool:
        raise RuntimeError("it can't be compared")


def raise_mute(_values: Any) -> Any:
    raise Mute


def leave(_values: Any) -> Any:
    sys.exit(3)


@pytest.mark.parametrize(
    "function",
    [scalar(raise_mute), vectorized(raise_mute), scalar(leave), vectorized(leave), scalar(lambda _: Unordered(1))],
)
def test_whatever_it_raises_fails_its_rows(function: UserFunction) -> None:
    assert outcome(function) == ([None] * 4, [True, True, False, True])
