"""What can't be computed for a row is NULL for that row in that query, and counts there, if it could matter."""

from __future__ import annotations

import pytest

from headrace.model.types import MAX_BIGINT
from tests.reference.scenario import Scenario, at, outcome


def test_a_bad_row_is_null_for_the_query_that_fails_and_for_no_other() -> None:
    # time  0   1   2
    # v     1   0   2
    # 1/v   1   -  0.5
    scenario = Scenario("SELECT sum(1 / v) AS total, count(1 / v) AS c, count(*) AS n FROM s [RANGE 10]")
    scenario.register("other", "SELECT sum(v) AS total FROM s [RANGE 10]")
    step = scenario.batch(at(0, v=1), at(1, v=0), at(2, v=2))
    assert (step.errors(), step.errors("other")) == (2, 0)
    end = scenario.end()
    assert end.rows() == [(0, 10, 1.5, 2, 3)]
    assert end.rows("other") == [(0, 10, 3)]


@pytest.mark.parametrize(
    ("where", "v", "k"),
    [
        ("10 / v > 1", 0, None),
        ("v + 1 > 1", MAX_BIGINT, None),
        ("CAST(k AS BIGINT) > 1", None, "one"),
        ("10 % v = 1", 0, None),
    ],
)
def test_a_condition_that_fails_does_not_pass(where: str, v: int | None, k: str | None) -> None:
    scenario = Scenario(f"SELECT count(*) AS n FROM s [RANGE 10] WHERE {where}")
    assert scenario.batch(at(0, v=v, k=k)).errors() == 1
    assert scenario.end().rows() == []


def test_its_negation_does_not_pass_either() -> None:
    scenario = Scenario("SELECT count(*) AS n FROM s [RANGE 10] WHERE NOT (10 / v > 1)")
    assert scenario.batch(at(0, v=0)).errors() == 1
    assert scenario.end().rows() == []


def test_a_group_that_fails_is_the_null_group() -> None:
    scenario = Scenario("SELECT 10 DIV v AS g, count(*) AS n FROM s [RANGE 10] GROUP BY 10 DIV v")
    assert scenario.batch(at(0, v=0), at(1, v=5), at(2, v=None)).errors() == 1
    assert scenario.end().rows() == [(0, 10, None, 2), (0, 10, 2, 1)]


def test_a_row_counts_once_however_many_windows_it_lies_in() -> None:
    # time  -10    0  3  5    10   15      four windows of 20 every 5 hold the row
    scenario = Scenario("SELECT sum(1 / v) AS total FROM s [RANGE 20 SLIDE 5]")
    assert scenario.batch(at(3, v=0)).errors() == 1
    assert len(scenario.end().rows()) == 4


def test_a_row_that_no_open_window_holds_is_not_evaluated() -> None:
    # time  0   3       10    12
    # row                     r      w = 12
    # row       l                    dropped: nothing to fail
    scenario = Scenario("SELECT sum(1 / v) AS total FROM s [RANGE 10]")
    scenario.batch(at(12, v=1))
    step = scenario.batch(at(3, v=0))
    assert (step.counts.dropped, step.errors()) == (1, 0)


def test_a_row_that_where_refuses_is_not_evaluated_further() -> None:
    scenario = Scenario("SELECT sum(1 / v) AS total, count(*) FILTER (WHERE v > 0) AS n FROM s [RANGE 10] WHERE v > 0")
    assert scenario.batch(at(3, v=0)).errors() == 0


def test_a_filter_guards_its_aggregate() -> None:
    scenario = Scenario("SELECT sum(1 / v) FILTER (WHERE v <> 0) AS total FROM s [RANGE 10]")
    assert scenario.batch(at(3, v=0), at(4, v=2)).errors() == 0
    assert scenario.end().rows() == [(0, 10, 0.5)]


def test_a_filter_that_fails_keeps_the_row_out() -> None:
    scenario = Scenario("SELECT count(*) FILTER (WHERE 1 / v > 0) AS n FROM s [RANGE 10]")
    assert scenario.batch(at(3, v=0), at(4, v=2)).errors() == 1
    assert scenario.end().rows() == [(0, 10, 1)]


def test_a_key_that_fails_has_no_partner() -> None:
    tables, data = "CREATE TABLE names (v BIGINT)", {"names": [{"v": 5}]}
    scenario = Scenario(
        "SELECT count(*) AS n FROM s [RANGE 10] JOIN names ON 10 DIV s.v = names.v", tables=tables, data=data
    )
    assert scenario.batch(at(0, v=0), at(1, v=2), at(2, v=None)).errors() == 1
    assert scenario.end().rows() == [(0, 10, 1)]


