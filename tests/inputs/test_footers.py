"""Footers of many files, and the size of units. A file that is spoiled unnoticed shows what was kept."""

from __future__ import annotations

import os
from pathlib import Path
from threading import Barrier, Event

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.inputs import BadFile, FooterReader, Source, choose_unit_bytes, footers
from headrace.inputs.readers import MAX_UNIT_BYTES, MIN_UNIT_BYTES, UNITS_PER_TASK
from headrace.model.schema import Stream
from headrace.model.units import InputFile
from tests.inputs.samples import STREAM, file_at

AT = pa.timestamp("us", tz="UTC")


def write_files(folder: Path, count: int) -> list[InputFile]:
    """Write files of one row, two rows and so on, each row in a group of its own."""
    for number in range(count):
        times = pa.array(range(number + 1), AT)
        pq.write_table(pa.table({"at": times}), folder / f"{number:03}", row_group_size=1)
    return [file_at(folder / f"{number:03}") for number in range(count)]


def spoil(file: InputFile) -> bytes:
    """Make a file unreadable that looks the same; return what was in it."""
    whole = Path(file.path).read_bytes()
    restore(file, b"\0" * file.size)
    return whole


def restore(file: InputFile, data: bytes) -> None:
    Path(file.path).write_bytes(data)
    os.utime(file.path, ns=(file.modified_ns, file.modified_ns))


@pytest.fixture
def reader(tmp_path: Path) -> FooterReader:
    return FooterReader(Source(str(tmp_path)), STREAM)


@pytest.mark.parametrize("slow_s", [0.0, 60.0])
def test_every_file_has_its_own_outcome(
    tmp_path: Path, reader: FooterReader, slow_s: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(footers, "SLOW_S", slow_s)
    files = write_files(tmp_path, 40)
    for file in files[::7]:
        spoil(file)
    outcomes = reader.read(files)
    assert outcomes.keys() == set(files)
    for number, file in enumerate(files):
        outcome = outcomes[file]
        if number % 7:
            assert isinstance(outcome, tuple)
            assert [group.rows for group in outcome] == [1] * (number + 1)
        else:
            assert isinstance(outcome, BadFile)
            assert outcome.path == file.path


def test_files_of_slow_storage_are_read_at_the_same_time(
    tmp_path: Path, reader: FooterReader, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each slow file adds a thread: after three of them four files are open at once, or none of the four is read."""
    monkeypatch.setattr(footers, "SLOW_S", -1.0)
    monkeypatch.setattr(footers, "MAX_THREADS", 4)
    files, together = write_files(tmp_path, 7), Barrier(4)

    def read_footer(_source: Source, file: InputFile, _stream: Stream) -> None:
        if file in files[3:]:
            together.wait(60)

    monkeypatch.setattr(footers, "read_footer", read_footer)
    assert reader.read(files) == dict.fromkeys(files)


def test_a_file_that_looks_the_same_is_not_opened_again(tmp_path: Path, reader: FooterReader) -> None:
    files = write_files(tmp_path, 3)
    before = reader.read(files)
    spoil(files[1])
    assert reader.read(files) == before
    os.utime(files[1].path, ns=(1, 1))
    changed = file_at(Path(files[1].path))
    assert isinstance(reader.read([changed])[changed], BadFile)


def test_an_error_is_not_kept(tmp_path: Path, reader: FooterReader) -> None:
    (file,) = write_files(tmp_path, 1)
    whole = spoil(file)
    assert isinstance(reader.read([file])[file], BadFile)
    restore(file, whole)
    assert isinstance(reader.read([file])[file], tuple)


def test_the_oldest_footers_are_forgotten(
    tmp_path: Path, reader: FooterReader, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(footers, "MAX_KEPT", 3)
    files = write_files(tmp_path, 5)
    for file in files:
        reader.read([file])
        spoil(file)
    outcomes = reader.read(files)
    assert [isinstance(outcomes[file], BadFile) for file in files] == [True, True, False, False, False]


def test_nothing_is_read_after_a_stop(tmp_path: Path, reader: FooterReader) -> None:
    stop = Event()
    stop.set()
    assert reader.read(write_files(tmp_path, 3), stop) == {}


@given(st.integers(1, 1 << 40), st.integers(1, 1_000))
def test_every_task_has_a_few_units(input_bytes: int, tasks: int) -> None:
    unit_bytes = choose_unit_bytes(input_bytes, tasks)
    assert MIN_UNIT_BYTES <= unit_bytes <= MAX_UNIT_BYTES
    assert unit_bytes == MIN_UNIT_BYTES or input_bytes // unit_bytes >= tasks * UNITS_PER_TASK
