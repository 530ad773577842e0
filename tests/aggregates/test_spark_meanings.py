"""Aggregates with a name of Spark have Spark's meaning: `percentile` interpolates, `percentile_approx` takes an
accuracy, `approx_count_distinct` a relative standard deviation.
"""

from __future__ import annotations

import math
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import headrace
from headrace.aggregates.partials import partials_of
from headrace.kernel.states.kinds import Slots, lower, state_of
from headrace.model.errors import QueryError
from headrace.model.expressions import Aggregate
from headrace.model.types import BIGINT, DOUBLE
from headrace.sql import format_query
from tests.sql.catalog import parse

BEGIN_US = 1_700_000_040_000_000
"""On a full minute."""


def evaluate(call: str, values: list[Any], data_type: pa.DataType | None = None) -> Any:
    """The value of the call over one minute with these values of `x`; the kernel answers."""
    times = pa.array([BEGIN_US] * len(values), pa.timestamp("us", "UTC"))
    table = pa.table({"ts": times, "x": pa.array(values, data_type)})
    answers = headrace.aggregate(table, {"q": f"SELECT {call} AS a FROM stream GROUP BY window(ts, '1 minute')"})
    (value,) = answers["q"]["a"].to_pylist()
    return value


def aggregate_of(call: str) -> Aggregate:
    (aggregate,) = parse(f"SELECT {call} AS a FROM Trades [RANGE 60]").aggregates()
    return aggregate


@pytest.mark.parametrize("function", ["percentile", "percentile_exact"])
@pytest.mark.parametrize(
    ("values", "fraction", "expected"),
    [
        # SELECT percentile(col, 0.3) FROM VALUES (0), (10) AS tab(col), from Spark's documentation
        ([0, 10], 0.3, 3.0),
        ([1, 2, 3, 4], 0.5, 2.5),
        ([1, None, 2], 0.5, 1.5),
        ([4, 1], 0, 1.0),
        ([4, 1], 1, 4.0),
        ([7], 0.99, 7.0),
        ([1.5, math.nan], 1, math.nan),
        ([Decimal("0.10"), Decimal("0.30")], 0.5, 0.2),
    ],
)
def test_percentile_interpolates(function: str, values: list[Any], fraction: float, expected: float) -> None:
    result = evaluate(f"{function}(x, {fraction})", values)
    assert isinstance(result, float)
    assert result == pytest.approx(expected, rel=1e-15, nan_ok=True)


def test_percentile_without_values_is_null() -> None:
    assert evaluate("percentile(x, 0.5)", [None, None], pa.int64()) is None
    assert evaluate("percentile(x, 0.5) FILTER (WHERE x > 9)", [1, 2]) is None


def test_percentile_of_distinct_values() -> None:
    assert evaluate("percentile(DISTINCT x, 0.5)", [1, 1, 1, 2]) == 1.5


def test_percentiles_are_those_of_duckdb() -> None:
    duckdb = pytest.importorskip("duckdb")
    rng = np.random.default_rng(7)
    listed = [None if rng.random() < 0.1 else int(value) for value in rng.integers(-99, 99, 501)]
    rows = duckdb.connect().register("rows", pa.table({"x": pa.array(listed)}))
    for fraction in (0.0, 0.05, 0.333, 0.5, 0.95, 1.0):
        ((expected,),) = rows.execute(f"SELECT quantile_cont(x, {fraction}) FROM rows").fetchall()
        assert evaluate(f"percentile(x, {fraction})", listed) == pytest.approx(expected, rel=1e-12)


def test_names() -> None:
    names = ("percentile", "percentile_exact", "percentile_approx", "approx_percentile")
    assert [aggregate_of(f"{name}(vol, 0.5)").function for name in names] == [
        *("percentile", "percentile", "percentile_approx", "percentile_approx")
    ]
    assert evaluate("percentile_approx(x, 0.5)", [1, 2, 3, 4]) == 2.0


def test_percentile_reads_stored_sketches() -> None:
    times = pa.array([BEGIN_US] * 4, pa.timestamp("us", "UTC"))
    grouped = " FROM stream GROUP BY window(ts, '1 minute')"
    table = pa.table({"ts": times, "x": [1, 2, 3, 4]})
    stored = headrace.aggregate(table, {"q": f"SELECT window_start AS ts, quantile_sketch(x) AS s {grouped}"})["q"]
    query = f"SELECT percentile(s, 0.5) AS a, percentile_approx(s, 0.5) AS b {grouped}"
    (row,) = headrace.aggregate(stored.select(["ts", "s"]), {"q": query})["q"].to_pylist()
    assert (row["a"], row["b"]) == (2.0, 2.0)
    with pytest.raises(QueryError, match="percentile_exact takes numbers, not BINARY"):
        headrace.aggregate(stored.select(["ts", "s"]), {"q": f"SELECT percentile_exact(s, 0.5) {grouped}"})
    for call in ("percentile_approx(s, 0.5, 1000)", "approx_count_distinct(s, 0.01)"):
        with pytest.raises(QueryError, match="stored sketches have"):
            headrace.aggregate(stored.select(["ts", "s"]), {"q": f"SELECT {call} {grouped}"})


