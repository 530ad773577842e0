"""Parquet: row groups, only the needed columns, in pieces. The footer shows if a file fits before a row is read."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.parquet as pq

from headrace.inputs.conversion import check_types, convert_rows, is_read_by_value, match_columns
from headrace.inputs.folders import Folders
from headrace.inputs.source import (
    BadFile,
    Declaration,
    InputRows,
    RowGroup,
    Source,
    reading,
)
from headrace.model.units import InputFile, Unit

PIECE_ROWS = 1 << 18
BUFFER_BYTES = 4 << 20


@contextmanager
def open_parquet(path: str) -> Iterator[pq.ParquetFile]:
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
class ParquetLayout:
    """Where the declared columns are in a file: the name of each in the file, or the value of a folder. Those in
    `by_value` are read whichever are asked for: a row is rejected or not whatever the queries.
    """

    names: dict[str, str]
    old_times: frozenset[str]
    folders: Folders
    by_value: frozenset[str]

    @classmethod
    def of(cls, source: Source, path: str, parquet: pq.ParquetFile, declaration: Declaration) -> ParquetLayout:
        schema = parquet.schema_arrow
        positions = match_columns(schema.names, declaration.columns)
        types = {name: schema.types[position] for name, position in positions.items()}
        check_types(types, declaration.columns)
        names = {name: schema.names[position] for name, position in positions.items()}
        declared = {column.name: column.type for column in declaration.columns}
        by_value = {name for name, arrow in types.items() if is_read_by_value(arrow, declared[name])}
        held = f"its columns are {', '.join(schema.names)}"
        folders = Folders.of(source, path, declaration, names, held)
        return cls(names, old_times(parquet), folders, frozenset(by_value))


def old_times(parquet: pq.ParquetFile) -> frozenset[str]:
    """Return columns of retired 96-bit times, which look naive. Spark writes them by default, always in UTC."""
    fields = [parquet.schema.column(position) for position in range(len(parquet.schema))]
    return frozenset(field.path for field in fields if field.physical_type == "INT96")


def read_groups(source: Source, file: InputFile, declaration: Declaration) -> tuple[RowGroup, ...]:
    """Return the row groups of a file; BadFile if its columns do not fit."""
    with open_parquet(file.path) as parquet:
        ParquetLayout.of(source, file.path, parquet, declaration)
        metadata = parquet.metadata
        groups = [metadata.row_group(group) for group in range(metadata.num_row_groups)]
        return tuple(RowGroup(group_bytes(group), group.num_rows) for group in groups)


def cut_groups(file: InputFile, groups: Sequence[RowGroup], unit_bytes: int) -> list[Unit]:
    """Cut a file into runs of row groups of about `unit_bytes`."""
    units: list[Unit] = []
    begin, size, rows = 0, 0, 0
    for group, (group_size, group_rows) in enumerate(groups):
        if group > begin and size + group_size > unit_bytes:
            units.append(Unit(file.path, begin, group, size, rows))
            begin, size, rows = group, 0, 0
        size += group_size
        rows += group_rows
    return [*units, Unit(file.path, begin, len(groups), size, rows)] if groups else units


def group_bytes(group: pq.RowGroupMetaData) -> int:
    return sum(group.column(position).total_compressed_size for position in range(group.num_columns))


def read_parquet(source: Source, unit: Unit, declaration: Declaration, columns: Collection[str]) -> Iterator[InputRows]:
    with open_parquet(unit.path) as parquet:
        layout = ParquetLayout.of(source, unit.path, parquet, declaration)
        if unit.end > parquet.num_row_groups:
            raise BadFile(unit.path, "has fewer row groups than when it was listed")
        needed = declaration.select_columns({*columns, *layout.by_value})
        present = [column.name for column in needed if column.name in layout.names]
        names = [column.name for column in declaration.select_columns(columns)]
        batches = parquet.iter_batches(
            batch_size=PIECE_ROWS,
            row_groups=range(unit.begin, unit.end),
            columns=[layout.names[name] for name in present],
            use_threads=False,
        )
        for batch in batches:
            arrays = {name: stored_array(batch, layout, name) for name in present}
            rows = convert_rows(arrays, needed, declaration.zone, batch.num_rows, layout.folders.column)
            yield InputRows(rows.table.select(names), rows.rejected)


def stored_array(batch: pa.RecordBatch, layout: ParquetLayout, column: str) -> pa.Array:
    name = layout.names[column]
    array = batch.column(name)
    return array.cast(pa.timestamp("us", tz="UTC")) if name in layout.old_times else array
