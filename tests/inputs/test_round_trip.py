"""What was written is read, in every format, through any cut, whichever columns are asked for."""

from __future__ import annotations

import gzip
import tempfile
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.inputs import Source, cut, read, read_table
from headrace.model.schema import Column, Stream, Table
from headrace.model.types import BIGINT, TIMESTAMP
from tests.inputs.samples import (
    COLUMNS,
    NAMES,
    ROWS,
    csv_text,
    file_at,
    json_text,
    read_file,
    rejects,
    table_of,
    write,
)

FORMATS = ["parquet", "csv", "json"]
few = settings(max_examples=40)


@pytest.mark.parametrize("file_format", FORMATS)
@few
@given(rows=ROWS, unit_bytes=st.integers(1, 300), asked=st.sets(st.sampled_from(NAMES)))
def test_round_trip(file_format: str, rows: list[tuple[Any, ...]], unit_bytes: int, asked: set[str]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "part"
        write(path, rows, file_format)
        asked = asked | {"at"}
        if not path.stat().st_size:
            return
        found = read_file(Source(folder, file_format), path, columns=asked, unit_bytes=unit_bytes)
    assert rejects(found) == []
    assert found.table.equals(table_of(rows).select([name for name in NAMES if name in asked]))


@pytest.mark.parametrize("file_format", FORMATS)
@few
@given(parts=st.lists(ROWS, min_size=1, max_size=3))
def test_static_tables_are_all_files_of_a_directory_or_one(
    file_format: str, parts: list[list[tuple[Any, ...]]]
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        for number, rows in enumerate(parts):
            write(Path(folder) / f"part-{number}", [*rows, (None,) * 8], file_format)
        whole = read_table(Source(folder, file_format), Table("t", COLUMNS))
        first = read_table(Source(f"{folder}/part-0", file_format), Table("t", COLUMNS))
    expected = [table_of([*rows, (None,) * 8]) for rows in parts]
    assert first.equals(expected[0])
    assert sorted(map(str, whole.to_pylist())) == sorted(map(str, pa.concat_tables(expected).to_pylist()))


@few
@given(rows=ROWS, is_csv=st.booleans())
def test_compressed_text(rows: list[tuple[Any, ...]], is_csv: bool) -> None:
    text = csv_text(rows) if is_csv else json_text(rows)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "part.gz"
        path.write_bytes(gzip.compress(text.encode()[:20]) + gzip.compress(text.encode()[20:]))
        found = read_file(Source(folder, "csv" if is_csv else "json"), path, unit_bytes=1)
    assert found.table.equals(table_of(rows))


@few
@given(rows=ROWS)
def test_csv_without_a_header_is_in_declared_order(rows: list[tuple[Any, ...]]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "part"
        path.write_text("\ufeff" + csv_text(rows, header=False), encoding="utf-8", newline="")
        found = read_file(Source(folder, "csv", {"header": "false"}), path, unit_bytes=50)
    assert found.table.equals(table_of(rows))


def test_no_piece_is_larger_than_a_million_rows(tmp_path: Path) -> None:
    stream = Stream("s", (Column("at", TIMESTAMP), Column("n", BIGINT)), "at")
    (tmp_path / "a").write_text("at,n\n" + ",1\n" * 2_100_000)
    source = Source(str(tmp_path), "csv")
    (unit,) = cut(source, file_at(tmp_path / "a"), stream)
    sizes = [rows.table.num_rows for rows in read(source, unit, stream, ["at"])]
    assert sum(sizes) == 2_100_000
    assert max(sizes) <= 1_000_000
