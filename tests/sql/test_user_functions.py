"""User functions: called by name, typed by their declaration, printed so that they read back."""

from __future__ import annotations

from dataclasses import replace

import pytest

from headrace.model.errors import QueryError
from headrace.model.expressions import Call, Literal
from headrace.model.schema import Catalog, UserFunction
from headrace.model.types import BIGINT, BOOLEAN, DOUBLE, NULL, STRING
from headrace.sql import digest, format_query, parse_query
from headrace.sql.calls import RESERVED
from tests.sql.catalog import CATALOG, parse, where


def catalog_with(name: str) -> Catalog:
    return replace(CATALOG, functions=(UserFunction(name, (BIGINT,), BOOLEAN, lambda value: True),))


def test_a_user_function_is_called_by_name_whatever_its_case() -> None:
    tree = where("MIDCAP(symbol)").where
    assert isinstance(tree, Call)
    assert (tree.function, tree.type) == ("midcap", BOOLEAN)
    assert where("midCap(symbol)") == where("`midcap`(symbol)")


def test_it_may_stand_anywhere() -> None:
    query = parse(
        "SELECT score(vol, price) + 1 AS s, sum(Score(vol, price)) FILTER (WHERE midcap(symbol)) "
        "FROM Trades [RANGE 60] GROUP BY SCORE(vol, price) HAVING Score(vol, price) > 1 ORDER BY score(vol, price)"
    )
    assert parse(format_query(query)) == query
    assert query.group_by[0].type == DOUBLE


@pytest.mark.parametrize("name", ["values", "end", "Über", "left_", "if_", "range", "interval", "offset", "exists"])
def test_its_name_is_quoted_where_it_must_be(name: str) -> None:
    catalog = catalog_with(name)
    query = parse_query(f"SELECT count(*) FROM Trades [RANGE 60] WHERE `{name}`(vol)", catalog)
    assert parse_query(format_query(query), catalog) == query


@pytest.mark.parametrize("name", sorted(RESERVED))
def test_built_in_meanings_are_not_taken_over(name: str) -> None:
    text = f"SELECT count(*) FROM Trades [RANGE 60] WHERE `{name}`(vol)"
    try:
        with_function = format_query(parse_query(text, catalog_with(name)))
    except QueryError as error:
        with_function = error.message
    try:
        without = format_query(parse_query(text, CATALOG))
    except QueryError as error:
        without = error.message
    assert with_function == without


BAD_CALLS = [
    ("midcap()", "midcap takes (STRING), not ()"),
    ("midcap(vol)", "midcap takes (STRING), not (BIGINT)"),
    ("midcap(symbol, symbol)", "midcap takes (STRING), not (STRING, STRING)"),
    ("Score(price, price) > 1", "Score takes (BIGINT, DOUBLE), not (DOUBLE, DOUBLE)"),
]


@pytest.mark.parametrize(("condition", "message"), BAD_CALLS)
def test_its_types_are_checked(condition: str, message: str) -> None:
    with pytest.raises(QueryError) as caught:
        where(condition)
    assert (caught.value.code, caught.value.message) == ("type", message)


def test_a_number_widens_to_double_as_in_aggregates() -> None:
    assert where("Score(vol, vol) > 1") == where("Score(vol, CAST(vol AS DOUBLE)) > 1")


def test_null_fits_every_parameter() -> None:
    assert where("midcap(NULL)").where == Call("midcap", (Literal(None, NULL),), BOOLEAN)


def test_two_functions_of_the_same_name_and_types_are_equal_queries() -> None:
    """A function is known by its name: what it computes is not part of a query's identity."""
    other = replace(CATALOG, functions=(UserFunction("midcap", (STRING,), BOOLEAN, lambda text: False),))
    text = "SELECT count(*) FROM Trades [RANGE 60] WHERE midcap(symbol)"
    assert parse_query(text, CATALOG) == parse_query(text, other)
    assert digest(parse_query(text, CATALOG)) == digest(parse_query(text, other))
