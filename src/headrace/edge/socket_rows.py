"""What comes over a wire, made into rows: JSON lines or Arrow, by the same parsers that read files.

The sender is not trusted: what is read takes memory in proportion to what was received.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from itertools import groupby
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headrace.edge.intake import Intake, Refused, concat, intake_of, refused_only, runs_of
from headrace.inputs import InputRows
from headrace.inputs.conversion import check_schema, convert_table
from headrace.inputs.folders import Folders
from headrace.inputs.json_lines import JsonFormat
from headrace.inputs.lines import LineBlock, parse
from headrace.inputs.readers import typed_rows
from headrace.inputs.source import Declaration
from headrace.model.arrow import is_bytes, is_text
from headrace.model.errors import DataError
from headrace.model.schema import Stream
from headrace.wire.arrow_messages import LENGTH, ROWS, read_message

MAX_LINE_BYTES = 1 << 20
MAX_MESSAGE_BYTES = 16 << 20
"""Of Arrow: a longer message ends its connection."""
MAX_METADATA_BYTES = 1 << 17
"""Of a message of Arrow, its schema for one."""
MAX_BATCH_ROWS = 1 << 20
MAX_EXPANSION, MIN_DECODED_BYTES, MAX_DECODED_BYTES = 64, 1 << 20, 64 << 20
"""Values of dictionaries, once each row has its own, take at most this many times the bytes of their batch."""
PIECE_ROWS = 1 << 16
"""Rows of a batch that are read at a time."""
BLOCK_BYTES = 1 << 18
PARSED_BYTES = 1 << 20
"""Lines that are parsed at a time."""
CONTINUATION = b"\xff\xff\xff\xff"
SAMPLE_BYTES = 32
NOWHERE = Folders({})
Read = Callable[[int], bytes]
"""A function that returns some bytes, at most the given number; none at the end."""


Item = Any
"""What a channel brings: whole lines as bytes, a RecordBatch, or something Refused."""


def refused_bytes(reason: str, data: bytes) -> Refused:
    return Refused(reason, sample=repr(data[:SAMPLE_BYTES]))


class Messages:
    """Whole messages as a file that Arrow reads from; each is checked before. `size` is that of the last one."""

    closed = False

    def __init__(self, read: Read) -> None:
        self.read_some = read
        self.data, self.place, self.size = b"", 0, 0
        self.first = b""

    def read(self, count: int) -> bytes:
        if self.place == len(self.data):
            self.data, self.place = self.next_message(), 0
            self.size = len(self.data)
            self.first = self.first or self.data[:SAMPLE_BYTES]
        begin, self.place = self.place, min(self.place + max(count, 0), len(self.data))
        return self.data[begin : self.place]

    def next_message(self) -> bytes:
        """As far as it comes: Arrow says what one lacks that is cut off."""
        head = self.read_bytes(LENGTH.size)
        if head == CONTINUATION:
            head += self.read_bytes(LENGTH.size)
        (length,) = LENGTH.unpack(head[-LENGTH.size :]) if len(head) >= LENGTH.size else (0,)
        if length > MAX_METADATA_BYTES:
            self.first = self.first or head
            raise ValueError(f"a message with {length:,} bytes of metadata, {MAX_METADATA_BYTES:,} are allowed")
        metadata = self.read_bytes(length)
        if not length or len(metadata) < length:
            return head + metadata
        return head + metadata + self.read_bytes(checked_body_bytes(metadata))

    def read_bytes(self, count: int) -> bytes:
        data = bytearray()
        while len(data) < count and (piece := self.read_some(count - len(data))):
            data += piece
        return bytes(data)

    def readable(self) -> bool:
        return True

    def close(self) -> None:
        self.closed = True


def checked_body_bytes(metadata: bytes) -> int:
    """The bytes that follow the metadata of a message; a ValueError if they could take any amount of memory."""
    message = read_message(metadata)
    if message.body_bytes > MAX_MESSAGE_BYTES:
        raise ValueError(f"a message of {message.body_bytes:,} bytes, {MAX_MESSAGE_BYTES:,} are allowed")
    if message.is_compressed:
        raise ValueError("compressed bodies are not read from a channel: write them without compression")
    if message.is_delta:
        raise ValueError("dictionary deltas are not read from a channel: write whole dictionaries")
    if message.kind == ROWS and message.rows > MAX_BATCH_ROWS:
        raise ValueError(f"a batch of {message.rows:,} rows, {MAX_BATCH_ROWS:,} are allowed")
    message.check()
    return message.body_bytes


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
        if len(pending) > MAX_LINE_BYTES:
            yield refused_bytes(f"a line of more than {MAX_LINE_BYTES >> 20} MB", pending)
            pending, is_passing = b"", True
    if pending:
        yield pending + b"\n"


def batches_in(read: Read) -> Iterator[Item]:
    """The batches of an Arrow stream, up to where it is damaged."""
    source = Messages(read)
    try:
        with pa.ipc.open_stream(pa.PythonFile(source, mode="r")) as reader:
            for batch in reader:
                batch.validate(full=True)
                check_decoded(batch, source.size)
                yield batch
    except (pa.ArrowException, EOFError, ValueError) as problem:
        yield refused_bytes(f"no Arrow stream, or a damaged one: {problem}", source.first)
    except OSError as problem:
        if problem.errno is not None:
            raise
        yield refused_bytes(f"a damaged Arrow stream: {problem}", source.first)


def check_decoded(batch: pa.RecordBatch, size: int) -> None:
    """Raise a ValueError if the values of its rows would take much more than the bytes that came."""
    allowed = min(max(MAX_EXPANSION * size, MIN_DECODED_BYTES), MAX_DECODED_BYTES)
    decoded = sum(map(decoded_bytes, batch.columns))
    if decoded > allowed:
        raise ValueError(f"a batch of {size:,} bytes whose values take {decoded:,}, {allowed:,} are allowed")


def decoded_bytes(column: pa.Array) -> int:
    """Of a column whose rows may share values; of others, and of those that nobody decodes, 0."""
    if pa.types.is_string_view(column.type):
        lengths = np.frombuffer(column.buffers()[1], np.int32)[::4]
        return int(lengths[column.offset : column.offset + len(column)].sum(dtype=np.int64))
    if not pa.types.is_dictionary(column.type):
        return 0
    values, places = column.dictionary, column.indices.drop_null()
    if is_text(values.type) or is_bytes(values.type):
        if pa.types.is_string_view(values.type):
            values = values.cast(pa.large_string())
        lengths = np.asarray(pc.fill_null(pc.binary_length(values), 0)).astype(np.int64)
        return int(lengths[np.asarray(places)].sum())
    return len(places) * values.type.bit_width // 8 if pa.types.is_fixed_size_binary(values.type) else 0


# Rows


def rows_in(items: Iterable[Item], stream: Stream, columns: Collection[str]) -> Intake:
    """The rows of items in their order. Lines that follow each other are parsed together."""
    pieces = [refused_only(stream, columns)]
    for kind, group in groupby(items, type):
        if kind is Refused:
            pieces.append(refused_only(stream, columns, *group))
        elif kind is bytes:
            pieces += [
                json_rows(LineBlock.of(b"".join(run)), stream, columns) for run in runs_of(group, len, PARSED_BYTES)
            ]
        else:
            pieces += [arrow_rows(piece, stream, columns) for batch in group for piece in pieces_of(batch)]
    return concat(pieces)


def pieces_of(batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    for begin in range(0, batch.num_rows, PIECE_ROWS):
        yield batch.slice(begin, PIECE_ROWS)


def json_rows(lines: LineBlock, stream: Stream, columns: Collection[str]) -> Intake:
    declaration, layout = Declaration.of(stream), JsonFormat(stream.columns, 0)
    wanted = declaration.select_columns(columns)

    def read() -> Iterator[InputRows]:
        for part, parsed in parse(lines, layout.fast, layout.slow):
            yield typed_rows(part, parsed, declaration, wanted, NOWHERE)

    return read_or_refuse(read, len(lines), stream, columns)


def arrow_rows(batch: pa.RecordBatch, stream: Stream, columns: Collection[str]) -> Intake:
    """A batch whose columns can't be read as declared is bad with all its rows."""

    def read() -> Iterator[InputRows]:
        check_schema(batch.schema, stream)
        converted = convert_table(pa.Table.from_batches([batch]), stream.columns, stream.zone)
        wanted = [column.name for column in Declaration.of(stream).select_columns(columns)]
        yield InputRows(converted.table.select(wanted), converted.rejected)

    return read_or_refuse(read, batch.num_rows, stream, columns)


def read_or_refuse(
    read: Callable[[], Iterator[InputRows]], count: int, stream: Stream, columns: Collection[str]
) -> Intake:
    """Return `count` rows as they are read, or refuse all of them: nothing that a peer sends ends its reader."""
    try:
        pieces = [intake_of(rows) for rows in read()]
    except DataError as problem:
        return refused_only(stream, columns, Refused(problem.message, count))
    except Exception as problem:  # noqa: BLE001 - the parsers are others', and so are the bytes
        return refused_only(stream, columns, Refused(f"{type(problem).__name__}: {problem}", count))
    return concat([refused_only(stream, columns), *pieces])
