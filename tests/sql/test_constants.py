"""Constants: how numbers, texts, times, addresses and patterns are written, and that each reads back as itself."""

from __future__ import annotations

from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.model.errors import QueryError
from headrace.model.expressions import Call, Expression, Literal
from headrace.model.types import BIGINT, BOOLEAN, DOUBLE, STRING, Value, decimal
from headrace.sql import format_query
from headrace.sql.printer import format_literal
from tests.expressions.trees import KINDS, literals
from tests.sql.catalog import parse, where

COLUMNS = {"BOOLEAN": "ok", "BIGINT": "vol", "DOUBLE": "price", "DECIMAL": "fee", "STRING": "symbol"}
COLUMNS |= {"TIMESTAMP": "ts", "ADDRESS": "addr"}


def constant(text: str, column: str) -> Literal:
    """The constant that `text` is when compared with the column."""
    tree = where(f"{column} = {text}").where
    assert isinstance(tree, Call)
    found = tree.arguments[1]
    assert isinstance(found, Literal)
    return found


NUMBERS: list[tuple[str, Value]] = [
    ("0", 0),
    ("007", 7),
    ("0" * 60 + "5", 5),
    ("9223372036854775807", 2**63 - 1),
    ("-9223372036854775808", -(2**63)),
    ("-(9223372036854775808)", -(2**63)),
    ("- 5", -5),
    ("-(-5)", 5),
    ("+5", 5),
    ("1.5", 1.5),
    ("1.", 1.0),
    (".5", 0.5),
    ("-.5", -0.5),
    ("1e3", 1000.0),
    ("1E+3", 1000.0),
    (".5e-3", 0.0005),
    ("1e308", 1e308),
    ("1.7976931348623157e308", 1.7976931348623157e308),
    ("5e-324", 5e-324),
    ("1e-400", 0.0),
    ("-0.0", 0.0),
    ("0.1", 0.1),
    ("1e19", 1e19),
]


@pytest.mark.parametrize(("text", "value"), NUMBERS)
def test_numbers(text: str, value: Value) -> None:
    found = constant(text, "vol")
    assert (found.value, type(found.value)) == (value, type(value))
    assert found.type == (BIGINT if isinstance(value, int) else DOUBLE)


NO_NUMBERS = [
    ("9223372036854775808", "number"),
    ("-9223372036854775809", "number"),
    ("-(-9223372036854775808)", "number"),
    ("99999999999999999999", "number"),
    ("1" * 400, "number"),
    ("1e309", "number"),
    ("1e", "number"),
    ("1L", "syntax"),
    ("1.5D", "syntax"),
    ("1_000", "syntax"),
    ("0x1F", "syntax"),
    ("x'1F'", "syntax"),
    ("x'zz'", "syntax"),
    ("1..2", "syntax"),
    ("1.2.3", "syntax"),
    ("1 000", "syntax"),
    ("٣", "syntax"),
]


@pytest.mark.parametrize(("text", "code"), NO_NUMBERS)
def test_what_is_no_number(text: str, code: str) -> None:
    with pytest.raises(QueryError) as caught:
        where(f"vol = {text}")
    assert caught.value.code == code


TEXTS = [
    ("'plain'", "plain"),
    ("''", ""),
    ("'it''s'", "it's"),
    ("''''", "'"),
    ("''''''", "''"),
    (r"'it\'s'", "it's"),
    ('"double"', "double"),
    (r'"a \"b\" c"', 'a "b" c'),
    ("'a \"b\" c'", 'a "b" c'),
    ("'`'", "`"),
    (r"'\\'", "\\"),
    (r"'\\\\n'", r"\\n"),
    (r"'\n\t'", "\n\t"),
    ("'line\nbreak'", "line\nbreak"),
    ("'-- no comment /* nor here */ ;'", "-- no comment /* nor here */ ;"),
    ("'é 😀 \u202e \u0000'", "é 😀 \u202e \u0000"),
    (r"'\u00e9'", "é"),
    (r"'100\%'", r"100\%"),
]


@pytest.mark.parametrize(("text", "value"), TEXTS)
def test_texts(text: str, value: str) -> None:
    assert constant(text, "symbol") == Literal(value, STRING)


@given(st.sampled_from(KINDS).flatmap(literals))
def test_every_constant_reads_back(literal: Literal) -> None:
    tree = where(f"{COLUMNS[literal.type.name]} = {format_literal(literal)}").where
    assert isinstance(tree, Call)
    assert tree.arguments[1] == literal


DECIMALS = [
    ("DECIMAL '0.30'", Decimal("0.30"), decimal(2, 2)),
    ("DECIMAL '-12.5'", Decimal("-12.5"), decimal(3, 1)),
    ("-DECIMAL '12.5'", Decimal("-12.5"), decimal(3, 1)),
    ("NUMERIC '5'", Decimal(5), decimal(1, 0)),
    ("DECIMAL '.5'", Decimal("0.5"), decimal(1, 1)),
    ("DECIMAL '1e3'", Decimal(1000), decimal(4, 0)),
    ("DECIMAL '-0.00'", Decimal("0.00"), decimal(2, 2)),
    ("CAST('5' AS DECIMAL(5, 2))", Decimal("5.00"), decimal(5, 2)),
    ("CAST(' 5 ' AS DECIMAL(5, 2))", Decimal("5.00"), decimal(5, 2)),
    (f"DECIMAL '{'9' * 38}'", Decimal("9" * 38), decimal(38, 0)),
    (f"DECIMAL '0.{'1' * 38}'", Decimal("0." + "1" * 38), decimal(38, 38)),
]


@pytest.mark.parametrize(("text", "value", "data_type"), DECIMALS)
def test_decimals(text: str, value: Decimal, data_type: object) -> None:
    found = constant(text, "amount")
    assert (str(found.value), found.type) == (str(value), data_type)


