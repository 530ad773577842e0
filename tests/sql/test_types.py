"""Types: what each function takes and gives. Every entry of the function tables has an example here."""

from __future__ import annotations

import pytest

from headrace.aggregates.registry import AGGREGATE_SYNONYMS, AGGREGATES
from headrace.expressions.functions import CASTS, FUNCTIONS, SYNONYMS
from headrace.model.errors import QueryError
from headrace.model.expressions import Aggregate, Call, Expression
from headrace.model.types import (
    ADDRESS,
    BIGINT,
    BINARY,
    BOOLEAN,
    DOUBLE,
    STRING,
    TIMESTAMP,
    DataType,
    array,
    decimal,
    struct,
)
from tests.sql.catalog import CATALOG, parse


def typed(text: str) -> Expression:
    """The expression as a group, where any type may stand."""
    return parse(f"SELECT count(*) FROM Trades [RANGE 60] GROUP BY ({text})").group_by[0]


def aggregated(text: str) -> Expression:
    return parse(f"SELECT {text} AS x FROM Trades [RANGE 60]").outputs[-1].expression


EXAMPLES: list[tuple[str, str, DataType]] = [
    # function, a call of it, the type of the result
    ("+", "vol + 1", BIGINT),
    ("+", "vol + price", DOUBLE),
    ("+", "vol + amount", decimal(22, 2)),
    ("+", "amount + fee", decimal(38, 4)),
    ("+", "vol + NULL", BIGINT),
    ("-", "vol - 1", BIGINT),
    ("-", "amount - DECIMAL '1.5'", decimal(13, 2)),
    ("*", "vol * 2", BIGINT),
    ("*", "amount * amount", decimal(25, 4)),
    ("*", "fee * price", DOUBLE),
    ("/", "vol / 2", DOUBLE),
    ("/", "amount / vol", DOUBLE),
    ("div", "vol DIV 2", BIGINT),
    ("%", "vol % 2", BIGINT),
    ("%", "mod(amount, 2)", decimal(22, 2)),
    ("negate", "-vol", BIGINT),
    ("negate", "-amount", decimal(12, 2)),
    ("=", "vol = price", BOOLEAN),
    ("<>", "symbol <> 'a'", BOOLEAN),
    ("<>", "symbol != 'a'", BOOLEAN),
    ("=", "ok == TRUE", BOOLEAN),
    ("<", "abs(vol) < vol", BOOLEAN),
    ("<=", "vol <= 5", BOOLEAN),
    (">", "seen > ts", BOOLEAN),
    (">=", "addr >= '10.0.0.1'", BOOLEAN),
    ("and", "ok AND vol > 1", BOOLEAN),
    ("or", "ok OR NULL", BOOLEAN),
    ("not", "NOT ok", BOOLEAN),
    ("in", "vol IN (1, 2)", BOOLEAN),
    ("in", "seen IN ('2020-01-01', TIMESTAMP '2021-01-01')", BOOLEAN),
    ("like", "symbol LIKE 'a%'", BOOLEAN),
    ("is_null", "symbol IS NULL", BOOLEAN),
    ("is_not_null", "symbol IS NOT NULL", BOOLEAN),
    ("is_true", "ok IS TRUE", BOOLEAN),
    ("is_false", "ok IS FALSE", BOOLEAN),
    ("case", "CASE WHEN ok THEN vol ELSE price END", DOUBLE),
    ("case", "CASE vol WHEN 1 THEN 'a' END", STRING),
    ("case", "if(ok, amount, vol)", decimal(21, 2)),
    ("abs", "abs(amount)", decimal(12, 2)),
    ("sign", "sign(price)", DOUBLE),
    ("ceil", "ceil(price)", BIGINT),
    ("ceil", "ceil(amount)", decimal(11, 0)),
    ("floor", "floor(vol)", BIGINT),
    ("round", "round(price, 2)", DOUBLE),
    ("round", "round(amount)", decimal(12, 2)),
    ("sqrt", "sqrt(vol)", DOUBLE),
    ("exp", "exp(price)", DOUBLE),
    ("ln", "ln(amount)", DOUBLE),
    ("log2", "log2(price)", DOUBLE),
    ("log10", "log10(price)", DOUBLE),
    ("power", "power(vol, 2)", DOUBLE),
    ("greatest", "greatest(vol, 1, price)", DOUBLE),
    ("least", "least(symbol, 'a')", STRING),
    ("coalesce", "coalesce(NULL, vol)", BIGINT),
    ("coalesce", "coalesce(amount, vol)", decimal(21, 2)),
    ("nullif", "nullif(vol, 0)", BIGINT),
    ("concat", "symbol || 'x'", STRING),
    ("concat", "concat(symbol)", STRING),
    ("lower", "lower(symbol)", STRING),
    ("upper", "upper(symbol)", STRING),
    ("length", "length(symbol)", BIGINT),
    ("trim", "trim(symbol)", STRING),
    ("ltrim", "ltrim(symbol)", STRING),
    ("rtrim", "rtrim(symbol)", STRING),
    ("substring", "substring(symbol, 1)", STRING),
    ("substring", "substr(symbol, 1, vol)", STRING),
    ("left", "left(symbol, 2)", STRING),
    ("right", "right(symbol, 2)", STRING),
    ("replace", "replace(symbol, 'a', 'b')", STRING),
    ("instr", "instr(symbol, 'a')", BIGINT),
    ("starts_with", "starts_with(symbol, 'a')", BOOLEAN),
    ("ends_with", "endswith(symbol, 'a')", BOOLEAN),
    ("contains", "contains(symbol, 'a')", BOOLEAN),
    ("unix_seconds", "unix_seconds(ts)", BIGINT),
    ("unix_millis", "unix_millis(ts)", BIGINT),
    ("unix_micros", "unix_micros(seen)", BIGINT),
    ("ip_in", "ip_in(addr, '10.0.0.0/8')", BOOLEAN),
    ("ip_prefix", "ip_prefix(addr, 24)", ADDRESS),
    ("cast", "CAST(vol AS STRING)", STRING),
    ("cast", "CAST(symbol AS TIMESTAMP)", TIMESTAMP),
    ("cast", "TRY_CAST(symbol AS DECIMAL(5, 1))", decimal(5, 1)),
    ("cast", "CAST(NULL AS ADDRESS)", ADDRESS),
]
AGGREGATE_EXAMPLES: list[tuple[str, str, DataType]] = [
    ("count", "count(*)", BIGINT),
    ("count", "count(symbol)", BIGINT),
    ("count", "count(DISTINCT addr)", BIGINT),
    ("sum", "sum(vol)", BIGINT),
    ("sum", "sum(price + vol)", DOUBLE),
    ("sum", "sum(amount)", decimal(38, 2)),
    ("min", "min(symbol)", STRING),
    ("max", "max(ts)", TIMESTAMP),
    ("max", "max(amount)", decimal(12, 2)),
    ("avg", "avg(amount)", DOUBLE),
    ("var_pop", "var_pop(vol)", DOUBLE),
    ("var_samp", "variance(vol)", DOUBLE),
    ("stddev_pop", "stddev_pop(vol)", DOUBLE),
    ("stddev_samp", "stddev(vol)", DOUBLE),
    ("percentile", "percentile(price, 0.95)", DOUBLE),
    ("percentile", "percentile(vol, 1)", DOUBLE),
    ("percentile", "percentile_exact(amount, 0.5)", DOUBLE),
    ("percentile_approx", "percentile_approx(price, 0.95, 1000)", DOUBLE),
    ("percentile_relative", "percentile_relative(price, 0.99)", DOUBLE),
    ("median", "median(vol)", DOUBLE),
    ("approx_median", "approx_median(price)", DOUBLE),
    ("quantiles", "quantiles(price, 4)", array(DOUBLE)),
    ("quantile_sketch", "quantile_sketch(price)", BINARY),
    ("relative_sketch", "relative_sketch(price)", BINARY),
    ("approx_count_distinct", "approx_distinct(symbol)", BIGINT),
    ("distinct_sketch", "distinct_sketch(addr)", BINARY),
    ("heavy_hitters", "heavy_hitters(addr, vol, 0.01)", array(struct(item=ADDRESS, lower=BIGINT, upper=BIGINT))),
    ("top_k", "top_k(symbol, 5)", array(struct(item=STRING, lower=BIGINT, upper=BIGINT))),
    ("min_by", "min_by(symbol, price)", STRING),
    ("max_by", "max_by(amount, ts)", decimal(12, 2)),
    ("bool_and", "every(ok)", BOOLEAN),
    ("bool_or", "bool_or(vol > 1)", BOOLEAN),
]