@pytest.mark.parametrize(
    ("call", "message"),
    [
        ("percentile(vol, 0.5, 100)", "percentile takes 2 arguments, not 3"),
        ("percentile(vol, array(0.5, 0.9))", "an array can't be written here"),
        ("percentile_approx(vol, array(0.5, 0.9), 100)", "an array can't be written here"),
        ("percentile(symbol, 0.5)", "percentile takes numbers, not STRING"),
        ("percentile(seen, 0.5)", "percentile takes numbers, not TIMESTAMP"),
        ("percentile_approx(vol, 0.5, 0)", "percentile_approx needs the accuracy as a whole number from 1 to 10000"),
        ("percentile_approx(vol, 0.5, 10001)", "needs the accuracy as a whole number from 1 to 10000"),
        ("percentile_approx(vol, 0.5, 1.5)", "needs the accuracy as a whole number from 1 to 10000"),
        ("percentile_approx(vol, 0.5, vol)", "needs the accuracy as a whole number from 1 to 10000"),
        ("approx_percentile(vol, 0.5, 100, 1)", "approx_percentile takes 2 to 3 arguments, not 4"),
        ("approx_count_distinct(vol, 0)", "needs the relative standard deviation as a constant from 0.001 to 0.39"),
        ("approx_count_distinct(vol, 0.4)", "needs the relative standard deviation as a constant from 0.001 to 0.39"),
        ("approx_count_distinct(vol, price)", "needs the relative standard deviation as a constant"),
        ("distinct_sketch(vol, 0.05)", "distinct_sketch takes 1 argument, not 2"),
    ],
)
def test_refusals(call: str, message: str) -> None:
    with pytest.raises(QueryError) as caught:
        parse(f"SELECT {call} FROM Trades [RANGE 60]")
    assert message in caught.value.message


@pytest.mark.parametrize(
    "call", ["percentile_approx(vol, 0.5, 1000)", "approx_count_distinct(symbol, 0.01)", "percentile(vol, 0.5)"]
)
def test_calls_are_printed_as_they_are(call: str) -> None:
    query = parse(f"SELECT {call} AS a FROM Trades [RANGE 60]")
    assert f"{call} AS a" in format_query(query)
    assert parse(format_query(query)) == query


# Accuracy


def test_a_better_accuracy_is_another_partial_and_the_usual_one_is_shared() -> None:
    sizes = {
        call: partials_of(aggregate_of(call))[0].size
        for call in (
            *("percentile_approx(vol, 0.5)", "percentile_approx(vol, 0.9, 100)", "percentile_approx(vol, 0.5, 1)"),
            *("percentile_approx(vol, 0.5, 1000)", "percentile_approx(vol, 0.9, 900)"),
            *("percentile_approx(vol, 0.5, 10000)", "approx_count_distinct(vol)", "approx_count_distinct(vol, 0.05)"),
            *("approx_count_distinct(vol, 0.01)", "approx_count_distinct(vol, 0.001)"),
        )
    }
    assert list(sizes.values()) == [0, 0, 0, 6_400, 6_400, 51_200, 0, 0, 384 << 2, 384 << 9]


def test_queries_of_different_accuracies_side_by_side() -> None:
    """Each is within its own bounds, over data that make a sketch of the usual size err."""
    rng = np.random.default_rng(3)
    values = np.arange(60_000)
    rng.shuffle(values)
    times = pa.array(np.repeat(BEGIN_US, len(values)), pa.timestamp("us", "UTC"))
    calls = {
        **{f"p{accuracy}": f"percentile_approx(x, 0.3, {accuracy})" for accuracy in (1, 100, 1_000, 10_000)},
        "distinct": "percentile_approx(DISTINCT x, 0.3, 10000)",
        "usual": "percentile_approx(x, 0.3)",
        "exact": "percentile(x, 0.3)",
        **{f"d{place}": f"approx_count_distinct(x, {rsd})" for place, rsd in enumerate((0.05, 0.01, 0.001))},
    }
    texts = {name: f"SELECT {call} AS a FROM stream GROUP BY window(ts, '1 minute')" for name, call in calls.items()}
    together = headrace.aggregate(pa.table({"ts": times, "x": values}), texts)
    results = {name: table["a"][0].as_py() for name, table in together.items()}
    exact = 0.3 * (len(values) - 1)
    assert results["exact"] == pytest.approx(exact, rel=1e-12)
    assert results["usual"] == results["p1"] == results["p100"]
    for name, error in {"p100": 0.01, "p1000": 0.001, "p10000": 0.0001, "distinct": 0.0001}.items():
        assert abs(results[name] - exact) <= error * len(values) + 1, name
    for name, deviation in {"d0": 0.0163, "d1": 0.01, "d2": 0.001}.items():
        assert abs(results[name] - len(values)) <= 3 * deviation * len(values), name
    assert len({results["d0"], results["d1"], results["d2"]}) == 3
    assert results["p100"] != results["p10000"]


@pytest.mark.parametrize("call", ["percentile_approx(vol, 0.4, 1000)", "approx_count_distinct(vol, 0.005)"])
def test_accuracy_survives_merges(call: str) -> None:
    """Partials of parts, combined in two rounds, are as exact as the call says."""
    aggregate = aggregate_of(call)
    (partial,) = partials_of(aggregate)
    state = state_of(partial)
    values, parts = np.random.default_rng(1).permutation(100_000), 64
    slots: Slots = np.arange(len(values)) % parts
    states = state.lift(slots, parts, pa.array(values))
    for count in (8, 1):
        states = state.combine(np.arange(len(states[0])) % count, count, states)
    result = lower(aggregate, {partial.kind: states}).values[0].as_py()
    error, truth = (0.001, 40_000) if partial.kind == "quantiles" else (3 * 0.005, 100_000)
    assert abs(result - truth) <= error * 100_000
    assert aggregate.type == (DOUBLE if partial.kind == "quantiles" else BIGINT)
