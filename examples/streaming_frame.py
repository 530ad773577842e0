"""Continuous queries over any streaming DataFrame, here Spark's rate source: python examples/streaming_frame.py"""

from __future__ import annotations

import tempfile
import time

import headrace
from headrace.spark.session import start_session

spark = start_session()
ticks = spark.readStream.format("rate").option("rowsPerSecond", 1_000).load()

engine = headrace.Engine(spark, state=tempfile.mkdtemp())
engine.stream("ticks", ticks, event_time="timestamp")
engine.sink("callback", function=lambda query, step, rows: print(f"{query}, step {step}: {rows.num_rows} rows"))
engine.add("per_second", "SELECT count(*) AS n, max(value) AS highest FROM ticks [RANGE '1 s']")
engine.add(
    "by_remainder", "SELECT value % 3 AS rest, count(*) AS n FROM ticks [RANGE '2 s' SLIDE '1 s'] GROUP BY value % 3"
)

with engine.start(trigger="500 ms") as run:
    while not run.progress() or run.progress()[0].windows < 4:
        time.sleep(0.1)
    print(run.results("per_second").to_pandas().head())
