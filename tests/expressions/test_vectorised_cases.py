"""The corners of logic, texts, casts, times and addresses, and of the evaluation as a whole."""

from __future__ import annotations

from datetime import UTC
from decimal import Decimal
from typing import Any
from zoneinfo import ZoneInfo

import pyarrow as pa
import pytest

from headrace.expressions.evaluation import Evaluation
from headrace.expressions.functions import MAX_WILDCARDS
from headrace.model.address import parse_address
from headrace.model.expressions import WINDOW_END, Aggregate, Call, ColumnRef, Expression, Literal
from headrace.model.time import parse_timestamp
from headrace.model.types import (
    ADDRESS,
    BIGINT,
    BOOLEAN,
    DOUBLE,
    MAX_BIGINT,
    MIN_BIGINT,
    NULL,
    STRING,
    TIMESTAMP,
    DataType,
)
from tests.expressions.cases import (
    B2,
    FAILED,
    INF,
    MONEY,
    NAN,
    A,
    B,
    C,
    D,
    S,
    T,
    X,
    Y,
    call,
    cast,
    column,
    results,
    same,
)

# Logic


TRIPLES = [True, False, None]


def test_three_valued_logic() -> None:
    left, right = [one for one in TRIPLES for _ in TRIPLES], TRIPLES * 3
    assert results(call("and", B, B2), left, right) == [True, False, None, False, False, False, None, False, None]
    assert results(call("or", B, B2), left, right) == [True, True, True, True, False, None, True, None, None]
    assert results(call("is_true", B), TRIPLES) == [True, False, False]
    assert results(call("is_false", B), TRIPLES) == [False, True, False]
    assert results(call("in", C, 1, None), [1, 2, None]) == [True, None, None]
    assert results(call("in", C, *range(20), None), [1, 20, None]) == [True, None, None]
    assert results(call("in", C, None), [1]) == [None]
    assert results(call("nullif", C, D), [1, 1, None, 1], [1, 2, 1, None]) == [None, 1, None, 1]


RISKY = call(">", call("/", 10, D), 1)
"""Fails where d is 0."""


@pytest.mark.parametrize(
    ("tree", "c", "expected"),
    [
        (call("and", call("<>", D, 0), RISKY), 0, False),
        (call("and", RISKY, call("<>", D, 0)), 0, False),
        (call("or", RISKY, call("=", D, 0)), 0, True),
        (call("or", RISKY, call("<>", D, 0)), 0, FAILED),
        (call("and", RISKY, call("=", D, 0)), 0, FAILED),
        (call("case", call("=", D, 0), True, RISKY), 0, True),
        (call("case", RISKY, True, False), 0, (FAILED, False)),
        (call("case", call("=", C, 1), RISKY, call("=", C, 0), True, RISKY), 0, True),
        (call("coalesce", call("=", C, 0), RISKY), 0, True),
        (call("coalesce", RISKY, True), 0, (FAILED, True)),
        (call("is_null", RISKY), 0, (FAILED, True)),
        (call("or", call("is_null", RISKY), call("=", D, 0)), 0, True),
        (call("or", call("is_null", RISKY), False), 0, (FAILED, True)),
        (call("and", call("is_not_null", RISKY), call("is_not_null", RISKY)), 0, (FAILED, False)),
        (call("in", call("/", 1, D), None, 2.0), 0, FAILED),
        (call("greatest", call("/", 1, D), 2.0), 0, (FAILED, 2.0)),
    ],
)
def test_a_failure_counts_only_where_it_could_matter(tree: Expression, c: int, expected: Any) -> None:
    assert results(tree, [c], [0]) == [expected]
    constants = {"c": Literal(c, BIGINT), "d": Literal(0, BIGINT)}
    assert results(replaced(tree, constants)) == [expected]


