"""The engine on Spark: files and DataFrames, bounded and streaming, queries that come and go while it runs."""

from __future__ import annotations

import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import functions as F

import headrace
from headrace.model.errors import DataError, HeadraceError, UsageError
from headrace.testing import assert_same_rows
from tests.engine.files import CATALOG, LATER, QUERIES, SCHEMA, batches, check_results, expected, write_input

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from headrace.spark.engine import Engine

STEPS = 6
DECLARATION = "CREATE STREAM r (t TIMESTAMP, k STRING, v BIGINT, x DOUBLE) EVENT TIME t LATENESS '2 s';"


def engine_over(spark: SparkSession, root: Path, **options: Any) -> Engine:
    from headrace.spark.engine import Engine

    made = Engine(spark, root / "state", **options)
    made.declare(DECLARATION)
    made.sink("parquet", path=root / "results")
    return made


def wait_for(condition: Any, seconds: float = 60.0) -> None:
    until = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < until, "nothing came"
        time.sleep(0.02)


def test_files_to_the_end(spark: SparkSession, tmp_path: Path) -> None:
    """As many steps as files, so that rows are late where they are in the reference."""
    for number, rows in enumerate(batches(STEPS)):
        write_input(tmp_path / "input", rows, number)
    engine = engine_over(spark, tmp_path, reducers=2, step_bytes=1)
    engine.stream("r", tmp_path / "input")
    for name, sql in (QUERIES | LATER).items():
        engine.add(name, sql)
    with engine.bounded() as run:
        (progress,) = run.progress()
        assert (progress.totals.rows, progress.ended) == (12 * STEPS, True)
    check_results(tmp_path, STEPS)


def test_a_static_frame(spark: SparkSession, tmp_path: Path) -> None:
    rows = [row for batch in batches(STEPS) for row in batch]
    frame = spark.createDataFrame(pa.Table.from_pylist(rows, schema=SCHEMA))
    engine = engine_over(spark, tmp_path)
    engine.stream("r", frame)
    engine.add("n", "SELECT count(*) AS n FROM r [RANGE '1000000 s']")
    with engine.bounded() as run:
        assert sum(run.results("n")["n"].to_pylist()) == len(rows)


def test_aggregate_over_a_frame_of_spark(spark: SparkSession) -> None:
    rows = [row for batch in batches(2) for row in batch]
    table = pa.Table.from_pylist(rows, schema=SCHEMA)
    asked = {"n": "SELECT k, count(*) AS n FROM rows [RANGE '1000000 s'] GROUP BY k"}
    here = headrace.aggregate(table, asked, name="rows")["n"]
    there = headrace.aggregate(spark.createDataFrame(table), asked, name="rows")["n"].toArrow()
    assert_same_rows(there, here)


def test_a_frame_of_other_types_than_declared(spark: SparkSession, tmp_path: Path) -> None:
    """What never fits is refused before a row is read; a value that does not fit is a bad row."""
    engine = engine_over(spark, tmp_path)
    with pytest.raises(DataError, match="the DataFrame of r: column v is string and can't be read as BIGINT"):
        engine.stream("r", spark.sql("SELECT TIMESTAMP'2026-01-01' AS t, 'a' AS k, '1' AS v, 1D AS x"))
    with pytest.raises(DataError, match="the DataFrame of r: has no column 't', the event time"):
        engine.stream("r", spark.sql("SELECT TIMESTAMP'2026-01-01' AS at, 'a' AS k"))
    rows = "(TIMESTAMP'2026-01-01', 'a', 2D, 7L), (TIMESTAMP'2026-01-01', 'a', 2.5D, 7L)"
    engine.stream("r", spark.sql(f"SELECT * FROM VALUES {rows} AS rows(t, k, v, x)"))
    engine.add("sums", "SELECT sum(v) AS v, sum(x) AS x FROM r [RANGE '1 s']")
    with engine.bounded() as run:
        assert run.results("sums").select(["v", "x"]).to_pylist() == [{"v": 2, "x": 7.0}]
        assert (run.progress()[0].totals.rows, run.progress()[0].totals.bad) == (2, 1)


def test_what_could_not_be_computed_on_spark_is_warned_of(spark: SparkSession) -> None:
    rows = [{"t": 0, "k": "a", "v": 2**62, "x": 0.0}, {"t": None, "k": "b", "v": 1, "x": 0.0}]
    frame = spark.createDataFrame(pa.Table.from_pylist(rows, schema=SCHEMA))
    with pytest.warns(headrace.RowErrorWarning) as caught:
        headrace.aggregate(frame, {"large": "SELECT sum(v * 4) AS n FROM rows [RANGE '1 s']"}, name="rows")
    # PySpark 4.1 also leaves sockets open.
    warned = [warning for warning in caught if warning.category is headrace.RowErrorWarning]
    assert [(str(warning.message), warning.filename) for warning in warned] == [
        ("rows: 1 rows had no event time and were left out", __file__),
        ("large: 1 values could not be computed and are NULL", __file__),
    ]


