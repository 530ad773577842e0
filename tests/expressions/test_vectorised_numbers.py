"""The corners of arithmetic, rounding and comparing, with what must come out."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from headrace.expressions.evaluation import Evaluation
from headrace.model.expressions import Literal
from headrace.model.types import (
    BIGINT,
    BOOLEAN,
    DOUBLE,
    MAX_BIGINT,
    MIN_BIGINT,
    STRING,
    decimal,
)
from tests.expressions.cases import (
    FAILED,
    FRACTION,
    INF,
    MONEY,
    NAN,
    WIDE,
    C,
    D,
    X,
    Y,
    call,
    cast,
    column,
    results,
    same,
)

# Whole numbers


@pytest.mark.parametrize(
    ("operator", "left", "right", "expected"),
    [
        ("+", [MAX_BIGINT, MAX_BIGINT, MIN_BIGINT, None], [1, 0, -1, 1], [FAILED, MAX_BIGINT, FAILED, None]),
        ("-", [MIN_BIGINT, 0, -1], [1, MIN_BIGINT, MIN_BIGINT], [FAILED, FAILED, MAX_BIGINT]),
        ("*", [2**32, MIN_BIGINT, -1, 0], [2**31, -1, MIN_BIGINT, MIN_BIGINT], [FAILED, FAILED, FAILED, 0]),
        ("*", [2**31, -(2**62), 3], [-(2**32), 2, None], [MIN_BIGINT, MIN_BIGINT, None]),
        ("div", [7, -7, 7, -7, MIN_BIGINT, 1, None], [2, 2, -2, -2, -1, 0, 0], [3, -3, -3, 3, FAILED, FAILED, None]),
        ("%", [7, -7, 7, MIN_BIGINT, 1, None], [3, 3, -3, -1, 0, 0], [1, -1, 1, 0, FAILED, None]),
        ("/", [1, -1, 0, None, 1], [2, 0, 0, 0, None], [0.5, FAILED, FAILED, None, None]),
    ],
)
def test_whole_numbers_that_do_not_fit_fail(
    operator: str, left: list[Any], right: list[Any], expected: list[Any]
) -> None:
    assert results(call(operator, C, D), left, right) == expected
    for position, (first, second) in enumerate(zip(left, right, strict=True)):
        if first is not None and second is not None:
            assert results(call(operator, first, D), [None], [second]) == expected[position : position + 1]
            assert results(call(operator, C, second), [first]) == expected[position : position + 1]
            assert results(call(operator, first, second)) == expected[position : position + 1]


def test_what_lies_under_a_null_does_not_fail() -> None:
    hidden = pa.Array.from_buffers(
        pa.int64(), 2, [pa.array([False, True]).buffers()[1], pa.array([MIN_BIGINT, 1]).buffers()[1]]
    )
    for tree in (
        call("negate", C),
        call("abs", C),
        call("-", C, 1),
        call("div", C, -1),
        call("%", 1, call("+", C, MAX_BIGINT)),
    ):
        assert Evaluation({("s", "c"): hidden}, 2).evaluate(tree).values.null_count >= 1
    assert Evaluation({("s", "c"): hidden}, 2).evaluate(call("negate", C)).failed is None


@pytest.mark.parametrize("function", ["negate", "abs"])
def test_the_smallest_whole_number_has_no_opposite(function: str) -> None:
    assert results(call(function, C), [MIN_BIGINT, MAX_BIGINT]) == [
        FAILED,
        -MAX_BIGINT if function == "negate" else MAX_BIGINT,
    ]


# DOUBLEs


NUMBERS = [-INF, -1.0, 0.0, 1.0, INF, NAN]


@pytest.mark.parametrize("operator", ["=", "<>", "<", "<=", ">", ">="])
def test_nan_equals_itself_and_is_greater_than_every_number(operator: str) -> None:
    python = {"=": "__eq__", "<>": "__ne__", "<": "__lt__", "<=": "__le__", ">": "__gt__", ">=": "__ge__"}[operator]
    ranks = range(len(NUMBERS))
    expected = [[getattr(first, python)(second) for first in ranks] for second in ranks]
    for number, wanted in zip(NUMBERS, expected, strict=True):
        assert results(call(operator, X, number), NUMBERS) == wanted
        assert results(call(operator, X, Y), NUMBERS, [number] * len(NUMBERS)) == wanted


def test_zero_has_no_sign() -> None:
    assert results(call("=", X, 0.0), [-0.0]) == [True]
    assert results(call("in", X, 0.0, *map(float, range(1, 20))), [-0.0, 0.0, 0.5]) == [True, True, False]
    assert results(call("/", 1.0, X), [-0.0]) == [FAILED]


def test_whole_numbers_compare_with_doubles_as_doubles() -> None:
    assert results(call("=", C, float(2**53)), [2**53, 2**53 + 1, 2**53 + 2]) == [True, True, False]
    assert results(call("in", C, float(2**53), 1), [2**53 + 1, 1, 2]) == [True, True, False]


def test_double_to_bigint() -> None:
    values = [1.9, -1.9, NAN, INF, -INF, 2.0**63, -(2.0**63), -(2.0**63) - 2048, None]
    assert results(cast(X, BIGINT), values) == [1, -1, FAILED, FAILED, FAILED, FAILED, MIN_BIGINT, FAILED, None]
    assert results(call("ceil", X), [1.1, -1.9, NAN, 2.0**63, -0.5]) == [2, -1, FAILED, FAILED, 0]
    assert results(call("floor", X), [1.1, -1.9, -INF, -0.5]) == [1, -2, FAILED, -1]


def test_rounding_goes_by_what_is_written() -> None:
    assert results(call("round", X, 2), [1.005, 2.675, 1.115, -1.005, 0.285, 1e300, INF]) == [
        1.01,
        2.68,
        1.12,
        -1.01,
        0.29,
        1e300,
        INF,
    ]
    assert results(call("round", X), [0.5, 1.5, 2.5, -0.5, -2.5, 0.49999999999999994]) == [
        1.0,
        2.0,
        3.0,
        -1.0,
        -3.0,
        0.0,
    ]
    assert results(call("round", X, 3), [123456789012.3455, 4503599627370495.5]) == [
        123456789012.346,
        4503599627370495.5,
    ]
    assert same(results(call("round", X, 1), [NAN]), [NAN])
    assert results(cast(X, MONEY), [1.005, 99.994, 99.995, NAN, -0.001]) == [
        Decimal("1.01"),
        Decimal("99.99"),
        FAILED,
        FAILED,
        0,
    ]
    assert results(cast(X, decimal(38, 20)), [0.1, 1e17, 1e18]) == [Decimal("0.1"), Decimal(10**17), FAILED]


def test_real_functions_outside_their_domain() -> None:
    assert results(call("ln", X), [0.0, -1.0, 1.0]) == [FAILED, FAILED, 0.0]
    assert results(call("sqrt", X), [-1.0, 4.0, INF]) == [FAILED, 2.0, INF]
    assert results(call("power", X, Y), [0.0, -8.0, -2.0, 1e300], [-1.0, 0.5, 3.0, 2.0]) == [FAILED, FAILED, -8.0, INF]
    assert results(call("power", X, 3), [-1e300, NAN])[0] == -INF
    assert results(call("exp", X), [1000.0, -INF]) == [INF, 0.0]


# DECIMALs


def test_decimal_arithmetic_is_exact_or_fails() -> None:
    largest, smallest = Decimal(10**38 - 1), Decimal(1 - 10**38)
    wide, other = column(WIDE), column(WIDE, "d")
    assert results(call("+", wide, other), [largest, largest, 1], [0, 1, 2]) == [largest, FAILED, 3]
    assert results(call("-", wide, other), [smallest, None], [1, 1]) == [FAILED, None]
    assert results(call("*", wide, other), [10**19, 10**18, smallest], [10**19, 10**19, 1]) == [
        FAILED,
        10**37,
        smallest,
    ]
    tiny = Decimal("1e-38")
    assert results(call("+", wide, column(FRACTION, "d")), [0, 1], [tiny, tiny]) == [tiny, FAILED]
    assert results(call("*", wide, column(FRACTION, "d")), [7, 10**38 - 1], [tiny, tiny])[0] == Decimal("7e-38")
    assert results(call("%", wide, column(FRACTION, "d")), [3, 1, 1], [Decimal("0.7"), tiny, 0]) == [
        Decimal("0.2"),
        0,
        FAILED,
    ]


def test_decimals_compare_exactly() -> None:
    wide, tiny = column(WIDE), Literal(Decimal("1e-38"), FRACTION)
    assert results(call(">", wide, tiny), [0, 1]) == [False, True]
    assert results(call("=", column(MONEY), 5), [Decimal("5.00"), Decimal("5.01")]) == [True, False]
    assert results(call("in", C, Literal(Decimal("2.00"), MONEY), Literal(Decimal("2.50"), MONEY)), [2, 3]) == [
        True,
        False,
    ]
    assert results(call("in", column(MONEY), 5, Literal(10**38, WIDE)), [Decimal("5.00"), Decimal("5.01")]) == [
        True,
        False,
    ]


def test_the_chosen_number_must_fit_and_no_other() -> None:
    trees = {name: call(name, column(WIDE), column(FRACTION, "d")) for name in ("least", "greatest", "coalesce")}
    half = Decimal("0.5")
    assert results(trees["least"], [10, None], [half, half]) == [half, half]
    assert results(trees["greatest"], [10, -1], [half, half]) == [FAILED, half]
    assert results(trees["coalesce"], [10, None], [half, half]) == [FAILED, half]
    assert results(
        call("case", column(BOOLEAN, "e"), column(WIDE), column(FRACTION, "d")), [10, 10], [half, half], [True, None]
    ) == [FAILED, half]


def test_decimals_become_the_nearest_double() -> None:
    values = [Decimal("0.1"), Decimal("9007199254740993.0"), Decimal("12345678901234567890123456789012345.6")]
    assert results(cast(column(decimal(38, 1)), DOUBLE), values) == [float(value) for value in values]
    assert results(call("/", column(FRACTION), 3), [Decimal("1e-38")]) == [1e-38 / 3]


def test_decimals_round_half_away_from_zero() -> None:
    values = [Decimal("0.45"), Decimal("-0.45"), Decimal("99.95"), None]
    assert results(call("round", column(MONEY), 1), values) == [Decimal("0.50"), Decimal("-0.50"), FAILED, None]
    assert results(cast(column(MONEY), decimal(2, 1)), values) == [Decimal("0.5"), Decimal("-0.5"), FAILED, None]
    assert results(call("ceil", column(MONEY)), values) == [1, 0, 100, None]
    assert results(cast(column(decimal(38, 18)), BIGINT), [Decimal("-1.9"), Decimal(10**19)]) == [-1, FAILED]
    assert results(cast(column(decimal(10, 8)), STRING), [Decimal("0.00000001"), 0]) == ["0.00000001", "0.00000000"]
