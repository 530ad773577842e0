"""The queries of the workloads in Spark, DuckDB and Polars, one at a time, from Parquet files to a Parquet file.

Spark has them as people write them: static tables as broadcast joins, `window()`, one aggregation. DuckDB and Polars
have them as in `peers`, over the files instead of tables in memory.
"""

from __future__ import annotations

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
from pyspark.sql import SparkSession

from benchmarks.kernel import compare
from benchmarks.peers import (
    INSTANCE,
    THREADS,
    duckdb_query,
    import_polars,
    polars_query,
    quoted,
)
from headrace.model.expressions import WINDOW_END, WINDOW_START
from headrace.model.query import Query
from headrace.spark.single_query import END, START, Files, QueryParts, read_frames, split_query, write_answer


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
    frames = read_frames(spark, files)
    return FilePeer(lambda query, path: write_answer(query, frames, files.stream.event_time, path), read_spark)


def read_spark(query: Query, path: Path) -> pa.Table:
    return by_instance(split_query(query), pq.read_table(path), START, END)


# Answers as rows of instances


def own_answers(query: Query, table: pa.Table) -> pa.Table:
    """The engine's, without the windows of a query without groups that hold no row: peers do not have them."""
    asked = split_query(query)
    bounds = {output.expression: output.name for output in query.outputs}
    found = by_instance(asked, table, bounds.get(WINDOW_START), bounds[WINDOW_END])
    if query.group_by:
        return found
    has_rows = [pc.is_valid(found[name]) for name in asked.sums]
    has_rows += [pc.not_equal(found[name], 0) for name in asked.counts]
    return found.filter(reduce(pc.or_, has_rows))


def by_instance(asked: QueryParts, table: pa.Table, start: str | None, end: str) -> pa.Table:
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
    asked = split_query(query)
    names = [INSTANCE, *asked.groups, *asked.sums, *asked.counts]
    mine = ours.select(names)
    compare(what, asked, mine, theirs.select(names).cast(mine.schema))
    return int(theirs.num_rows)
