"""Sketches that queries store and read back, and bytes that are none."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import headrace
from headrace.engine.answers import answer
from headrace.expressions.static_tables import Data
from headrace.inputs.conversion import convert_table
from headrace.sql import parse_query, parse_script

SECOND = 1_000_000
TIMES = pa.array([SECOND * n for n in range(60)], pa.timestamp("us", "UTC"))
ROWS = pa.table({"t": TIMES, "k": ["a", "b"] * 30, "x": [float(n % 7) for n in range(60)], "v": list(range(60))})


def answers(**queries: str) -> dict[str, list[dict[str, Any]]]:
    return {name: table.to_pylist() for name, table in headrace.aggregate(ROWS, queries).items()}


def test_stored_sketches_give_what_the_values_give() -> None:
    results = answers(
        parts="SELECT k, quantile_sketch(x) AS q, relative_sketch(x) AS r, distinct_sketch(v) AS d "
        "FROM stream [RANGE '10 s'] GROUP BY k",
        again="SELECT percentile(q, 0.3) AS p, quantiles(q, 4) AS parts, percentile_relative(r, 0.5) AS m, "
        "approx_count_distinct(d) AS n, quantile_sketch(q) AS whole FROM parts [RANGE '1 min']",
        directly="SELECT percentile_approx(x, 0.3) AS p, quantiles(x, 4) AS parts, percentile_relative(x, 0.5) AS m, "
        "approx_count_distinct(v) AS n, quantile_sketch(x) AS whole FROM stream [RANGE '1 min']",
    )
    assert results["again"] == results["directly"]


def test_several_results_come_from_one_sketch() -> None:
    script = parse_script("CREATE STREAM s (t TIMESTAMP, x DOUBLE) EVENT TIME t;")
    query = parse_query(
        "SELECT approx_median(x) AS a, percentile_approx(x, 0.95) AS b, quantiles(x, 10) AS c, quantile_sketch(x) AS d "
        "FROM s [RANGE 10]",
        script.catalog,
    )
    from headrace.planner.demand import demand

    assert [partial.kind for partial in demand(query).partials] == ["quantiles"]


@pytest.mark.parametrize("function", ["percentile(b, 0.5)", "approx_count_distinct(b)", "percentile_relative(b, 0.5)"])
def test_bytes_that_are_no_sketch_count_as_errors_of_their_rows(function: str) -> None:
    catalog = parse_script("CREATE STREAM s (t TIMESTAMP, b BINARY) EVENT TIME t;").catalog
    rows = pa.table({"t": TIMES[:4], "b": pa.array([b"no sketch", None, b"", b"\x05\x01"], pa.binary())})
    (stream,) = catalog.streams
    query = parse_query(f"SELECT {function} AS p, count(*) AS n FROM s [RANGE 10]", catalog)
    closed = answer(Data(catalog, stream, convert_table(rows, stream.columns).table, {}), {"q": query}).closed["q"]
    assert closed.errors == 2
    (row,) = closed.table.to_pylist()
    assert row["n"] == 4
    assert row["p"] in (None, 0)


def test_windows_without_values() -> None:
    """
    rows     x   .   .   x
    windows  |---|---|---|---
    """
    rows = pa.table({"t": TIMES.take(pa.array([0, 3])), "x": [1.0, None], "k": ["a", None]})
    result = headrace.aggregate(
        rows,
        {
            "q": "SELECT percentile_approx(x, 0.5) AS p, quantiles(x, 3) AS q, quantile_sketch(x) AS s, "
            "top_k(k, 2) AS h, approx_count_distinct(k) AS d, median(x) AS m, min_by(x, k) AS b, bool_or(x > 0) AS o "
            "FROM stream [RANGE '1 s']"
        },
    )["q"]
    first, *others = result.to_pylist()
    assert (first["p"], first["q"], first["d"], first["m"]) == (1.0, [1.0, 1.0], 1, 1.0)
    assert first["h"] == [{"item": "a", "lower": 1, "upper": 1}]
    assert len(others) == 3
    for row in others:
        assert row["d"] == 0
        assert all(row[name] is None for name in "pqshmbo")


def test_heavy_hitters_have_no_false_negatives() -> None:
    rng = np.random.default_rng(7)
    items = rng.zipf(1.3, 20_000) % 5_000
    times = pa.array(np.sort(rng.integers(0, 60 * SECOND, len(items)))).cast(pa.timestamp("us", "UTC"))
    rows = pa.table({"t": times, "item": items})
    query = "SELECT heavy_hitters(item, 0.01) AS h, count(*) AS n FROM stream [RANGE '20 s' SLIDE '5 s']"
    for row in headrace.aggregate(rows, {"q": query})["q"].to_pylist():
        inside = (np.asarray(times.cast(pa.int64())) >= row["window_start"].timestamp() * SECOND) & (
            np.asarray(times.cast(pa.int64())) < row["window_end"].timestamp() * SECOND
        )
        values, counts = np.unique(items[inside], return_counts=True)
        true = dict(zip(values.tolist(), counts.tolist(), strict=True))
        named = {hitter["item"]: hitter for hitter in row["h"]}
        assert {item for item, count in true.items() if count >= 0.01 * row["n"]} <= named.keys()
        assert all(hitter["lower"] <= true[item] <= hitter["upper"] for item, hitter in named.items())