@pytest.mark.parametrize(("first", "second"), [("names", "zones"), ("zones", "names")])
def test_keys_count_whatever_the_order_of_joins(first: str, second: str) -> None:
    # v = 0, k = 'a': one table has no partner, the other one's key fails
    tables = "CREATE TABLE names (v BIGINT, k STRING); CREATE TABLE zones (v BIGINT, k STRING)"
    joins = f"JOIN {first} ON s.k = {first}.k JOIN {second} ON 1 DIV s.v = {second}.v"
    scenario = Scenario(
        f"SELECT count(*) AS n FROM s [RANGE 10] {joins}", tables=tables, data={"names": [], "zones": []}
    )
    assert scenario.batch(at(0, v=0, k="a")).errors() == 1


def test_results_that_fail_count_when_the_window_closes() -> None:
    # time  0   1       10   11       20
    # v     0   0            5
    #       [ 1/0 ------)[ 1/5 ------)
    scenario = Scenario("SELECT 1 / sum(v) AS r FROM s [RANGE 10]")
    first = scenario.batch(at(0, v=0), at(1, v=0), at(11, v=5))
    assert (first.rows(), first.errors()) == ([(0, 10, None)], 1)
    end = scenario.end()
    assert (end.rows(), end.errors()) == ([(10, 20, 0.2)], 0)


def test_having_that_fails_does_not_pass() -> None:
    scenario = Scenario("SELECT k, count(*) AS n FROM s [RANGE 10] GROUP BY k HAVING 1 / sum(v) > 0")
    scenario.batch(at(0, k="a", v=0), at(1, k="b", v=1))
    end = scenario.end()
    assert (end.rows(), end.errors()) == ([(0, 10, "b", 1)], 1)


# Each with v = 0, so that 1 / v fails and v = 0 is TRUE: (expression, value, errors)
MATTERS: list[tuple[str, object, int]] = [
    ("1 / v > 1", None, 1),
    ("(1 / v) IS NULL", True, 1),
    ("coalesce(1 / v, 7)", 7.0, 1),
    ("CASE WHEN 1 / v > 1 THEN 1 ELSE 2 END", 2, 1),
    ("CASE WHEN v = 0 THEN 1 / v ELSE 2 END", None, 1),
    ("1 / v > 1 AND v = 0", None, 1),
    ("1 / v > 1 OR v = 1", None, 1),
    ("1 / v > 1 AND 2 / v > 1", None, 1),
    ("coalesce(1 / v > 1, FALSE) AND v = 0", False, 1),
    ("v = 0 AND coalesce(1 / v > 1, FALSE)", False, 1),
    ("coalesce(1 / v > 1, TRUE) OR v = 1", True, 1),
    ("v IN (1, 1 / v)", None, 1),
    ("nullif(v, 1 / v)", 0, 1),
    ("greatest(v, 1 / v)", 0.0, 1),
]
DOES_NOT_MATTER: list[tuple[str, object, int]] = [
    ("CASE WHEN v = 0 THEN 1 ELSE 1 / v END", 1.0, 0),
    ("CASE WHEN v <> 0 THEN 1 / v END", None, 0),
    ("CASE WHEN v = 0 THEN 5 WHEN 1 / v > 1 THEN 6 END", 5, 0),
    ("1 / v > 1 AND v = 1", False, 0),
    ("v = 1 AND 1 / v > 1", False, 0),
    ("1 / v > 1 OR v = 0", True, 0),
    ("v = 0 OR 1 / v > 1", True, 0),
    ("NOT (1 / v > 1 AND v = 1)", True, 0),
    ("coalesce(7, 1 / v)", 7.0, 0),
    ("coalesce(1 / v > 1, FALSE) AND v = 1", False, 0),
    ("v IN (0, 1 / v)", True, 0),
    ("v BETWEEN 1 AND 1 / v", False, 0),
    ("if(v = 0, 3, 1 DIV v)", 3, 0),
]


@pytest.mark.parametrize(("expression", "value", "errors"), MATTERS + DOES_NOT_MATTER)
def test_an_error_counts_where_it_could_matter(expression: str, value: object, errors: int) -> None:
    assert outcome(expression, v=0) == (value, errors)
