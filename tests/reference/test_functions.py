"""Operators, functions and casts on single values: what they give, and where they fail."""

from __future__ import annotations

import math
from decimal import Decimal

import pytest

from headrace.model.address import parse_address
from headrace.model.types import MAX_BIGINT, MIN_BIGINT, Value
from tests.reference.scenario import Outcome, at, bounded, outcome, value_of

NAN, INF = math.nan, math.inf
FAILED = Outcome(None, 1)


def same(left: object, right: object) -> bool:
    """Equal in value and type; NaN equals NaN."""
    both_nan = isinstance(left, float) and isinstance(right, float) and math.isnan(left) and math.isnan(right)
    return type(left) is type(right) and (left == right or both_nan)


@pytest.mark.parametrize(
    ("expression", "v", "expected"),
    [
        ("v + 1", 41, 42),
        ("1 - v", 41, -40),
        ("v * -2", 21, -42),
        ("-v", 5, -5),
        ("v / 2", 5, 2.5),
        ("v / 2", 4, 2.0),
        ("v DIV 2", 7, 3),
        ("v DIV 2", -7, -3),
        ("v DIV -2", 7, -3),
        ("v DIV -2", -7, 3),
        ("v DIV 7", MIN_BIGINT, -1317624576693539401),
        ("v % 2", 7, 1),
        ("v % 2", -7, -1),
        ("v % -2", 7, 1),
        ("v % -1", MIN_BIGINT, 0),
        ("mod(v, 4)", 7, 3),
        ("abs(v)", -3, 3),
        ("sign(v)", -3, -1),
        ("sign(v)", 0, 0),
        ("ceil(v)", 3, 3),
        ("floor(v)", -3, -3),
        ("round(v, 1)", 35, 35),
        ("v + 0", MAX_BIGINT, MAX_BIGINT),
        ("-v", MAX_BIGINT, -MAX_BIGINT),
        ("-9223372036854775808 + v", 0, MIN_BIGINT),
        ("v + 0.5", 1, 1.5),
    ],
)
def test_whole_numbers(expression: str, v: int, expected: Value) -> None:
    assert same(value_of(expression, v=v), expected)


@pytest.mark.parametrize(
    ("expression", "v"),
    [
        ("v + 1", MAX_BIGINT),
        ("v - 1", MIN_BIGINT),
        ("v * 2", MAX_BIGINT),
        ("-v", MIN_BIGINT),
        ("abs(v)", MIN_BIGINT),
        ("v DIV -1", MIN_BIGINT),
        ("v / 0", 1),
        ("v DIV 0", 1),
        ("v % 0", 1),
        ("v / 0.0", 1),
    ],
)
def test_whole_numbers_that_fail(expression: str, v: int) -> None:
    assert outcome(expression, v=v) == FAILED


@pytest.mark.parametrize(
    ("expression", "x", "expected"),
    [
        ("x + 1", 0.5, 1.5),
        ("x * 10", 1e308, INF),
        ("x * 0", INF, NAN),
        ("x - x", INF, NAN),
        ("x / 3", 1.0, 1 / 3),
        ("x % 2", -7.5, -1.5),
        ("x % 2", INF, NAN),
        ("2 % x", INF, 2.0),
        ("x % 2", NAN, NAN),
        ("abs(x)", -0.5, 0.5),
        ("sign(x)", -0.5, -1.0),
        ("sign(x)", NAN, NAN),
        ("ceil(x)", -0.5, 0),
        ("floor(x)", -0.5, -1),
        ("ceil(x)", 2.0000001, 3),
        ("round(x)", 2.5, 3.0),
        ("round(x)", -2.5, -3.0),
        ("round(x, 2)", 0.285, 0.29),
        ("round(x, 2)", 1e308, 1e308),
        ("round(x)", NAN, NAN),
        ("sqrt(x)", 2.25, 1.5),
        ("exp(x)", 0.0, 1.0),
        ("exp(x)", 1000.0, INF),
        ("ln(x)", 1.0, 0.0),
        ("log2(x)", 8.0, 3.0),
        ("log10(x)", 1000.0, 3.0),
        ("power(x, 3)", 2.0, 8.0),
        ("power(x, 400)", -10.0, INF),
        ("power(x, 309)", -10.0, -INF),
        ("power(x, -309)", -0.1, -INF),
        ("ln(x)", NAN, NAN),
    ],
)
def test_doubles(expression: str, x: float, expected: Value) -> None:
    value = value_of(expression, x=x)
    assert same(value, expected) or (isinstance(expected, float) and value == pytest.approx(expected, rel=1e-15))


