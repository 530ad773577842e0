"""Limits: what lies at the bound is accepted, what lies above it is refused, and nothing takes long to find out."""

from __future__ import annotations

import pytest

from headrace.model.errors import QueryError
from headrace.model.query import Query
from headrace.sql import ScriptReader, format_query, parse_script
from headrace.sql.expressions import MAX_HEIGHT
from headrace.sql.tokens import MAX_DEPTH, MAX_JOINS, MAX_STATEMENT_BYTES
from tests.sql.catalog import CATALOG, parse, where

START = "SELECT count(*) FROM Trades [RANGE 60] WHERE "


def refused(text: str) -> QueryError:
    with pytest.raises(QueryError) as caught:
        parse(text)
    return caught.value


def check_limit(text: str) -> None:
    error = refused(text)
    assert error.code == "limit"
    assert error.hint
    assert len(str(error)) < 2_000


def check_accepted(query: Query) -> None:
    assert parse(format_query(query)) == query


NESTED = {
    "parentheses": ("(", "ok", ")"),
    "functions": ("coalesce(ok, ", "ok", ")"),
    "casts": ("CAST(", "ok", " AS BOOLEAN)"),
    "conditions": ("CASE WHEN ", "ok", " THEN ok END"),
    "values": ("CASE WHEN ok THEN ", "ok", " ELSE ok END"),
    "subjects": ("CASE ", "ok", " WHEN ok THEN ok END"),
    "disjunctions": ("ok OR (vol > 1 AND ", "ok", ")"),
}


@pytest.mark.parametrize(("opening", "middle", "closing"), NESTED.values(), ids=NESTED)
def test_thirty_two_levels_are_accepted_and_one_more_is_not(opening: str, middle: str, closing: str) -> None:
    check_limit(START + opening * (MAX_DEPTH + 1) + middle + closing * (MAX_DEPTH + 1))
    check_accepted(where(opening * MAX_DEPTH + middle + closing * MAX_DEPTH))


