"""A step on Spark's own state store, at its least: bytes pass through `transformWithState`, and nothing is aggregated.

Each step reads one line, sends each reducer as many random bytes as 256 queries make of 100,000 trades, keeps them in a
map by step, and returns a row for each query with a result. Beside it, in the same session, whole steps of the engine
and an empty job of two stages. [decision 11]
"""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from statistics import median
from typing import Any

import pyarrow as pa
from pyspark.sql import Row, SparkSession
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle

from benchmarks.peers import THREADS
from benchmarks.stream import MAIN, Feed, Size, drive_short, script_of
from benchmarks.tables import Document, show_figures
from headrace.cli.progress import progress_bar
from headrace.spark.session import session

REDUCERS = 2
PIECE_BYTES = 190_000
RESULTS = 177
RESULT_BYTES = 400
KEPT_STEPS = 16
WARM_STEPS = 10
QUERIES = 256
ROCKS_DB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
SETTINGS = {
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.shuffle.partitions": str(REDUCERS),
    "spark.sql.streaming.noDataMicroBatches.enabled": "false",
    "spark.sql.streaming.numRecentProgressUpdates": "10000",
    "spark.sql.streaming.stateStore.providerClass": ROCKS_DB,
    "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
    "spark.sql.streaming.stateStore.rocksdb.trackTotalNumberOfRows": "false",
}

LOGS = ("walCommit", "commitOffsets", "latestOffset", "queryPlanning")
"""What a batch takes whatever it does, as Spark names it."""

Batches = Iterator[pa.RecordBatch]


class KeepPieces(StatefulProcessor):
    """Keeps the pieces of the last steps; with `is_reading` it reads all of them back, as a closing does."""

    def __init__(self, is_reading: bool) -> None:
        self.is_reading = is_reading

    def init(self, handle: StatefulProcessorHandle) -> None:
        self.pieces = handle.getMapState("pieces", "step bigint", "data binary")
        self.last = handle.getValueState("last", "step bigint")

    def handleInputRows(self, key: Any, rows: Iterator[Row], timerValues: Any) -> Iterator[Row]:  # noqa: N802, N803
        last = self.last.get()
        step = 1 if last is None else last[0] + 1
        self.last.update((step,))
        self.pieces.updateValue((step,), (b"".join(bytes(row.data) for row in rows),))
        if step > KEPT_STEPS:
            self.pieces.removeKey((step - KEPT_STEPS,))
        if self.is_reading:
            sum(len(data) for _, (data,) in self.pieces.iterator())
        for query in range(RESULTS // REDUCERS):
            yield Row(query=query, data=b"x" * RESULT_BYTES)

    def close(self) -> None:
        """There is nothing to close."""


def send_pieces(batches: Batches) -> Batches:
    for _ in batches:
        for reducer in range(REDUCERS):
            piece = {
                "reducer": pa.array([reducer], pa.int32()),
                "data": pa.array([os.urandom(PIECE_BYTES)], pa.binary()),
            }
            yield pa.RecordBatch.from_pydict(piece)


def count_bytes(batches: Batches) -> Batches:
    yield pa.RecordBatch.from_pydict({"bytes": [sum(batch.nbytes for batch in batches)]})


def measure(steps: int) -> Document:
    size = Size(steps, 100_000, 5_000.0)
    with tempfile.TemporaryDirectory(prefix="headrace-store-") as temporary, session(f"local[{THREADS}]") as spark:
        scratch = Path(temporary)
        for key, value in SETTINGS.items():
            spark.conf.set(key, value)
        figures: dict[str, Any] = {"steps": steps, "queries": QUERIES}
        figures["two_stages_ms"] = time_two_stages(spark, steps)
        kept = time_state_store(spark, scratch / "kept", steps, is_reading=False)
        read = time_state_store(spark, scratch / "read", steps, is_reading=True)
        figures["state_store_ms"], figures["state_store_reading_ms"] = (
            kept["triggerExecution"],
            read["triggerExecution"],
        )
        figures["state_store_logs_ms"] = sum(kept[name] for name in LOGS)
        with progress_bar("generating trades") as report:
            trades = Feed.generate("trades", size, scratch, report)
        with progress_bar(f"{QUERIES} queries of {MAIN}") as report:
            run = drive_short(spark, trades, script_of(MAIN, QUERIES), size, report)
        figures["headrace_ms"] = 1_000 * median(run.step_s)
    figures["over_headrace"] = figures["state_store_ms"] / figures["headrace_ms"]
    figures["reading_over_headrace"] = figures["state_store_reading_ms"] / figures["headrace_ms"]
    return figures


def show(document: Document) -> None:
    show_figures(document)


def time_two_stages(spark: SparkSession, steps: int) -> float:
    times_s = []
    for _ in range(WARM_STEPS + steps):
        begun_s = time.monotonic()
        pieces = spark.range(0, REDUCERS, 1, REDUCERS).mapInArrow(send_pieces, "reducer int, data binary")
        pieces.repartitionById(REDUCERS, "reducer").mapInArrow(count_bytes, "bytes bigint").collect()
        times_s.append(time.monotonic() - begun_s)
    return 1_000 * median(times_s[WARM_STEPS:])


def time_state_store(spark: SparkSession, folder: Path, steps: int, *, is_reading: bool) -> dict[str, float]:
    """Return the medians of the times that Spark reports of its batches; results go nowhere."""
    watched = folder / "input"
    watched.mkdir(parents=True)
    lines = spark.readStream.schema("value string").option("maxFilesPerTrigger", 1).text(str(watched))
    pieces = lines.mapInArrow(send_pieces, "reducer int, data binary")
    results = pieces.groupBy("reducer").transformWithState(
        KeepPieces(is_reading), "query bigint, data binary", "Append", "None"
    )
    query = results.writeStream.format("noop").option("checkpointLocation", str(folder / "checkpoint")).start()
    try:
        for step in range(WARM_STEPS + steps):
            (watched / f".{step}").write_text("a line\n")
            (watched / f".{step}").rename(watched / f"{step:06}.txt")
            query.processAllAvailable()
        times = [batch["durationMs"] for batch in query.recentProgress if batch["numInputRows"]][WARM_STEPS:]
        return {name: float(median(batch[name] for batch in times)) for name in ("triggerExecution", *LOGS)}
    finally:
        query.stop()
