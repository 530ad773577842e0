"""Parquet: row groups to units, drifting types, damage."""

from __future__ import annotations

import random
from contextlib import suppress
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.inputs import BadFile, InputRows, Source, cut
from headrace.inputs.conversion import is_lossless
from headrace.model.schema import Column, Stream
from headrace.model.types import ADDRESS, TIMESTAMP, DataType, decimal
from tests.inputs.samples import STREAM, file_at, read_file, rejects, table_of

AT = pa.array([0, 1], pa.timestamp("us", tz="UTC"))
NEW_YORK = ZoneInfo("America/New_York")


def stream_of(data_type: DataType, zone: Any = UTC) -> Stream:
    return Stream("s", (Column("at", TIMESTAMP), Column("v", data_type)), "at", zone=zone)


def read_column(folder: Path, array: pa.Array, data_type: DataType, zone: Any = UTC, **options: Any) -> InputRows:
    at = pa.repeat(AT[0], len(array))
    pq.write_table(pa.table({"at": at, "V": array}), folder / "part", **options)
    return read_file(Source(str(folder)), folder / "part", stream_of(data_type, zone))


@given(st.integers(1, 38), st.integers(0, 38), st.integers(1, 38), st.integers(0, 38))
def test_decimals_fit_if_their_widest_numbers_do(precision: int, scale: int, wider: int, finer: int) -> None:
    scale, finer = min(scale, precision), min(finer, wider)
    widest = pa.array([Decimal((0, (9,) * precision, -scale))], pa.decimal128(precision, scale))
    try:
        widest.cast(pa.decimal128(wider, finer))
        fits = scale <= finer
    except pa.ArrowInvalid:
        fits = False
    assert is_lossless(widest.type, decimal(wider, finer)) is fits


@pytest.mark.parametrize(
    ("array", "data_type", "raw"),
    [
        (pa.array(["yesterday", "2026-01-01"]), TIMESTAMP, "yesterday"),
        (pa.array(["10.0.0.300", "::1"]).dictionary_encode(), ADDRESS, "10.0.0.300"),
        (pa.array([-1, 1]), ADDRESS, "-1"),
        (pa.array([b"abc", b"abcd"]), ADDRESS, "616263"),
    ],
)
def test_values_that_can_not_be_read(tmp_path: Path, array: pa.Array, data_type: DataType, raw: str) -> None:
    found = read_column(tmp_path, array, data_type)
    assert rejects(found) == [(raw, f"column v can't be read as {data_type}")]
    assert found.table.num_rows == 1


def test_missing_extra_and_ambiguous_columns(tmp_path: Path) -> None:
    source, path = Source(str(tmp_path)), tmp_path / "part"
    pq.write_table(pa.table({"extra": [1, 2], "AT": AT, "n": [3, 4], "N": [5, 6]}), path)
    found = read_file(source, path, columns=["n", "word", "at"]).table
    assert found.column_names == ["at", "n", "word"]
    assert found.select(["n", "word"]).to_pylist() == [{"n": 3, "word": None}, {"n": 4, "word": None}]
    pq.write_table(pa.table({"at": AT, "WORD": ["a", "b"], "Word": ["c", "d"]}), path)
    with pytest.raises(BadFile, match="has 2 columns 'word'"):
        read_file(source, path)
    pq.write_table(pa.table({"n": [1]}), path)
    with pytest.raises(BadFile, match="has no column 'at', the event time"):
        cut(source, file_at(path), STREAM)


def test_naive_times_are_in_the_zone_of_the_stream_and_old_ones_in_utc(tmp_path: Path) -> None:
    noon = pa.array([datetime.fromisoformat("2026-07-01T12:00:00"), None])
    utc = [datetime(2026, 7, 1, 16, tzinfo=UTC), None]
    assert read_column(tmp_path, noon, TIMESTAMP, NEW_YORK).table["v"].to_pylist() == utc
    old = read_column(tmp_path, noon, TIMESTAMP, NEW_YORK, use_deprecated_int96_timestamps=True)
    assert old.table["v"].to_pylist() == [datetime(2026, 7, 1, 12, tzinfo=UTC), None]


def test_units_are_runs_of_row_groups(tmp_path: Path) -> None:
    path = tmp_path / "part"
    pq.write_table(pa.table({"at": pa.array(range(1000), AT.type)}), path, row_group_size=100)
    source = Source(str(tmp_path))
    for unit_bytes in (1, 500, 1_000, 1 << 20):
        units = cut(source, file_at(path), STREAM, unit_bytes)
        groups = [group for unit in units for group in range(unit.begin, unit.end)]
        assert groups == list(range(10))
        assert all(unit.size <= unit_bytes or unit.end == unit.begin + 1 for unit in units)
        assert sum(unit.size for unit in units) <= file_at(path).size
    pq.write_table(table_of([]), path)
    assert read_file(source, path).table.num_rows == 0


def test_damaged_files(tmp_path: Path) -> None:
    """Whatever byte is wrong: rows, or BadFile and no other error."""
    path, source = tmp_path / "part", Source(str(tmp_path))
    table = pa.table({"at": pa.array(range(500), AT.type), "word": [f"é{number % 7}" for number in range(500)]})
    pq.write_table(table, path, write_page_checksum=True)
    whole = path.read_bytes()
    assert read_file(source, path).table.num_rows == 500
    damages = [
        b"",
        b"PAR1",
        whole[:-1],
        whole[: len(whole) // 2],
        whole[:100] + b"\xff" * 40 + whole[140:],
        b"text" * 9,
    ]
    for damage in damages:
        path.write_bytes(damage)
        with pytest.raises(BadFile, match="part: is damaged"):
            read_file(source, path)
    draw = random.Random(7)
    for _ in range(100):
        place = draw.randrange(4, len(whole) // 2)
        path.write_bytes(whole[:place] + bytes([whole[place] ^ 0x41]) + whole[place + 1 :])
        with suppress(BadFile):
            read_file(source, path)


def test_texts_that_are_not_utf8_make_a_bad_file(tmp_path: Path) -> None:
    raw = pa.array([b"\xff"])
    broken = pa.Array.from_buffers(pa.string(), 1, raw.buffers())
    pq.write_table(pa.table({"at": AT[:1], "word": broken}), tmp_path / "part")
    with pytest.raises(BadFile, match="is damaged"):
        read_file(Source(str(tmp_path)), tmp_path / "part")


def test_a_file_that_is_gone_or_closed_to_us(tmp_path: Path) -> None:
    pq.write_table(table_of([]), tmp_path / "part")
    file = file_at(tmp_path / "part")
    (tmp_path / "part").unlink()
    for file_format in ("parquet", "csv", "json"):
        with pytest.raises(BadFile, match="part: can't be opened"):
            cut(Source(str(tmp_path), file_format), file, STREAM)


def test_a_file_that_is_refused_says_a_way_out(tmp_path: Path) -> None:
    times = pa.array([0], pa.timestamp("us", "UTC"))
    pq.write_table(pa.table({"at": times, "price": [2.0]}), tmp_path / "a.parquet")
    with pytest.raises(BadFile, match=r"column price is double and can't be read as DECIMAL\(12, 3\)") as problem:
        read_file(Source(str(tmp_path)), tmp_path / "a.parquet")
    assert problem.value.hint == "declare it DOUBLE"
    pq.write_table(pa.table({"when": times}), tmp_path / "b.parquet")
    with pytest.raises(BadFile, match="has no column 'at'") as problem:
        read_file(Source(str(tmp_path)), tmp_path / "b.parquet")
    assert problem.value.detail == "its columns are when"
