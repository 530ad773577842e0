"""DataFrames of Spark as streams and tables, and bounded queries over them."""

from __future__ import annotations

import tempfile
import warnings
from collections.abc import Iterable, Mapping
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql.pandas.types import from_arrow_schema, to_arrow_schema

from headrace.aggregates.user import DeclaredAggregate
from headrace.engine.dataframes import only_time, shortcomings
from headrace.model.errors import RowErrorWarning
from headrace.model.schema import UserFunction


def empty(frame: DataFrame) -> pa.Table:
    """A table of its columns."""
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
            for each in run.progress():
                told = {query: (state.errors, state.problem) for query, state in each.queries.items()}
                for warning in shortcomings(each.stream, each.totals.bad, each.totals.dropped, told):
                    warnings.warn(warning, RowErrorWarning, stacklevel=3)
            found = {query: run.results(query) for query in queries}
            return {
                query: spark.createDataFrame(rows, from_arrow_schema(rows.schema, prefer_timestamp_ntz=True))
                for query, rows in found.items()
            }
