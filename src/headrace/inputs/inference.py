"""The columns of files that nobody declared: as Parquet stores them, or as Arrow infers them from text."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.json as pa_json
import pyarrow.parquet as pq

from headrace.inputs.source import Source, reading
from headrace.model.errors import DataError
from headrace.model.units import InputFile

DECLARE = "declare the stream in the script: CREATE STREAM name (column TYPE, ...) EVENT TIME column"
LOCAL_TIME, ZONED_TIME = pa.timestamp("us"), pa.timestamp("us", tz="UTC")


def infer_schema(source: Source, files: Sequence[InputFile]) -> pa.Schema:
    """Return the columns of all files with types that hold the values of each."""
    try:
        return pa.unify_schemas(
            [SCHEMAS[source.format](source, file.path) for file in files], promote_options="permissive"
        )
    except pa.ArrowException as problem:
        message = f"the files of {source.path} have columns of different types"
        raise DataError("no-schema", message, detail=str(problem), hint=DECLARE) from None


def parquet_schema(_source: Source, path: str) -> pa.Schema:
    with reading(path):
        return pq.read_schema(path)


def csv_schema(source: Source, path: str) -> pa.Schema:
    """Infer from all rows but those with another number of fields, which the reader rejects."""
    with reading(path):
        table = pa_csv.read_csv(
            path,
            read_options=pa_csv.ReadOptions(
                autogenerate_column_names=source.option("header", "true").lower() == "false"
            ),
            parse_options=pa_csv.ParseOptions(
                delimiter=source.option("delimiter", ","),
                quote_char=source.option("quote", '"') or False,
                invalid_row_handler=lambda _row: "skip",
            ),
            convert_options=pa_csv.ConvertOptions(
                null_values=["", source.option("null_value", "")], strings_can_be_null=True
            ),
        )
    return pa.schema([(field.name, csv_type(field.type)) for field in table.schema])


def csv_type(inferred: pa.DataType) -> pa.DataType:
    """Return the type to read: any field can be read as text, and a date as the time at which it begins."""
    if pa.types.is_date(inferred):
        return LOCAL_TIME
    is_known = pa.types.is_primitive(inferred) and not pa.types.is_time(inferred)
    return inferred if is_known else pa.string()


def json_schema(_source: Source, path: str) -> pa.Schema:
    """Infer from all lines. Arrow forgets the zones of times, so texts are looked at again."""
    try:
        with reading(path):
            inferred = pa_json.read_json(path).schema
            times = [field.name for field in inferred if pa.types.is_timestamp(field.type)]
            options = pa_json.ParseOptions(explicit_schema=pa.schema([(name, pa.string()) for name in times]))
            table = pa_json.read_json(path, parse_options=options)
    except DataError as problem:
        problem.message = f"the columns of {path} can't be inferred"
        problem.hint = f"the file must hold one JSON object per line; for lines that differ, {DECLARE}"
        raise
    return pa.schema([(name, json_type(table[name])) for name in inferred.names])


def json_type(column: pa.ChunkedArray) -> pa.DataType:
    if pa.types.is_null(column.type):
        return pa.string()
    if not pa.types.is_string(column.type) or column.null_count == len(column):
        return column.type
    for time in (ZONED_TIME, LOCAL_TIME):
        try:
            column.cast(pa.timestamp("ns", tz=time.tz))
        except pa.ArrowInvalid:
            continue
        return time
    return column.type


SCHEMAS = {"parquet": parquet_schema, "csv": csv_schema, "json": json_schema}