@pytest.mark.parametrize(
    ("expression", "x"),
    [
        ("x / 0", 1.0),
        ("x / 0", NAN),
        ("1 / x", -0.0),
        ("x % 0", 1.0),
        ("sqrt(x)", -1.0),
        ("ln(x)", 0.0),
        ("log2(x)", -1.0),
        ("log10(x)", 0.0),
        ("power(x, 0.5)", -1.0),
        ("power(x, -1)", 0.0),
        ("ceil(x)", 1e19),
        ("floor(x)", NAN),
        ("ceil(x)", INF),
    ],
)
def test_doubles_that_fail(expression: str, x: float) -> None:
    assert outcome(expression, x=x) == FAILED


@pytest.mark.parametrize(
    ("expression", "d", "expected"),
    [
        ("d + DECIMAL '0.005'", "12.34", Decimal("12.345")),
        ("d - 1", "12.34", Decimal("11.34")),
        ("d * d", "-12.34", Decimal("152.2756")),
        ("-d", "12.34", Decimal("-12.34")),
        ("abs(d)", "-12.34", Decimal("12.34")),
        ("d % DECIMAL '0.7'", "-12.34", Decimal("-0.44")),
        ("d / 2", "12.34", 6.17),
        ("d * 0.5", "12.34", 6.17),
        ("ceil(d)", "12.34", Decimal(13)),
        ("floor(d)", "-12.34", Decimal(-13)),
        ("round(d, 1)", "12.35", Decimal("12.40")),
        ("round(d, 1)", "-12.35", Decimal("-12.40")),
        ("CAST(d AS DECIMAL(3, 1))", "12.35", Decimal("12.4")),
        ("CAST(d AS STRING)", "1.50", "1.50"),
        ("CAST(CAST(d AS DECIMAL(3, 1)) AS STRING)", "-0.04", "0.0"),
        ("CAST(CAST(d AS DECIMAL(20, 10)) AS STRING)", "0.00", "0.0000000000"),
        ("CAST(d AS BIGINT)", "-1.99", -1),
        ("CAST(d AS DOUBLE)", "0.10", 0.1),
    ],
)
def test_decimals(expression: str, d: str, expected: Value) -> None:
    assert same(value_of(expression, d=Decimal(d)), expected)


def test_decimals_are_exact_to_their_last_digit() -> None:
    nines = "9" * 38
    assert value_of("CAST(k AS DECIMAL(38, 0))", k=nines) == Decimal(nines)
    expected = {
        "-{}": -(10**38) + 1,
        "abs(-{})": 10**38 - 1,
        "{} - 1": 10**38 - 2,
        "1 - {}": -(10**38) + 2,
        "{} + -1": 10**38 - 2,
        "{} * 1": 10**38 - 1,
        "{} % 7": (10**38 - 1) % 7,
    }
    for expression, value in expected.items():
        assert value_of(expression.format("CAST(k AS DECIMAL(38, 0))"), k=nines) == value
    assert outcome("CAST(k AS DECIMAL(38, 0)) + 1", k=nines) == FAILED
    assert outcome("CASE WHEN b THEN CAST(k AS DECIMAL(38, 0)) ELSE d END", k=nines, b=True) == FAILED
    assert outcome("CAST(d AS DECIMAL(3, 2))", d=Decimal("9.995")) == FAILED
    assert outcome("CAST(k AS DECIMAL(3, 2))", k="1e999999999") == FAILED


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("concat(k, '-', k)", "H\u00e4\u00df-H\u00e4\u00df"),
        ("k || '!'", "H\u00e4\u00df!"),
        ("upper(k)", "H\u00c4\u00df"),
        ("lower(k)", "h\u00e4\u00df"),
        ("length(k)", 3),
        ("trim('  x ')", "x"),
        ("ltrim('  x ')", "x "),
        ("rtrim('  x ')", "  x"),
        ("substring(k, 2)", "\u00e4\u00df"),
        ("substring(k, 2, 1)", "\u00e4"),
        ("substring(k, 0, 2)", "H\u00e4"),
        ("substring(k, -2, 1)", "\u00e4"),
        ("substring(k, -5, 3)", "H"),
        ("substring(k, -5, 2)", ""),
        ("substring(k, 9)", ""),
        ("substring(k, 1, -1)", ""),
        ("left(k, 2)", "H\u00e4"),
        ("left(k, -1)", ""),
        ("right(k, 2)", "\u00e4\u00df"),
        ("right(k, 9)", "H\u00e4\u00df"),
        ("right(k, 0)", ""),
        ("replace(k, 'H', 'hh')", "hh\u00e4\u00df"),
        ("replace(k, '', 'x')", "H\u00e4\u00df"),
        ("instr(k, '\u00df')", 3),
        ("instr(k, 'x')", 0),
        ("starts_with(k, 'H')", True),
        ("ends_with(k, 'H')", False),
        ("contains(k, '\u00e4')", True),
    ],
)
def test_texts(expression: str, expected: Value) -> None:
    assert same(value_of(expression, k="H\u00e4\u00df"), expected)


