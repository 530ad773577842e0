"""Frames: what an edge sends. A header, then interchange tables of partials, or rows of the stream as they are.

A frame covers a span of its source: it says where that begins and ends. Bytes from outside are looked at in full before
they are used: marks, sizes, checksum, every field of the header, every column of every table.

    mark, version, length of the header, header (JSON), length of the tables, tables (zstd), checksum (blake2b)
"""

from __future__ import annotations

import json
import re
import struct
from collections.abc import Collection, Iterable, Mapping
from dataclasses import asdict, dataclass, field, fields
from hashlib import blake2b
from typing import Any

import pyarrow as pa

from headrace.model.errors import DataError
from headrace.wire.arrow_messages import read_message

MARK = b"HRfr"
VERSION = 1
HEAD = struct.Struct("<4sII")
SIZE = struct.Struct("<Q")
DIGEST_BYTES = 16
MOST_BYTES = 64 << 20
"""Of a frame as it is sent; the tables of the largest may take MOST_EXPANSION times as much."""
MOST_EXPANSION = 16
MIN_PLAIN_BYTES, MAX_RATIO = 16 << 20, 256
"""Tables may take this many bytes in any frame, and more only in proportion to the bytes of the frame."""
MOST_HEADER_BYTES = 1 << 20
MOST_TABLES = 4096
MOST_DEPTH = 32
"""Of values of JSON inside one another: a position holds those of other edges where relays follow one another."""
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}")
"""Of an edge. It becomes part of file names."""
MOST_TIME_US = 2**62
MOST_LISTED = 8
"""Names of edges in a message."""

Position = Any
"""Where in its source an edge is: a value of JSON that the source alone understands."""


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
        listed = ", ".join([f'"{each}"' for each in sorted(edges)[:MOST_LISTED]] + ["..."] * (len(edges) > MOST_LISTED))
        problem = f"there is no edge '{edge}' in edges = [{listed}]: add it in the file of the root or relay"
        hint = "then put the file back from refused/"
        DataError.__init__(self, "refused", f"{problem}, and start that again", hint=hint)


@dataclass(frozen=True, slots=True)
class Rows:
    """Counts of rows: all that were read, and those that were not taken. Late ones are taken all the same: they are
    below the watermark that the edge had sent when it read them.
    """

    read: int = 0
    late: int = 0
    future: int = 0
    dropped: int = 0
    bad: int = 0

    def plus(self, other: Rows) -> Rows:
        return Rows(
            *(mine + theirs for mine, theirs in zip(asdict(self).values(), asdict(other).values(), strict=True))
        )


@dataclass(frozen=True, slots=True)
class Member:
    """What a relay knows of an edge behind it: under which plan it counts, and how far it is."""

    plan: str | None
    watermark_us: int | None
    highest_us: int | None


@dataclass(frozen=True, slots=True)
class Header:
    """`begins` is the position before the first row, None if the source has none; `position` that behind the last.

    `plan` is None for rows as they are. Rows below the watermark are not expected any more. `ended`: nothing follows.
    An incarnation is a start of the edge's program: its clock then, in microseconds. Sequence numbers begin at 1.
    """

    edge: str
    incarnation: int
    sequence: int
    stream: str
    plan: str | None
    begins: Position = None
    position: Position = None
    watermark_us: int | None = None
    lowest_us: int | None = None
    highest_us: int | None = None
    rows: Rows = field(default_factory=Rows)
    errors: Mapping[str, int] = field(default_factory=dict)
    ended: bool = False
    members: Mapping[str, Member] = field(default_factory=dict)

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
    document = asdict(frame.header) | {"tables": len(frame.tables)}
    header = json.dumps(document, separators=(",", ":"), allow_nan=False).encode()
    if len(header) > MOST_HEADER_BYTES:
        raise FrameError(f"its header would have {len(header):,} bytes, {MOST_HEADER_BYTES:,} are allowed")
    packed = pa.compress(plain, codec="zstd", asbytes=True) if plain.size else b""
    whole = b"".join([HEAD.pack(MARK, VERSION, len(header)), header, SIZE.pack(plain.size), packed])
    return whole + digest(whole)


def digest(data: bytes | memoryview) -> bytes:
    return blake2b(data, digest_size=DIGEST_BYTES).digest()


def from_bytes(raw: bytes, most_bytes: int = MOST_BYTES) -> Frame:
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