def test_signs_and_nots_count_as_levels() -> None:
    check_accepted(where("NOT " * MAX_DEPTH + "ok"))
    check_limit(START + "NOT " * (MAX_DEPTH + 1) + "ok")
    check_accepted(where("NOT (" * (MAX_DEPTH // 2) + "ok" + ")" * (MAX_DEPTH // 2)))
    check_limit(START + "NOT (" * (MAX_DEPTH // 2 + 1) + "ok" + ")" * (MAX_DEPTH // 2 + 1))
    check_limit(START + "- " * (MAX_DEPTH + 1) + "vol > 1")


def test_levels_side_by_side_do_not_add_up() -> None:
    check_accepted(where(" AND ".join(f"abs(abs(vol)) > {number}" for number in range(100))))


def test_a_name_that_looks_like_a_bracket_does_not_count() -> None:
    with pytest.raises(QueryError) as caught:
        parse(START + "T.end + " * 10 + "(" * (MAX_DEPTH + 1) + "1" + ")" * (MAX_DEPTH + 1) + " > 1")
    assert caught.value.code == "limit"


def test_chains_of_operators() -> None:
    check_accepted(where(" + ".join(["vol"] * MAX_HEIGHT) + " > 1"))
    check_limit(START + " + ".join(["vol"] * (MAX_HEIGHT + 1)) + " > 1")
    check_limit(START + " = ".join(["ok"] * (MAX_HEIGHT + 2)))
    check_limit(START + "ok" + " IS NULL" * (MAX_HEIGHT + 1))
    check_limit(START + "symbol" + " LIKE 'a'" * (MAX_HEIGHT + 5))


def test_rows_of_and_or_and_concatenation_may_be_long() -> None:
    check_accepted(where(" AND ".join(f"vol <> {number}" for number in range(1_000))))
    check_accepted(where(" OR ".join(f"vol = {number}" for number in range(1_000))))
    check_accepted(where(" || ".join(["symbol"] * 1_000) + " = 'a'"))
    check_accepted(where(f"vol IN ({', '.join(map(str, range(4_000)))})"))


def test_chains_inside_one_another_add_up() -> None:
    inner = " + ".join(["vol"] * 20)
    for _ in range(6):
        inner = f"({inner})" + " + vol" * 20
    check_limit(START + inner + " > 1")


def test_names_do_not_lead_around_the_height() -> None:
    chain = " + ".join(["sum(vol)"] * 60)
    check_limit(f"SELECT {chain} AS a FROM Trades [RANGE 60] HAVING a + {chain} > 1")


@pytest.mark.parametrize(
    "condition",
    [
        "(" * 20 + "ok" + " BETWEEN ok AND ok)" * 20,
        "CASE " * 31 + "ok" + " WHEN ok THEN ok WHEN NULL THEN ok END" * 31,
        f"({' + '.join(['vol'] * 90)}) IN ({', '.join(f'vol + {number}' for number in range(2_000))})",
        f"CASE {' + '.join(['vol'] * 90)} {' '.join(f'WHEN {number} THEN ok' for number in range(2_000))} END",
    ],
    ids=["between", "case", "in", "branches"],
)
def test_what_would_be_copied_too_often_is_refused(condition: str) -> None:
    check_limit(START + condition)


def test_names_that_stand_for_much_are_not_repeated_for_ever() -> None:
    long = " || ".join(["max(symbol)"] * 1_000)
    repeated = ", ".join(["a"] * 2_000)
    check_limit(f"SELECT {long} AS a FROM Trades [RANGE 60] ORDER BY {repeated}")
    check_limit(f"SELECT {' || '.join(['symbol'] * 2_000)} AS a FROM Trades [RANGE 60] GROUP BY {repeated}")


def padded(size: int) -> str:
    """A statement of so many bytes."""
    condition = "symbol = '"
    return START + condition + "x" * (size - len(START) - len(condition) - 1) + "'"


def test_sixty_four_kibibytes() -> None:
    exact = parse_script(padded(MAX_STATEMENT_BYTES - 100), CATALOG)
    assert len(exact.queries) == 1
    assert len(padded(MAX_STATEMENT_BYTES)) == MAX_STATEMENT_BYTES
    error = refused(padded(MAX_STATEMENT_BYTES + 1))
    assert (error.code, error.message) == ("limit", "a statement may have at most 64 KiB")


def test_the_limit_is_in_bytes() -> None:
    check_limit(START + f"symbol = '{'é' * (MAX_STATEMENT_BYTES // 2)}'")


def test_blanks_and_comments_around_a_statement_do_not_count() -> None:
    text = "-- " + "x" * MAX_STATEMENT_BYTES + "\n" + START + "ok;\n" + " " * MAX_STATEMENT_BYTES
    assert len(parse_script(text, CATALOG).queries) == 1


def test_a_statement_at_the_limit_whose_canonical_text_is_longer_is_refused() -> None:
    text = START + " OR ".join(f"vol={number}" for number in range(5_000))
    assert len(text) < MAX_STATEMENT_BYTES
    check_limit(text)


def test_many_statements_may_be_longer_together() -> None:
    statement = START + f"symbol = '{'x' * 60_000}';"
    reader = ScriptReader(statement * 5, CATALOG)
    assert not any(isinstance(outcome, QueryError) for outcome in reader.statements())


def joins(count: int) -> str:
    listed = " ".join(f"JOIN Close c{number} ON T.symbol = c{number}.symbol" for number in range(count))
    return f"SELECT count(*) FROM Trades T [RANGE 60] {listed}"


def test_joins() -> None:
    check_accepted(parse(joins(MAX_JOINS)))
    check_limit(joins(MAX_JOINS + 1))
    check_limit("SELECT count(*) FROM Trades T [RANGE 60] " + "JOIN Close " * 5_000)
    tables = range(MAX_JOINS + 1)
    listed = ", ".join(f"Close c{number}" for number in tables)
    keys = " AND ".join(f"T.symbol = c{number}.symbol" for number in tables)
    check_limit(f"SELECT count(*) FROM Trades T [RANGE 60], {listed} WHERE {keys}")


REPEATED = {
    "and": START + " AND ".join(["ok"] * 9_000),
    "not": START + "NOT " * 15_000 + "ok",
    "open parentheses": START + "(" * 60_000,
    "close parentheses": START + "ok" + ")" * 60_000,
    "brackets": "SELECT count(*) FROM Trades " + "[" * 60_000,
    "windows": "SELECT count(*) FROM Trades " + "[RANGE 60]" * 6_000,
    "commas": "SELECT count(*)" + "," * 60_000,
    "dots": START + "a." * 30_000 + "b",
    "quotes": START + "symbol = " + "'" * 60_000,
    "odd quotes": START + "symbol = " + "'" * 60_001,
    "backticks": START + "`" * 60_000,
    "backslashes": START + "symbol = '" + "\\" * 60_000 + "'",
    "comments": "SELECT " + "/* x */" * 9_000 + " count(*) FROM Trades [RANGE 60]",
    "open comments": "SELECT " + "/*" * 30_000,
    "calls": START + "abs(" * 15_000,
    "empty calls": START + "f" + "()" * 30_000,
    "minus": START + "- " * 30_000 + "1",
    "digits": START + "vol = " + "1" * 60_000,
    "zeros": START + "vol = " + "0" * 60_000,
    "fraction": START + "price = 0." + "1" * 60_000,
    "exponent": START + "price = 1e" + "9" * 60_000,
    "name": START + "x" * 60_000 + " = 1",
    "slices": "SELECT count(*) FROM Trades [SLICES " + "1," * 30_000 + "2]",
    "duration": "SELECT count(*) FROM Trades [RANGE '" + "1 s " * 15_000 + "']",
    "group items": "SELECT count(*) FROM Trades [RANGE 60] GROUP BY " + ", ".join(["vol"] * 12_000),
    "joins": "SELECT count(*) FROM Trades [RANGE 60] " + "LEFT JOIN " * 6_000,
    "case": START + "CASE " + "WHEN ok THEN 1 " * 4_000 + "END = 1",
    "time": START + "ts = '2026-01-01 " + "1" * 60_000 + "'",
    "address": START + "addr = '" + ":" * 60_000 + "'",
    "pattern": START + "symbol LIKE '" + "%" * 60_000 + "'",
    "semicolons": ";" * 60_000,
    "selects": "SELECT " * 9_000,
    "columns": "CREATE TABLE T (" + ", ".join(f"c{number} BIGINT" for number in range(4_000)) + ")",
}


@pytest.mark.parametrize("text", REPEATED.values(), ids=REPEATED)
def test_repetition_is_no_attack(text: str) -> None:
    """Each is answered in well under a second; what would be quadratic or deeper than the stack shows here."""
    for outcome in ScriptReader(text, CATALOG).statements():
        assert not isinstance(outcome, QueryError) or outcome.code
