"""The engine's plan follows the registry, and sizes that have changed for good."""

from __future__ import annotations

import pyarrow as pa

from headrace.engine.plan_in_force import Planner
from headrace.sql import parse_query
from tests.engine.files import CATALOG, LATER, QUERIES, SCHEMA, batches

STREAM = CATALOG.streams[0]
ASKED = {name: parse_query(sql, CATALOG) for name, sql in QUERIES.items()}
MORE = ASKED | {name: parse_query(sql, CATALOG) for name, sql in LATER.items()}


def rows() -> pa.Table:
    return pa.Table.from_pylist([row for batch in batches(4) for row in batch], schema=SCHEMA)


def test_a_plan_answers_exactly_the_queries() -> None:
    planner = Planner(CATALOG, STREAM, None, {})
    assert planner.plan_for({}, {}, rows) is None
    first = planner.plan_for(ASKED, {}, rows)
    assert first is not None
    assert set(first.demands) == set(ASKED)
    assert planner.plan_for(ASKED, {}, rows) is first
    wider = planner.plan_for(MORE, {}, rows)
    assert wider is not None
    assert set(wider.demands) == set(MORE)
    back = planner.plan_for(ASKED, {}, rows)
    assert back is not None
    assert set(back.demands) == set(ASKED)


def test_without_a_row_there_is_no_plan() -> None:
    planner = Planner(CATALOG, STREAM, None, {})
    assert planner.plan_for(ASKED, {}, SCHEMA.empty_table) is None
    assert planner.plan_for(ASKED, {}, rows) is not None, "but as soon as there is one"


def test_a_lasting_change_of_sizes_is_followed() -> None:
    planner = Planner(CATALOG, STREAM, None, {})
    planner.plan_for(ASKED, {}, rows)
    sampled = []

    def sample() -> pa.Table:
        sampled.append(1)
        return rows()

    for number in range(20):
        planner.observe(*((100, 50) if number % 2 else (1_000, 500)))
        planner.plan_for(ASKED, {}, sample)
    assert len(sampled) <= 1, "sizes that swing are left alone"
    seen = len(sampled)
    for _ in range(5):
        planner.observe(100_000, 50_000)
        planner.plan_for(ASKED, {}, sample)
    assert len(sampled) == seen + 1
    if planner.making is not None:
        planner.making.result(60)
    plan = planner.plan_for(ASKED, {}, sample)
    assert plan is not None
    assert planner.making is None
    assert set(plan.demands) == set(ASKED)