def max_plain_bytes(size: int, most_bytes: int = MOST_BYTES) -> int:
    """What the tables of a frame of this size may take."""
    return min(MOST_EXPANSION * most_bytes, max(MIN_PLAIN_BYTES, MAX_RATIO * size))


def plain_bytes(frame: bytes) -> int:
    """What the tables of a frame take that was written here."""
    _, _, length = HEAD.unpack_from(frame)
    return int(SIZE.unpack_from(frame, HEAD.size + length)[0])


def read_header(raw: bytes, most_bytes: int = MOST_BYTES) -> Header:
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
    if length > min(MOST_HEADER_BYTES, len(raw) - HEAD.size):
        raise FrameError("its header is too long")
    begin = HEAD.size + length
    try:
        document = json.loads(raw[HEAD.size : begin].decode(), parse_constant=refuse_constant)
    except (ValueError, RecursionError):
        raise FrameError("its header is not JSON") from None
    if not isinstance(document, dict):
        raise FrameError("its header is not an object")
    count = document.pop("tables", None)
    if not is_count(count) or count > MOST_TABLES:
        raise FrameError("it does not say how many tables it has")
    return header_from(document), count, begin


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
    for each in pa.ipc.MessageReader.open_stream(source):
        message = read_message(each.metadata.to_pybytes())
        if message.is_compressed:
            raise FrameError("its tables are packed twice")
        message.check()
    source.seek(begin)
    table = pa.ipc.open_stream(source).read_all()
    table.validate(full=True)
    return table


# Headers


def refuse_constant(name: str) -> None:
    """NaN is not JSON, and differs from itself."""
    raise ValueError(name)


def is_count(value: Any) -> bool:
    return type(value) is int and 0 <= value < MOST_TIME_US


def is_time(value: Any) -> bool:
    return value is None or (type(value) is int and -MOST_TIME_US <= value <= MOST_TIME_US)


def is_plain(value: Any, depth: int = MOST_DEPTH) -> bool:
    """Return whether values are nested at most `depth` deep, so that a walk through them ends."""
    if not isinstance(value, dict | list):
        return True
    inner = value.values() if isinstance(value, dict) else value
    return depth > 0 and all(is_plain(each, depth - 1) for each in inner)


def is_text(value: Any) -> bool:
    return isinstance(value, str) and 0 < len(value) <= 1_000


def is_name(value: Any) -> bool:
    return isinstance(value, str) and NAME.fullmatch(value) is not None


CHECKS: Mapping[str, Any] = {
    "edge": is_name,
    "incarnation": is_count,
    "sequence": lambda value: is_count(value) and value >= 1,
    "stream": is_text,
    "plan": lambda value: value is None or is_name(value),
    "begins": is_plain,
    "position": is_plain,
    "watermark_us": is_time,
    "lowest_us": is_time,
    "highest_us": is_time,
    "rows": lambda value: is_object_of(value, [each.name for each in fields(Rows)], is_count),
    "errors": lambda value: isinstance(value, dict) and all(map(is_count, value.values())),
    "ended": lambda value: isinstance(value, bool),
    "members": lambda value: (
        isinstance(value, dict) and all(map(is_name, value)) and all(map(is_member, value.values()))
    ),
}


def is_object_of(value: Any, names: Iterable[str], check: Any) -> bool:
    return isinstance(value, dict) and value.keys() == set(names) and all(map(check, value.values()))


def is_member(value: Any) -> bool:
    names = [each.name for each in fields(Member)]
    return isinstance(value, dict) and value.keys() == set(names) and all(CHECKS[name](value[name]) for name in names)


def header_from(document: dict[str, Any]) -> Header:
    if document.keys() != CHECKS.keys():
        strange = ", ".join(sorted(document.keys() ^ CHECKS.keys()))
        raise FrameError(f"its header lacks fields, or has others: {strange[:200]}")
    for name, check in CHECKS.items():
        if not check(document[name]):
            raise FrameError(f"in its header '{name}' is {str(document[name])[:100]!r}")
    members = {name: Member(**each) for name, each in document["members"].items()}
    header = Header(**{**document, "rows": Rows(**document["rows"]), "members": members})
    if (header.lowest_us is None) != (header.highest_us is None) or (
        header.lowest_us is not None and header.highest_us is not None and header.lowest_us > header.highest_us
    ):
        raise FrameError("its lowest event time is above its highest")
    return header
