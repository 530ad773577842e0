"""Aggregates of users in SQL: typed, shared, isolated, the same as in the reference and on Spark."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import headrace
from headrace.aggregates.laws import declare_aggregates, user_aggregate
from headrace.aggregates.registry import with_functions
from headrace.aggregates.user import UserAggregate, extractor
from headrace.inputs.conversion import convert_table
from headrace.model.arrow import to_rows
from headrace.model.errors import QueryError, UsageError
from headrace.model.schema import Catalog
from headrace.planner.demand import demand
from headrace.reference import Interpreter
from headrace.sql import format_query, parse_query, parse_script

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class Range(UserAggregate):
    """The least and the greatest number."""

    name, arguments, returns = "width", ("BIGINT",), "BIGINT"
    state = {"least": "BIGINT", "greatest": "BIGINT"}  # noqa: RUF012 - never written to

    def initialize(self) -> Any:
        return {"least": None, "greatest": None}

    def update_batch(self, state: Any, values: Any) -> Any:
        return self.merge(state, {"least": int(values.min()), "greatest": int(values.max())}) if len(values) else state

    def merge(self, left: Any, right: Any) -> Any:
        if left["least"] is None or right["least"] is None:
            return dict(right if left["least"] is None else left)
        return {
            "least": min(left["least"], right["least"]),
            "greatest": max(left["greatest"], right["greatest"]),
        }

    def output(self, state: Any) -> Any:
        return None if state["least"] is None else state["greatest"] - state["least"]


class Spread(Range):
    name = "spread"

    @extractor("BIGINT", "BIGINT")
    def spread_times(self, state: Any, factor: int) -> Any:
        width = self.output(state)
        return None if width is None else width * factor


class Touchy(Range):
    """Raises on some rows; the laws leave those alone."""

    name = "touchy"

    def update_batch(self, state: Any, values: Any) -> Any:
        if 13 in values:
            raise ValueError("13 is bad luck")
        return super().update_batch(state, values)


SPREAD, TOUCHY = user_aggregate(Spread), user_aggregate(Touchy)
TIMES = pa.array([n * 700_000 for n in range(200)], pa.timestamp("us", "UTC"))
ROWS = pa.table({"t": TIMES, "k": ["a", "b", "c", "d"] * 50, "v": [n * 37 % 101 for n in range(200)]})
QUERIES = {
    "whole": "SELECT spread(v) AS s, count(*) AS n FROM stream [RANGE '20 s' SLIDE '7 s']",
    "grouped": "SELECT k, spread(v) AS s, spread_times(v, 3) AS t FROM stream [RANGE '15 s'] WHERE v < 60 GROUP BY k",
    "filtered": "SELECT spread(v) FILTER (WHERE k = 'a') AS s FROM stream [RANGE '30 s' SLIDE '10 s'] WHERE v > 20",
    "summed": "SELECT spread(v) + max(v) AS s FROM stream [RANGE '20 s' SLIDE '7 s'] HAVING spread(v) > 10",
}


def catalog() -> Catalog:
    declared = parse_script("CREATE STREAM stream (t TIMESTAMP, k STRING, v BIGINT, x DOUBLE) EVENT TIME t;").catalog
    return with_functions(declared, [SPREAD, TOUCHY])


def from_reference(sql: str) -> list[tuple[Any, ...]]:
    known = catalog()
    (stream,) = known.streams
    interpreter = Interpreter(stream, aggregates=known.aggregates)
    interpreter.register("q", parse_query(sql, known))
    steps = [interpreter.batch(to_rows(convert_table(ROWS, stream.columns).table, stream.columns)), interpreter.end()]
    return [row[2:] for step in steps for result in step.results for row in result.rows]


def values_of(table: pa.Table) -> list[tuple[Any, ...]]:
    return [tuple(row.values())[2:] for row in table.to_pylist()]


def test_queries_share_it_and_answer_as_the_reference() -> None:
    results = headrace.aggregate(ROWS, QUERIES, functions=[SPREAD])
    for name, sql in QUERIES.items():
        assert values_of(results[name]) == from_reference(sql), name


def test_results_of_one_state_are_one_partial() -> None:
    query = parse_query("SELECT spread(v) AS a, spread_times(v, 2) AS b FROM stream [RANGE 10]", catalog())
    assert [partial.kind for partial in demand(query).partials] == ["user:spread"]
    assert parse_query(format_query(query), catalog()) == query


def test_what_raises_is_isolated() -> None:
    """The windows with a bad row are NULL and counted; other windows, and other queries, go on."""
    queries = {"bad": QUERIES["whole"].replace("spread", "touchy"), "good": QUERIES["whole"]}
    with pytest.warns(headrace.RowErrorWarning, match="bad: .* the first: touchy: update: ValueError"):
        results = headrace.aggregate(ROWS, queries, functions=[SPREAD, TOUCHY])
    bad, good = values_of(results["bad"]), values_of(results["good"])
    assert good == from_reference(QUERIES["whole"])
    assert bad == from_reference(queries["bad"])
    assert 0 < sum(row[0] is None for row in bad) < len(bad)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        ("spread(k)", "spread takes (BIGINT), not (STRING)"),
        ("spread(v, 2)", "spread takes (BIGINT), not (BIGINT, BIGINT)"),
        ("spread_times(v, v)", "spread_times needs constants behind its 1 arguments"),
        ("spread(*)", "an aggregate of your own takes values, not * or DISTINCT"),
        ("spread(DISTINCT v)", "an aggregate of your own takes values, not * or DISTINCT"),
        ("spread(max(v))", "an aggregate can't stand inside another one"),
    ],
)
def test_calls_that_do_not_fit_are_refused(call: str, message: str) -> None:
    with pytest.raises(QueryError) as refused:
        parse_query(f"SELECT {call} AS s FROM stream [RANGE 10]", catalog())
    assert refused.value.message == message


def test_names_of_built_in_functions_are_taken() -> None:
    class Median(Range):
        name = "median"

    with pytest.raises(UsageError, match="'median' is a built-in function"):
        with_functions(Catalog(), [user_aggregate(Median)])


def test_a_name_is_taken_once() -> None:
    class Other(Spread):
        name = "other"

    with pytest.raises(UsageError, match="'spread_times' is there already"):
        with_functions(catalog(), [user_aggregate(Other)])


def test_a_declaration_of_the_paper() -> None:
    (declared,) = declare_aggregates(
        "int UDAF [low_range, high_range] width(int)", {"low_range": Range, "high_range": Range}
    )
    result = headrace.aggregate(ROWS, {"q": QUERIES["whole"].replace("spread", "width")}, functions=[declared])["q"]
    assert values_of(result) == from_reference(QUERIES["whole"])


def test_on_spark_it_is_shipped_stored_and_merged(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "input").mkdir()
    for number in range(5):
        pq.write_table(ROWS.slice(number * 40, 40), tmp_path / "input" / f"{number}.parquet")
    engine = headrace.Engine(spark, tmp_path / "state", step_bytes=1)
    engine.functions([SPREAD, TOUCHY])
    engine.stream("stream", tmp_path / "input", event_time="t")
    for name, sql in (QUERIES | {"bad": QUERIES["whole"].replace("spread", "touchy")}).items():
        engine.add(name, sql)
    with engine.bounded() as run:
        for name, sql in QUERIES.items():
            shown = sorted(values_of(run.results(name)), key=repr)
            assert shown == sorted(from_reference(sql), key=repr), name
        (pipeline,) = run.pipelines
        assert pipeline.stepper.commit is not None
        state = pipeline.stepper.commit.queries["bad"]
        assert state.errors == sum(
            row[0] is None for row in from_reference(QUERIES["whole"].replace("spread", "touchy"))
        )
        assert state.problem is not None
        assert "13 is bad luck" in state.problem
        assert np.isfinite(state.rows)
