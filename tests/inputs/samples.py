"""A stream with a column of every type, random rows of it, and files of them in each format."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from hypothesis import strategies as st

from headrace.inputs import (
    InputRows,
    Source,
    cut,
    read,
)
from headrace.model.address import format_address
from headrace.model.arrow import arrow_type, to_array
from headrace.model.schema import Column, Stream
from headrace.model.time import format_timestamp, parse_timestamp
from headrace.model.types import ADDRESS, BIGINT, BOOLEAN, DOUBLE, STRING, TIMESTAMP, decimal
from headrace.model.units import InputFile, Unit

COLUMNS = (
    Column("at", TIMESTAMP),
    Column("flag", BOOLEAN),
    Column("n", BIGINT),
    Column("x", DOUBLE),
    Column("price", decimal(12, 3)),
    Column("wide", decimal(38, 10)),
    Column("word", STRING),
    Column("host", ADDRESS),
)
STREAM = Stream("events", COLUMNS, "at")
NAMES = [column.name for column in COLUMNS]

TIMES = st.integers(parse_timestamp("0001-01-02"), parse_timestamp("9999-12-30"))
WORDS = st.text(st.characters(codec="utf-8", exclude_characters="\n"), max_size=8)
HOSTS = st.one_of(st.integers(0, 2**128 - 1), st.integers(0, 2**32 - 1).map(lambda number: 0xFFFF << 32 | number))
ROWS = st.lists(
    st.tuples(
        st.none() | TIMES,
        st.none() | st.booleans(),
        st.none() | st.integers(-(2**63), 2**63 - 1),
        st.none() | st.floats(allow_nan=False),
        st.none() | st.integers(-(10**12) + 1, 10**12 - 1).map(lambda number: Decimal(number).scaleb(-3)),
        st.none()
        | st.integers(-(10**38) + 1, 10**38 - 1).map(lambda number: Decimal((number < 0, digits(number), -10))),
        st.none() | WORDS,
        st.none() | HOSTS,
    ),
    max_size=12,
)


def digits(number: int) -> tuple[int, ...]:
    return tuple(map(int, str(abs(number))))


def table_of(rows: Iterable[tuple[Any, ...]]) -> pa.Table:
    columns = list(zip(*rows, strict=True)) or [()] * len(COLUMNS)
    return pa.table([to_array(values, each.type) for values, each in zip(columns, COLUMNS, strict=True)], names=NAMES)


def text_of(value: Any, column: Column) -> Any:
    """As people write it."""
    if value is None:
        return None
    if column.type == TIMESTAMP:
        return format_timestamp(value)
    if column.type == ADDRESS:
        return format_address(value)
    return f"{value:f}" if isinstance(value, Decimal) else value


def csv_field(value: Any) -> str:
    if isinstance(value, str):
        return '"' + value.replace('"', '""') + '"'
    return "" if value is None else str(value)


def csv_text(rows: Iterable[tuple[Any, ...]], header: bool = True) -> str:
    lines = [",".join(NAMES)] if header else []
    for row in rows:
        lines.append(",".join(csv_field(text_of(value, each)) for value, each in zip(row, COLUMNS, strict=True)))
    return "\n".join(lines) + "\n"


def json_text(rows: Iterable[tuple[Any, ...]]) -> str:
    objects = [{each.name: text_of(value, each) for value, each in zip(row, COLUMNS, strict=True)} for row in rows]
    return "".join(json.dumps(each) + "\n" for each in objects)


def write(path: Path, rows: list[tuple[Any, ...]], file_format: str) -> None:
    if file_format == "parquet":
        pq.write_table(table_of(rows), path, row_group_size=3)
    else:
        path.write_text(csv_text(rows) if file_format == "csv" else json_text(rows), encoding="utf-8", newline="")


def file_at(path: Path) -> InputFile:
    return InputFile(str(path), path.stat().st_size, path.stat().st_mtime_ns)


def read_file(
    source: Source,
    path: Path,
    stream: Stream = STREAM,
    columns: Collection[str] | None = None,
    unit_bytes: int = 1 << 25,
) -> InputRows:
    """All units of a file, put together."""
    asked = [column.name for column in stream.columns] if columns is None else columns
    return read_units(source, cut(source, file_at(path), stream, unit_bytes), stream, asked)


def read_units(source: Source, units: Iterable[Unit], stream: Stream, columns: Collection[str]) -> InputRows:
    pieces = [rows for unit in units for rows in read(source, unit, stream, columns)]
    asked = {name.lower() for name in columns}
    schema = pa.schema([(each.name, arrow_type(each.type)) for each in stream.columns if each.name.lower() in asked])
    table = pa.concat_tables([schema.empty_table(), *(piece.table for piece in pieces)])
    return InputRows(table, pa.concat_tables([InputRows(table).rejected, *(piece.rejected for piece in pieces)]))


def rejects(rows: InputRows) -> list[tuple[str, str]]:
    return [(each["raw"], each["reason"]) for each in rows.rejected.to_pylist()]
