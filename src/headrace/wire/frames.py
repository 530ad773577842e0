"""Frames: what an edge sends. A header, then interchange tables of partials, or rows of the stream as they are.

A frame covers a span of its source: it says where that begins and ends. Bytes from outside are looked at in full before
they are used: marks, sizes, checksum, every field of the header, every column of every table.

    mark, version, length of the header, header (JSON), length of the tables, tables (zstd), checksum (blake2b)
"""

from __future__ import annotations

import json
import re
import struct
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from hashlib import blake2b
from operator import add
from typing import Annotated, Any

import msgspec
import pyarrow as pa

from headrace.model.errors import DataError
from headrace.model.record import Record
from headrace.wire.arrow_messages import read_message

MARK = b"HRfr"
VERSION = 1
HEAD = struct.Struct("<4sII")
SIZE = struct.Struct("<Q")
DIGEST_BYTES = 16
MAX_BYTES = 64 << 20
"""Of a frame as it is sent; the tables of the largest may take MAX_EXPANSION times as much."""
MAX_EXPANSION = 16
MIN_PLAIN_BYTES, MAX_RATIO = 16 << 20, 256
"""Tables may take this many bytes in any frame, and more only in proportion to the bytes of the frame."""
MAX_HEADER_BYTES = 1 << 20
MAX_TABLES = 4096
MAX_DEPTH = 32
"""Of values of JSON inside one another: a position holds those of other edges where relays follow one another."""
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}")
"""Of an edge. It becomes part of file names."""
MAX_TIME_US = 2**62
MAX_LISTED = 8
"""Names of edges in a message."""

Position = Any
"""Where in its source an edge is: a value of JSON that the source alone understands."""
Name = Annotated[str, msgspec.Meta(pattern=rf"^{NAME.pattern}\Z")]
Text = Annotated[str, msgspec.Meta(min_length=1, max_length=1_000)]
MAX_COUNT = 2**62 - 1
FrameCount = Annotated[int, msgspec.Meta(ge=0, le=MAX_COUNT)]
FrameTime = Annotated[int, msgspec.Meta(ge=-MAX_TIME_US, le=MAX_TIME_US)]
TableCount = Annotated[int, msgspec.Meta(ge=0, le=MAX_TABLES)]


class FrameError(DataError):
    """Bytes that are no frame, or one that can't be true."""

    def __init__(self, problem: str) -> None:
        super().__init__("frame", f"this is not a frame: {problem}")

    @property
    def reason(self) -> str:
        """Why it was put aside, and how it comes back if it can."""
        return self.message if self.hint is None else f"{self.message}; {self.hint}"


class StrangerError(FrameError):
    """A frame of an edge that is not one of those that may send."""

    def __init__(self, edge: str, edges: Collection[str]) -> None:
        listed = ", ".join([f'"{name}"' for name in sorted(edges)[:MAX_LISTED]] + ["..."] * (len(edges) > MAX_LISTED))
        problem = f"there is no edge '{edge}' in edges = [{listed}]: add it in the file of the root or relay"
        hint = "then put the file back from refused/"
        DataError.__init__(self, "refused", f"{problem}, and start that again", hint=hint)


class RowCounts(Record, frozen=True):
    """Counts of rows: all that were read, and those that were not taken. Late ones are taken all the same: they are
    below the watermark that the edge had sent when it read them.
    """

    read: FrameCount = 0
    late: FrameCount = 0
    future: FrameCount = 0
    dropped: FrameCount = 0
    bad: FrameCount = 0

    def plus(self, other: RowCounts) -> RowCounts:
        """Return the sums. What an edge claims beyond all reason counts as the most that a ledger can hold."""
        sums = map(add, msgspec.structs.astuple(self), msgspec.structs.astuple(other))
        return RowCounts(*(min(total, MAX_COUNT) for total in sums))


class Member(Record, frozen=True):
    """What a relay knows of an edge behind it: under which plan it counts, and how far it is."""

    plan: Name | None
    watermark_us: FrameTime | None
    highest_us: FrameTime | None


class Header(Record, frozen=True):
    """`begins` is the position before the first row, None if the source has none; `position` that behind the last.

    `plan` is None for rows as they are. Rows below the watermark are not expected any more. `ended`: nothing follows.
    An incarnation is a start of the edge's program: its clock then, in microseconds. Sequence numbers begin at 1.
    """

    edge: Name
    incarnation: FrameCount
    sequence: Annotated[int, msgspec.Meta(ge=1, lt=MAX_TIME_US)]
    stream: Text
    plan: Name | None
    begins: Position = None
    position: Position = None
    watermark_us: FrameTime | None = None
    lowest_us: FrameTime | None = None
    highest_us: FrameTime | None = None
    rows: RowCounts = RowCounts()
    errors: Mapping[str, FrameCount] = {}
    ended: bool = False
    members: Mapping[Name, Member] = {}

    @property
    def key(self) -> tuple[str, int, int]:
        return self.edge, self.incarnation, self.sequence

    @property
    def file_name(self) -> str:
        """In this order an edge sent its frames."""
        return f"{self.edge}~{self.incarnation:016}~{self.sequence:09}.frame"


@dataclass(frozen=True, eq=False)
class Frame:
    """Without rows it is a sign of life."""

    header: Header
    tables: tuple[pa.Table, ...] = ()

    @property
    def has_rows(self) -> bool:
        """Whether rows were counted under its plan. Those that no query wants come to no table."""
        return self.header.highest_us is not None or bool(self.tables)


# Bytes


