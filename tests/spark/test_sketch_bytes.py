"""Sketches between Headrace and Spark: each reads what the other wrote, and both answer within the declared error."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

import headrace

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROWS = 30_000
VALUES = np.random.default_rng(5).lognormal(3.0, 1.0, ROWS)
ITEMS = np.random.default_rng(6).integers(0, 9_000, ROWS)
TIMES = pa.array(np.arange(ROWS) * 1_000, pa.timestamp("us", "UTC"))
TABLE = pa.table({"t": TIMES, "x": VALUES, "item": ITEMS, "name": pc.cast(pa.array(ITEMS), pa.string())})
SKETCHES = (
    "SELECT quantile_sketch(x) AS q, distinct_sketch(item) AS d, distinct_sketch(name) AS s "
    "FROM stream [RANGE '{range}']"
)


def test_spark_reads_our_sketches(spark: SparkSession) -> None:
    frame = spark.createDataFrame(headrace.aggregate(TABLE, {"q": SKETCHES.format(range="10 s")})["q"])
    frame.createOrReplaceTempView("ours")
    merged = spark.sql(
        "SELECT kll_sketch_get_quantile_double(kll_merge_agg_double(q), 0.5) AS m, "
        "kll_sketch_get_n_double(kll_merge_agg_double(q)) AS n, "
        "hll_sketch_estimate(hll_union_agg(d)) AS d, hll_sketch_estimate(hll_union_agg(s)) AS s FROM ours"
    ).first()
    assert merged is not None
    assert merged.n == ROWS
    assert abs((merged.m > VALUES).mean() - 0.5) < 0.02  # Spark merges with its own k
    distinct = len(np.unique(ITEMS))
    assert merged.d == pytest.approx(distinct, rel=0.05)
    assert merged.s == pytest.approx(distinct, rel=0.05)


def test_we_read_sketches_of_spark(spark: SparkSession) -> None:
    spark.createDataFrame(TABLE).createOrReplaceTempView("theirs")
    made = spark.sql(
        "SELECT window.start AS t, kll_sketch_agg_double(x, 400) AS q, hll_sketch_agg(item) AS d "
        "FROM theirs GROUP BY window(t, '1 second')"
    ).toArrow()
    query = "SELECT percentile(q, 0.9) AS p, approx_count_distinct(d) AS n FROM stream [RANGE '1 hour']"
    (found,) = headrace.aggregate(made, {"q": query})["q"].to_pylist()
    assert abs((found["p"] > VALUES).mean() - 0.9) < 0.02
    assert found["n"] == pytest.approx(len(np.unique(ITEMS)), rel=0.05)


def test_equal_items_of_both_sides_count_once(spark: SparkSession) -> None:
    ours = headrace.aggregate(TABLE, {"q": SKETCHES.format(range="1 hour")})["q"].select(["d"])
    spark.createDataFrame(TABLE).createOrReplaceTempView("theirs")
    spark.createDataFrame(ours).createOrReplaceTempView("ours")
    row = spark.sql(
        "SELECT hll_sketch_estimate(hll_union((SELECT first(d) FROM ours), hll_sketch_agg(item))) AS both, "
        "hll_sketch_estimate(hll_sketch_agg(item)) AS theirs FROM theirs"
    ).first()
    assert row is not None
    assert row.both == pytest.approx(row.theirs, rel=0.03)
