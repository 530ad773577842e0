"""What an edge ships grows with distinct boundaries, cells and groups, not with the number of queries."""

from __future__ import annotations

import random
from collections.abc import Iterable
from itertools import product

import numpy as np
import pyarrow as pa
import pytest

from headrace.edge.tables.level1 import LevelOne
from headrace.expressions.static_tables import Data
from headrace.planner.construction import make_plan
from headrace.planner.cost import FOR_EDGES, Cost
from headrace.planner.demand import demand
from headrace.planner.statistics import draw
from headrace.sql import parse_query, parse_script
from headrace.wire.frames import Frame, Header, to_bytes
from headrace.wire.orders import Orders

CATALOG = parse_script(
    "CREATE STREAM Flows (t TIMESTAMP, src STRING, dst STRING, port BIGINT, size BIGINT) EVENT TIME t;"
).catalog
ROWS, SECONDS = 60_000, 600
FRAME_S = 20
GROUPS = ("src, dst", "dst, port")
WINDOWS = ("[RANGE '60 s']", "[RANGE '120 s' SLIDE '60 s']", "[RANGE '60 s' SLIDE '20 s']")
SIZES = ("", "size <= 500", "size > 500")
PORTS = ("", "port < 1024", "port >= 1024")
PREDICATES = [" AND ".join(each for each in pair if each) for pair in product(SIZES, PORTS)]
PREDICATES += [" OR ".join(pair) for pair in product(SIZES[1:], PORTS[1:])]


def flows() -> pa.Table:
    """Connections of a network: sources and targets of which some are far more busy than others."""
    chance = np.random.default_rng(1)
    hosts = pa.array([f"10.0.{number // 256}.{number % 256}" for number in range(2_000)])
    times_us = np.sort(chance.integers(0, SECONDS * 10**6, ROWS))
    return pa.table(
        {
            "t": pa.array(times_us).cast(pa.timestamp("us", "UTC")),
            "src": hosts.take(pa.array(chance.zipf(1.2, ROWS) % len(hosts))),
            "dst": hosts.take(pa.array(chance.zipf(1.4, ROWS) % len(hosts))),
            "port": pa.array(chance.choice([22, 80, 443, 8080, 50_000], ROWS)),
            "size": pa.array(chance.integers(40, 1_500, ROWS)),
        }
    )


def text_of(where: str, group: str, window: str) -> str:
    filtered = f"WHERE {where} " if where else ""
    return f"SELECT {group}, count(*) AS n, sum(size) AS size FROM Flows {window} {filtered}GROUP BY {group}"


FOUR = [
    text_of("size > 500", GROUPS[0], WINDOWS[0]),
    text_of("port < 1024", GROUPS[0], WINDOWS[1]),
    text_of("port >= 1024", GROUPS[1], WINDOWS[2]),
    text_of("size <= 500", GROUPS[1], WINDOWS[0]),
]
MANY = [text_of(*each) for each in product(PREDICATES, GROUPS, WINDOWS)]


def shipped_bytes(texts: Iterable[str], rows: pa.Table) -> int:
    queries = {f"q{number}": parse_query(sql, CATALOG) for number, sql in enumerate(texts)}
    sample = draw(Data(CATALOG, CATALOG.streams[0], rows.slice(0, 10_000), {}), queries.values())
    plan = make_plan({name: demand(query) for name, query in queries.items()}, Cost(sample, FOR_EDGES))
    level = LevelOne(Orders("Flows", plan, queries), CATALOG, {})
    times_us = np.asarray(rows["t"].combine_chunks().cast(pa.int64()))
    total = 0
    for begin in range(0, SECONDS, FRAME_S):
        first, last = np.searchsorted(times_us, [begin * 10**6, (begin + FRAME_S) * 10**6])
        level.feed(rows.slice(int(first), int(last - first)))
        total += len(to_bytes(Frame(Header("east", 1, 1, "Flows", "plan"), level.cut())))
    return total


@pytest.fixture(scope="module")
def rows() -> pa.Table:
    return flows()


def test_many_queries_over_the_same_cuts_and_windows_ship_little_more_than_four(rows: pa.Table) -> None:
    others = [text for text in MANY if text not in FOUR]
    queries = [*FOUR, *random.Random(5).sample(others, 60)]
    assert shipped_bytes(queries, rows) <= 2 * shipped_bytes(FOUR, rows)


@pytest.mark.parametrize("is_grouped", [True, False])
def test_random_windows_cost_far_less_than_their_number(rows: pa.Table, is_grouped: bool) -> None:
    """HIFI's grouped queries with random windows grow 2.13 times from 2 to 32."""
    chance = random.Random(6)
    windows = [f"[RANGE '{chance.randint(20, 120)} s' SLIDE '{chance.randint(10, 60)} s']" for _ in range(32)]
    group = "src, dst" if is_grouped else ""
    texts = [
        f"SELECT {group + ', ' if group else ''}count(*) AS n FROM Flows {window}"
        + (f" GROUP BY {group}" if group else "")
        for window in windows
    ]
    assert shipped_bytes(texts, rows) <= 2.13 * shipped_bytes(texts[:2], rows)
