"""A streaming DataFrame, driven by Structured Streaming: every batch is a step.

Spark runs no batch when nothing arrives, so the rows are united with one tick a second of Spark's rate source. The
clock is the time that Spark writes into its own log for the batch: the same when the batch is run again.
"""

from __future__ import annotations

import json
from pathlib import Path

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from headrace.engine.pipeline import Pipeline
from headrace.engine.run import OnFailure
from headrace.model.errors import HeadraceError, UsageError
from headrace.storage.disk import DamagedError
from headrace.storage.store import is_remote

TICK = "headrace_tick"


class StreamingDataFrame:
    """The streaming query of Spark that drives one pipeline."""

    def __init__(self, pipeline: Pipeline, trigger_us: int, on_failure: OnFailure) -> None:
        self.pipeline = pipeline
        self.on_failure = on_failure
        store = pipeline.stepper.directory.store
        if is_remote(store.location):
            problem = f"the state of a streaming DataFrame can't be in {store.location}"
            detail = "Spark's own checkpoint, which must fit to it, is in a directory"
            raise UsageError("streaming-state", problem, detail=detail, hint="use a directory for the state")
        self.checkpoint = Path(store.location) / "spark"
        self.check_agreement()
        writer = (
            with_ticks(pipeline.dataframe)
            .writeStream.foreachBatch(self.process)
            .option("checkpointLocation", str(self.checkpoint))
        )
        self.query = writer.trigger(processingTime=f"{max(1, trigger_us // 1000)} milliseconds").start()

    def process(self, batch: DataFrame, number: int) -> None:
        """Run a step over one batch, and report an error before Spark wraps it."""
        try:
            self.run_step(batch, number)
        except BaseException as problem:
            self.on_failure(problem)
            raise

    def run_step(self, batch: DataFrame, number: int) -> None:
        """Run a step over one batch, unless it was committed here before Spark committed it."""
        known = self.pipeline.stepper.commit
        if known is not None and known.batch is not None and number <= known.batch:
            return
        rows = batch.filter(F.col(TICK).isNull()).drop(TICK)
        clock_us, offsets = read_offsets(self.checkpoint / "offsets" / str(number))
        moved = known is None or known.offsets != offsets
        self.pipeline.rows_step(rows if moved else None, clock_us, number, offsets, ended=False)

    def check_agreement(self) -> None:
        """Check that both logs are at the same place: what Spark committed after our last step has no rows."""
        known = self.pipeline.stepper.commit
        commits = [int(path.name) for path in (self.checkpoint / "commits").glob("[0-9]*")]
        if known is None or known.batch is None:
            pending = self.pipeline.stepper.pending
            if commits and pending is None and known is not None:
                raise self.disagreement(f"Spark has committed batch {max(commits)}, Headrace none")
            return
        if not commits and known.batch > 0:
            raise self.disagreement(f"Headrace has committed batch {known.batch}, Spark none")
        if commits and max(commits) > known.batch:
            _, offsets = read_offsets(self.checkpoint / "offsets" / str(max(commits)))
            if offsets != known.offsets:
                raise self.disagreement(f"Spark has committed batch {max(commits)}, Headrace batch {known.batch}")
        if commits and max(commits) < known.batch - 1:
            raise self.disagreement(f"Spark has committed batch {max(commits)}, Headrace batch {known.batch}")

    def disagreement(self, detail: str) -> UsageError:
        location = self.pipeline.stepper.directory.store.location
        return UsageError(
            "logs-apart",
            f"the state in {location} and its Spark checkpoint do not fit together",
            detail=detail,
            hint="restore both from the same copy",
        )

    def check(self) -> None:
        problem = self.query.exception()
        if problem is not None:
            raise problem
        if not self.query.isActive:
            name = self.pipeline.stream.name
            raise HeadraceError("stream-stopped", f"the streaming query of {name} was stopped from outside the run")

    def stop(self) -> None:
        self.query.stop()
        problem = self.query.exception()
        if problem is not None:
            raise problem


def with_ticks(dataframe: DataFrame) -> DataFrame:
    """Add one row a second with nothing but a tick."""
    ticks = dataframe.sparkSession.readStream.format("rate").option("rowsPerSecond", 1).load()
    empty = [F.lit(None).cast(field.dataType).alias(field.name) for field in dataframe.schema.fields]
    return dataframe.withColumn(TICK, F.lit(None).cast("timestamp")).union(
        ticks.select(*empty, F.col("timestamp").alias(TICK))
    )


def read_offsets(path: Path) -> tuple[int, tuple[str, ...]]:
    """Return when Spark began the batch, and the offsets of each source but the ticks, whose line is the last."""
    try:
        _, metadata, *offsets = path.read_text(encoding="utf-8").splitlines()
        return int(json.loads(metadata)["batchTimestampMs"]) * 1_000, tuple(offsets[:-1])
    except (OSError, ValueError, KeyError):
        raise DamagedError(path, "can't be read") from None
