"""Aggregates of users at the edge: folded there, sent as partials, looked at and combined above."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pytest

from headrace.aggregates.laws import user_aggregate
from headrace.aggregates.registry import with_functions
from headrace.aggregates.user import UserAggregate
from headrace.edge.tables.level1 import LevelOne
from headrace.engine.answers import answer, close_all, plan_for
from headrace.expressions.static_tables import Data
from headrace.kernel.close.retained_partials import Retained
from headrace.kernel.level1.reader import ReadResult
from headrace.model.schema import Catalog
from headrace.sql import parse_query, parse_script
from headrace.wire.frame_checks import check_partials
from headrace.wire.frames import Frame, Header, from_bytes, to_bytes
from headrace.wire.orders import Orders, from_text, to_text


class Spread(UserAggregate):
    """The difference of the greatest and the least."""

    name, arguments, returns = "spread_at_the_edge", ("BIGINT",), "BIGINT"
    state = {"least": "BIGINT", "greatest": "BIGINT"}  # noqa: RUF012 - a declaration, never written to

    def initialize(self):  # type: ignore[no-untyped-def]
        return {"least": 2**62, "greatest": -(2**62)}

    def update_batch(self, state, values):  # type: ignore[no-untyped-def]
        least, greatest = int(np.min(values)), int(np.max(values))
        return {"least": min(state["least"], least), "greatest": max(state["greatest"], greatest)}

    def merge(self, left, right):  # type: ignore[no-untyped-def]
        least, greatest = min(left["least"], right["least"]), max(left["greatest"], right["greatest"])
        return {"least": least, "greatest": greatest}

    def output(self, state):  # type: ignore[no-untyped-def]
        return state["greatest"] - state["least"] if state["greatest"] >= state["least"] else None


QUERY = "SELECT k, spread_at_the_edge(v) AS s, count(*) AS n FROM r [RANGE '4 s' SLIDE '2 s'] WHERE v > 2 GROUP BY k"


@pytest.fixture
def catalog() -> Catalog:
    declared = parse_script("CREATE STREAM r (t TIMESTAMP, k STRING, v BIGINT) EVENT TIME t;").catalog
    return with_functions(declared, [user_aggregate(Spread)])


def rows() -> pa.Table:
    chance = np.random.default_rng(2)
    times_us = np.sort(chance.integers(0, 20 * 10**6, 2_000))
    return pa.table(
        {
            "t": pa.array(times_us).cast(pa.timestamp("us", "UTC")),
            "k": pa.array([f"k{each}" for each in chance.integers(0, 40, 2_000)]),
            "v": pa.array(chance.integers(0, 100, 2_000)),
        }
    )


def test_they_are_folded_at_the_edge(catalog: Catalog) -> None:
    stream, queries, table = catalog.streams[0], {"q": parse_query(QUERY, catalog)}, rows()
    data = Data(catalog, stream, table, {})
    plan = plan_for(data, queries)
    orders = from_text(to_text(Orders("r", plan, queries)))
    run = ReadResult(Retained((), stream.zone))
    for frame in frames(LevelOne(orders, catalog, {}, memory_bytes=1 << 16), table):
        places = {plan.nodes[place].node: place for place in plan.shipped}
        for part in check_partials(frame, "r", plan):
            run.retained.add(plan, {places[part.node]: part})
    found = close_all(run, data, queries, 1_000)["q"].table
    expected = answer(data, queries).closed["q"].table
    order = [(name, "ascending") for name in ("window_start", "k")]
    assert found.num_rows
    assert found.sort_by(order).equals(expected.sort_by(order))


def frames(level: LevelOne, table: pa.Table) -> Iterator[Frame]:
    """Cut now and then, and sent."""
    for sequence, begin in enumerate(range(0, table.num_rows, 300), start=1):
        level.feed(table.slice(begin, 300))
        yield from_bytes(to_bytes(Frame(Header("east", 1, sequence, "r", "plan"), level.cut())))
