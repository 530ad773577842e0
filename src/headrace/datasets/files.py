"""Parquet files of one time span each, written under a temporary name and renamed when whole."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from itertools import groupby
from operator import itemgetter
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

TIMESTAMP = pa.timestamp("us", tz="UTC")

Piece = tuple[int, pa.Table]
"""Rows of one file, with the number of the time span that the file is for."""


def write_spans(folder: Path, pieces: Iterable[Piece]) -> Iterator[Path]:
    """Write successive pieces of the same span into one file; yield each file's path when it is whole."""
    for number, (_, span) in enumerate(groupby(pieces, key=itemgetter(0))):
        path = folder / f"part-{number:05}.parquet"
        write_parquet(path, (table for _, table in span))
        yield path


def write_parquet(path: Path, tables: Iterable[pa.Table]) -> None:
    """Write tables of one schema as row groups; a file is open only while its rows are being made."""
    with whole_file(path) as temporary:
        tables = iter(tables)
        first = next(tables)
        with _writer(temporary, first.schema) as writer:
            writer.write_table(first)
            for table in tables:
                writer.write_table(table)


def write_text(path: Path, text: str) -> None:
    """Write a text file, whole or not at all."""
    with whole_file(path) as temporary:
        temporary.write_text(text, encoding="utf-8")


@contextmanager
def whole_file(path: Path) -> Iterator[Path]:
    """Give a temporary name that readers skip; rename it to `path` at the end, or remove it if writing fails."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.partial")
    try:
        yield temporary
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


def _writer(path: Path, schema: pa.Schema) -> pq.ParquetWriter:
    """Open a file whose columns are dictionary encoded, apart from timestamps, which hardly repeat."""
    repeating = [column.name for column in schema if not pa.types.is_timestamp(column.type)]
    return pq.ParquetWriter(path, schema, use_dictionary=repeating)
