"""DataFrames of Spark as streams and tables, and bounded queries over them."""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Mapping
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql.pandas.types import to_arrow_schema

from headrace.aggregates.user import DeclaredAggregate
from headrace.kernel.frames import columns_of, only_time
from headrace.model.schema import Column, UserFunction


def frame_columns(frame: DataFrame) -> tuple[Column, ...]:
    """The columns of types that queries know; others can't be named."""
    return columns_of(empty(frame))


def empty(frame: DataFrame) -> pa.Table:
    schema: pa.Schema = to_arrow_schema(frame.schema, timezone="UTC")
    return schema.empty_table()


def aggregate_spark(
    frame: DataFrame,
    queries: Mapping[str, str],
    *,
    name: str,
    event_time: str | None,
    tables: Mapping[str, Any],
    functions: Iterable[UserFunction | DeclaredAggregate],
) -> dict[str, DataFrame]:
    """Every window of the queries over a static DataFrame; results are DataFrames."""
    from headrace.spark.engine import Engine

    spark = frame.sparkSession
    with tempfile.TemporaryDirectory() as state:
        engine = Engine(spark, state)
        engine.functions(functions)
        engine.stream(name, frame, event_time=event_time or only_time(empty(frame), name))
        for other, table in tables.items():
            engine.table(other, table)
        for query, sql in queries.items():
            engine.add(query, sql)
        with engine.bounded() as run:
            return {query: spark.createDataFrame(run.results(query)) for query in queries}