def replaced(tree: Any, constants: dict[str, Literal]) -> Expression:
    if isinstance(tree, ColumnRef):
        return constants[tree.name]
    return (
        Call(tree.function, tuple(replaced(one, constants) for one in tree.arguments), tree.type)
        if isinstance(tree, Call)
        else tree
    )


def test_greatest_and_least_pass_over_nulls() -> None:
    tree = [call(name, X, Y) for name in ("greatest", "least")]
    values = ([1.0, None, NAN, None, -INF], [2.0, 3.0, 4.0, None, NAN])
    assert same(results(tree[0], *values), [2.0, 3.0, NAN, None, NAN])
    assert same(results(tree[1], *values), [1.0, 3.0, 4.0, None, -INF])
    assert results(call("greatest", B, B2), [True, None, False], [False, False, None]) == [True, False, False]
    assert results(call("least", S, T, "b"), ["c", None], ["ä", "a"]) == ["b", "a"]
    assert results(call("greatest", C, None, 2.5), [1, 3]) == [2.5, 3.0]
    assert results(call("greatest", call("div", 1, 0), None), [1]) == [FAILED]


# Texts


@pytest.mark.parametrize(
    ("pattern", "matching"),
    [
        ("", [""]),
        ("a", ["a"]),
        ("a%", ["a", "ab", "a%b", "a\nb", "aäb"]),
        ("%b", ["ab", "a%b", "a\nb", "aäb"]),
        ("a_b", ["a%b", "a\nb", "aäb"]),
        ("a\\%b", ["a%b"]),
        ("\\a", ["a"]),
        ("\\", ["\\"]),
        ("\\\\", ["\\"]),
        ("%\\", ["\\"]),
        ("_", ["a", "\\", "\n", "ä"]),
        ("%ä%", ["ä", "aäb"]),
        ("__%", ["ab", "a%b", "a\nb", "\n\n", "aäb"]),
        ("%.%", []),
        ("_" * MAX_WILDCARDS, []),
        ("%a" * MAX_WILDCARDS, []),
    ],
)
def test_like(pattern: str, matching: list[str]) -> None:
    texts = ["", "a", "ab", "a%b", "a\nb", "\\", "\n", "\n\n", "ä", "aäb"]
    assert [text for text, hit in zip(texts, results(call("like", S, pattern), texts), strict=True) if hit] == matching


def test_case_changes_one_character_for_one() -> None:
    assert results(call("upper", S), ["straße", "ŉ", "ǆ", "abc", None]) == ["STRAßE", "ŉ", "Ǆ", "ABC", None]
    assert results(call("lower", S), ["İI", "ΟΔΟΣ", "ÀB", "K"]) == ["İi", "οδοσ", "àb", "k"]


@pytest.mark.parametrize(
    ("position", "length", "expected"),
    [
        (1, None, "añb😀"),
        (0, 2, "añ"),
        (2, 2, "ñb"),
        (-2, None, "b😀"),
        (-2, 1, "b"),
        (-9, 7, "añ"),
        (-9, 5, ""),
        (9, 2, ""),
        (2, 0, ""),
        (2, -1, ""),
        (2, MAX_BIGINT, "ñb😀"),
        (MAX_BIGINT, MAX_BIGINT, ""),
        (MIN_BIGINT, MAX_BIGINT, "añb"),
        (MIN_BIGINT, None, "añb😀"),
    ],
)
def test_substring(position: int, length: int | None, expected: str) -> None:
    rest = [] if length is None else [length]
    assert results(call("substring", S, position, *rest), ["añb😀", None]) == [expected, None]
    columns = [column(BIGINT, "e")] if rest else []
    tree = call("substring", S, D, *columns)
    assert results(tree, ["añb😀", None, "x"], [position, 1, None], [length or 0, 1, 1]) == [expected, None, None]