def to_bytes(frame: Frame) -> bytes:
    sink = pa.BufferOutputStream()
    for table in frame.tables:
        with pa.ipc.new_stream(sink, table.schema) as writer:
            writer.write_table(table.combine_chunks())
    plain = sink.getvalue()
    document = msgspec.to_builtins(frame.header) | {"tables": len(frame.tables)}
    header = json.dumps(document, separators=(",", ":"), allow_nan=False).encode()
    if len(header) > MAX_HEADER_BYTES:
        raise FrameError(f"its header would have {len(header):,} bytes, {MAX_HEADER_BYTES:,} are allowed")
    packed = pa.compress(plain, codec="zstd", asbytes=True) if plain.size else b""
    whole = b"".join([HEAD.pack(MARK, VERSION, len(header)), header, SIZE.pack(plain.size), packed])
    return whole + digest(whole)


def digest(data: bytes | memoryview) -> bytes:
    return blake2b(data, digest_size=DIGEST_BYTES).digest()


def from_bytes(raw: bytes, most_bytes: int = MAX_BYTES) -> Frame:
    """Return a frame that is whole. Whether its partials are those of its plan is checked where the plan is known."""
    header, count, begin = open_frame(raw, most_bytes)
    if len(raw) < begin + SIZE.size + DIGEST_BYTES:
        raise FrameError("it is cut off")
    if digest(memoryview(raw)[:-DIGEST_BYTES]) != raw[-DIGEST_BYTES:]:
        raise FrameError("its checksum does not fit")
    (size,) = SIZE.unpack_from(raw, begin)
    if size > max_plain_bytes(len(raw), most_bytes):
        raise FrameError(f"its {len(raw):,} bytes hold tables that would take {size:,}")
    return Frame(header, read_tables(raw[begin + SIZE.size : -DIGEST_BYTES], size, count))


def max_plain_bytes(size: int, most_bytes: int = MAX_BYTES) -> int:
    """What the tables of a frame of this size may take."""
    return min(MAX_EXPANSION * most_bytes, max(MIN_PLAIN_BYTES, MAX_RATIO * size))


def plain_bytes(frame: bytes) -> int:
    """What the tables of a frame take that was written here."""
    _, _, length = HEAD.unpack_from(frame)
    return int(SIZE.unpack_from(frame, HEAD.size + length)[0])


def read_header(raw: bytes, most_bytes: int = MAX_BYTES) -> Header:
    """The header alone, of a frame that was looked at before."""
    return open_frame(raw, most_bytes)[0]


def open_frame(raw: bytes, most_bytes: int) -> tuple[Header, int, int]:
    """The header, how many tables follow, and where."""
    if len(raw) > most_bytes:
        raise FrameError(f"it has {len(raw):,} bytes, {most_bytes:,} are allowed")
    if len(raw) < HEAD.size or raw[: len(MARK)] != MARK:
        raise FrameError("it does not begin like one")
    _, version, length = HEAD.unpack_from(raw)
    if version != VERSION:
        raise FrameError(f"it has version {version}, this program reads {VERSION}")
    if length > min(MAX_HEADER_BYTES, len(raw) - HEAD.size):
        raise FrameError("its header is too long")
    begin = HEAD.size + length
    try:
        document = msgspec.json.decode(raw[HEAD.size : begin], type=dict[str, Any])
        count = msgspec.convert(document.pop("tables", None), TableCount)
        header = msgspec.convert(document, Header)
    except msgspec.ValidationError as problem:
        raise FrameError(f"its header has wrong fields: {str(problem)[:200]}") from None
    except (ValueError, RecursionError):
        raise FrameError("its header is not JSON") from None
    check_header(header)
    if msgspec.to_builtins(header) != document:
        raise FrameError("its header lacks fields")
    return header, count, begin


def check_header(header: Header) -> None:
    """Check what types do not say."""
    for name in ("begins", "position"):
        if not is_plain(getattr(header, name)):
            raise FrameError(f"in its header '{name}' is nested too deep")
    lowest_us, highest_us = header.lowest_us, header.highest_us
    if (lowest_us is None) != (highest_us is None) or (lowest_us or 0) > (highest_us or 0):
        raise FrameError("its lowest event time is above its highest")


def is_plain(value: Any, depth: int = MAX_DEPTH) -> bool:
    """Return whether values are nested at most `depth` deep, so that a walk through them ends."""
    if not isinstance(value, dict | list):
        return True
    inner = value.values() if isinstance(value, dict) else value
    return depth > 0 and all(is_plain(item, depth - 1) for item in inner)


def is_name(value: Any) -> bool:
    return isinstance(value, str) and NAME.fullmatch(value) is not None


def read_tables(packed: bytes, size: int, count: int) -> tuple[pa.Table, ...]:
    if not size or not count:
        if size or count or packed:
            raise FrameError("its tables are not there")
        return ()
    try:
        plain = pa.decompress(packed, decompressed_size=size, codec="zstd")
        source = pa.BufferReader(plain)
        tables = tuple(read_table(source) for _ in range(count))
        if source.tell() != size:
            raise FrameError("there is more in it than its tables")
    except (pa.ArrowException, OSError, ValueError, MemoryError) as problem:
        raise FrameError(f"its tables are damaged: {problem}") from None
    if sum(table.num_rows for table in tables) > size:
        raise FrameError("it has more rows than bytes")
    return tables


def read_table(source: pa.BufferReader) -> pa.Table:
    """Parts that are packed once more would take any room."""
    begin = source.tell()
    for packed in pa.ipc.MessageReader.open_stream(source):
        message = read_message(packed.metadata.to_pybytes())
        if message.is_compressed:
            raise FrameError("its tables are packed twice")
        message.check()
    source.seek(begin)
    table = pa.ipc.open_stream(source).read_all()
    table.validate(full=True)
    return table
