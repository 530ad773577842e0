"""Text in blocks of whole lines. A unit owns the lines that start in it, so any cut gives each line exactly once.

A line ends with a newline, before which a carriage return is no part of it. Empty lines are passed over. The mark of
byte order at the beginning of a file is no part of its first line.
"""

from __future__ import annotations

import codecs
import gzip
import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, BinaryIO, cast

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from headrace.inputs.source import BadFile, reading
from headrace.model.units import InputFile, Unit

BLOCK_BYTES = 8 << 20
LINE_BYTES = 1 << 16
"""What is read at once to find the end of a line."""
MAX_LINE_BYTES = 16 << 20
SLOW_LINES = 64
NEWLINE, RETURN = 10, 13


@dataclass(frozen=True, eq=False)
class LineBlock:
    """The lines of a block of text that are not empty: bytes [starts[i], ends[i]) of `data`."""

    data: bytes
    starts: NDArray[np.int64]
    ends: NDArray[np.int64]

    @classmethod
    def of(cls, data: bytes) -> LineBlock:
        characters = np.frombuffer(data or b"\n", np.uint8)
        newlines = np.flatnonzero(characters == NEWLINE)
        starts, ends = np.append(0, newlines + 1), np.append(newlines, len(data))
        ends = ends - ((ends > starts) & (characters[np.maximum(ends, 1) - 1] == RETURN))
        return cls(data, starts[ends > starts], ends[ends > starts])

    def __len__(self) -> int:
        return len(self.starts)

    def raw(self, number: int) -> bytes:
        return self.data[self.starts[number] : self.ends[number]]

    def show_line(self, number: int) -> str:
        return self.raw(number).decode(errors="replace")

    def part(self, begin: int, end: int) -> LineBlock:
        """Return lines with their ends, since a carriage return before one means nothing when it is cut off."""
        return LineBlock.of(self.data[self.starts[begin] : self.starts[end] if end < len(self) else None])


@dataclass(frozen=True, eq=False)
class ParsedLines:
    """Columns by declared name, as texts or as values already; the line of each row; refused lines with a reason."""

    columns: dict[str, pa.Array]
    kept: NDArray[np.int64]
    refused: list[tuple[int, str]]


def parse(
    lines: LineBlock,
    fast: Callable[[LineBlock], ParsedLines | None],
    slow: Callable[[LineBlock], ParsedLines],
    slow_lines: int = SLOW_LINES,
) -> Iterator[tuple[LineBlock, ParsedLines]]:
    """Parse lines. The fast parser takes all of them or none; the slow one finds the bad lines where it does not."""
    if not len(lines):
        return
    parsed = fast(lines)
    if parsed is not None:
        yield lines, parsed
    elif len(lines) <= slow_lines:
        yield lines, slow(lines)
    else:
        middle = len(lines) // 2
        yield from parse(lines.part(0, middle), fast, slow, slow_lines)
        yield from parse(lines.part(middle, len(lines)), fast, slow, slow_lines)


def parse_slowly(
    lines: LineBlock, types: Mapping[str, pa.DataType], read_row: Callable[[str], Mapping[str, Any] | None]
) -> ParsedLines:
    """Parse line by line. `read_row` raises ValueError for a line to refuse, and returns None for one to pass over."""
    values: dict[str, list[Any]] = {name: [] for name in types}
    kept: list[int] = []
    refused: list[tuple[int, str]] = []
    for number in range(len(lines)):
        try:
            row = read_row(lines.raw(number).decode())
        except UnicodeDecodeError:
            refused.append((number, "not valid UTF-8"))
        except ValueError as problem:
            refused.append((number, str(problem)))
        else:
            if row is not None:
                kept.append(number)
                for name, column in values.items():
                    column.append(row.get(name))
    columns = {name: pa.array(values[name], data_type) for name, data_type in types.items()}
    return ParsedLines(columns, np.array(kept, np.int64), refused)


def decode_text(data: bytes) -> str | None:
    """Return the text of UTF-8 bytes, or None if they are not UTF-8."""
    try:
        return data.decode()
    except UnicodeDecodeError:
        return None


def is_compressed(path: str) -> bool:
    return path.lower().endswith(".gz")


def open_text(path: str) -> BinaryIO:
    return cast(BinaryIO, gzip.open(path, "rb")) if is_compressed(path) else open(path, "rb", buffering=0)


def cut_bytes(file: InputFile, unit_bytes: int) -> list[Unit]:
    """Cut a file into equal ranges of about `unit_bytes`."""
    if is_compressed(file.path):
        return [Unit(file.path, 0, file.size, file.size)]
    count = max(1, round(file.size / unit_bytes))
    edges = [file.size * number // count for number in range(count + 1)]
    return [Unit(file.path, begin, end, end - begin) for begin, end in pairwise(edges)]


def first_line(path: str) -> tuple[bytes, int, int]:
    """Return the first line, and the bytes at which it and the line after it begin."""
    with reading(path), open_text(path) as file:
        data = b""
        while b"\n" not in data and (piece := file.read(LINE_BYTES)):
            data += piece
            check_length(path, data)
        start = len(codecs.BOM_UTF8) if data.startswith(codecs.BOM_UTF8) else 0
        line, newline, _ = data[start:].partition(b"\n")
        return line.removesuffix(b"\r"), start, start + len(line) + len(newline)


def check_length(path: str, line: bytes) -> None:
    if len(line) > MAX_LINE_BYTES:
        raise BadFile(path, f"has a line of more than {MAX_LINE_BYTES >> 20} MB")


def owned_blocks(unit: Unit, first: int, block_bytes: int = BLOCK_BYTES) -> Iterator[bytes]:
    """Yield the lines of a unit in blocks. The first line of the file that counts begins at byte `first`."""
    with reading(unit.path), open_text(unit.path) as file:
        end = unit.end
        if is_compressed(unit.path):
            end = 1 << 62
        elif os.fstat(file.fileno()).st_size < end:
            raise BadFile(unit.path, "is shorter than it was when it was listed")
        start = first_start(file, unit.begin, end, first)
        pending = b""
        while start < end:
            ahead = end - start - len(pending)
            piece = file.read(min(block_bytes, max(ahead, LINE_BYTES, len(pending))))
            pending += piece
            ready = ready_bytes(pending, end - start, is_last=not piece)
            if ready:
                yield pending[:ready]
            if not piece:
                return
            pending, start = pending[ready:], start + ready
            check_length(unit.path, pending)


def first_start(file: BinaryIO, begin: int, end: int, first: int) -> int:
    """Return where the first owned line starts, with the file there; `end` or more if there is none."""
    if begin <= first:
        file.seek(first)
        return first
    position = begin - 1
    file.seek(position)
    while position < end and (piece := file.read(LINE_BYTES)):
        newline = piece.find(b"\n")
        if newline >= 0:
            file.seek(position + newline + 1)
            return position + newline + 1
        position += len(piece)
    return end


def ready_bytes(pending: bytes, owned: int, is_last: bool) -> int:
    """Return how many bytes make up whole lines that start among the first `owned` ones."""
    if len(pending) >= owned:
        newline = pending.find(b"\n", owned - 1)
        if newline >= 0:
            return newline + 1
    return len(pending) if is_last else pending.rfind(b"\n") + 1
