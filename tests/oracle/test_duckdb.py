"""The reference interpreter gives what DuckDB gives for the same windowed query, written there as a join."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any
from unittest.mock import patch

import duckdb
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, event, given, settings
from hypothesis import strategies as st

from headrace.reference import Interpreter
from headrace.sql import parse_query, parse_script
from tests.oracle.pairs import Pair, Writer
from tests.oracle.tables import STREAM, Row, tables
from tests.oracle.values import canonical, canonical_row
from tests.oracle.windowed import ANYTHING, Kind, QueryPair, queries

CATALOG = parse_script(STREAM).catalog
SCHEMA = pa.schema(
    {
        **dict.fromkeys("tij", pa.int64()),
        **dict.fromkeys("xy", pa.float64()),
        **dict.fromkeys("su", pa.string()),
        "b": pa.bool_(),
        "d": pa.decimal128(10, 2),
    }
)
ROUNDING = 1e-9

ResultRow = tuple[Any, ...]


@pytest.fixture(scope="module")
def connection() -> Iterator[duckdb.DuckDBPyConnection]:
    with duckdb.connect(config={"threads": 1}) as opened:
        yield opened


@st.composite
def cases(draw: st.DrawFn) -> tuple[QueryPair, list[Row]]:
    """A query, or one of those for the rows on which its WHERE is FALSE or NULL, and a table."""
    query = draw(st.sampled_from(draw(queries()).thirds()))
    return query, draw(tables(query.window.unit))


@st.composite
def expression_cases(draw: st.DrawFn) -> tuple[list[Pair], list[Row]]:
    """Six expressions, over rows that follow each other by a microsecond."""
    table = [row | {"t": place} for place, row in enumerate(draw(tables("us")))]
    writer = Writer(draw, range(0, len(table), 4))
    return [writer.expression(writer.pick(ANYTHING)) for _ in range(6)], table


def from_reference(query: str, table: list[Row]) -> list[ResultRow]:
    interpreter = Interpreter(CATALOG.streams[0])
    interpreter.register("q", parse_query(query, CATALOG))
    first, last = interpreter.batch(table), interpreter.end()
    return [row for step in (first, last) for result in step.results for row in result.rows]


def from_duckdb(query: str, table: list[Row], connection: duckdb.DuckDBPyConnection) -> list[ResultRow]:
    connection.register("r", pa.Table.from_pylist(table, schema=SCHEMA))
    return connection.execute(query).fetchall()


def agree(kind: Kind, ours: Any, theirs: Any, weight: float) -> bool:
    """Exact, or within rounding of the size of what was summed.

    Sums and averages: 1e-9 of the sum, or average, of |x|. Variances: DuckDB's running update loses digits as the mean
    grows against the deviation, so 1e-9 of deviation times root mean square, and what the mean's last digit makes of
    equal values.
    """
    if kind == "exact" or ours is None or theirs is None:
        return canonical(ours) == canonical(theirs)
    if not (math.isfinite(ours) and math.isfinite(theirs)):
        return canonical(ours) == canonical(theirs)
    if kind in ("sum", "mean"):
        return bool(abs(ours - theirs) <= ROUNDING * weight)
    if kind == "deviation":
        ours, theirs = ours * ours, theirs * theirs
    return bool(abs(ours - theirs) <= ROUNDING * math.sqrt(max(ours, theirs) * weight) + 1e-28 * weight)


def check(query: QueryPair, ours: list[ResultRow], theirs: list[ResultRow]) -> None:
    """Rows are compared in their order if the query has one, else by window and groups, which come first."""
    first, count = 2 + len(query.groups), len(query.aggregates)
    if not query.order:
        ours, theirs = (sorted(rows, key=lambda row: repr(canonical_row(row[:first]))) for rows in (ours, theirs))
    assert [canonical_row(row[:first]) for row in ours] == [canonical_row(row[:first]) for row in theirs]
    for our_row, their_row in zip(ours, theirs, strict=True):
        for place, aggregate in enumerate(query.aggregates):
            pair = our_row[first + place], their_row[first + place]
            assert agree(aggregate.kind, *pair, their_row[first + count + place]), (aggregate, our_row, their_row)


@settings(max_examples=120, suppress_health_check=[HealthCheck.too_slow])
@given(case=expression_cases())
def test_expressions_equal_duckdb(connection: duckdb.DuckDBPyConnection, case: tuple[list[Pair], list[Row]]) -> None:
    """Windows of one microsecond hold one row each, so max() shows what an expression gives for it."""
    pairs, table = case
    items = ", ".join(f"max({pair.ours}) AS a{place}" for place, pair in enumerate(pairs))
    ours = from_reference(f"SELECT {items} FROM r [RANGE '1 us']", table)
    theirs = from_duckdb(
        f"SELECT t, t + 1, {', '.join(pair.duck for pair in pairs)} FROM r ORDER BY t", table, connection
    )
    assert list(map(canonical_row, ours)) == list(map(canonical_row, theirs))


@settings(max_examples=500, suppress_health_check=[HealthCheck.too_slow])
@given(case=cases())
def test_reference_equals_duckdb(connection: duckdb.DuckDBPyConnection, case: tuple[QueryPair, list[Row]]) -> None:
    compare(connection, *case)


@pytest.mark.slow
@settings(max_examples=5_000, suppress_health_check=[HealthCheck.too_slow])
@given(case=cases())
def test_many_more_queries_equal_duckdb(
    connection: duckdb.DuckDBPyConnection, case: tuple[QueryPair, list[Row]]
) -> None:
    compare(connection, *case)


def compare(connection: duckdb.DuckDBPyConnection, query: QueryPair, table: list[Row]) -> None:
    with patch("headrace.model.windows.MIN_FILLED_US", 1):  # DuckDB is asked for every empty window
        ours = from_reference(query.ours(), table)
    event("with results" if ours else "without results")
    check(query, ours, from_duckdb(query.duck(), table, connection))
