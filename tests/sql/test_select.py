"""The SELECT list, GROUP BY, HAVING, ORDER BY and LIMIT: what the columns of the result are, and what names mean."""

from __future__ import annotations

import pytest

from headrace.model.expressions import WINDOW_END, WINDOW_START, ColumnRef
from headrace.model.query import Query
from headrace.model.types import STRING
from headrace.sql import format_query
from tests.sql.catalog import parse


def over_trades(items: str, rest: str = "") -> Query:
    return parse(f"SELECT {items} FROM Trades [RANGE 60] {rest}")


def names(query: Query) -> list[str]:
    return [output.name for output in query.outputs]


def texts(query: Query) -> str:
    """The canonical text from WHERE or GROUP BY on."""
    return format_query(query).split("SLIDE '1 min'] ", 1)[1]


NAMED = [
    ("count(*)", "", ["window_start", "window_end", "count_1"]),
    ("sum(vol), avg(price) AS Mean", "", ["window_start", "window_end", "sum_1", "Mean"]),
    ("mean(vol), std(price)", "", ["window_start", "window_end", "avg_1", "stddev_samp_2"]),
    ("sum(vol) / count(*), -sum(vol)", "", ["window_start", "window_end", "expr_1", "negate_2"]),
    ("round(avg(price), 2), abs(sum(vol))", "", ["window_start", "window_end", "round_1", "abs_2"]),
    ("CASE WHEN max(ok) THEN 1 END, CAST(sum(vol) AS DOUBLE)", "", ["window_start", "window_end", "case_1", "cast_2"]),
    ("count(*)", "GROUP BY symbol", ["window_start", "window_end", "symbol", "count_1"]),
    ("count(*), SYMBOL", "GROUP BY Symbol", ["window_start", "window_end", "count_1", "symbol"]),
    ("count(*)", "GROUP BY lower(symbol), vol", ["window_start", "window_end", "lower_1", "vol", "count_1"]),
    ("count(*)", "GROUP BY lower(symbol) AS low", ["window_start", "window_end", "low", "count_1"]),
    ("LOW, count(*)", "GROUP BY lower(symbol) AS Low", ["window_start", "window_end", "Low", "count_2"]),
    ("symbol s, count(*) AS `a b`", "GROUP BY symbol", ["window_start", "window_end", "s", "a b"]),
    ("window_end, count(*)", "", ["window_start", "window_end", "count_2"]),
    ("window_end AS w, count(*) n", "", ["window_start", "w", "n"]),
    ("symbol", "GROUP BY symbol", ["window_start", "window_end", "symbol"]),
    ("count(*)", "GROUP BY symbol AS a, symbol AS b", ["window_start", "window_end", "a", "count_1"]),
]


@pytest.mark.parametrize(("items", "rest", "expected"), NAMED)
def test_names_of_the_columns(items: str, rest: str, expected: list[str]) -> None:
    assert names(over_trades(items, rest)) == expected


def test_bounds_and_groups_that_are_left_out_come_first() -> None:
    query = over_trades("sum(price)", "GROUP BY symbol, vol")
    assert [output.expression for output in query.outputs[:2]] == [WINDOW_START, WINDOW_END]
    assert query.outputs[2].expression == ColumnRef("Trades", "symbol", STRING)
    assert names(query)[2:] == ["symbol", "vol", "sum_1"]


SAME_GROUPS = [
    ("lower(symbol) AS s, count(*)", "lower(symbol)"),
    ("lower(symbol) AS s, count(*)", "s"),
    ("lower(symbol) AS s, count(*)", "S"),
    ("lower(symbol) AS s, count(*)", "1"),
    ("lower(symbol) AS s, count(*)", "1, lower(symbol), s"),
    ("lower(symbol) AS s, count(*)", "LOWER(Trades.symbol)"),
    ("s, count(*)", "lower(symbol) AS s"),
]


@pytest.mark.parametrize(("items", "group"), SAME_GROUPS)
def test_groups_by_expression_name_and_position(items: str, group: str) -> None:
    assert over_trades(items, f"GROUP BY {group}") == over_trades(*("lower(symbol) AS s, count(*)", "GROUP BY 1"))


