"""The metadata of Arrow messages, read before Arrow reads the messages themselves.

Arrow believes what metadata says. A few bytes can then stand for any number of rows: in columns without values, in
compressed bodies, in many columns over the same bytes.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import NamedTuple

LENGTH, OFFSET, SHORT = struct.Struct("<I"), struct.Struct("<i"), struct.Struct("<H")
SIZE, PAIR = struct.Struct("<q"), struct.Struct("<qq")
SCHEMA, DICTIONARY, ROWS = 1, 2, 3
"""Kinds of messages."""
BITS = 8


class Message(NamedTuple):
    """`rows` are those of a batch or a dictionary, `values` the most in one of its columns at any depth."""

    kind: int
    body_bytes: int
    rows: int = 0
    values: int = 0
    buffer_bytes: int = 0
    is_compressed: bool = False
    is_delta: bool = False

    def check(self) -> None:
        """Raise a ValueError if its bytes can't hold what it says is in them."""
        if self.kind not in (SCHEMA, DICTIONARY, ROWS):
            raise ValueError(f"a message of kind {self.kind}")
        if self.rows > self.body_bytes:
            raise ValueError(f"more rows than bytes: {self.rows:,} in {self.body_bytes:,}")
        if self.values > BITS * self.body_bytes:
            raise ValueError(f"more values than bits: {self.values:,} in {self.body_bytes:,} bytes")
        if self.buffer_bytes > self.body_bytes:
            raise ValueError(f"columns that overlap: {self.buffer_bytes:,} bytes in {self.body_bytes:,}")


def read_message(metadata: bytes) -> Message:
    """Return what the metadata of a message says; raise a ValueError if it is damaged."""
    try:
        (message,) = LENGTH.unpack_from(metadata)
        kind = metadata[field_at(metadata, message, 1)]
        body_bytes = number_at(metadata, field_at(metadata, message, 3))
        if kind not in (DICTIONARY, ROWS):
            return Message(kind, body_bytes)
        header = follow_offset(metadata, field_at(metadata, message, 2))
        batch, is_delta = header, False
        if kind == DICTIONARY:
            batch = follow_offset(metadata, field_at(metadata, header, 1))
            delta = field_at(metadata, header, 2)
            is_delta = bool(delta and metadata[delta])
        return Message(
            kind,
            body_bytes,
            rows=number_at(metadata, field_at(metadata, batch, 0)),
            values=max((length for length, _ in pairs_at(metadata, field_at(metadata, batch, 1))), default=0),
            buffer_bytes=sum(length for _, length in pairs_at(metadata, field_at(metadata, batch, 2))),
            is_compressed=field_at(metadata, batch, 3) != 0,
            is_delta=is_delta,
        )
    except (struct.error, IndexError):
        raise ValueError("the metadata of a message is damaged") from None


# Flatbuffers


def field_at(metadata: bytes, table: int, number: int) -> int:
    """Where a field of a table of a flatbuffer lies; 0 if it has none."""
    entries = table - OFFSET.unpack_from(metadata, table)[0]
    entry = entries + 4 + 2 * number
    if entries < 0 or entry + 2 > entries + SHORT.unpack_from(metadata, entries)[0]:
        return 0
    (offset,) = SHORT.unpack_from(metadata, entry)
    return table + offset if offset else 0


def follow_offset(metadata: bytes, place: int) -> int:
    return place + int(LENGTH.unpack_from(metadata, place)[0])


def number_at(metadata: bytes, place: int) -> int:
    """A length: 0 where there is no field."""
    (number,) = SIZE.unpack_from(metadata, place) if place else (0,)
    if number < 0:
        raise ValueError(f"a length of {number:,}")
    return int(number)


def pairs_at(metadata: bytes, place: int) -> Iterator[tuple[int, int]]:
    """Of a vector: lengths and numbers of nulls, or offsets and lengths."""
    if place:
        vector = follow_offset(metadata, place)
        (count,) = LENGTH.unpack_from(metadata, vector)
        for number in range(count):
            first, second = PAIR.unpack_from(metadata, vector + LENGTH.size + number * PAIR.size)
            if first < 0 or second < 0:
                raise ValueError("a message with negative lengths")
            yield first, second