TIMES = [
    ("'2026-01-31'", "ts", "2026-01-31T00:00:00Z"),
    ("'2026-01-31 12:00'", "ts", "2026-01-31T12:00:00Z"),
    ("TIMESTAMP '2026-01-31T12:00:00Z'", "ts", "2026-01-31T12:00:00Z"),
    ("CAST('2026-01-31 12:00:00.25+02:00' AS TIMESTAMP)", "ts", "2026-01-31T10:00:00.250000Z"),
    ("'0001-01-01'", "ts", "0001-01-01T00:00:00Z"),
    ("'9999-12-31 23:59:59.999999'", "ts", "9999-12-31T23:59:59.999999Z"),
]


@pytest.mark.parametrize(("text", "column", "canonical"), TIMES)
def test_times(text: str, column: str, canonical: str) -> None:
    assert f"TIMESTAMP '{canonical}'" in format_query(where(f"{column} > {text}"))


def test_a_time_without_a_zone_is_in_the_streams_zone() -> None:
    query = parse("SELECT count(*) FROM Late [RANGE 60] WHERE ts > '2026-07-01 12:00' OR ts < '2026-07-01 12:00:00Z'")
    text = format_query(query)
    assert "ts > TIMESTAMP '2026-07-01T16:00:00Z'" in text
    assert "ts < TIMESTAMP '2026-07-01T12:00:00Z'" in text


ADDRESSES = [
    ("'10.0.0.1'", "10.0.0.1"),
    ("ADDRESS '::ffff:10.0.0.1'", "10.0.0.1"),
    ("INET '::FFFF:0a00:0001'", "10.0.0.1"),
    ("CAST('2001:DB8:0:0::1' AS ADDRESS)", "2001:db8::1"),
    ("'::'", "::"),
    ("'0.0.0.0'", "0.0.0.0"),
]


@pytest.mark.parametrize(("text", "canonical"), ADDRESSES)
def test_addresses(text: str, canonical: str) -> None:
    assert f"ADDRESS '{canonical}'" in format_query(where(f"addr <> {text}"))


BAD = [
    ("ts > 'yesterday'", "constant", "'yesterday'"),
    ("'2026-02-30' < ts", "constant", "'2026-02-30'"),
    ("ts BETWEEN '2026-01-01' AND '10000-01-01'", "constant", "'10000-01-01'"),
    ("ts > '2026-01-31 12:00:00 tomorrow'", "constant", "'2026-01-31 12:00:00 tomorrow'"),
    ("CASE ts WHEN 'x' THEN ok END", "constant", "'x'"),
    ("addr = '10.0.0.256'", "constant", "'10.0.0.256'"),
    ("addr = 'fe80::1%eth0'", "constant", "'fe80::1%eth0'"),
    ("addr IN ('10.0.0.1', 'x')", "constant", "'x'"),
    ("fee = DECIMAL 'x'", "constant", "DECIMAL 'x'"),
    ("fee = DECIMAL 'NaN'", "constant", "DECIMAL 'NaN'"),
    ("fee = DECIMAL '1_000'", "constant", "DECIMAL '1_000'"),
    (f"fee = DECIMAL '{'1' * 39}'", "constant", f"DECIMAL '{'1' * 39}'"),
    ("fee = DECIMAL '1e999999999'", "constant", "DECIMAL '1e999999999'"),
    ("fee = CAST('123.456' AS DECIMAL(5, 2))", "constant", "CAST('123.456' AS DECIMAL(5, 2))"),
    ("ip_in(addr, '10.0.0.1/8')", "type", "ip_in(addr, '10.0.0.1/8')"),
    ("symbol LIKE 'a\\\\'", "pattern", "'a\\\\'"),
    ("symbol LIKE 'a!b' ESCAPE '!'", "pattern", "'a!b'"),
    ("symbol LIKE 'a' ESCAPE '!!'", "syntax", "'!!'"),
    ("symbol LIKE 'a' ESCAPE 1", "syntax", "1"),
    ("symbol = 'a' 'b'", "syntax", "'b'"),
    ("symbol = 'open", "syntax", "'"),
    ("symbol = `open", "syntax", "`"),
    ("symbol = 1 /* open", "syntax", "/*"),
]


@pytest.mark.parametrize(("condition", "code", "spot"), BAD)
def test_constants_that_are_refused_at_the_spot(condition: str, code: str, spot: str) -> None:
    with pytest.raises(QueryError) as caught:
        where(condition)
    error = caught.value
    assert error.span is not None
    assert error.source is not None
    assert (error.code, error.source[error.span.start : error.span.end]) == (code, spot)


PATTERNS = [
    ("LIKE 'a%'", "a%"),
    ("LIKE 'a\\\\%'", "a\\%"),
    ("LIKE 'a\\%'", "a\\%"),
    ("LIKE 'a!%' ESCAPE '!'", "a\\%"),
    ("LIKE 'a!!' ESCAPE '!'", "a!"),
    ("LIKE 'a%%' ESCAPE '%'", "a\\%"),
    ("LIKE '\\\\\\\\'", "\\\\"),
    ("LIKE 'a\\\\' ESCAPE '!'", "a\\\\"),
]


@pytest.mark.parametrize(("form", "pattern"), PATTERNS)
def test_patterns_are_kept_with_a_backslash_as_escape(form: str, pattern: str) -> None:
    assert where(f"symbol {form}").where == Call("like", (symbol(), Literal(pattern, STRING)), BOOLEAN)
    text = format_query(where(f"symbol {form}"))
    assert parse(text) == where(f"symbol {form}")


def symbol() -> Expression:
    tree = where("symbol IS NULL").where
    assert isinstance(tree, Call)
    return tree.arguments[0]