@pytest.mark.parametrize(("function", "text", "data_type"), EXAMPLES)
def test_functions(function: str, text: str, data_type: DataType) -> None:
    tree = typed(text)
    assert isinstance(tree, Call)
    assert (tree.function, tree.type) == (function, data_type)


@pytest.mark.parametrize(("function", "text", "data_type"), AGGREGATE_EXAMPLES)
def test_aggregates(function: str, text: str, data_type: DataType) -> None:
    tree = aggregated(text)
    assert isinstance(tree, Aggregate)
    assert (tree.function, tree.type) == (function, data_type)


def test_every_function_has_an_example() -> None:
    assert {function for function, _, _ in EXAMPLES} == {*FUNCTIONS, "cast"}
    assert {function for function, _, _ in AGGREGATE_EXAMPLES} == set(AGGREGATES)


ARGUMENTS = {"ceil": "price", "length": "symbol", "ends_with": "symbol, 'a'", "coalesce": "vol, 1", "lower": "symbol"}
ARGUMENTS |= {
    "power": "vol, 2",
    "sign": "vol",
    "starts_with": "symbol, 'a'",
    "substring": "symbol, 1",
    "upper": "symbol",
}


@pytest.mark.parametrize(("synonym", "function"), SYNONYMS.items())
def test_synonyms(synonym: str, function: str) -> None:
    assert typed(f"{synonym}({ARGUMENTS[function]})") == typed(f"{function}({ARGUMENTS[function]})")
    assert typed(f"{synonym.upper()}({ARGUMENTS[function]})") == typed(f"{function}({ARGUMENTS[function]})")


