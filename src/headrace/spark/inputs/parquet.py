"""Parquet: row groups, only the needed columns, in pieces. The footer tells if a file fits before a row is read."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.parquet as pq

from headrace.expressions.columns import Evaluated
from headrace.model.schema import Column
from headrace.model.types import BIGINT
from headrace.spark.inputs.conforming import (
    Folders,
    asked_columns,
    first_failures,
    is_lossless,
    matched,
    read_values,
    rejected_table,
    unreadable,
    without,
)
from headrace.spark.inputs.units import MEND, BadFile, Declaration, InputFile, Rows, Source, Unit, reading

PIECE_ROWS = 1 << 18
BUFFER_BYTES = 4 << 20


@contextmanager
def opened(path: str) -> Iterator[pq.ParquetFile]:
    with (
        reading(path),
        pq.ParquetFile(
            path,
            buffer_size=BUFFER_BYTES,
            coerce_int96_timestamp_unit="us",
            page_checksum_verification=True,
        ) as parquet,
    ):
        yield parquet


@dataclass(frozen=True, eq=False)
class Layout:
    """Where the declared columns are in a file: the name of each in the file, or the value of a folder."""

    names: dict[str, str]
    old_times: frozenset[str]
    folders: Folders

    @classmethod
    def of(cls, source: Source, path: str, parquet: pq.ParquetFile, declaration: Declaration) -> Layout:
        schema = parquet.schema_arrow
        positions = matched(path, schema.names, declaration.columns)
        misfits = [
            column
            for column in declaration.columns
            if column.name in positions and not is_lossless(schema.types[positions[column.name]], column.type)
        ]
        problems = [
            f"column {column.name} is {schema.types[positions[column.name]]} and can't be read as {column.type}"
            for column in misfits
        ]
        if problems:
            detail = "only casts that lose nothing, whatever the values, are made"
            floats = [each for each in misfits if pa.types.is_floating(schema.types[positions[each.name]])]
            is_whole = any(column.type == BIGINT for column in floats)
            hint = "declare it DOUBLE, or write int64" if is_whole else MEND
            raise BadFile(path, "; ".join(problems), detail, hint)
        names = {name: schema.names[position] for name, position in positions.items()}
        held = f"its columns are {', '.join(schema.names)}"
        return cls(names, old_times(parquet), Folders.of(source, path, declaration, names, held))


def old_times(parquet: pq.ParquetFile) -> frozenset[str]:
    """Columns of the retired 96-bit times, which look naive. Spark writes them by default, always in UTC."""
    fields = [parquet.schema.column(position) for position in range(len(parquet.schema))]
    return frozenset(each.path for each in fields if each.physical_type == "INT96")


def cut_parquet(source: Source, file: InputFile, declaration: Declaration, unit_bytes: int) -> list[Unit]:
    """Runs of row groups of about `unit_bytes` in the file."""
    with opened(file.path) as parquet:
        Layout.of(source, file.path, parquet, declaration)
        metadata = parquet.metadata
        groups = [metadata.row_group(group) for group in range(metadata.num_row_groups)]
        sizes = [(group_bytes(group), group.num_rows) for group in groups]
    units: list[Unit] = []
    begin, size, rows = 0, 0, 0
    for group, (group_size, group_rows) in enumerate(sizes):
        if group > begin and size + group_size > unit_bytes:
            units.append(Unit(file.path, begin, group, size, rows))
            begin, size, rows = group, 0, 0
        size += group_size
        rows += group_rows
    return [*units, Unit(file.path, begin, len(sizes), size, rows)] if sizes else units


def group_bytes(group: pq.RowGroupMetaData) -> int:
    return sum(group.column(position).total_compressed_size for position in range(group.num_columns))


def read_parquet(source: Source, unit: Unit, declaration: Declaration, columns: Collection[str]) -> Iterator[Rows]:
    with opened(unit.path) as parquet:
        layout = Layout.of(source, unit.path, parquet, declaration)
        if unit.end > parquet.num_row_groups:
            raise BadFile(unit.path, "has fewer row groups than when it was listed")
        asked = asked_columns(declaration, columns)
        batches = parquet.iter_batches(
            batch_size=PIECE_ROWS,
            row_groups=range(unit.begin, unit.end),
            columns=[layout.names[column.name] for column in asked if column.name in layout.names],
            use_threads=False,
        )
        for batch in batches:
            yield rows_of(batch, layout, asked, declaration, unit.path)


def rows_of(batch: pa.RecordBatch, layout: Layout, asked: list[Column], declaration: Declaration, path: str) -> Rows:
    present = {column.name: found_array(batch, layout, column) for column in asked if column.name in layout.names}
    found: dict[str, Evaluated] = {
        column.name: read_values(present[column.name], column, declaration.zone, path)
        for column in asked
        if column.name in present
    }
    arrays = [
        found[column.name].values if column.name in found else layout.folders.column(column, batch.num_rows)
        for column in asked
    ]
    failures = first_failures(asked, found, batch.num_rows)
    rejected = [(shown(present[column.name][row]), unreadable(column)) for row, column in failures]
    table = pa.table(arrays, names=[column.name for column in asked])
    return Rows(without(table, [row for row, _ in failures]), rejected_table(rejected))


def found_array(batch: pa.RecordBatch, layout: Layout, column: Column) -> pa.Array:
    name = layout.names[column.name]
    array = batch.column(name)
    if name in layout.old_times:
        return array.cast(pa.timestamp("us", tz="UTC"))
    if column.type.name == "STRING":
        array.validate(full=True)  # Arrow takes the bytes of a file as UTF-8 unseen
    return array


def shown(value: pa.Scalar) -> str:
    plain = value.as_py()
    return plain.hex() if isinstance(plain, bytes) else str(plain)