@pytest.mark.parametrize(
    ("count", "left", "right"),
    [
        (2, "añ", "b😀"),
        (0, "", ""),
        (-1, "", ""),
        (9, "añb😀", "añb😀"),
        (MAX_BIGINT, "añb😀", "añb😀"),
        (MIN_BIGINT, "", ""),
    ],
)
def test_left_and_right(count: int, left: str, right: str) -> None:
    assert results(call("left", S, count), ["añb😀"]) == results(call("left", S, D), ["añb😀"], [count]) == [left]
    assert results(call("right", S, count), ["añb😀"]) == results(call("right", S, D), ["añb😀"], [count]) == [right]


def test_parts_of_texts_are_counted_in_characters() -> None:
    assert results(call("instr", S, "b"), ["ñb", "b", "", None, "x"]) == [2, 1, 0, None, 0]
    assert results(call("instr", S, ""), ["ñ", ""]) == [1, 1]
    assert results(call("instr", "ñb", S), ["b", None]) == [2, None]
    assert results(call("length", S), ["ñ😀", ""]) == [2, 0]
    assert results(call("replace", S, "", "x"), ["ab"]) == ["ab"]
    assert results(call("replace", S, "aa", "a"), ["aaa"]) == ["aa"]
    assert results(call("replace", S, T, "x"), ["ab", "ab"], ["", "b"]) == ["ab", "ax"]
    assert results(call("trim", S), [" \ta ", "\u00a0 "]) == ["\ta", "\u00a0"]
    assert results(call("concat", S, T), ["a", None], ["b", "c"]) == ["ab", None]


@pytest.mark.parametrize(
    ("target", "texts", "expected"),
    [
        (
            BIGINT,
            ["12", " +7\n", "-0", "", "1.0", "٣", "9223372036854775808", "1" * 5000, "\u00a05"],
            [12, 7, 0, *[FAILED] * 6],
        ),
        (
            DOUBLE,
            ["1.5", ".5", "5.", "1e400", "-Infinity", "0x1", "1_0", "."],
            [1.5, 0.5, 5.0, INF, -INF, *[FAILED] * 3],
        ),
        (MONEY, ["1.005", "1e1", "99.995", "nan", "-.001"], [Decimal("1.01"), Decimal(10), FAILED, FAILED, Decimal(0)]),
        (BOOLEAN, ["true", " FALSE\u2003", "t", "1"], [True, False, FAILED, FAILED]),
        (TIMESTAMP, ["1970-01-01", "1970-01-01T00:00:00.0000019Z", "soon"], [0, 1, FAILED]),
        (ADDRESS, ["::ffff:1.2.3.4", "fe80::1%a", "1.2.3"], [parse_address("1.2.3.4"), FAILED, FAILED]),
    ],
)
def test_texts_are_read_as_the_language_says(target: DataType, texts: list[str], expected: list[Any]) -> None:
    assert results(cast(S, target), [*texts, None]) == [*expected, None]
    assert [results(cast(S, target), [text]) for text in texts] == [[value] for value in expected]


def test_a_cast_to_its_own_type_changes_nothing() -> None:
    assert results(cast(C, BIGINT), [1, None]) == [1, None]
    assert results(cast(A, ADDRESS), [1, None]) == [1, None]


def test_a_naive_time_is_read_in_the_zone() -> None:
    zone = ZoneInfo("America/New_York")
    assert results(cast(S, TIMESTAMP), ["2026-07-01 12:00:00"], zone=zone) == [parse_timestamp("2026-07-01T16:00:00Z")]
    assert results(cast(S, TIMESTAMP), ["2026-07-01 12:00:00"], zone=UTC) == [parse_timestamp("2026-07-01T12:00:00Z")]


# Times and addresses


def test_times_before_the_epoch_are_rounded_down() -> None:
    moment = column(TIMESTAMP)
    assert results(call("unix_seconds", moment), [-1, 999_999, MIN_BIGINT, None]) == [-1, 0, -9223372036855, None]
    assert results(call("unix_millis", moment), [-1, 1_000]) == [-1, 1]
    assert results(call("unix_micros", moment), [-1]) == [-1]


