"""Any cut of a text into units, and any size of blocks, gives each line exactly once."""

from __future__ import annotations

import gzip
import tempfile
from itertools import pairwise
from pathlib import Path
from typing import BinaryIO

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.inputs import BadFile, Source, lines
from headrace.inputs.lines import LINE_BYTES, LineBlock, first_line, owned_blocks
from headrace.model.units import Unit
from tests.inputs.samples import STREAM, csv_text, file_at, read_file, read_units

TEXTS = st.lists(st.sampled_from([b"", b"a", b"bb,\xc3\xa9", b"\r", b"\xff", b"long" * 9, b'"q"']), max_size=12)
ENDS = st.sampled_from([b"\n", b"\r\n"])


def expected(text: bytes) -> list[bytes]:
    return [line for line in (each.removesuffix(b"\r") for each in text.split(b"\n")) if line]


@given(st.data(), TEXTS, ENDS, st.booleans(), st.booleans(), st.integers(1, 40))
def test_each_line_once(
    data: st.DataObject, texts: list[bytes], end: bytes, is_ended: bool, has_mark: bool, block_bytes: int
) -> None:
    text = end.join(texts) + (end if is_ended else b"")
    whole = (b"\xef\xbb\xbf" if has_mark else b"") + text
    cuts = data.draw(st.lists(st.integers(0, len(whole)), max_size=6))
    edges = sorted({0, len(whole), *cuts})
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "text"
        path.write_bytes(whole)
        line, start, after = first_line(str(path))
        units = [Unit(str(path), begin, stop, 0) for begin, stop in pairwise(edges)]
        found = [[*owned_blocks(unit, start, block_bytes)] for unit in units]
        rest = [[*owned_blocks(unit, after, block_bytes)] for unit in units]
    assert b"".join(b"".join(blocks) for blocks in found) == text
    assert b"".join(b"".join(blocks) for blocks in rest) == whole[after:]
    assert (line, start) == (text.split(b"\n")[0].removesuffix(b"\r"), 3 if has_mark else 0)
    read = [block for blocks in found for block in blocks]
    assert [each.raw(number) for each in map(LineBlock.of, read) for number in range(len(each))] == expected(text)


def test_a_unit_reads_little_beyond_its_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "text"
    path.write_bytes(b"0123456\n" * 100_000)
    opened: list[BinaryIO] = []

    def open_text(path: str) -> BinaryIO:
        opened.append(open_unbuffered(path))
        return opened[-1]

    open_unbuffered = lines.open_text
    monkeypatch.setattr(lines, "open_text", open_text)
    positions = []
    for _ in owned_blocks(Unit(str(path), 100_000, 200_000, 100_000), 0):
        positions.append(opened[-1].tell())
    assert max(positions) <= 200_000 + LINE_BYTES


@given(TEXTS.filter(any), ENDS)
def test_parts_of_a_block(texts: list[bytes], end: bytes) -> None:
    whole = LineBlock.of(end.join(texts))
    middle = len(whole) // 2
    parts = [whole.part(begin, stop) for begin, stop in ((0, middle), (middle, len(whole))) if begin < stop]
    assert [each.raw(number) for each in parts for number in range(len(each))] == expected(end.join(texts))


def test_a_cut_at_each_byte_of_a_csv_file(tmp_path: Path) -> None:
    rows = [(number, None, number, 1.5, None, None, f"é{number}", None) for number in range(5)]
    path = tmp_path / "part.csv"
    path.write_bytes(csv_text(rows).replace("\n", "\r\n").encode())
    source = Source(str(tmp_path), "csv")
    whole = read_file(source, path)
    assert whole.table.num_rows == 5
    for cut_at in range(1, path.stat().st_size):
        units = [Unit(str(path), 0, cut_at, 0), Unit(str(path), cut_at, path.stat().st_size, 0)]
        assert read_units(source, units, STREAM, ["at", "n", "word"]).table.equals(
            whole.table.select(["at", "n", "word"])
        )


def test_a_line_without_end_is_a_bad_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lines, "MAX_LINE_BYTES", 1 << 20)
    (tmp_path / "a").write_bytes(b"{}\n" + b"x" * (3 << 20))
    unit = Unit(str(tmp_path / "a"), 0, 10, 10)
    with pytest.raises(BadFile, match="a line of more than 1"):
        list(owned_blocks(unit, 0, 1 << 19))
    assert [*owned_blocks(Unit(str(tmp_path / "a"), 10, 3 << 20, 0), 0)] == []


def test_a_file_that_shrank(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"{}\n")
    file = file_at(tmp_path / "a")
    (tmp_path / "a").write_bytes(b"{")
    with pytest.raises(BadFile, match="shorter"):
        list(owned_blocks(Unit(file.path, 0, file.size, 0), 0))


@pytest.mark.parametrize("damage", [b"", b"\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\x03\xff\xff\xff", b"plain"])
def test_damaged_compression(tmp_path: Path, damage: bytes) -> None:
    whole = gzip.compress(b'{"at": null}\n' * 1000)
    (tmp_path / "a.gz").write_bytes(damage or whole[:-12])
    with pytest.raises(BadFile, match=r"a\.gz: is damaged"):
        read_file(Source(str(tmp_path), "json"), tmp_path / "a.gz")
