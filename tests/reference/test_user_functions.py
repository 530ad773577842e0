"""Python functions in queries: opaque, one value for one row, and never a danger to the other queries."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from headrace.model.schema import UserFunction
from headrace.model.types import BIGINT, BOOLEAN, DOUBLE, STRING, TIMESTAMP, DataType, decimal
from tests.reference.scenario import Scenario, at, outcome

DEC = decimal(5, 2)


def function(implementation: Callable[..., object], returns: DataType = BIGINT, *parameters: DataType) -> UserFunction:
    return UserFunction("F", parameters or (BIGINT,), returns, implementation)


def test_it_is_called_by_name_whatever_the_case() -> None:
    functions = [function(lambda v: v * 2)]
    assert outcome("f(v) + F(1)", "", functions, v=20) == (42, 0)


def test_it_can_stand_everywhere() -> None:
    # v % 3 as a user function: WHERE drops 0, GROUP BY sees 1 and 2
    query = (
        "SELECT f(v) AS g, sum(f(v)) AS total, f(count(*)) AS r FROM s [RANGE 10] "
        "WHERE f(v) > 0 GROUP BY f(v) HAVING f(max(v)) > 1"
    )
    scenario = Scenario(query, functions=[function(lambda v: v % 3)])
    step = scenario.batch(*(at(v / 10, v=v) for v in range(9)))
    assert step.errors() == 0
    assert scenario.end().rows() == [(0, 10, 2, 6, 0)]


def test_null_in_null_out_without_a_call() -> None:
    called: list[object] = []

    def note(v: object, k: object) -> int:
        called.append((v, k))
        return 1

    functions = [function(note, BIGINT, BIGINT, STRING)]
    assert outcome("f(v, k)", "", functions, v=1) == (None, 0)
    assert outcome("f(v, NULL)", "", functions, v=1) == (None, 0)
    assert called == []
    assert outcome("f(v, k)", "", functions, v=1, k="a") == (1, 0)
    assert called == [(1, "a")]


def test_it_may_give_null() -> None:
    assert outcome("f(v)", "", [function(lambda v: None)], v=1) == (None, 0)


@pytest.mark.parametrize(
    "problem", [ValueError("no"), KeyError("k"), ZeroDivisionError(), RuntimeError(), AssertionError()]
)
def test_if_it_raises_the_row_is_null_and_counts(problem: Exception) -> None:
    def fail(v: int) -> int:
        raise problem

    scenario = Scenario("SELECT max(f(v)) AS m, count(*) AS n FROM s [RANGE 10]", functions=[function(fail)])
    scenario.register("other", "SELECT sum(v) AS total FROM s [RANGE 10]")
    step = scenario.batch(at(0, v=1), at(1, v=2))
    assert (step.errors(), step.errors("other")) == (2, 0)
    end = scenario.end()
    assert (end.rows(), end.rows("other")) == ([(0, 10, None, 2)], [(0, 10, 3)])


@pytest.mark.parametrize(
    ("returns", "value", "expected"),
    [
        (BIGINT, 7, 7),
        (DOUBLE, 7, 7.0),
        (DOUBLE, 7.5, 7.5),
        (BOOLEAN, True, True),
        (STRING, "seven", "seven"),
        (TIMESTAMP, 7, 7),
        (DEC, Decimal("7.005"), Decimal("7.01")),
        (DEC, 7, Decimal("7.00")),
    ],
)
def test_results_of_its_type(returns: DataType, value: object, expected: object) -> None:
    found = outcome("f(v)", "", [function(lambda v: value, returns)], v=1)
    assert found == (expected, 0)
    assert type(found.value) is type(expected)


@pytest.mark.parametrize(
    ("returns", "value"),
    [
        (BIGINT, 7.0),
        (BIGINT, "7"),
        (BIGINT, True),
        (BIGINT, 2**63),
        (DOUBLE, "7"),
        (DOUBLE, True),
        (DOUBLE, 10**400),
        (BOOLEAN, 1),
        (STRING, 7),
        (STRING, b"seven"),
        (TIMESTAMP, "2026-01-01"),
        (DEC, "7"),
        (DEC, 7.5),
        (DEC, Decimal("NaN")),
        (DEC, Decimal("1000")),
    ],
)
def test_a_result_of_another_type_is_an_error(returns: DataType, value: object) -> None:
    assert outcome("f(v)", "", [function(lambda v: value, returns)], v=1) == (None, 1)


def test_a_function_without_an_implementation_is_a_mistake_of_the_caller() -> None:
    scenario = Scenario("SELECT max(f(v)) AS m FROM s [RANGE 10]", functions=[function(lambda v: v)])
    scenario.interpreter.evaluator.functions = {}
    with pytest.raises(KeyError):
        scenario.batch(at(0, v=1))


def test_a_vectorised_one_gets_and_gives_arrays() -> None:
    doubled = UserFunction("f", (BIGINT,), BIGINT, lambda v: pc.multiply(v, 2), vectorized=True)
    assert outcome("f(v) + f(1)", "", [doubled], v=20) == (42, 0)
    assert outcome("f(v)", "", [doubled], v=None) == (None, 0)
    later = UserFunction("f", (TIMESTAMP,), TIMESTAMP, lambda t: t, vectorized=True)
    assert outcome("unix_seconds(f(t))", "", [later]) == (0, 0)
    wrong = UserFunction("f", (BIGINT,), BIGINT, lambda v: pa.array([1, 2]), vectorized=True)
    assert outcome("f(v)", "", [wrong], v=1) == (None, 1)
