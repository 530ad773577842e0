"""A client of Spark Connect, run by a test as a process of its own: `connect_client.py URL FOLDER`."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import SparkSession

import headrace

QUERIES = {
    "total": "SELECT count(*) AS n, sum(x) AS total FROM S [RANGE '10 s' SLIDE '5 s'] WHERE x > 3",
    "groups": "SELECT k, max(x) AS top FROM S [RANGE '10 s'] GROUP BY k",
}


def plain_rows(table: pa.Table) -> list[Any]:
    return sorted(json.loads(json.dumps(table.to_pylist(), default=str)), key=str)


def main(url: str, folder: Path) -> None:
    rows = pq.read_table(folder / "input" / "rows.parquet")
    spark = SparkSession.builder.remote(url).getOrCreate()
    engine = headrace.Engine(spark, folder / "state")
    engine.stream("S", folder / "input", event_time="t")
    for name, sql in QUERIES.items():
        engine.add(name, sql)
    with engine.bounded() as run:
        files = {name: plain_rows(run.results(name)) for name in QUERIES}
    frame = spark.createDataFrame(rows)
    answers = headrace.aggregate(frame, QUERIES, name="S", event_time="t")
    frames = {name: plain_rows(answer.toArrow()) for name, answer in answers.items()}
    streaming = headrace.Engine(spark, folder / "other")
    streaming.stream("S", spark.readStream.schema(frame.schema).parquet(str(folder / "input")), event_time="t")
    streaming.add("total", QUERIES["total"])
    try:
        streaming.bounded()
        refused = ""
    except headrace.HeadraceError as problem:
        refused = problem.code
    print(json.dumps({"files": files, "frames": frames, "refused": refused}))
    spark.stop()


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
