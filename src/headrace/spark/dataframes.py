"""Bounded queries over DataFrames of Spark."""

from __future__ import annotations

import tempfile
import warnings
from collections.abc import Iterable, Mapping
from inspect import signature
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql.pandas.types import from_arrow_schema, to_arrow_schema

from headrace.aggregates.user import DeclaredAggregate
from headrace.engine.dataframes import only_time, shortcomings
from headrace.model.errors import RowErrorWarning
from headrace.model.schema import UserFunction


def empty_table(dataframe: DataFrame) -> pa.Table:
    """Return the columns of a DataFrame as an Arrow table without rows."""
    # Spark 4.1 has no such parameter, and means UTC.
    zone: dict[str, Any] = {"timezone": "UTC"} if "timezone" in signature(to_arrow_schema).parameters else {}
    schema: pa.Schema = to_arrow_schema(dataframe.schema, **zone)
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
    """Answer every window of the queries over a static DataFrame; results are DataFrames."""
    from headrace.spark.engine import Engine

    spark = frame.sparkSession
    with tempfile.TemporaryDirectory() as state:
        engine = Engine(spark, state)
        engine.functions(functions)
        engine.stream(name, frame, event_time=event_time or only_time(empty_table(frame), name))
        for other, table in tables.items():
            engine.table(other, table)
        for query, sql in queries.items():
            engine.add(query, sql)
        with engine.bounded() as run:
            for progress in run.progress():
                errors = {query: (state.errors, state.problem) for query, state in progress.queries.items()}
                for warning in shortcomings(progress.stream, progress.totals.bad, progress.totals.dropped, errors):
                    warnings.warn(warning, RowErrorWarning, stacklevel=3)
            results = {query: run.results(query) for query in queries}
            return {
                query: spark.createDataFrame(rows, from_arrow_schema(rows.schema, prefer_timestamp_ntz=True))
                for query, rows in results.items()
            }