def test_a_callback_that_fails_over_a_streaming_frame(
    spark: SparkSession, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(query: str, step: int, rows: pa.Table) -> None:
        raise KeyError("mine")

    for number, rows in enumerate(batches(3)):
        write_input(tmp_path / "input", rows, number)
    engine = engine_over(spark, tmp_path)
    engine.sink("callback", function=fail)
    engine.stream("r", spark.readStream.schema("t timestamp, k string, v long, x double").parquet(f"{tmp_path}/input"))
    engine.add("counts", QUERIES["counts"])
    run = engine.start(trigger="20 ms")
    with pytest.raises(
        UsageError, match=r"function fail failed on query 'counts', step \d+: KeyError: 'mine'"
    ) as caught:
        run.join(60)
    assert isinstance(caught.value.__cause__, KeyError)
    assert any(caught.value.message in message for message in caplog.messages)
    with pytest.raises(UsageError, match="function fail failed"):
        run.stop()


def test_an_error_of_spark_is_raised_in_our_words(spark: SparkSession, tmp_path: Path) -> None:
    """Its own error is the cause. A table is read at the start, a stream in a step."""
    for number, rows in enumerate(batches(1)):
        write_input(tmp_path / "input", rows, number)
    engine = engine_over(spark, tmp_path)
    engine.stream("r", tmp_path / "input")
    engine.table("names", spark.sql("SELECT 'a' AS k, CAST(raise_error('too low') AS STRING) AS name"))
    engine.add("counts", QUERIES["counts"])
    for begin in (engine.run, engine.once, engine.start):
        with pytest.raises(HeadraceError, match=r"a step failed in Spark: .*too low") as caught:
            begin()
        assert caught.value.code == "spark"
        assert isinstance(caught.value.__cause__, PySparkException)
    (file,) = (tmp_path / "input").iterdir()
    good = engine_over(spark, tmp_path)
    good.stream("r", tmp_path / "input")
    good.add("counts", QUERIES["counts"])
    good.once().stop()
    data = bytearray(file.read_bytes())
    data[4:100] = bytes(96)
    (tmp_path / "input" / "bad.parquet").write_bytes(data)
    with pytest.raises(HeadraceError, match=r"bad\.parquet") as caught:
        good.once()
    assert caught.value.code == "bad-file"


def test_a_streaming_query_that_spark_ends_is_noticed(spark: SparkSession, tmp_path: Path) -> None:
    """By an error of its source, which no step sees, or by a stop from elsewhere."""
    for number, rows in enumerate(batches(2)):
        write_input(tmp_path / "input", rows, number)
    schema = "t timestamp, k string, v long, x double"
    frame = spark.readStream.schema(schema).parquet(str(tmp_path / "input"))
    failing = frame.withColumn("k", F.when(F.col("v") >= 0, F.raise_error(F.lit("no such key"))).otherwise("k"))
    for dataframe, code in ((failing, "spark"), (frame, "stream-stopped")):
        engine = engine_over(spark, tmp_path / code)
        engine.stream("r", dataframe)
        engine.add("counts", QUERIES["counts"])
        run = engine.start(trigger="20 ms")
        if code == "stream-stopped":
            wait_for(run.progress)
            for query in spark.streams.active:
                query.stop()
        with pytest.raises(HeadraceError) as caught:
            run.join(60)
        assert caught.value.code == code
        assert run.exception() is caught.value
        with pytest.raises(HeadraceError, match="the run has stopped"):
            run.drop("counts")
        with pytest.raises(HeadraceError):
            run.stop()


def test_what_a_session_lacks_is_reported_once(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The session of these tests is one that was handed in."""
    from headrace.spark import session as sessions

    monkeypatch.setattr(sessions, "REPORTED", set())
    engine = engine_over(spark, tmp_path)
    engine.stream("r", tmp_path / "input")
    for _ in range(2):
        engine.run().close()
    assert len(caplog.records) == 1
    named = {line.split(" = ")[0].strip() for line in caplog.messages[0].splitlines()[1:]}
    assert named == {"spark.python.daemon.module", "spark.sql.runSQLOnFiles", "spark.sql.reflect.allowList"}


def test_queries_come_and_go_while_files_arrive(spark: SparkSession, tmp_path: Path) -> None:
    engine = engine_over(spark, tmp_path)
    engine.stream("r", tmp_path / "input")
    (tmp_path / "input").mkdir()
    engine.add("counts", QUERIES["counts"])
    rows = batches(8)
    run = engine.start(trigger="20 ms")
    with run:
        write_input(tmp_path / "input", rows[0], 0)
        wait_for(lambda: run.progress() and run.progress()[0].totals.rows == 12)
        told = run.add("groups", QUERIES["groups"])
        assert told["version"] == 2
        with pytest.raises(UsageError, match="already"):
            run.add("groups", QUERIES["groups"])
        with pytest.raises(UsageError, match="no query 'none'"):
            run.drop("none")
        for number in range(1, 8):
            write_input(tmp_path / "input", rows[number], number)
        wait_for(lambda: run.progress()[0].totals.rows == 12 * 8)
        wait_for(lambda: run.results("groups").num_rows > 0)
        run.drop("counts")
        wait_for(lambda: set(run.progress()[0].queries) == {"groups"})
    assert run.results("counts").num_rows > 0, "what was shown stays"


def test_a_streaming_frame_goes_on_after_a_stop(spark: SparkSession, tmp_path: Path) -> None:
    """Structured Streaming drives the steps; a second run begins where the first one stopped."""
    rows = batches(STEPS)
    schema = "t timestamp, k string, v long, x double"
    seen = 0
    for begin, end in ((0, 3), (3, STEPS)):
        for number in range(begin, end):
            write_input(tmp_path / "input", rows[number], number)
        frame = spark.readStream.schema(schema).option("maxFilesPerTrigger", 1).parquet(str(tmp_path / "input"))
        engine = engine_over(spark, tmp_path)
        engine.stream("r", frame)
        engine.add("counts", QUERIES["counts"])
        with engine.start(trigger="20 ms") as run:
            wait_for(lambda run=run, end=end: run.progress() and run.progress()[0].totals.rows == 12 * end)
            wait_for(lambda run=run: run.progress()[0].queries["counts"].last_window_end is not None)
            assert run.results("counts").num_rows > seen
            seen = run.results("counts").num_rows
    theirs = expected(STEPS)["counts"]
    shown = run.results("counts").to_pylist()
    ends = [row["window_end"] for row in shown]
    assert len(ends) == len(set(ends)), "no window twice"
    by_end = {window[1]: rows[0] for window, rows in theirs.items()}
    for row in shown:
        assert (row["n"], row["v"]) == by_end[round(row["window_end"].timestamp() * 1e6)][2:4]


def test_a_reader_never_sees_a_window_twice(spark: SparkSession, tmp_path: Path) -> None:
    """Plain pyarrow in a loop, while the engine takes step after step."""
    engine = engine_over(spark, tmp_path, step_bytes=1)
    for number, rows in enumerate(batches(25)):
        write_input(tmp_path / "input", rows, number)
    engine.stream("r", tmp_path / "input")
    for name, sql in QUERIES.items():
        engine.add(name, sql)
    problems: list[object] = []
    done = threading.Event()

    def look() -> None:
        while not done.is_set():
            for name in QUERIES:
                files = sorted((tmp_path / "results" / name).glob("*.parquet"))
                tables = [pq.read_table(file) for file in files]
                seen = [
                    tuple(row.values())[: 3 if name != "counts" else 2] for table in tables for row in table.to_pylist()
                ]
                if len(seen) != len(set(seen)):
                    problems.append((name, seen))

    reader = threading.Thread(target=look)
    reader.start()
    try:
        with engine.bounded():
            pass
    finally:
        done.set()
        reader.join()
    assert not problems
    check_results_of_first(tmp_path, 25)


def check_results_of_first(root: Path, count: int) -> None:
    theirs = expected(count)["counts"]
    table = pa.concat_tables([pq.read_table(path) for path in sorted((root / "results" / "counts").glob("*.parquet"))])
    assert table.num_rows == sum(len(rows) for rows in theirs.values())


def test_what_is_wrong_is_said(spark: SparkSession, tmp_path: Path) -> None:
    from headrace.spark.engine import Engine

    engine = Engine(spark, tmp_path / "state")
    with pytest.raises(UsageError, match="no stream"):
        engine.run()
    with pytest.raises(UsageError, match="which column holds the event time"):
        engine.stream("r", tmp_path)
    with pytest.raises(UsageError, match="no sink 'parket'"):
        engine.sink("parket")
    with pytest.raises(UsageError, match="hdfs:// is not a store"):
        Engine(spark, "hdfs://name/state")
    assert CATALOG.streams[0].name == "r"


def test_an_engine_that_can_not_start_gives_its_state_free(spark: SparkSession, tmp_path: Path) -> None:
    for number, rows in enumerate(batches(1)):
        write_input(tmp_path / "input", rows, number)
    engine = engine_over(spark, tmp_path)
    engine.declare("CREATE TABLE names (k STRING, name STRING);")
    engine.stream("r", tmp_path / "input")
    engine.table("names", tmp_path / "names.parquet")
    with pytest.raises(HeadraceError, match=r"names\.parquet"):
        engine.run()
    pq.write_table(pa.table({"k": ["a"], "name": ["A"]}), tmp_path / "names.parquet")
    engine.run().close()
