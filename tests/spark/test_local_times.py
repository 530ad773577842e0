"""Times without a zone stay without one, and windows of both kinds are those of Spark, whatever the session's zone."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any
from zoneinfo import ZoneInfo

import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import headrace
from headrace.model.errors import QueryError
from headrace.sql import format_stream, parse_query, parse_script
from tests.faults.input_runs import FileRun

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

LOCAL = pa.timestamp("us")
UTC_US = pa.timestamp("us", "UTC")
# Around midnight, and around both changes of the clocks in New York.
TEXTS = ["2026-01-01 00:00:01", "2025-12-31 23:59:59", "2026-03-08 02:30:00", "2026-11-01 01:30:00"]
MOMENTS = [datetime.fromisoformat(text) for text in TEXTS]
QUERIES = {
    "hours": "SELECT count(*) AS n, max(at) AS last FROM stream GROUP BY window(at, '90 minutes', '30 minutes')",
    "days": "SELECT v % 2 AS g, count(*) AS n, min(seen) AS seen FROM stream GROUP BY window(at, '1 day'), v % 2",
}


def table(zone: str | None = None) -> pa.Table:
    seen = pa.array([moment.replace(tzinfo=ZoneInfo("UTC")) for moment in MOMENTS], UTC_US)
    at = pa.array(MOMENTS, LOCAL) if zone is None else seen.cast(pa.timestamp("us", zone))
    return pa.table({"at": at, "seen": seen, "v": [1, 2, 3, 4]})


def types_of(found: pa.Table) -> dict[str, pa.DataType]:
    return dict(zip(found.column_names, found.schema.types, strict=True))


def test_frames_of_arrow() -> None:
    found = headrace.aggregate(table(), QUERIES, event_time="at")
    assert types_of(found["hours"]) == {"window_start": LOCAL, "window_end": LOCAL, "n": pa.int64(), "last": LOCAL}
    assert types_of(found["days"])["window_end"] == LOCAL
    assert types_of(found["days"])["seen"] == UTC_US, "of a column that has a zone"
    assert min(found["days"]["window_start"].to_pylist()) == datetime.fromisoformat("2025-12-31")
    aware = headrace.aggregate(table("America/New_York"), QUERIES, event_time="at")
    assert types_of(aware["hours"])["window_start"] == UTC_US
    for name in QUERIES:
        assert aware[name]["n"].to_pylist() == found[name]["n"].to_pylist()


def test_frames_of_pandas_and_polars() -> None:
    pandas = headrace.aggregate(table().to_pandas(), QUERIES, event_time="at")["days"]
    assert isinstance(pandas, pd.DataFrame)
    assert pandas["window_start"].dt.tz is None
    polars = headrace.aggregate(pl.from_arrow(table()), QUERIES, event_time="at")["days"]
    assert polars.schema["window_start"] == pl.Datetime("us")


def test_results_that_are_read_again() -> None:
    chain = QUERIES | {"again": "SELECT sum(n) AS n, max(window_end) AS e FROM days [RANGE '10 days']"}
    found = headrace.aggregate(table(), chain, event_time="at")["again"]
    assert types_of(found) == {"window_start": LOCAL, "window_end": LOCAL, "n": pa.int64(), "e": LOCAL}
    assert sum(found["n"].drop_null().to_pylist()) == 4


DECLARATION = "CREATE STREAM stream (at TIMESTAMP_NTZ, seen TIMESTAMP, v BIGINT) EVENT TIME at TIME ZONE 'Asia/Tokyo';"


@pytest.mark.parametrize("file_format", ["parquet", "csv"])
def test_a_declaration(tmp_path: Path, file_format: str) -> None:
    """The zone is for times with one: a TIMESTAMP_NTZ is the clock on the wall."""
    run = FileRun.of(tmp_path, DECLARATION, QUERIES, file_format, on_bad_file="stop")
    (stream,) = run.catalog.streams
    assert "at TIMESTAMP_NTZ, seen TIMESTAMP, v BIGINT" in format_stream(stream)
    assert parse_script(format_stream(stream)).catalog.streams == (stream,)
    if file_format == "parquet":
        pq.write_table(table(), tmp_path / "input" / "part")
    else:
        (tmp_path / "input" / "part").write_text("at,v\n" + "".join(f"{text},1\n" for text in TEXTS))
    run.to_the_end()
    (path,) = (tmp_path / "results" / "days").glob("*-0.parquet")
    assert types_of(pq.read_table(path))["window_start"] == LOCAL
    starts = {row["window_start"] for row in run.results("days")}
    assert min(starts) == int(datetime.fromisoformat("2025-12-31T00:00:00+00:00").timestamp()) * 1_000_000


def test_other_places_have_no_such_type() -> None:
    catalog = parse_script(DECLARATION).catalog
    with pytest.raises(QueryError, match="'TIMESTAMP_NTZ' is not a type"):
        parse_query("SELECT max(CAST('2026-01-01' AS TIMESTAMP_NTZ)) AS x FROM stream [RANGE '1 s']", catalog)


# On Spark


def shown(frame: DataFrame) -> list[list[Any]]:
    """What Spark shows, in its session's zone."""
    texts = frame.selectExpr(*(f"CAST(`{name}` AS STRING)" for name in frame.columns))
    return sorted([list(row) for row in texts.collect()], key=repr)


def test_windows_of_spark_in_a_session_of_new_york(spark: SparkSession) -> None:
    session = spark.newSession()
    session.conf.set("spark.sql.session.timeZone", "America/New_York")
    values = ", ".join(f"(TIMESTAMP_NTZ'{text}', TIMESTAMP'{text}', {place})" for place, text in enumerate(TEXTS))
    both = session.sql(f"SELECT * FROM VALUES {values} AS rows(local, zoned, v)")
    for column, data_type in (("local", "timestamp_ntz"), ("zoned", "timestamp")):
        queries = {
            name: f"SELECT count(*) AS n, max({column}) AS last FROM stream GROUP BY window({column}, {sizes}), v >= 0"
            for name, sizes in {"hours": "'90 minutes', '30 minutes'", "days": "'1 day'"}.items()
        }
        found = headrace.aggregate(both, queries, event_time=column)
        both.createOrReplaceTempView("rows")
        for name, sizes in {"hours": "'90 minutes', '30 minutes'", "days": "'1 day'"}.items():
            theirs = session.sql(
                f"SELECT window.start AS window_start, window.end AS window_end, count(*) AS n, max({column}) AS last "
                f"FROM rows GROUP BY window({column}, {sizes})"
            )
            ours = found[name].select(theirs.columns)
            assert dict(ours.dtypes)["window_start"] == data_type
            assert ours.dtypes == theirs.dtypes
            assert shown(ours) == shown(theirs)
