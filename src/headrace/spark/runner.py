"""The tasks of a step as one Spark job with one shuffle. The Spark plan is the same whatever the queries are.

tasks --mapInArrow--> level 1 --(reducer, bytes)--> repartitionById --mapInArrow--> level 2 --> manifests
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import Any

import pyarrow as pa
from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyspark import TaskContext
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, Observation, SparkSession
from pyspark.sql.functions import count, lit

from headrace.engine.step.context import Step, StepMessage, StreamSetting, open_step, to_message
from headrace.engine.step.level1_task import ReducerInput, map_rows, map_units
from headrace.engine.step.level2_task import Reduced, reduce_step
from headrace.engine.step.runner import Ran
from headrace.inputs import InputRows
from headrace.inputs.conversion import convert_table
from headrace.spark.executors import count_partitions, is_connect
from headrace.spark.session import check_workers
from headrace.storage.disk import from_json, to_json

PIECES = "reducer int, plan string, data binary"
REDUCED = "reduced binary"
PIECE_SCHEMA = pa.schema([("reducer", pa.int32()), ("plan", pa.string()), ("data", pa.binary())])

STEP_SETTINGS = {"spark.sql.adaptive.enabled": "false", "spark.sql.codegen.wholeStage": "false"}
"""Steps run in a session of their own: there is nothing to generate code for, and no join to adapt."""

Batches = Iterator[pa.RecordBatch]


class SparkRunner:
    """Runs the tasks of a step on Spark."""

    def __init__(self, spark: SparkSession) -> None:
        self.connect_tasks = count_partitions(spark) if is_connect(spark) else None
        # A second session of Connect would be a second connection, which somebody has to close.
        self.spark = spark if is_connect(spark) else spark.newSession()
        if self.spark is not spark:
            for key, value in STEP_SETTINGS.items():
                self.spark.conf.set(key, value)

    @property
    def tasks(self) -> int:
        if self.connect_tasks is not None:
            return self.connect_tasks
        return int(self.spark.sparkContext.defaultParallelism)

    def run(self, step: Step, rows: DataFrame | None) -> Ran:
        """Run a step. Spark counts the rows of a dataframe too, independently of level 1."""
        message, tasks = to_message(step, has_state=False), len(step.shares)
        observed = Observation()
        if rows is None:
            pieces = self.unit_pieces(message, tasks)
        else:
            watched = rows.observe(observed, count(lit(1)).alias("rows"))
            # mapInArrow looks columns up by name, and reads a dot in a name as a path.
            numbered = watched.toDF(*map(str, range(len(rows.columns))))
            pieces = numbered.mapInArrow(make_row_task(message, rows.columns), PIECES)
            if tasks:
                pieces = pieces.union(self.unit_pieces(message, tasks))
        shuffled = pieces.repartitionById(step.journal.partitioning.reducers, "reducer")
        try:
            outcomes = shuffled.mapInArrow(make_reducer_task(to_message(step, has_state=True)), REDUCED).collect()
        except (PySparkException, Py4JError) as problem:
            check_workers(self.spark, problem)
            raise
        reduced = [from_json(bytes(row.reduced), Reduced) for row in outcomes]
        if rows is None:
            return Ran(reduced)
        read = sum(outcome.counted.dataframe_rows for outcome in reduced)
        dataframe_rows = int(observed.get["rows"])
        # A stage that Spark ran again is observed twice: count the rows in another way.
        return Ran(reduced, dataframe_rows if dataframe_rows == read else rows.count())

    def unit_pieces(self, message: StepMessage, tasks: int) -> DataFrame:
        numbers = self.spark.range(0, max(1, tasks), 1, max(1, tasks))
        return numbers.mapInArrow(make_unit_task(message), PIECES)


def make_unit_task(message: StepMessage) -> Callable[[Batches], Batches]:
    """Return level 1 over the units that the journal gives to the task of each number."""

    def run(batches: Batches) -> Batches:
        step = open_step(message)
        for batch in batches:
            for number in batch.column(0).to_pylist():
                if number < len(step.shares):
                    yield from map(to_batch, map_units(step, step.shares[number]))
        freeze_gc(1, step)

    return run


def make_row_task(message: StepMessage, names: list[str]) -> Callable[[Batches], Batches]:
    """Return level 1 over the rows of a DataFrame, whose columns have these names."""

    def run(batches: Batches) -> Batches:
        step = open_step(message)
        stream = step.setting.declared
        named = (pa.Table.from_batches([batch]).rename_columns(names) for batch in batches)
        converted = (convert_table(table, stream.columns, stream.zone) for table in named)
        yield from map(to_batch, map_rows(step, (InputRows(part.table, part.rejected) for part in converted)))
        freeze_gc(1, step)

    return run


def make_reducer_task(message: StepMessage) -> Callable[[Batches], Batches]:
    def run(batches: Batches) -> Batches:
        context = TaskContext.get()
        assert context is not None
        step = open_step(message)
        reduced = reduce_step(step, context.partitionId(), read_pieces(batches))
        yield pa.RecordBatch.from_pydict({"reduced": [to_json(reduced)]})
        freeze_gc(2, step)

    return run


def freeze_gc(level: int, step: Step) -> None:
    """Keep what stays for the next steps out of the garbage collection that a worker of Spark runs after every task."""
    freeze_gc_once(level, step.setting, step.journal.registry, step.journal.plan)


@lru_cache(maxsize=64)
def freeze_gc_once(_level: int, _setting: StreamSetting, _registry: int, _plan: str | None) -> None:
    """Freeze once for what a level keeps of a registry and a plan."""
    gc.collect()
    gc.freeze()


def read_pieces(batches: Batches) -> Iterator[ReducerInput]:
    for batch in batches:
        columns: list[Any] = [column.to_pylist() for column in batch.columns]
        yield from map(ReducerInput, *columns)


def to_batch(piece: ReducerInput) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist([piece._asdict()], schema=PIECE_SCHEMA)
