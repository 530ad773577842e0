"""DuckDB and Polars as peers: windows that the workloads don't have, and queries that they are not asked."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import polars as pl
import pyarrow as pa
import pytest

from headrace.bench.kernel import compare, queries_of, spread
from headrace.bench.peers import Sums, duckdb_peer, duckdb_query, polars_peer, polars_query, sql
from headrace.model.errors import UnsupportedError
from headrace.model.query import Query
from headrace.model.windows import Window
from headrace.planner.sampling import Data
from headrace.sql import parse_script

SCRIPT = """
CREATE STREAM Trades (Time TIMESTAMP, Price DOUBLE) EVENT TIME Time LATENESS '5 s';
CREATE QUERY q AS SELECT sum(Price) AS value FROM Trades [RANGE '5 s' SLIDE '3 s'];
"""
TIMES_US = (1_000_000, 2_999_999, 3_000_000, 7_000_000, 7_000_001, 20_000_000)


def trades() -> tuple[Data, Query]:
    script = parse_script(SCRIPT)
    times = pa.array(TIMES_US, pa.timestamp("us", tz="UTC"))
    prices = pa.array([float(2**place) for place in range(len(TIMES_US))])
    rows = pa.table({"Time": times, "Price": prices})
    return Data(script.catalog, script.catalog.streams[0], rows, {}), script.queries[0].query


def expected(window: Window) -> Sums:
    sums: Counter[int] = Counter()
    for place, time_us in enumerate(TIMES_US):
        for held in window.containing(time_us):
            sums[(held.end_us - window.offset_us) // window.slide_us] += 2**place
    return {instance: float(total) for instance, total in sums.items()}


@pytest.mark.parametrize(
    "window",
    [Window(5_000_000, 3_000_000), Window(2_000_000, 3_000_000), Window(6_000_000, 3_000_000, 1_000_000)],
    ids=["overlapping", "with gaps", "with an offset"],
)
def test_rows_lie_in_the_windows_that_hold_them(window: Window) -> None:
    data, query = trades()
    query = replace(query, window=window)
    assert polars_peer(data)(query) == expected(window)
    with duckdb_peer(data) as answer:
        assert answer(query) == expected(window)


@pytest.mark.parametrize(
    "asked",
    [
        "max(Price)",
        "sum(Price + 1)",
        "sum(Price), count(*)",
        "sum(DISTINCT Price)",
        "sum(Price) FILTER (WHERE Price > 1)",
    ],
)
def test_other_queries_are_refused(asked: str) -> None:
    query = parse_script(SCRIPT.replace("sum(Price) AS value", asked)).queries[0].query
    with pytest.raises(UnsupportedError, match="peers are not asked for"):
        duckdb_query(query, "Time")
    with pytest.raises(UnsupportedError, match="peers are not asked for"):
        polars_query(query, {"Trades": polars_frame()}, "Time")


def polars_frame() -> pl.DataFrame:
    return pl.DataFrame(trades()[0].rows)


def test_predicates_as_sql() -> None:
    where = parse_script(SCRIPT.replace("'3 s']", "'3 s'] WHERE abs(Price - 2.5) / Price < 0.1")).queries[0].query.where
    assert where is not None
    price = '"Trades"."Price"'
    assert sql(where) == f"((abs(({price} - '2.5'::DOUBLE)) / {price}) < '0.1'::DOUBLE)"


def test_a_difference_is_an_error() -> None:
    compare("both", {1: 1.0, 2: 3.0}, {2: 3.0 + 1e-12, 1: 1.0})
    with pytest.raises(RuntimeError, match="both differ in window 2"):
        compare("both", {1: 1.0, 2: 3.0}, {1: 1.0, 2: 3.000001})
    with pytest.raises(RuntimeError, match="both have different windows"):
        compare("both", {1: 1.0}, {1: 1.0, 2: 3.0})


def test_a_sample_is_spread_over_all_queries() -> None:
    queries = queries_of("otf-low", 9)
    assert list(spread(queries, 3)) == [list(queries)[place] for place in (0, 3, 6)]
    assert spread(queries, 20) == queries
