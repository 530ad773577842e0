"""Equi-joins of the stream with static tables: which conditions are keys, and what the tables are called."""

from __future__ import annotations

import pytest

from headrace.model.errors import QueryError
from headrace.model.expressions import Call, ColumnRef
from headrace.model.query import Join, JoinKey, Query
from headrace.model.types import BIGINT, STRING
from headrace.sql import format_query
from tests.sql.catalog import parse

SYMBOL = ColumnRef("Trades", "symbol", STRING)
VOL = ColumnRef("Trades", "vol", BIGINT)


def joined(source: str, rest: str = "") -> Query:
    return parse(f"SELECT count(*) FROM {source} {rest}")


CLOSE = Join("Close", "Close", (JoinKey(SYMBOL, "symbol"),))
INNER = [
    ("Trades [RANGE 60], Close", "WHERE Trades.symbol = Close.symbol"),
    ("Trades [RANGE 60], Close C", "WHERE C.symbol = Trades.symbol"),
    ("Trades T [RANGE 60] JOIN Close C ON T.symbol = C.symbol", ""),
    ("Trades T [RANGE 60] JOIN Close C ON (T.symbol = C.symbol)", ""),
    ("Trades T [RANGE 60] INNER JOIN Close ON Close.symbol = T.symbol", ""),
    ("Trades T [RANGE 60] CROSS JOIN Close C", "WHERE T.symbol = C.symbol"),
    ("Trades T [RANGE 60] JOIN Close C", "WHERE T.symbol = C.symbol"),
    ("Trades [RANGE 60] JOIN Close USING (symbol)", ""),
    ("trades [RANGE 60] join CLOSE using (SYMBOL)", ""),
    ("Close C, Trades T [RANGE 60]", "WHERE T.symbol = C.symbol"),
]


@pytest.mark.parametrize(("source", "rest"), INNER)
def test_an_inner_join_in_many_words(source: str, rest: str) -> None:
    query = joined(source, rest)
    assert (query.joins, query.where) == ((CLOSE,), None)


@pytest.mark.parametrize("form", ["LEFT JOIN Close ON T.symbol = Close.symbol", "LEFT OUTER JOIN Close USING (symbol)"])
def test_a_left_join_keeps_rows_without_a_partner(form: str) -> None:
    (join,) = joined(f"Trades T [RANGE 60] {form}").joins
    assert join == Join("Close", "Close", (JoinKey(SYMBOL, "symbol"),), outer=True)


def test_a_key_may_be_an_expression_of_the_stream() -> None:
    (join,) = joined("Trades T [RANGE 60] JOIN Close C ON upper(T.symbol) = C.symbol AND C.n = T.vol + 1").joins
    assert [key.column for key in join.keys] == ["n", "symbol"]
    assert join.keys[1].expression == Call("upper", (SYMBOL,), STRING)


def test_the_rest_of_on_belongs_to_where() -> None:
    by_on = joined("Trades T [RANGE 60] JOIN Close C ON T.symbol = C.symbol AND C.cp > T.price AND C.flag")
    assert by_on == joined("Trades T [RANGE 60], Close C", "WHERE C.flag AND T.price < C.cp AND C.symbol = T.symbol")


def test_a_condition_on_an_outer_table_in_where_is_no_key() -> None:
    query = joined("Trades T [RANGE 60] LEFT JOIN Close C ON T.symbol = C.symbol", "WHERE C.n = T.vol")
    assert len(query.joins[0].keys) == 1
    assert query.where is not None


def test_keys_inside_parentheses_and_under_not_are_found() -> None:
    plain = joined("Trades T [RANGE 60], Close C", "WHERE T.symbol = C.symbol AND T.vol > 3 AND T.ok")
    assert joined("Trades T [RANGE 60], Close C", "WHERE (T.ok AND (T.symbol = C.symbol)) AND T.vol > 3") == plain
    assert joined("Trades T [RANGE 60], Close C", "WHERE NOT (T.symbol <> C.symbol OR T.vol <= 3 OR NOT T.ok)") == plain


def test_a_key_that_is_said_twice_is_one_key() -> None:
    twice = joined("Trades T [RANGE 60] JOIN Close C ON T.symbol = C.symbol", "WHERE C.symbol = T.symbol")
    assert twice.joins == (CLOSE,)


def test_after_using_the_bare_name_is_the_streams_column() -> None:
    query = parse("SELECT symbol, max(cp) FROM Trades [RANGE 60] LEFT JOIN Close USING (symbol) GROUP BY symbol")
    assert query.group_by == (SYMBOL,)
    assert "Trades.symbol" in format_query(query)


def test_using_more_than_one_column() -> None:
    (join,) = joined("Trades [RANGE 60] JOIN Names USING (symbol, vol)").joins
    assert join.keys == (JoinKey(SYMBOL, "symbol"), JoinKey(VOL, "vol"))


def test_the_same_table_twice_is_told_apart_by_its_keys() -> None:
    first = parse(
        "SELECT max(a.cp), max(b.cp) FROM Trades T [RANGE 60] "
        "JOIN Close a ON T.symbol = a.symbol JOIN Close b ON lower(T.symbol) = b.symbol"
    )
    second = parse(
        "SELECT max(y.cp), max(x.cp) FROM Trades T [RANGE 60], Close x, Close y "
        "WHERE x.symbol = lower(T.symbol) AND T.symbol = y.symbol"
    )
    assert first == second
    assert [join.relation for join in first.joins] == ["Close", "Close_2"]
    assert parse(format_query(first)) == first


def test_a_name_in_normal_form_is_never_taken() -> None:
    """Names is called by its own name; an alias that another table has by birth is not a problem."""
    query = parse(
        "SELECT max(Close.vol), max(Names.cp) FROM Trades T [RANGE 60] "
        "JOIN Names Close ON T.symbol = Close.symbol JOIN Close Names ON T.symbol = Names.symbol"
    )
    assert "max(Names.vol) AS max_1, max(Close.cp) AS max_2" in format_query(query)
    assert parse(format_query(query)) == query


def test_joins_in_any_order_are_one_query() -> None:
    first = "JOIN Close ON T.symbol = Close.symbol"
    second = "LEFT JOIN Names ON T.vol = Names.vol"
    assert joined(f"Trades T [RANGE 60] {first} {second}") == joined(f"Trades T [RANGE 60] {second} {first}")


def test_a_double_and_a_whole_number_are_no_key() -> None:
    for source in (
        "Trades T [RANGE 60] JOIN Close C ON T.vol = C.cp",
        "Trades T [RANGE 60], Close C WHERE T.price = C.n",
    ):
        with pytest.raises(QueryError, match="no key joins Close"):
            parse(f"SELECT count(*) FROM {source}")