@pytest.mark.parametrize(("synonym", "function"), AGGREGATE_SYNONYMS.items())
def test_aggregate_synonyms(synonym: str, function: str) -> None:
    arguments = {"percentile": "vol, 0.5", "percentile_approx": "vol, 0.5", "bool_and": "ok"}.get(function, "vol")
    assert aggregated(f"{synonym}({arguments})") == aggregated(f"{function}({arguments})")


# What does not go together

REFUSED = [
    ("vol + symbol", "+ takes numbers, not STRING", "vol + symbol"),
    ("ts - seen", "- takes numbers, not TIMESTAMP", "ts - seen"),
    ("vol DIV price", "DIV divides whole numbers; write floor(a / b) for others", "vol DIV price"),
    ("vol = symbol", "= can't compare BIGINT with STRING", "vol = symbol"),
    ("vol IN (1, 'a')", "IN can't compare BIGINT with STRING", "vol IN (1, 'a')"),
    ("ok AND vol", "AND takes conditions, not BIGINT", "ok AND vol"),
    ("NOT vol", "NOT takes conditions, not BIGINT", "vol"),
    ("vol LIKE 'a'", "LIKE matches STRINGs, not BIGINT", "vol LIKE 'a'"),
    ("symbol LIKE symbol", "LIKE needs a constant pattern", "symbol LIKE symbol"),
    (
        f"symbol LIKE '{'%a' * 101}'",
        "LIKE takes a pattern with at most 100 wildcards (% and _)",
        f"symbol LIKE '{'%a' * 101}'",
    ),
    ("CASE WHEN vol THEN 1 END", "CASE takes conditions, not BIGINT", "vol THEN 1"),
    ("CASE WHEN ok THEN 1 ELSE 'a' END", "CASE mixes BIGINT with STRING", "ok THEN 1 ELSE 'a'"),
    ("coalesce(vol, symbol)", "coalesce mixes BIGINT with STRING", "coalesce(vol, symbol)"),
    ("greatest(vol)", "greatest takes 2 or more arguments, not 1", "greatest(vol)"),
    ("abs(symbol)", "abs takes numbers, not STRING", "abs(symbol)"),
    ("abs(vol, 1)", "abs takes 1 argument, not 2", "abs(vol, 1)"),
    ("abs()", "abs takes 1 argument, not 0", "abs()"),
    ("round(price, vol)", "round needs the number of digits as a whole number from 0 to 18", "round(price, vol)"),
    ("round(price, 19)", "round needs the number of digits as a whole number from 0 to 18", "round(price, 19)"),
    ("lower(vol)", "lower takes STRING as argument 1, not BIGINT", "lower(vol)"),
    ("symbol || vol", "concat joins STRINGs, not BIGINT; CAST it AS STRING first", "symbol || vol"),
    ("substring(symbol)", "substring takes 2 to 3 arguments, not 1", "substring(symbol)"),
    ("left(symbol, price)", "left takes BIGINT as argument 2, not DOUBLE", "left(symbol, price)"),
    ("if(ok, 1)", "if takes 3 arguments, not 2", "if(ok, 1)"),
    ("mod(vol)", "mod takes 2 arguments, not 1", "mod(vol)"),
    ("unix_seconds(vol)", "unix_seconds takes TIMESTAMP as argument 1, not BIGINT", "unix_seconds(vol)"),
    ("ip_in(symbol, '10.0.0.0/8')", "ip_in takes an ADDRESS, not STRING", "ip_in(symbol, '10.0.0.0/8')"),
    ("ip_in(addr, symbol)", "ip_in needs a constant network such as '10.0.0.0/8'", "ip_in(addr, symbol)"),
    (
        "ip_prefix(addr, 129)",
        "ip_prefix needs the length of the prefix as a whole number from 0 to 128",
        "ip_prefix(addr, 129)",
    ),
    (
        "fee * fee * fee * fee * fee * fee * fee * fee * fee * fee",
        "* would have more than 38 digits after the point; CAST an operand to fewer",
        "fee * fee * fee * fee * fee * fee * fee * fee * fee * fee",
    ),
    (
        "CAST(ts AS BIGINT)",
        "can't cast TIMESTAMP to BIGINT: use unix_seconds(t), unix_millis(t) or unix_micros(t)",
        "CAST(ts AS BIGINT)",
    ),
    ("CAST(addr AS BIGINT)", "can't cast ADDRESS to BIGINT", "CAST(addr AS BIGINT)"),
]


