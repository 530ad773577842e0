"""Files to units, units to rows: one table of formats."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, replace
from datetime import UTC
from functools import partial

import pyarrow as pa

from headrace.expressions.columns import Evaluated
from headrace.inputs.conversion import as_stream, first_failures, read_texts, rejected_table, unreadable, without
from headrace.inputs.csv import CsvFormat
from headrace.inputs.file_list import list_files
from headrace.inputs.folders import Folders
from headrace.inputs.json_lines import JsonFormat
from headrace.inputs.lines import LineBlock, ParsedLines, cut_bytes, owned_blocks, parse
from headrace.inputs.parquet import cut_groups, read_groups, read_parquet
from headrace.inputs.source import (
    MAX_ROWS,
    REPAIR,
    REPAIR_TABLE,
    BadFile,
    Declaration,
    Footer,
    InputRows,
    Source,
)
from headrace.model.arrow import arrow_type
from headrace.model.errors import DataError
from headrace.model.schema import Column, Stream, Table
from headrace.model.units import InputFile, Unit

MAX_UNIT_BYTES = 32 << 20
MIN_UNIT_BYTES = 4 << 20
"""Reading this much Parquet takes more than ten times as long as opening a file and its footer."""
UNITS_PER_TASK = 4
"""Tasks get whole units: with more of them, their shares differ less."""


def choose_unit_bytes(input_bytes: int, tasks: int) -> int:
    """Return the size of units for which each of the tasks that run at once has a few."""
    return min(MAX_UNIT_BYTES, max(MIN_UNIT_BYTES, input_bytes // (tasks * UNITS_PER_TASK)))


def cut(source: Source, file: InputFile, stream: Stream, unit_bytes: int = MAX_UNIT_BYTES) -> list[Unit]:
    """Return the units of a file; BadFile if it does not fit the declaration of its stream."""
    return cut_units(file, read_footer(source, file, stream), unit_bytes)


def read_footer(source: Source, file: InputFile, stream: Stream) -> Footer:
    """Return where a file can be cut; BadFile if it does not fit the declaration of its stream."""
    return FORMATS[source.format].read_footer(source, file, declared_in_files(stream))


def cut_units(file: InputFile, footer: Footer, unit_bytes: int) -> list[Unit]:
    return cut_bytes(file, unit_bytes) if footer is None else cut_groups(file, footer, unit_bytes)


def read(source: Source, unit: Unit, stream: Stream, columns: Collection[str]) -> Iterator[InputRows]:
    """Yield the rows of a unit in pieces of bounded size, with these columns in declared order."""
    if stream.derived is None:
        return pieces(source, unit, Declaration.of(stream), columns)
    held = {*columns, stream.derived.end} - {stream.event_time}
    names = [column.name for column in stream.columns if column.name in columns]
    parts = pieces(source, unit, declared_in_files(stream), held)
    return (replace(rows, table=as_stream(rows.table, stream).select(names)) for rows in parts)


def declared_in_files(stream: Stream) -> Declaration:
    """Return what files declare; for results all columns but the event time, which is the end of the window."""
    if stream.derived is None:
        return Declaration.of(stream)
    columns = tuple(column for column in stream.columns if column.name != stream.event_time)
    return Declaration(columns, stream.zone, stream.derived.end)


def read_file(source: Source, file: InputFile, relation: Stream | Table) -> Iterator[InputRows]:
    """Yield all rows of a file, with all declared columns."""
    declaration = Declaration.of(relation)
    names = [column.name for column in relation.columns]
    footer = FORMATS[source.format].read_footer(source, file, declaration)
    for unit in cut_units(file, footer, MAX_UNIT_BYTES):
        yield from pieces(source, unit, declaration, names)


def read_table(source: Source, table: Table) -> pa.Table:
    """Read a static table from the files of a directory or from one file. A bad row makes a bad file."""
    files = [one_file(source.path)] if os.path.isfile(source.path) else list_files(source)
    if not files:
        raise DataError("no-data", f"there are no files of {table.name} in {source.path}")
    schema = pa.schema([(column.name, arrow_type(column.type)) for column in table.columns])
    tables = [schema.empty_table()]
    try:
        for file in files:
            for rows in read_file(source, file, table):
                refuse_rejected(file.path, rows.rejected)
                tables.append(rows.table)
    except BadFile as problem:
        if problem.hint == REPAIR:
            problem.hint = REPAIR_TABLE
        raise
    return pa.concat_tables(tables)


def one_file(path: str) -> InputFile:
    status = os.stat(path)
    return InputFile(os.path.abspath(path), status.st_size, status.st_mtime_ns)


def refuse_rejected(path: str, rejected: pa.Table) -> None:
    if rejected.num_rows:
        first = rejected.slice(0, 1).to_pylist()[0]
        raise BadFile(path, f"has a row that can't be read: {first['reason']}", first["raw"])


def pieces(source: Source, unit: Unit, declaration: Declaration, columns: Collection[str]) -> Iterator[InputRows]:
    for rows in FORMATS[source.format].read(source, unit, declaration, columns):
        if rows.table.num_rows <= MAX_ROWS:
            yield rows
            continue
        yield InputRows(rows.table.slice(0, MAX_ROWS), rows.rejected)
        for begin in range(MAX_ROWS, rows.table.num_rows, MAX_ROWS):
            yield InputRows(rows.table.slice(begin, MAX_ROWS))


# Text


TextFormat = type[CsvFormat] | type[JsonFormat]


def check_text(text_format: TextFormat, source: Source, file: InputFile, declaration: Declaration) -> None:
    """Raise BadFile if the beginning of a file does not fit."""
    text_format.of(source, file.path, declaration)


def read_text(
    text_format: TextFormat, source: Source, unit: Unit, declaration: Declaration, names: Collection[str]
) -> Iterator[InputRows]:
    layout = text_format.of(source, unit.path, declaration)
    columns = declaration.select_columns(names)
    for block in owned_blocks(unit, layout.first):
        parts = [
            typed_rows(lines, parsed, declaration, columns, layout.folders)
            for lines, parsed in parse(LineBlock.of(block), layout.fast, layout.slow)
        ]
        if parts:
            table = pa.concat_tables([rows.table for rows in parts]).combine_chunks()
            yield InputRows(table, pa.concat_tables([rows.rejected for rows in parts]).combine_chunks())


def typed_rows(
    lines: LineBlock, parsed: ParsedLines, declaration: Declaration, columns: list[Column], folders: Folders
) -> InputRows:
    """Return the values of parsed lines; a line is rejected for its first column that can't be read."""
    converted = {
        column.name: convert_column(parsed.columns[column.name], column, declaration)
        for column in declaration.columns
        if column.name in parsed.columns
    }
    count = len(parsed.kept)
    failures = first_failures(declaration.columns, converted)
    refused = parsed.refused + [(int(parsed.kept[row]), unreadable(column)) for row, column in failures]
    arrays = [
        folders.fill(column, converted[column.name].values)
        if column.name in converted
        else folders.column(column, count)
        for column in columns
    ]
    table = without(pa.table(arrays, names=[column.name for column in columns]), [row for row, _ in failures])
    return InputRows(table, rejected_table((lines.show_line(number), reason) for number, reason in sorted(refused)))


def convert_column(array: pa.Array, column: Column, declaration: Declaration) -> Evaluated:
    if array.type == arrow_type(column.type):
        return Evaluated(array)
    return read_texts(array, column.type, UTC if column.is_local else declaration.zone)


@dataclass(frozen=True, slots=True)
class Format:
    read_footer: Callable[[Source, InputFile, Declaration], Footer]
    read: Callable[[Source, Unit, Declaration, Collection[str]], Iterator[InputRows]]


FORMATS = {
    "parquet": Format(read_groups, read_parquet),
    "csv": Format(partial(check_text, CsvFormat), partial(read_text, CsvFormat)),
    "json": Format(partial(check_text, JsonFormat), partial(read_text, JsonFormat)),
}