def test_in_group_by_a_column_comes_before_a_name_from_the_select_list() -> None:
    query = over_trades("lower(symbol) AS seen, seen AS last, count(*)", "GROUP BY lower(symbol), seen")
    assert texts(query) == "GROUP BY lower(symbol), seen"


def test_order_by_takes_names_positions_and_expressions() -> None:
    by_name = over_trades("symbol, sum(vol) AS total", "GROUP BY symbol ORDER BY total DESC, symbol")
    assert by_name == over_trades("symbol, sum(vol) AS total", "GROUP BY symbol ORDER BY 2 DESC, 1")
    assert by_name == over_trades(
        "symbol, sum(vol) AS total", "GROUP BY symbol ORDER BY sum(vol) DESC, Trades.symbol ASC"
    )
    assert texts(by_name) == "GROUP BY symbol ORDER BY sum(vol) DESC, symbol"


def test_nulls_come_first_upwards_and_last_downwards_unless_said() -> None:
    orders = over_trades(
        "count(*)", "GROUP BY symbol ORDER BY symbol, symbol DESC, symbol NULLS LAST, symbol DESC NULLS FIRST"
    )
    assert [(order.descending, order.nulls_first) for order in orders.order_by] == [
        (False, True),
        (True, False),
        (False, False),
        (True, True),
    ]


def test_in_having_and_order_by_a_result_hides_the_column_of_its_name() -> None:
    query = over_trades("symbol, sum(vol) AS vol", "GROUP BY symbol HAVING vol > 5 ORDER BY vol")
    assert texts(query) == "GROUP BY symbol HAVING sum(vol) > 5 ORDER BY sum(vol)"
    assert query == over_trades("symbol, sum(vol) AS vol", "GROUP BY symbol HAVING sum(vol) > 5 ORDER BY sum(vol)")


def test_a_hidden_column_is_printed_with_its_relation() -> None:
    query = over_trades("symbol AS s, sum(vol) AS symbol", "GROUP BY symbol HAVING s > 'a' ORDER BY symbol, s")
    assert texts(query) == "GROUP BY symbol HAVING Trades.symbol > 'a' ORDER BY sum(vol), Trades.symbol"
    assert parse(format_query(query)) == query


def test_inside_an_aggregate_a_name_is_a_column() -> None:
    query = over_trades("max(vol) AS price, min(price) AS vol", "HAVING max(vol) > min(price)")
    assert texts(query) == "HAVING min(price) < max(vol)"


def test_a_group_may_be_used_inside_larger_expressions() -> None:
    query = over_trades("(vol + 1) * 2, upper(concat(symbol, 'x')), count(*)", "GROUP BY 1 + vol, symbol")
    assert names(query)[2:] == ["expr_2", "symbol", "expr_1", "upper_2", "count_3"]


def test_a_left_out_group_takes_the_next_free_name() -> None:
    query = over_trades("lower(max(symbol)), count(*) AS lower_2", "GROUP BY lower(symbol), lower(upper(symbol))")
    assert names(query)[2:] == ["lower_3", "lower_4", "lower_1", "lower_2"]


@pytest.mark.parametrize("limit", [1, 10, 1_000_000])
def test_limit(limit: int) -> None:
    assert over_trades("count(*)", f"LIMIT {limit}").limit == limit


def test_aggregates_are_listed_once_in_order_of_appearance() -> None:
    query = over_trades("sum(vol) / count(*), sum(vol)", "HAVING count(*) > 1 AND max(vol) > 2 ORDER BY min(vol)")
    assert [aggregate.function for aggregate in query.aggregates()] == ["sum", "count", "min", "max"]


def test_names_are_case_insensitive_and_keep_the_case_of_their_declaration() -> None:
    query = parse("SELECT SYMBOL, SUM(t.VOL) FROM TRADES T [RANGE 60] WHERE T.Price > 1 GROUP BY sYmBoL")
    assert query == parse("SELECT symbol, sum(vol) FROM Trades [RANGE 60] WHERE price > 1 GROUP BY symbol")
    assert query.stream == "Trades"
