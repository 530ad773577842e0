"""Static tables: inner and outer joins by key."""

from __future__ import annotations

import math

import pytest

from headrace.model.errors import DataError
from headrace.model.types import Value
from tests.reference.scenario import Row, Scenario, Shown, at

TABLES = """
CREATE TABLE names (k STRING, name STRING, v BIGINT);
CREATE TABLE zones (v BIGINT, x DOUBLE, zone STRING)
"""
NAMES: list[dict[str, Value]] = [
    {"k": "a", "name": "Ada", "v": 1},
    {"k": "b", "name": None, "v": 2},
    {"k": None, "name": "Nobody", "v": 3},
    {"k": None, "name": "Nobody else", "v": 4},
]
ZONES: list[dict[str, Value]] = [
    {"v": 1, "x": math.nan, "zone": "north"},
    {"v": 2, "x": 0.0, "zone": "south"},
]


def joined(query: str, *rows: Row) -> list[Shown]:
    scenario = Scenario(query, tables=TABLES, data={"names": NAMES, "zones": ZONES})
    scenario.batch(*rows)
    return [row[2:] for row in scenario.end().rows()]


ROWS = [at(0, k="a"), at(1, k="a"), at(2, k="b"), at(3, k="z"), at(4, k=None)]


@pytest.mark.parametrize(
    "source",
    [
        "s [RANGE 10] JOIN names ON s.k = names.k",
        "s [RANGE 10] INNER JOIN names AS n ON n.k = s.k",
        "s [RANGE 10] JOIN names USING (k)",
        "s [RANGE 10], names WHERE s.k = names.k",
    ],
)
def test_an_inner_join_keeps_rows_with_a_partner(source: str) -> None:
    # k      a a b z NULL
    # match  a a b            z has no partner, NULL never matches, not even NULL
    assert joined(f"SELECT name, count(*) AS n FROM {source} GROUP BY name", *ROWS) == [(None, 1), ("Ada", 2)]


def test_a_left_join_keeps_all_rows() -> None:
    # k      a a b z NULL
    # match  a a b - -        what has no partner is NULL
    query = (
        "SELECT s.k, name, names.v, count(*) AS n FROM s [RANGE 10] LEFT JOIN names ON s.k = names.k "
        "GROUP BY s.k, name, names.v"
    )
    assert sorted(joined(query, *ROWS), key=repr) == sorted(
        [("a", "Ada", 1, 2), ("b", None, 2, 1), ("z", None, None, 1), (None, None, None, 1)], key=repr
    )


def test_where_comes_after_a_left_join() -> None:
    query = "SELECT count(*) AS n FROM s [RANGE 10] LEFT JOIN names ON s.k = names.k WHERE {}"
    assert joined(query.format("names.k IS NULL"), *ROWS) == [(2,)]
    assert joined(query.format("name = 'Ada'"), *ROWS) == [(2,)]
    assert joined(query.format("coalesce(names.v, 0) < 2"), *ROWS) == [(4,)]


def test_keys_may_be_expressions_and_several() -> None:
    query = "SELECT count(*) AS n FROM s [RANGE 10] JOIN names ON lower(s.k) = names.k AND s.v + 1 = names.v"
    assert joined(query, at(0, k="A", v=0), at(1, k="A", v=5), at(2, k="B", v=1), at(3, k="B")) == [(2,)]


def test_conditions_beside_the_key_of_an_inner_join_filter() -> None:
    query = "SELECT count(*) AS n FROM s [RANGE 10] JOIN names ON s.k = names.k AND names.v > 1"
    assert joined(query, *ROWS) == [(1,)]


def test_keys_compare_as_sql_does() -> None:
    query = "SELECT zone, count(*) AS n FROM s [RANGE 10] JOIN zones ON s.x = zones.x GROUP BY zone"
    rows = [at(0, x=math.nan), at(1, x=-0.0), at(2, x=0.0), at(3, x=1.0)]
    assert joined(query, *rows) == [("north", 1), ("south", 2)]


def test_two_tables() -> None:
    query = (
        "SELECT name, zone, count(*) AS n FROM s [RANGE 10] JOIN names ON s.k = names.k "
        "LEFT JOIN zones ON s.v = zones.v GROUP BY name, zone"
    )
    rows = [at(0, k="a", v=1), at(1, k="a", v=9), at(2, k="z", v=1)]
    assert sorted(joined(query, *rows), key=repr) == [("Ada", "north", 1), ("Ada", None, 1)]


def test_one_table_twice() -> None:
    query = (
        "SELECT count(*) AS n, max(first.name) AS one, max(other.name) AS two FROM s [RANGE 10] "
        "JOIN names AS first ON s.k = first.k LEFT JOIN names AS other ON s.p = other.k"
    )
    assert joined(query, at(0, k="a", p="b"), at(1, k="b", p="a"), at(2, k="z", p="a")) == [(2, "Ada", "Ada")]


def test_rows_without_a_partner_are_not_dropped_rows() -> None:
    scenario = Scenario(
        "SELECT count(*) AS n FROM s [RANGE 10] JOIN names USING (k)", tables=TABLES, data={"names": NAMES}
    )
    step = scenario.batch(at(0, k="z"))
    assert (step.counts.dropped, step.errors(), scenario.end().rows()) == (0, 0, [])


def test_two_rows_with_one_key_are_an_error() -> None:
    scenario = Scenario(tables=TABLES, data={"names": [*NAMES, {"k": "a", "name": "Ann", "v": 7}]})
    with pytest.raises(DataError, match="two rows with k = 'a'") as raised:
        scenario.register("q", "SELECT count(*) AS n FROM s [RANGE 10] JOIN names USING (k)")
    assert raised.value.code == "duplicate-key"
    scenario.register("q", "SELECT count(*) AS n FROM s [RANGE 10] JOIN names ON s.k = names.k AND s.v = names.v")


def test_keys_with_a_null_in_them_are_not_duplicates() -> None:
    nameless: list[dict[str, Value]] = [{"k": "a", "name": None, "v": None}] * 2
    scenario = Scenario(tables=TABLES, data={"names": [*NAMES, *nameless]})
    scenario.register("q", "SELECT count(*) AS n FROM s [RANGE 10] JOIN names ON s.k = names.k AND s.v = names.v")
    scenario.batch(at(0, k="a", v=1), at(1, k="a", v=None))
    assert scenario.end().rows() == [(0, 10, 1)]


def test_a_table_without_data_is_an_error() -> None:
    scenario = Scenario(tables=TABLES, data={"NAMES": NAMES})
    with pytest.raises(DataError) as raised:
        scenario.register("q", "SELECT count(*) AS n FROM s [RANGE 10] JOIN zones ON s.v = zones.v")
    assert raised.value.code == "missing-table"
    scenario.register("q", "SELECT count(*) AS n FROM s [RANGE 10] JOIN names USING (k)")
