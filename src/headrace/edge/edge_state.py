"""What an edge must not forget: how far its source was read, and how far time has come. Pure values.

A record goes with each frame and says what is new since the one before; all records together are what is known. The
names of files that were read stay here: a position, which goes into every header, only counts and digests them.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from typing import Annotated, NamedTuple

import msgspec
from msgspec.structs import replace

from headrace.model.record import Record, convert
from headrace.model.units import InputFile
from headrace.storage.disk import digest
from headrace.storage.seen_files import Look, remembered_absent
from headrace.wire.frames import FrameCount, FrameTime, Name, Position, Text, is_plain
from headrace.wire.ledger import BEGINNING

FilePath = Annotated[str, msgspec.Meta(pattern=r"^[^\0]*\Z")]


class Reading(NamedTuple):
    """The file in work, as it was when it was begun and as it was cut: how many units are read, and how many pieces
    of the next.
    """

    path: FilePath
    size: FrameCount
    modified_ns: int
    unit_bytes: Annotated[int, msgspec.Meta(ge=1)]
    unit: FrameCount = 0
    piece: FrameCount = 0

    @property
    def file(self) -> InputFile:
        return InputFile(self.path, self.size, self.modified_ns)


class SourceMark(NamedTuple):
    """How far a source was read: files read to their end since the mark before, and the one in work."""

    files: tuple[InputFile, ...] = ()
    reading: Reading | None = None


def position_after(position: Position, mark: SourceMark) -> Position:
    """Return where the source is, in few bytes: no two ways through it end at the same position."""
    text = json.dumps(msgspec.to_builtins([position, *mark]), sort_keys=True)
    return {"files": position.get("files", 0) + len(mark.files), "digest": digest(text.encode())}


class SourcePosition(msgspec.Struct):
    """What every position has. What else is in it is for its source to say."""

    files: FrameCount = 0


class EdgeProgress(Record, frozen=True, kw_only=True):
    """How far an edge was when it cut a frame. Partitions have their highest event times."""

    incarnation: FrameCount
    sequence: FrameCount
    clock_us: FrameTime | None
    position: Position
    watermark_us: FrameTime | None
    partitions: Mapping[str, FrameTime] = {}
    reading: Reading | None = None

    def __post_init__(self) -> None:
        if self.position is not None:
            convert(self.position, SourcePosition)
        if not is_plain(self.position):
            raise ValueError("its position is nested too deep")

    @property
    def key(self) -> tuple[int, int]:
        return self.incarnation, self.sequence


class EdgeRecord(EdgeProgress, frozen=True, kw_only=True):
    """What an edge knew when it cut a frame, as far as it is new."""

    files: tuple[InputFile, ...] = ()


class Known(EdgeProgress, frozen=True, kw_only=True):
    """All that the records of an edge said up to one of them."""

    edge: Name
    stream: Text
    files: Mapping[FilePath, Look] = {}
    absent_us: Mapping[str, int] = {}
    """Since when files that were read are known to be gone: they may come back, and must not be read again then."""

    def after(self, record: EdgeRecord) -> Known:
        newest = {name: getattr(record, name) for name in EdgeProgress.__struct_fields__}
        newest["partitions"] = {**self.partitions, **record.partitions}
        return replace(self, **newest, files={**self.files, **looks(record.files)} if record.files else self.files)

    def with_files(self, present: Collection[str]) -> Known:
        """Without the files that are gone for long."""
        absent_us = remembered_absent(self.files, self.absent_us, present, self.clock_us or 0)
        files = {path: look for path, look in self.files.items() if path in present or path in absent_us}
        return replace(self, files=files, absent_us=absent_us)


def nothing_known(edge: str, stream: str) -> Known:
    return Known(
        edge=edge, stream=stream, incarnation=0, sequence=0, clock_us=None, position=BEGINNING, watermark_us=None
    )


def looks(files: Collection[InputFile]) -> dict[str, Look]:
    return {file.path: Look(file.size, file.modified_ns) for file in files}