@pytest.mark.parametrize(
    ("network", "inside"),
    [
        ("10.0.0.0/8", ["10.0.0.1", "10.255.255.255"]),
        ("0.0.0.0/0", ["0.0.0.0", "10.0.0.1", "10.255.255.255", "11.0.0.0"]),
        ("10.0.0.1", ["10.0.0.1"]),
        ("::/0", ["::", "::1", "2001:db8::1", "2001:db9::"]),
        ("::/64", ["::", "::1"]),
        ("2001:db8::/31", ["2001:db8::1", "2001:db9::"]),
        ("2001:db8::1/128", ["2001:db8::1"]),
    ],
)
def test_networks_of_both_kinds(network: str, inside: list[str]) -> None:
    listed = ["0.0.0.0", "10.0.0.1", "10.255.255.255", "11.0.0.0", "::", "::1", "2001:db8::1", "2001:db9::"]
    found = results(call("ip_in", A, network), [parse_address(text) for text in listed])
    assert [text for text, hit in zip(listed, found, strict=True) if hit] == inside


def test_prefixes_of_both_kinds() -> None:
    values = [parse_address("10.1.2.3"), parse_address("2001:db8:1::1"), None]

    def shown(length: int) -> list[Any]:
        return results(cast(call("ip_prefix", A, length), STRING), values)

    assert shown(24) == ["10.1.2.0", "2001:d00::", None]
    assert shown(0) == ["0.0.0.0", "::", None]
    assert shown(32) == ["10.1.2.3", "2001:db8::", None]
    assert shown(128) == ["10.1.2.3", "2001:db8:1::1", None]


# The evaluation as a whole


def test_a_subtree_is_computed_once() -> None:
    evaluation = Evaluation({("s", "c"): pa.array([1, 2])}, 2)
    first, second = (call("+", call("*", C, 2), number) for number in (1, 2))
    evaluation.evaluate(first)
    shared = evaluation.column(first.arguments[0])
    evaluation.evaluate(second)
    assert evaluation.column(second.arguments[0]) is shared


def test_known_columns_stand_for_whole_subtrees() -> None:
    total = Aggregate("sum", (C,), BIGINT)
    known: dict[Expression, Any] = {
        total: pa.array([10, None]),
        WINDOW_END: pa.array([0, 2_000_000]).cast(pa.timestamp("us", "UTC")),
    }
    evaluation = Evaluation({}, 2, known=known)
    assert evaluation.evaluate(call(">", call("+", total, 1), 5)).values.to_pylist() == [True, None]
    assert evaluation.evaluate(call("unix_seconds", WINDOW_END)).values.to_pylist() == [0, 2]


@pytest.mark.parametrize("tree", [Aggregate("sum", (C,), BIGINT), WINDOW_END])
def test_what_is_known_later_can_not_be_evaluated_now(tree: Expression) -> None:
    with pytest.raises(TypeError, match="only known when a window closes"):
        Evaluation({("s", "c"): pa.array([1])}, 1).evaluate(tree)


def test_nothing_failed_is_no_mask() -> None:
    assert Evaluation({("s", "c"): pa.array([1, 2])}, 2).evaluate(call("/", 1, C)).failed is None
    assert Evaluation({("s", "c"): pa.array([1, 0])}, 2).evaluate(call("/", 1, C)).failed is not None
    assert Evaluation({("s", "c"): pa.array([], pa.int64())}, 0).evaluate(call("/", 1, 0)).failed is None


def test_constants_are_spread_over_the_rows() -> None:
    found = Evaluation({}, 3).evaluate(call("/", 1, 0))
    assert found.values.to_pylist() == [None] * 3
    assert found.failed is not None
    assert found.failed.tolist() == [True] * 3
    assert Evaluation({}, 3).evaluate(Literal(None, NULL)).values == pa.nulls(3)
