"""What comes over a wire, made into rows: JSON lines or Arrow, by the same parsers that read files."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from itertools import groupby
from typing import Any, NamedTuple

import pyarrow as pa

from headrace.kernel.conversion import check_schema, convert_table, rejected_table
from headrace.model.arrow import conform
from headrace.model.errors import DataError
from headrace.model.schema import Stream
from headrace.spark.inputs import Rows
from headrace.spark.inputs.folders import Folders
from headrace.spark.inputs.json_lines import JsonFormat
from headrace.spark.inputs.lines import Lines, parse
from headrace.spark.inputs.reading import typed_rows
from headrace.spark.inputs.units import Declaration

MOST_LINE_BYTES = 1 << 20
MOST_MESSAGE_BYTES = 16 << 20
"""Of Arrow: a longer message ends its connection."""
BLOCK_BYTES = 1 << 18
NOWHERE = Folders({})
Read = Callable[[int], bytes]
"""Some bytes, at most so many; none at the end."""


class Bad(NamedTuple):
    """Something that was no row, and why."""

    reason: str


Item = Any
"""What a channel brings: whole lines as bytes, a RecordBatch, or something Bad."""


class Bounded:
    """A file that Arrow reads from. What a stranger sends does not make it take more memory than allowed."""

    closed = False

    def __init__(self, read: Read) -> None:
        self.read_some = read

    def read(self, count: int) -> bytes:
        if not 0 <= count <= MOST_MESSAGE_BYTES:
            raise ValueError(f"a message of {count:,} bytes")
        found = bytearray()
        while len(found) < count and (piece := self.read_some(count - len(found))):
            found += piece
        return bytes(found)

    def readable(self) -> bool:
        return True

    def close(self) -> None:
        self.closed = True


def lines_in(read: Read) -> Iterator[Item]:
    """Blocks of whole lines. A line that is too long is passed over, and is bad."""
    pending, is_passing = b"", False
    while piece := read(BLOCK_BYTES):
        if is_passing:
            _, newline, piece = piece.partition(b"\n")
            is_passing = not newline
        whole, newline, rest = piece.rpartition(b"\n")
        if newline:
            yield pending + whole + newline
            pending = b""
        pending += rest
        if len(pending) > MOST_LINE_BYTES:
            yield Bad(f"a line of more than {MOST_LINE_BYTES >> 20} MB")
            pending, is_passing = b"", True
    if pending:
        yield pending + b"\n"


def batches_in(read: Read) -> Iterator[Item]:
    """The batches of an Arrow stream, up to where it is damaged."""
    try:
        with pa.ipc.open_stream(pa.PythonFile(Bounded(read), mode="r")) as reader:
            for batch in reader:
                batch.validate(full=True)
                yield batch
    except (pa.ArrowException, EOFError, ValueError) as problem:
        yield Bad(f"no Arrow stream, or a damaged one: {problem}")
    except OSError as problem:
        if problem.errno is not None:
            raise
        yield Bad(f"a damaged Arrow stream: {problem}")


def rows_in(items: list[Item], stream: Stream, columns: Collection[str]) -> Rows:
    """The rows of items in their order. Lines that follow each other are parsed at once."""
    found = [bad_rows(stream, columns, [])]
    for kind, group in groupby(items, type):
        same = list(group)
        if kind is bytes:
            found += json_rows(b"".join(same), stream, columns)
        elif kind is Bad:
            found.append(bad_rows(stream, columns, [item.reason for item in same]))
        else:
            found += [arrow_rows(batch, stream, columns) for batch in same]
    table = pa.concat_tables([rows.table for rows in found]).combine_chunks()
    return Rows(table, pa.concat_tables([rows.rejected for rows in found]))


def json_rows(lines: bytes, stream: Stream, columns: Collection[str]) -> list[Rows]:
    declaration, layout = Declaration.of(stream), JsonFormat(stream.columns, 0)
    asked = declaration.asked(columns)
    return [
        typed_rows(part, parsed, declaration, asked, NOWHERE)
        for part, parsed in parse(Lines.of(lines), layout.fast, layout.slow)
    ]


def arrow_rows(batch: pa.RecordBatch, stream: Stream, columns: Collection[str]) -> Rows:
    """A batch whose columns can't be read as declared is bad with all its rows."""
    try:
        check_schema(batch.schema, stream)
        found = convert_table(pa.Table.from_batches([batch]), stream.columns, stream.zone)
    except (DataError, pa.ArrowException) as problem:
        return bad_rows(stream, columns, [str(problem)] * batch.num_rows)
    return Rows(found.table.select([each.name for each in Declaration.of(stream).asked(columns)]), found.rejected)


def bad_rows(stream: Stream, columns: Collection[str], reasons: list[str]) -> Rows:
    asked = Declaration.of(stream).asked(columns)
    return Rows(conform(pa.table({}), asked), rejected_table(("", reason) for reason in reasons))
