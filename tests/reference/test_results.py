"""The rows of a window: groups, HAVING, ORDER BY and LIMIT."""

from __future__ import annotations

import math

import pytest

from headrace.model.types import Value
from tests.reference.scenario import Scenario, Shown, at, bounded

NAN = math.nan


def values(rows: list[Shown]) -> list[Shown]:
    return [row[2:] for row in rows]


def test_groups_are_apart_per_window() -> None:
    # time  0   1   2     10   11
    # k     a   b   a          a
    #       [-------------)[--------
    query = "SELECT k, sum(v) AS total FROM s [RANGE 10] GROUP BY k"
    rows = [at(0, k="a", v=1), at(1, k="b", v=2), at(2, k="a", v=4), at(11, k="a", v=8)]
    assert bounded(query, *rows) == [(0, 10, "a", 5), (0, 10, "b", 2), (10, 20, "a", 8)]


def test_null_is_a_group_of_its_own() -> None:
    query = "SELECT k, v, count(*) AS n FROM s [RANGE 10] GROUP BY k, v"
    rows = [at(0, k=None, v=1), at(1, k=None, v=1), at(2, k="a", v=None), at(3, k=None, v=None), at(4, k="", v=1)]
    assert values(bounded(query, *rows)) == [(None, None, 1), (None, 1, 2), ("", 1, 1), ("a", None, 1)]


def test_nan_is_one_group_and_so_is_zero() -> None:
    query = "SELECT x, count(*) AS n FROM s [RANGE 10] GROUP BY x"
    numbers = [-0.0, NAN, 0.0, -NAN, 1.0, None, float("nan")]
    rows = [at(place, x=x) for place, x in enumerate(numbers)]
    assert str(values(bounded(query, *rows))) == "[(None, 1), (0.0, 2), (1.0, 1), (nan, 3)]"


def test_groups_are_expressions() -> None:
    query = (
        "SELECT v % 2 AS odd, upper(k) AS big, v % 2 + 10 AS more, count(*) AS n FROM s [RANGE 10] "
        "GROUP BY v % 2, upper(k) ORDER BY odd"
    )
    rows = [at(0, v=1, k="a"), at(1, v=3, k="A"), at(2, v=2, k="b")]
    assert values(bounded(query, *rows)) == [(0, "B", 10, 1), (1, "A", 11, 2)]


def test_groups_may_be_left_out_of_the_select_list() -> None:
    query = "SELECT count(*) AS n FROM s [RANGE 10] GROUP BY k"
    assert values(bounded(query, at(0, k="a"), at(1, k="b"), at(2, k="b"))) == [("a", 1), ("b", 2)]


def test_the_bounds_of_the_window_can_be_used() -> None:
    length = "unix_seconds(window_end) - unix_seconds(window_start)"
    query = f"SELECT {length} AS length, count(*) AS n FROM s [RANGE 12 SLIDE 5]"
    assert values(bounded(query, at(0))) == [(12, 1), (12, 1)]


def test_having_sees_the_emitted_value() -> None:
    # k     a a   b   NULL
    query = "SELECT k, sum(v) AS total FROM s [RANGE 10] GROUP BY k HAVING {}"
    rows = [at(0, k="a", v=1), at(1, k="a", v=2), at(2, k="b", v=3), at(3, v=None)]
    expected: dict[str, list[Shown]] = {
        "count(*) > 1": [("a", 3)],
        "total = 3": [("a", 3), ("b", 3)],
        "sum(v) IS NULL": [(None, None)],
        "NOT total = 3": [],
        "k = 'b' OR max(v) = 2": [("a", 3), ("b", 3)],
        "NULL": [],
    }
    assert {having: values(bounded(query.format(having), *rows)) for having in expected} == expected


def test_having_on_nan() -> None:
    query = "SELECT k, max(x) AS m FROM s [RANGE 10] GROUP BY k HAVING max(x) > 1e300"
    assert [row[0] for row in values(bounded(query, at(0, k="a", x=NAN), at(1, k="b", x=1.0)))] == ["a"]


