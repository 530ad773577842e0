"""DuckDB and Polars as peers: windows that the workloads don't have, and queries that they are not asked."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import polars as pl
import pyarrow as pa
import pytest

from benchmarks.data import queries_of
from benchmarks.kernel import results_of, spread
from benchmarks.peers import (
    compare,
    duckdb_peer,
    duckdb_query,
    polars_peer,
    polars_query,
    sql,
    with_numbers,
)
from headrace.engine.answers import answer as answer_all
from headrace.expressions.static_tables import Data
from headrace.model.address import parse_address
from headrace.model.arrow import address_bytes
from headrace.model.errors import UnsupportedError
from headrace.model.query import Query
from headrace.model.windows import Window
from headrace.spark.single_query import split_query
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


def expected(window: Window) -> dict[int, float]:
    sums: Counter[int] = Counter()
    for place, time_us in enumerate(TIMES_US):
        for held in window.containing(time_us):
            sums[(held.end_us - window.offset_us) // window.slide_us] += 2**place
    return {instance: float(total) for instance, total in sums.items()}


def sums_of(table: pa.Table) -> dict[int, float]:
    return dict(zip(table["instance"].to_pylist(), table["value"].to_pylist(), strict=True))


@pytest.mark.parametrize(
    "window",
    [Window(5_000_000, 3_000_000), Window(2_000_000, 3_000_000), Window(6_000_000, 3_000_000, 1_000_000)],
    ids=["overlapping", "with gaps", "with an offset"],
)
def test_rows_lie_in_the_windows_that_hold_them(window: Window) -> None:
    data, query = trades()
    query = replace(query, window=window)
    assert sums_of(polars_peer(data)(query)) == expected(window)
    with duckdb_peer(data) as answer:
        assert sums_of(answer(query)) == expected(window)


@pytest.mark.parametrize(
    "asked",
    [
        "max(Price)",
        "sum(Price + 1)",
        "avg(Price)",
        "count(Price)",
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


FLOWS = """
CREATE STREAM Flows (Time TIMESTAMP, Addr ADDRESS, Port BIGINT, Bytes BIGINT) EVENT TIME Time LATENESS '5 s';
CREATE QUERY q AS SELECT ip_prefix(Addr, 24) AS Net, Port, sum(Bytes) AS bytes, count(*) AS flows
FROM Flows [RANGE '5 s' SLIDE '3 s'] WHERE {where} GROUP BY ip_prefix(Addr, 24), Port;
"""


def flows(where: str = "Port >= 0") -> tuple[Data, Query]:
    script = parse_script(FLOWS.format(where=where))
    addresses = [None, "10.0.0.1", "10.0.0.200", "255.0.1.1", "10.0.0.1", "255.0.1.2"]
    rows = pa.table(
        {
            "Time": pa.array(TIMES_US, pa.timestamp("us", tz="UTC")),
            "Addr": pa.array(
                [address and address_bytes(parse_address(address)) for address in addresses], pa.binary(16)
            ),
            "Port": pa.array([80, 443, 443, 80, 22, 80]),
            "Bytes": pa.array([2**40, 1, 2, 4, 8, 16]),
        }
    )
    return Data(script.catalog, script.catalog.streams[0], rows, {}), script.queries[0].query


@pytest.mark.parametrize(
    "where",
    ["Port >= 0", "Port IN (80, 22)", "Port < 100 OR Bytes = 1", "Port <> Bytes AND Bytes <= 8 AND Port > 22"],
)
def test_groups_and_predicates(where: str) -> None:
    data, query = flows(where)
    ours = results_of(query, answer_all(data, {"q": query}).closed["q"])
    assert ours.num_rows > 0
    with duckdb_peer(data) as duckdb:
        for theirs in (duckdb(query), polars_peer(data)(query)):
            compare("both", split_query(query), ours, theirs)


def test_addresses_are_numbers_for_the_peers() -> None:
    addresses = [None, address_bytes(parse_address("1.2.3.4"))]
    found = with_numbers(pa.table({"a": pa.array(addresses, pa.binary(16)), "b": pa.array([1, 2])}))
    assert found.to_pydict() == {"a": [None, 0x01020304], "b": [1, 2]}
    with pytest.raises(UnsupportedError, match="IPv6"):
        with_numbers(pa.table({"a": pa.array([address_bytes(parse_address("2001:db8::1"))], pa.binary(16))}))


def test_a_difference_is_an_error() -> None:
    asked = split_query(trades()[1])

    def results(sums: dict[int, float]) -> pa.Table:
        return pa.table({"instance": list(sums), "value": list(sums.values())})

    def both(ours: dict[int, float], theirs: dict[int, float]) -> None:
        compare("both", asked, results(ours), results(theirs))

    both({1: 1.0, 2: 3.0}, {2: 3.0 + 1e-12, 1: 1.0})
    with pytest.raises(RuntimeError, match=r"both differ in value at .*: 2}"):
        both({1: 1.0, 2: 3.0}, {1: 1.0, 2: 3.000001})
    with pytest.raises(RuntimeError, match="both differ in instance"):
        both({1: 1.0, 2: 3.0}, {1: 1.0, 3: 3.0})
    with pytest.raises(RuntimeError, match="both have 1 and 2 rows"):
        both({1: 1.0}, {1: 1.0, 2: 3.0})


def test_counts_are_compared_exactly() -> None:
    data, query = flows()
    ours = results_of(query, answer_all(data, {"q": query}).closed["q"])
    place = ours.column_names.index("bytes")
    theirs = ours.set_column(place, "bytes", pa.array([value + (value > 2**39) for value in ours["bytes"].to_pylist()]))
    with pytest.raises(RuntimeError, match="both differ in bytes"):
        compare("both", split_query(query), ours, theirs)


def test_a_sample_is_drawn_from_all_queries() -> None:
    queries = queries_of("grouped", 128)
    sampled = spread(queries, 16)
    assert sampled.items() <= queries.items()
    assert len(sampled) == 16
    assert len({query.group_by for query in sampled.values()}) > 4, "every eighth query has the same group-by"
    assert spread(queries, 16) == sampled
    assert spread(queries, 200) == queries
