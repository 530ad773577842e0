"""What one query's expressions take: bounded memory, and if they can't be computed, an error that names the queries."""

from __future__ import annotations

import copy
import traceback
from typing import Any

import pyarrow as pa
import pytest

from headrace.engine.answers import answer, plan_for
from headrace.expressions import columns
from headrace.expressions.static_tables import Data
from headrace.model.errors import ExpressionFailure, QueryFailure, query_failure_in
from headrace.model.types import Value
from headrace.reference.interpreter import Interpreter
from headrace.sql import parse_script

NESTED = "replace(" * 11 + "sym" + ", 'a', 'aaaaaaaaaa')" * 11
SCRIPT = f"""
CREATE STREAM S (t TIMESTAMP, sym STRING, x BIGINT) EVENT TIME t;
CREATE QUERY good AS SELECT count(*) AS n FROM S [RANGE '10 s'];
CREATE QUERY nested AS SELECT max(length({NESTED})) AS n FROM S [RANGE '10 s'];
CREATE QUERY wide AS SELECT max(length(concat({", ".join(["sym"] * 300)}))) AS n FROM S [RANGE '10 s'];
CREATE QUERY groups AS SELECT concat(sym, '{"x" * 2_000}') AS g, count(*) AS n FROM S [RANGE '10 s']
    GROUP BY concat(sym, '{"x" * 2_000}');
CREATE QUERY same AS SELECT max(concat(sym, '{"x" * 2_000}')) AS g FROM S [RANGE '10 s'];
"""
PARSED = parse_script(SCRIPT)
QUERIES = {each.name: each.query for each in PARSED.queries}
ROWS: list[dict[str, Value]] = [
    {"t": number * 100_000, "sym": "ab"[number % 2] * (number % 5), "x": number} for number in range(200)
]
DATA = Data(
    PARSED.catalog,
    PARSED.catalog.streams[0],
    pa.table(
        {
            "t": pa.array([row["t"] for row in ROWS], pa.timestamp("us", tz="UTC")),
            "sym": pa.array([row["sym"] for row in ROWS]),
            "x": pa.array([row["x"] for row in ROWS]),
        }
    ),
    {},
)


def answers(**names: Any) -> dict[str, tuple[list[Any], int]]:
    found = answer(DATA, QUERIES, threads=1, **names).closed
    return {name: (each.table.to_pylist(), each.errors) for name, each in found.items()}


def test_a_query_that_makes_long_texts_is_answered_as_the_reference_does() -> None:
    interpreter = Interpreter(PARSED.catalog.streams[0])
    for name, query in QUERIES.items():
        interpreter.register(name, query)
    steps = [interpreter.batch(ROWS), interpreter.end()]
    errors = {name: sum(step.counts.errors.get(name, 0) for step in steps) for name in QUERIES}
    found = answers()
    assert {name: failed for name, (_, failed) in found.items()} == errors
    assert errors["nested"] > 0
    assert errors["good"] == 0
    results = [result for step in steps for result in step.results if result.query == "nested"]
    assert [row["n"] for row in found["nested"][0]] == [row[2] for result in results for row in result.rows]


def test_the_rows_are_folded_in_pieces_where_results_of_expressions_are_large(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    expected, plan = answers(), plan_for(DATA, QUERIES)
    monkeypatch.setattr(columns, "MAX_HELD_BYTES", 1 << 17)
    assert answers(plan=plan) == expected


def test_queries_whose_expression_does_not_fit_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    plan = plan_for(DATA, QUERIES)
    monkeypatch.setattr(columns, "MAX_HELD_BYTES", 1_000)
    with pytest.raises(QueryFailure) as caught:
        answers(plan=plan)
    assert "good" not in caught.value.queries
    assert set(caught.value.queries) == {"groups", "same"}


def test_a_failure_survives_the_way_from_a_worker() -> None:
    """By what a pickle holds (`__reduce__`), or as the text of a stack trace with others around it."""
    failure = QueryFailure([f"query_{number}" for number in range(2_000)], "replace(...) can't be computed: ab\ncd")
    copied = copy.copy(failure)
    assert (copied.queries, str(copied)) == (failure.queries, str(failure))
    try:
        raise failure from ValueError("the cause")
    except QueryFailure as problem:
        text = "org.apache.spark.SparkException: stage 1 failed\n" + "".join(traceback.format_exception(problem))
    found = query_failure_in(f"{text}\n\tat java.lang.Thread.run(Thread.java:840)\n")
    assert found is not None
    assert found.queries == failure.queries
    assert "replace(...) can't be computed" in found.reason
    assert query_failure_in("error[spark]: something else\n  = queries are fine") is None
    tree = QUERIES["same"].aggregates()[0].arguments[0]
    again = copy.copy(ExpressionFailure(tree, "too large", is_too_large=True))
    assert (again.expression, again.reason, again.is_too_large) == (tree, "too large", True)
