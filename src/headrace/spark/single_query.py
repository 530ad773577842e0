"""One query as a plain Spark aggregation, as users write it: the shared plan is compared with it.

Static tables are broadcast joins, windows are `window()`. Only groups, sums and counts are translated.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import reduce
from pathlib import Path
from typing import Any

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from headrace.model.errors import UnsupportedError
from headrace.model.expressions import Aggregate, Call, ColumnRef, Expression, Literal, is_window_bound
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


def read_frames(spark: SparkSession, files: Files) -> dict[str, DataFrame]:
    return {name: spark.read.parquet(str(path)) for name, path in files.paths.items()}


def write_answer(query: Query, frames: Mapping[str, DataFrame], event_time: str, path: Path) -> None:
    """Answer the query by itself, and write its rows as Parquet."""
    spark_query(query, frames, event_time).write.mode("overwrite").parquet(str(path))


def spark_query(query: Query, frames: Mapping[str, DataFrame], event_time: str) -> DataFrame:
    parts = split_query(query)
    rows = frames[query.stream].alias(query.stream)
    for join in query.joins:
        table = F.broadcast(frames[join.table].alias(join.relation))
        keys = [spark_expression(key.expression) == F.col(f"{join.relation}.{key.column}") for key in join.keys]
        rows = rows.join(table, reduce(operator.and_, keys))
    if query.where is not None:
        rows = rows.filter(spark_expression(query.where))
    rows = in_windows(rows, parts.window, F.col(f"{query.stream}.{event_time}"))
    groups = [spark_expression(tree).alias(name) for name, tree in parts.groups.items()]
    sums = [F.sum(spark_expression(aggregate.arguments[0])).alias(name) for name, aggregate in parts.sums.items()]
    counts = [F.count(F.lit(1)).alias(name) for name in parts.counts]
    grouped = rows.groupBy("window", *groups).agg(*sums, *counts)
    return grouped.select(F.col("window.start"), F.col("window.end"), *grouped.columns[1:])


def in_windows(rows: DataFrame, window: Window, time: Column) -> DataFrame:
    """Add a column with the window of a row. Spark's windows begin at `k * slide + startTime`, ours end at
    `k * slide + offset`.

    Spark refuses a slide longer than the range. Then windows of one slide end where ours do, and rows before the last
    `range` of them are filtered out.
    """
    slide = f"{window.slide_us} microseconds"
    if window.range_us >= window.slide_us:
        start_us = (window.offset_us - window.range_us) % window.slide_us
        windows = F.window(time, f"{window.range_us} microseconds", slide, f"{start_us} microseconds")
        return rows.withColumn("window", windows)
    rows = rows.withColumn("window", F.window(time, slide, slide, f"{window.offset_us} microseconds"))
    start = F.timestamp_micros(F.unix_micros(F.col("window.end")) - window.range_us)
    return rows.filter(time >= start).withColumn("window", F.struct(start.alias(START), F.col("window.end").alias(END)))


def spark_expression(tree: Expression) -> Column:
    match tree:
        case ColumnRef():
            return F.col(f"{tree.relation}.{tree.name}")
        case Literal() if tree.type in (BOOLEAN, BIGINT, DOUBLE):
            return F.lit(tree.value)
        case Call("in", (sought, *constants)) if all(isinstance(constant, Literal) for constant in constants):
            return spark_expression(sought).isin(
                [constant.value for constant in constants if isinstance(constant, Literal)]
            )
        case Call("abs", (number,)):
            return F.abs(spark_expression(number))
        case Call():
            column: Column = operator_of(tree)(*map(spark_expression, tree.arguments))
            return column
    raise fail_unsupported(f"{tree}")


def fold(operation: Callable[[Any, Any], Any]) -> Callable[..., Any]:
    """Return an operation on two operands as one on any number of them."""
    return lambda *operands: reduce(operation, operands)


OPERATORS: Mapping[str, Callable[..., Any]] = {
    "and": fold(operator.and_),
    "or": fold(operator.or_),
    "=": fold(operator.eq),
    "<>": fold(operator.ne),
    "<": fold(operator.lt),
    "<=": fold(operator.le),
    ">": fold(operator.gt),
    ">=": fold(operator.ge),
    "-": fold(operator.sub),
    "*": fold(operator.mul),
    "/": fold(operator.truediv),
    "abs": operator.abs,
}


def fail_unsupported(what: str) -> UnsupportedError:
    return UnsupportedError(
        "peer-query", f"the peers are not asked for {what}", hint="they answer the kernel's workloads only"
    )


def operator_of(call: Call) -> Callable[..., Any]:
    """Return the operator of a call. Arithmetic is on doubles only: engines differ in the overflow and division of
    integers.
    """
    if call.function not in OPERATORS or call.type not in (BOOLEAN, DOUBLE):
        raise fail_unsupported(f"{call.function} of type {call.type.name}")
    return OPERATORS[call.function]


@dataclass(frozen=True, slots=True)
class QueryParts:
    """A query as peers read it: groups and aggregates by the names of their columns."""

    window: Window
    groups: Mapping[str, Expression]
    sums: Mapping[str, Aggregate]
    counts: tuple[str, ...]


def split_query(query: Query) -> QueryParts:
    if query.having is not None or query.order_by or query.limit is not None:
        raise fail_unsupported("HAVING, ORDER BY or LIMIT")
    if any(join.outer for join in query.joins):
        raise fail_unsupported("an outer join")
    if not isinstance(query.window, Window):
        raise fail_unsupported("a window of slices")
    groups: dict[str, Expression] = {}
    sums: dict[str, Aggregate] = {}
    counts = []
    for output in query.outputs:
        match output.expression:
            case Aggregate("sum", (_,), type=kind, distinct=False, filter=None) as aggregate if kind in (
                DOUBLE,
                BIGINT,
            ):
                sums[output.name] = aggregate
            case Aggregate("count", (), distinct=False, filter=None):
                counts.append(output.name)
            case tree if tree in query.group_by:
                groups[output.name] = tree
            case tree if not is_window_bound(tree):
                raise fail_unsupported("anything but groups, sums of numbers and count(*)")
    return QueryParts(query.window, groups, sums, tuple(counts))
