"""The queries of the workloads in Spark, DuckDB and Polars, one at a time, from Parquet files to a Parquet file.

Spark has them as people write them: static tables as broadcast joins, `window()`, one aggregation. DuckDB and Polars
have them as in `peers`, over the files instead of tables in memory.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import reduce
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from headrace.bench.kernel import compare
from headrace.bench.peers import (
    INSTANCE,
    THREADS,
    Asked,
    asked_of,
    duckdb_query,
    import_polars,
    operator_of,
    polars_query,
    quoted,
    unsupported,
)
from headrace.model.expressions import WINDOW_END, WINDOW_START, Call, ColumnRef, Expression, Literal
from headrace.model.query import Query
from headrace.model.schema import Catalog, Stream
from headrace.model.types import BIGINT, BOOLEAN, DOUBLE
from headrace.model.windows import Window
from headrace.sql import parse_script

START, END = "start", "end"


@dataclass(frozen=True)
class Files:
    """A generated data set: a folder of Parquet files for the stream and for each table."""

    folder: Path
    catalog: Catalog

    @property
    def stream(self) -> Stream:
        (stream,) = self.catalog.streams
        return stream

    @property
    def paths(self) -> Mapping[str, Path]:
        names = [self.stream.name, *(table.name for table in self.catalog.tables)]
        return {name: self.folder / name for name in names}


def files_in(folder: Path) -> Files:
    return Files(folder, parse_script((folder / "schema.sql").read_text(encoding="utf-8")).catalog)


@dataclass(frozen=True, slots=True)
class FilePeer:
    """Writes the answer to a query, and reads it back by instance, as `peers` has it."""

    write: Callable[[Query, Path], object]
    read: Callable[[Query, Path], pa.Table]


@contextmanager
def file_peers(spark: SparkSession, files: Files) -> Iterator[Mapping[str, FilePeer]]:
    """Where the files are and what columns they have is known to all beforehand."""
    import duckdb

    with duckdb.connect(config={"threads": THREADS}) as connection:
        for name, path in files.paths.items():
            view = f"CREATE VIEW {quoted(name)} AS SELECT * FROM read_parquet('{path}/*.parquet')"
            connection.execute(view)
        yield {
            "spark": spark_peer(spark, files),
            "duckdb": duckdb_peer(connection, files),
            "polars": polars_peer(files),
        }


def duckdb_peer(connection: Any, files: Files) -> FilePeer:
    def write(query: Query, path: Path) -> None:
        connection.execute(f"COPY ({duckdb_query(query, files.stream.event_time)}) TO '{path}' (FORMAT parquet)")

    return FilePeer(write, lambda _, path: pq.read_table(path))


def polars_peer(files: Files) -> FilePeer:
    polars = import_polars()
    frames = {name: polars.scan_parquet(path / "*.parquet") for name, path in files.paths.items()}

    def write(query: Query, path: Path) -> None:
        polars_query(query, frames, files.stream.event_time).collect().write_parquet(path)

    return FilePeer(write, lambda _, path: pq.read_table(path))


# Spark


def spark_peer(spark: SparkSession, files: Files) -> FilePeer:
    frames = {name: spark.read.parquet(str(path)) for name, path in files.paths.items()}

    def write(query: Query, path: Path) -> None:
        spark_query(query, frames, files.stream.event_time).write.mode("overwrite").parquet(str(path))

    return FilePeer(write, read_spark)


def spark_query(query: Query, frames: Mapping[str, DataFrame], event_time: str) -> DataFrame:
    asked = asked_of(query)
    rows = frames[query.stream].alias(query.stream)
    for join in query.joins:
        table = F.broadcast(frames[join.table].alias(join.relation))
        keys = [spark_expression(key.expression) == F.col(f"{join.relation}.{key.column}") for key in join.keys]
        rows = rows.join(table, reduce(operator.and_, keys))
    if query.where is not None:
        rows = rows.filter(spark_expression(query.where))
    rows = in_windows(rows, asked.window, F.col(f"{query.stream}.{event_time}"))
    groups = [spark_expression(tree).alias(name) for name, tree in asked.groups.items()]
    sums = [F.sum(spark_expression(each.arguments[0])).alias(name) for name, each in asked.sums.items()]
    counts = [F.count(F.lit(1)).alias(name) for name in asked.counts]
    found = rows.groupBy("window", *groups).agg(*sums, *counts)
    return found.select(F.col("window.start"), F.col("window.end"), *found.columns[1:])


def in_windows(rows: DataFrame, window: Window, time: Column) -> DataFrame:
    """Spark's windows begin at `k * slide + startTime`, ours end at `k * slide + offset`.

    Spark refuses a slide longer than the range. Then windows of one slide end where ours do, and only rows of the last
    `range` of them are taken.
    """
    slide = f"{window.slide_us} microseconds"
    if window.range_us >= window.slide_us:
        start_us = (window.offset_us - window.range_us) % window.slide_us
        own = F.window(time, f"{window.range_us} microseconds", slide, f"{start_us} microseconds")
        return rows.withColumn("window", own)
    rows = rows.withColumn("window", F.window(time, slide, slide, f"{window.offset_us} microseconds"))
    start = F.timestamp_micros(F.unix_micros(F.col("window.end")) - window.range_us)
    return rows.filter(time >= start).withColumn("window", F.struct(start.alias(START), F.col("window.end").alias(END)))


def spark_expression(tree: Expression) -> Column:
    match tree:
        case ColumnRef():
            return F.col(f"{tree.relation}.{tree.name}")
        case Literal() if tree.type in (BOOLEAN, BIGINT, DOUBLE):
            return F.lit(tree.value)
        case Call("in", (sought, *constants)) if all(isinstance(each, Literal) for each in constants):
            return spark_expression(sought).isin([each.value for each in constants if isinstance(each, Literal)])
        case Call("abs", (number,)):
            return F.abs(spark_expression(number))
        case Call():
            found: Column = operator_of(tree).python(*map(spark_expression, tree.arguments))
            return found
    raise unsupported(f"{tree}")


def read_spark(query: Query, path: Path) -> pa.Table:
    return by_instance(asked_of(query), pq.read_table(path), START, END)


# Answers as rows of instances


def own_answers(query: Query, table: pa.Table) -> pa.Table:
    """The engine's, without the windows of a query without groups that hold no row: peers do not have them."""
    asked = asked_of(query)
    bounds = {output.expression: output.name for output in query.outputs}
    found = by_instance(asked, table, bounds.get(WINDOW_START), bounds[WINDOW_END])
    if query.group_by:
        return found
    has_rows = [pc.is_valid(found[name]) for name in asked.sums]
    has_rows += [pc.not_equal(found[name], 0) for name in asked.counts]
    return found.filter(reduce(pc.or_, has_rows))


def by_instance(asked: Asked, table: pa.Table, start: str | None, end: str) -> pa.Table:
    """With the instance of each row, whose bounds must be those of the window."""
    window, ends_us = asked.window, microseconds(table[end])
    instances, rest = np.divmod(ends_us - window.offset_us, window.slide_us)
    if rest.any() or (start is not None and (ends_us - microseconds(table[start]) != window.range_us).any()):
        raise RuntimeError(f"a window is not one of {window}")
    return table.append_column(INSTANCE, pa.array(instances))


def microseconds(times: pa.ChunkedArray) -> np.ndarray[Any, np.dtype[np.int64]]:
    return np.asarray(times.cast(pa.timestamp("us", "UTC")).cast(pa.int64()))


def check_equal(what: str, query: Query, ours: pa.Table, theirs: pa.Table) -> int:
    """How many rows were compared; a difference is an error."""
    asked = asked_of(query)
    names = [INSTANCE, *asked.groups, *asked.sums, *asked.counts]
    mine = ours.select(names)
    compare(what, asked, mine, theirs.select(names).cast(mine.schema))
    return int(theirs.num_rows)
