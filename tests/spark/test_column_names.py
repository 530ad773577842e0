"""Any name may be a column's: in frames of every library, in files of every format, static and streaming on Spark."""

from __future__ import annotations

import csv
import json
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import headrace
from headrace.sql import format_stream, parse_script
from tests.faults.input_runs import FileRun

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

NAMES = [
    "a.b",
    "a",
    "a b",
    " ",
    "a`b",
    "a.`b`",
    'a"b',
    "a'b",
    "a,b",
    "sum(a)",
    "$1",
    "select",
    "größe",
    "列",
    "n" * 200,
]
TIME = "event.time"
UNUSED = "not.used"


def quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"


def table() -> pa.Table:
    """Column number i has the values i and i + 1; a last row is far behind, so that the others' window closes."""
    times = pa.array([0, 1_000_000, 100_000_000], pa.timestamp("us", "UTC"))
    numbers = {name: [place, place + 1, 0] for place, name in enumerate(NAMES)}
    return pa.table({TIME: times, **numbers, UNUSED: ["x", "y", "z"]})


SUMS = ", ".join(f"sum({quoted(name)}) AS {quoted(f'of {name}')}" for name in NAMES)
QUERY = f"SELECT {quoted('a.b')} >= 0 AS `is.there`, {SUMS} FROM stream [RANGE '10 s'] GROUP BY {quoted('a.b')} >= 0"
EXPECTED = {"is.there": True} | {f"of {name}": 2 * place + 1 for place, name in enumerate(NAMES)}


def check(rows: list[dict[str, Any]]) -> None:
    first = min(rows, key=lambda row: row["window_end"])
    assert {name: first[name] for name in EXPECTED} == EXPECTED


@pytest.mark.parametrize("frame", [table(), table().to_pandas(), pl.from_arrow(table())])
def test_in_frames(frame: pa.Table | pd.DataFrame | pl.DataFrame) -> None:
    check(pa.table(headrace.aggregate(frame, {"q": QUERY}, event_time=TIME)["q"]).to_pylist())


def write(path: Path, file_format: str) -> None:
    if file_format == "parquet":
        pq.write_table(table(), path)
        return
    rows = [{**row, TIME: row[TIME].isoformat()} for row in table().to_pylist()]
    with path.open("w", encoding="utf-8", newline="") as file:
        if file_format == "json":
            file.writelines(json.dumps(row) + "\n" for row in rows)
        else:
            writer = csv.DictWriter(file, list(rows[0]))
            writer.writeheader()
            writer.writerows(rows)


@pytest.mark.parametrize("file_format", ["parquet", "csv", "json"])
def test_in_files(tmp_path: Path, file_format: str) -> None:
    columns = ", ".join(f"{quoted(name)} BIGINT" for name in NAMES)
    declaration = f"CREATE STREAM stream ({quoted(TIME)} TIMESTAMP, {columns}) EVENT TIME {quoted(TIME)};"
    run = FileRun.of(tmp_path, declaration, {"q": QUERY}, file_format, on_bad_file="stop")
    (stream,) = run.catalog.streams
    assert parse_script(format_stream(stream)).catalog.streams == (stream,)
    write(tmp_path / "input" / "part", file_format)
    assert run.to_the_end().totals.rows == 3
    check(run.results("q"))


def test_in_dataframes_of_spark(spark: SparkSession, tmp_path: Path) -> None:
    frame = spark.createDataFrame(table())
    found = headrace.aggregate(frame, {"q": QUERY}, event_time=TIME)["q"]
    check([row.asDict() for row in found.collect()])

    write(tmp_path / "part.parquet", "parquet")
    engine = headrace.Engine(spark, tmp_path / "state")
    streaming = spark.readStream.schema(frame.schema).parquet(str(tmp_path / "*.parquet"))
    engine.stream("stream", streaming, event_time=TIME)
    engine.add("q", QUERY)
    with engine.start(trigger="20 ms") as run:
        until = time.monotonic() + 60
        while not (run.progress() and run.results("q").num_rows):
            assert time.monotonic() < until, "nothing came"
            run.join(0.05)
    check(run.results("q").to_pylist())
