"""The same text, asked of Spark's own windows and of the reference interpreter, gives the same."""

from __future__ import annotations

import math
import random
from datetime import datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from headrace.model.time import SECOND_US, from_microseconds, parse_timestamp, to_microseconds
from headrace.reference import Interpreter
from headrace.sql import parse_query, parse_script
from tests.oracle.values import canonical

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

CATALOG = parse_script(
    "CREATE STREAM s (t TIMESTAMP, k STRING, v BIGINT, x DOUBLE, d DECIMAL(10, 2)) EVENT TIME t"
).catalog
SPARK_SCHEMA = "t timestamp, k string, v bigint, x double, d decimal(10, 2)"
START_US = parse_timestamp("2026-01-31 12:00:00")

EXACT = (
    "count(*) AS n, count(v) AS c, sum(v) AS total, min(x) AS lo, max(x) AS hi, max(k) AS last, sum(d) AS money, "
    "sum(v) FILTER (WHERE x > 1 OR k IS NULL) AS some, count(*) FILTER (WHERE x = x) AS same"
)
CLOSE = "sum(v * 1e-1) AS tenths, avg(v) AS mean, var_pop(v) AS spread, stddev_samp(v) AS deviation"
# Group, window. Twelve minutes by five: Spark aligns starts, not ends.
CASES = [
    ("k", "window(t, '12 minutes', '5 minutes')"),
    ("k", "window(t, '12 minutes', '5 minutes', '2 minutes')"),
    ("x", "window(t, '10 minutes')"),
    ("k", "window(t, '10 minutes', '10 minutes', '3 minutes')"),
]


def random_rows(count: int) -> list[dict[str, Any]]:
    """Two hours with gaps in between, seconds and boundaries hit, and a few rows around the epoch."""
    source = random.Random(12_5)
    times = [START_US + source.randrange(7_200) * SECOND_US for _ in range(count)]
    times += [START_US + minute * 60 * SECOND_US - early for minute in range(0, 60, 5) for early in (0, 1)]
    times += [-SECOND_US, -1, 0, 1, 60 * SECOND_US]
    return [
        {
            "t": time_us,
            "k": source.choice(["a", "b", "\u00e9", "", None]),
            "v": source.choice([None, *range(-50, 50)]),
            "x": source.choice([None, math.nan, math.inf, -math.inf, -0.0, 0.0, 1.5, -2.5]),
            "d": source.choice([None, Decimal("0.10"), Decimal("-99999999.99"), Decimal("12.34")]),
        }
        for time_us in times
    ]


def plain(value: Any) -> Any:
    return canonical(to_microseconds(value) if isinstance(value, datetime) else value)


def is_close(ours: float | None, theirs: float | None) -> bool:
    if ours is None or theirs is None:
        return ours is theirs
    return math.isclose(ours, theirs, rel_tol=1e-9, abs_tol=1e-9)


def from_reference(query: str, rows: list[dict[str, Any]]) -> list[tuple[Any, ...]]:
    interpreter = Interpreter(CATALOG.streams[0])
    interpreter.register("q", parse_query(query, CATALOG))
    steps = [interpreter.batch(rows), interpreter.end()]
    return [row for step in steps for result in step.results for row in result.rows]


def test_spark_sees_the_same_windows(spark: SparkSession) -> None:
    rows = random_rows(300)
    table = [(from_microseconds(row["t"]), row["k"], row["v"], row["x"], row["d"]) for row in rows]
    spark.createDataFrame(table, SPARK_SCHEMA).createOrReplaceTempView("s")
    for group, window in CASES:
        query = (
            f"SELECT window.start AS b, window.end AS e, {group}, {EXACT}, {CLOSE} FROM s GROUP BY {window}, {group}"
        )
        answers = from_reference(query, rows), [tuple(row) for row in spark.sql(query).collect()]
        ours, theirs = (sorted(answer, key=lambda row: repr(tuple(map(plain, row[:3])))) for answer in answers)
        close = -len(CLOSE.split(", "))
        for our_row, their_row in zip(ours, theirs, strict=True):
            assert tuple(map(plain, our_row[:close])) == tuple(map(plain, their_row[:close]))
            assert all(map(is_close, our_row[close:], their_row[close:])), (our_row, their_row)
