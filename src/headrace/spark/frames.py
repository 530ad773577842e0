"""DataFrames of Spark as streams and tables: their columns, in types of the language."""

from __future__ import annotations

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql.pandas.types import to_arrow_schema

from headrace.kernel.frames import columns_of
from headrace.model.schema import Column


def frame_columns(frame: DataFrame) -> tuple[Column, ...]:
    """The columns of types that queries know; others can't be named."""
    schema: pa.Schema = to_arrow_schema(frame.schema)
    return columns_of(schema.empty_table())
