"""Registries that older versions wrote keep their meaning, and show it."""

from __future__ import annotations

from pathlib import Path

import pytest

from headrace.engine.registry import Registry, keep_registry, read_registry, registry_name, with_queries
from headrace.model.query import Query
from headrace.planner.codec import decode, encode
from headrace.sql import parse_query, parse_script
from headrace.storage.directory import Directory, prepare
from headrace.storage.disk import to_record

SCHEMA = "CREATE STREAM S (t TIMESTAMP, x BIGINT, b BINARY) EVENT TIME t"
CATALOG = parse_script(SCHEMA).catalog
SELECT = "SELECT percentile(x, 0.5) AS p, percentile_exact(x, 0.9) AS e, percentile(b, 0.1) AS r FROM S [RANGE '1 s']"
MEANING = SELECT.replace("percentile(x", "percentile_approx(x")
OLD_VALUES = (
    '{"version":3,"objects":[["Window",1000000,1000000,0],["DataType","TIMESTAMP",0,0,[]],'
    '["Call","window_start",[],{"is":1}],["Output","window_start",{"is":2}],["Call","window_end",[],{"is":1}],'
    '["Output","window_end",{"is":4}],["DataType","BIGINT",0,0,[]],["ColumnRef","S","x",{"is":6}],'
    '["DataType","DOUBLE",0,0,[]],["Literal",0.5,{"is":8}],'
    '["Aggregate","percentile",[{"is":7}],{"is":8},false,null,[{"is":9}]],["Output","p",{"is":10}],'
    '["Literal",0.9,{"is":8}],["Aggregate","percentile_exact",[{"is":7}],{"is":8},false,null,[{"is":12}]],'
    '["Output","e",{"is":13}],["DataType","BINARY",0,0,[]],["ColumnRef","S","b",{"is":15}],'
    '["Literal",0.1,{"is":8}],["Aggregate","percentile",[{"is":16}],{"is":8},false,null,[{"is":17}]],'
    '["Output","r",{"is":18}],["Query","S",{"is":0},[{"is":3},{"is":5},{"is":11},{"is":14},{"is":19}],[],null,[],'
    'null,[],null]],"value":{"map":[["q",{"is":20}]]}}'
)
"""What encode() wrote when `percentile` was a sketch."""


@pytest.fixture
def directory(tmp_path: Path) -> Directory:
    """With a registry of that version."""
    made = prepare(tmp_path / "S", SCHEMA)
    queries = {"q": {"sql": SELECT, "generation": 1}}
    document = {"version": 1, "next_generation": 2, "queries": queries, "values": OLD_VALUES}
    made.store.put(registry_name(1), to_record(document))
    return made


def meaning(sql: str) -> Query:
    return parse_query(sql, CATALOG)


def functions_of(query: Query) -> list[str]:
    return [aggregate.function for aggregate in query.aggregates()]


def test_an_old_query_keeps_its_meaning(directory: Directory) -> None:
    registry = read_registry(directory, 1)
    found = registry.queries["q"]
    assert functions_of(found.query) == ["percentile_approx", "percentile", "percentile_approx"]
    assert found.query == meaning(MEANING)
    assert meaning(found.sql) == found.query, "the text that is listed says what runs"


def test_it_stays_so_when_the_registry_is_written_again(directory: Directory) -> None:
    old = read_registry(directory, 1)
    keep_registry(directory, Registry(1, old.next_generation, old.queries))
    assert read_registry(directory, 2).queries == old.queries
    assert decode(encode(old.values)) == old.values


def test_the_same_file_after_an_update_is_another_query(directory: Directory) -> None:
    """`percentile` in the job's files is exact now: a new generation, nothing of the old one goes into it."""
    old = read_registry(directory, 1)
    changed = with_queries(old, {"q": (SELECT, meaning(SELECT))})
    assert changed.queries["q"].generation == 2
    assert functions_of(changed.queries["q"].query) == ["percentile", "percentile", "percentile_approx"]
    same = with_queries(old, {"q": (MEANING, meaning(MEANING))})
    assert same is old