@pytest.mark.parametrize(("text", "message", "spot"), REFUSED)
def test_types_that_do_not_fit_are_refused_at_the_spot(text: str, message: str, spot: str) -> None:
    statement = f"SELECT count(*) FROM Trades [RANGE 60] GROUP BY {text}"
    with pytest.raises(QueryError) as caught:
        parse(statement)
    assert (caught.value.code, caught.value.message) == ("type", message)
    assert caught.value.span is not None
    assert statement[caught.value.span.start : caught.value.span.end] == spot


BAD_AGGREGATES = [
    ("sum(symbol)", "type", "sum takes numbers, not STRING"),
    ("sum(vol, vol)", "type", "sum takes 1 argument, not 2"),
    ("sum(*)", "type", "sum takes a value; only count takes *"),
    ("sum(DISTINCT *)", "type", "DISTINCT needs a value, not *"),
    ("count(DISTINCT *)", "type", "DISTINCT needs a value, not *"),
    ("count()", "type", "count takes * or one value"),
    ("count(vol, vol)", "type", "count takes * or one value"),
    ("min(NULL)", "type", "min takes a value, not a bare NULL"),
    ("percentile(vol)", "type", "percentile takes 2 arguments, not 1"),
    ("percentile(vol, 1.5)", "type", "percentile needs the fraction as a constant from 0 to 1"),
    ("percentile(vol, price)", "type", "percentile needs the fraction as a constant from 0 to 1"),
    ("percentile(vol, TRUE)", "type", "percentile needs the fraction as a constant from 0 to 1"),
    ("quantiles(vol, 1)", "type", "quantiles needs the number of parts as a whole number from 2 to 1000"),
    ("quantiles(vol, 2.5)", "type", "quantiles needs the number of parts as a whole number from 2 to 1000"),
    ("heavy_hitters(vol, 0)", "type", "heavy_hitters needs the share as a constant from 0.001 to 1"),
    ("heavy_hitters(vol, price, 0.1)", "type", "heavy_hitters takes a BIGINT as weight, not DOUBLE"),
    ("top_k(DISTINCT vol, 3)", "type", "top_k takes no DISTINCT"),
    ("min_by(symbol)", "type", "min_by takes 2 arguments, not 1"),
    ("bool_and(vol)", "type", "bool_and takes conditions, not BIGINT"),
    ("max(quantile_sketch(vol))", "aggregate", "an aggregate can't stand inside another one"),
    ("sum(max(vol))", "aggregate", "an aggregate can't stand inside another one"),
    ("sum(vol) FILTER (WHERE vol)", "type", "FILTER needs a condition, not BIGINT"),
    ("sum(vol) FILTER (WHERE max(vol) > 1)", "aggregate", "FILTER can't hold an aggregate"),
    ("abs(vol) FILTER (WHERE ok)", "syntax", "FILTER belongs behind an aggregate"),
]


@pytest.mark.parametrize(("text", "code", "message"), BAD_AGGREGATES)
def test_aggregates_that_are_refused(text: str, code: str, message: str) -> None:
    with pytest.raises(QueryError) as caught:
        aggregated(text)
    assert (caught.value.code, caught.value.message) == (code, message)


COLUMNS = {"BOOLEAN": "ok", "BIGINT": "vol", "DOUBLE": "price", "DECIMAL": "amount", "STRING": "symbol"}
COLUMNS |= {"TIMESTAMP": "ts", "ADDRESS": "addr"}


@pytest.mark.parametrize("source", CASTS)
@pytest.mark.parametrize("target", CASTS)
def test_casts(source: str, target: str) -> None:
    name = "DECIMAL(9, 1)" if target == "DECIMAL" else target
    text = f"CAST({COLUMNS[source]} AS {name})"
    if source == target != "DECIMAL":
        assert typed(text) == typed(COLUMNS[source])
    elif target in CASTS[source]:
        assert str(typed(text).type) == name
    else:
        with pytest.raises(QueryError, match="can't cast"):
            typed(text)


def test_the_catalog_of_the_tests_has_a_column_of_every_type() -> None:
    assert {column.type.name for column in CATALOG.streams[0].columns} == set(CASTS)