@pytest.mark.parametrize(
    ("text", "target", "expected"),
    [
        (" -12 ", "BIGINT", -12),
        ("+12", "BIGINT", 12),
        (" 1.5e3 ", "DOUBLE", 1500.0),
        (".5", "DOUBLE", 0.5),
        ("-Infinity", "DOUBLE", -INF),
        ("nan", "DOUBLE", NAN),
        ("1e999", "DOUBLE", INF),
        (" 1.005", "DECIMAL(5, 2)", Decimal("1.01")),
        ("1e2", "DECIMAL(5, 2)", Decimal("100.00")),
        (" True ", "BOOLEAN", True),
        ("FALSE", "BOOLEAN", False),
        ("1970-01-01 00:00:01", "TIMESTAMP", 1_000_000),
        ("10.0.0.1", "ADDRESS", parse_address("10.0.0.1")),
    ],
)
def test_casts_from_text(text: str, target: str, expected: Value) -> None:
    assert same(value_of(f"CAST(k AS {target})", k=text), expected)


@pytest.mark.parametrize(
    ("text", "target"),
    [
        ("", "BIGINT"),
        ("1.5", "BIGINT"),
        ("1_000", "BIGINT"),
        ("\uff11\uff12", "BIGINT"),
        ("9223372036854775808", "BIGINT"),
        ("9" * 5_000, "BIGINT"),
        ("1_0", "DOUBLE"),
        ("\uff11", "DOUBLE"),
        ("0x10", "DOUBLE"),
        ("1,5", "DECIMAL(5, 2)"),
        ("1_0", "DECIMAL(5, 2)"),
        ("\uff11", "DECIMAL(5, 2)"),
        ("nan", "DECIMAL(5, 2)"),
        ("1000", "DECIMAL(5, 2)"),
        ("yes", "BOOLEAN"),
        ("yesterday", "TIMESTAMP"),
        ("1970-13-01", "TIMESTAMP"),
        ("10.0.0.256", "ADDRESS"),
    ],
)
def test_casts_from_text_that_fail(text: str, target: str) -> None:
    assert outcome(f"CAST(k AS {target})", k=text) == FAILED


@pytest.mark.parametrize(
    ("expression", "columns", "expected"),
    [
        ("CAST(x AS BIGINT)", {"x": -1.99}, -1),
        ("CAST(x AS DECIMAL(5, 2))", {"x": 0.285}, Decimal("0.29")),
        ("CAST(v AS DOUBLE)", {"v": 2**53 + 1}, float(2**53)),
        ("CAST(v AS BOOLEAN)", {"v": 1}, True),
        ("CAST(v AS BOOLEAN)", {"v": 0}, False),
        ("CAST(v AS STRING)", {"v": -3}, "-3"),
        ("CAST(b AS BIGINT)", {"b": True}, 1),
        ("CAST(b AS STRING)", {"b": False}, "false"),
        ("CAST(b AS STRING)", {"b": True}, "true"),
        ("CAST(a AS STRING)", {"a": parse_address("10.0.0.1")}, "10.0.0.1"),
        ("CAST(v AS DECIMAL(5, 2))", {"v": 12}, Decimal("12.00")),
    ],
)
def test_other_casts(expression: str, columns: dict[str, Value], expected: Value) -> None:
    assert same(value_of(expression, **columns), expected)


@pytest.mark.parametrize("x", [1e19, NAN, INF])
def test_casts_of_doubles_that_fail(x: float) -> None:
    assert outcome("CAST(x AS BIGINT)", x=x) == FAILED
    assert outcome("CAST(x AS DECIMAL(5, 2))", x=x) == FAILED


def test_seconds_of_a_time_go_down_before_the_epoch() -> None:
    # time  -1.5      -1       0
    # row    r        seconds -2, milliseconds -1500
    query = "SELECT max(unix_seconds(t)) AS s, max(unix_millis(t)) AS ms, max(unix_micros(t)) AS us FROM s [RANGE 10]"
    assert bounded(query, at(-1.5)) == [(-10, 0, -2, -1_500, -1_500_000)]


def test_addresses() -> None:
    home, v6 = parse_address("10.1.2.3"), parse_address("2001:db8::1")
    assert value_of("ip_prefix(a, 24) = ADDRESS '10.1.2.0'", a=home) is True
    assert value_of("ip_prefix(a, 32) = ADDRESS '2001:db8::'", a=v6) is True
    assert [value_of("ip_in(a, '10.0.0.0/8')", a=a) for a in (home, v6, None)] == [True, False, None]
    assert value_of("a < ADDRESS '10.1.2.4'", a=home) is True


@pytest.mark.parametrize(
    "expression", ["v + 1", "-v", "abs(v)", "v / 0", "concat(k, 'x')", "CAST(k AS BIGINT)", "left(k, v)"]
)
def test_null_in_null_out(expression: str) -> None:
    assert outcome(expression) == (None, 0)
