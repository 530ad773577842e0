"""Continuous queries over files of trades, on local Spark: python examples/engine.py"""

from __future__ import annotations

import tempfile
import time
from pathlib import Path

import headrace
from headrace.datasets import generate
from headrace.spark.session import start_session

root = Path(tempfile.mkdtemp())
generate("trades", 50_000, 7, root / "trades", file_span_s=60)

spark = start_session()  # or your own SparkSession
engine = headrace.Engine(spark, state=root / "state")
engine.stream("Trades", root / "trades" / "Trades", event_time="Time", lateness="5 s")
engine.table("Close", root / "trades" / "Close")
engine.sink("parquet", path=root / "results")
engine.add(
    "volume",
    "SELECT Symbol, sum(Vol) AS volume FROM Trades [RANGE '30 s' SLIDE '10 s'] GROUP BY Symbol",
)
run = engine.start(trigger="200 ms")
run.add(
    "rises",
    "SELECT count(*) AS n FROM Trades [RANGE '20 s'] JOIN Close USING (Symbol) WHERE Price > CP",
)

while not run.progress() or run.progress()[0].windows == 0:
    time.sleep(0.1)
run.drop("volume")
run.stop()

print(run.progress()[0].totals)
print(run.results("volume").to_pandas().head())