ORDERS: list[tuple[str, list[Value]]] = [
    ("v", [None, -1, 0, 2]),
    ("v ASC", [None, -1, 0, 2]),
    ("v DESC", [2, 0, -1, None]),
    ("v NULLS LAST", [-1, 0, 2, None]),
    ("v DESC NULLS FIRST", [None, 2, 0, -1]),
    ("v DESC NULLS LAST", [2, 0, -1, None]),
    ("abs(v), v", [None, 0, -1, 2]),
    ("v * v DESC, v", [2, -1, 0, None]),
]


@pytest.mark.parametrize(("order", "expected"), ORDERS)
def test_order_by(order: str, expected: list[Value]) -> None:
    query = f"SELECT v, count(*) AS n FROM s [RANGE 10] GROUP BY v ORDER BY {order}"
    rows = [at(place, v=v) for place, v in enumerate((2, None, -1, 0))]
    assert [row[0] for row in values(bounded(query, *rows))] == expected
    limited = [row[0] for row in values(bounded(f"{query} LIMIT 2", *rows))]
    assert limited == expected[:2]


def test_order_and_limit_hold_per_window() -> None:
    # time  0   1   2     10   11   12
    # k     a   b   b          c    d  d
    #       [ best: b ----)[ best: d ---
    query = "SELECT k, count(*) AS n FROM s [RANGE 10] GROUP BY k ORDER BY n DESC LIMIT 1"
    rows = [at(place, k=k) for place, k in ((0, "a"), (1, "b"), (2, "b"), (11, "c"), (12, "d"), (13, "d"))]
    assert bounded(query, *rows) == [(0, 10, "b", 2), (10, 20, "d", 2)]


def test_order_by_names_of_results_before_columns() -> None:
    query = "SELECT k, -count(*) AS v FROM s [RANGE 10] GROUP BY k ORDER BY v"
    rows = [at(0, k="a", v=1), at(1, k="b", v=0), at(2, k="b", v=5)]
    assert values(bounded(query, *rows)) == [("b", -2), ("a", -1)]


def test_order_of_doubles() -> None:
    query = "SELECT x FROM s [RANGE 10] GROUP BY x ORDER BY x {}"
    rows = [at(place, x=x) for place, x in enumerate((math.inf, NAN, None, -1.0, -0.0))]
    assert str(values(bounded(query.format(""), *rows))) == "[(None,), (-1.0,), (0.0,), (inf,), (nan,)]"
    assert str(values(bounded(query.format("DESC"), *rows))) == "[(nan,), (inf,), (0.0,), (-1.0,), (None,)]"


def test_ties_are_broken_by_the_groups() -> None:
    # All counts are 1: whatever the order of arrival, NULL comes first, then the groups as they sort.
    query = "SELECT k, x, count(*) AS n FROM s [RANGE 10] GROUP BY k, x ORDER BY n DESC LIMIT 3"
    rows = [at(0, k="b", x=1.0), at(1, k="a", x=NAN), at(2, k="a", x=2.0), at(3, k=None, x=9.0), at(4, k="a", x=None)]
    expected = [(None, 9.0, 1), ("a", None, 1), ("a", 2.0, 1)]
    for turn in range(len(rows)):
        assert values(bounded(query, *rows[turn:], *rows[:turn])) == expected


def test_a_limit_without_an_order_takes_the_first_groups() -> None:
    query = "SELECT k, count(*) AS n FROM s [RANGE 10] GROUP BY k LIMIT 2"
    rows = [at(0, k="c"), at(1, k="a"), at(2, k="b"), at(3, k="b")]
    assert values(bounded(query, *rows)) == values(bounded(query, *reversed(rows))) == [("a", 1), ("b", 2)]


def test_having_comes_before_limit() -> None:
    query = "SELECT k, count(*) AS n FROM s [RANGE 10] GROUP BY k HAVING count(*) > 1 ORDER BY k LIMIT 1"
    assert values(bounded(query, at(0, k="a"), at(1, k="b"), at(2, k="b"))) == [("b", 2)]


def test_a_window_without_the_groups_that_having_wants_is_closed_without_rows() -> None:
    scenario = Scenario("SELECT k, count(*) AS n FROM s [RANGE 10] GROUP BY k HAVING count(*) > 9")
    scenario.batch(at(0, k="a"))
    end = scenario.end()
    assert (end.windows(), end.rows()) == ([(0, 10)], [])
