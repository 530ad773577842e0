"""What an edge must not forget: how far its source was read, and how far time has come. Pure values.

A record goes with each frame and says what is new since the one before; all records together are what is known. The
names of files that were read stay here: a position, which goes into every header, only counts and digests them.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from msgspec import to_builtins

from headrace.model.units import InputFile
from headrace.storage.disk import digest
from headrace.storage.seen_files import Look, remembered_absent
from headrace.wire.frames import Position, is_count, is_name, is_plain, is_text, is_time
from headrace.wire.ledger import BEGINNING


class Reading(NamedTuple):
    """The file in work, as it was when it was begun and as it was cut: how many units are read, and how many pieces
    of the next.
    """

    path: str
    size: int
    modified_ns: int
    unit_bytes: int
    unit: int = 0
    piece: int = 0

    @property
    def file(self) -> InputFile:
        return InputFile(self.path, self.size, self.modified_ns)


@dataclass(frozen=True, slots=True)
class Mark:
    """How far a source was read: files read to their end since the mark before, and the one in work."""

    files: tuple[InputFile, ...] = ()
    reading: Reading | None = None


def position_after(position: Position, mark: Mark) -> Position:
    """Where the source is, in few bytes: no two ways through it end at the same position."""
    text = json.dumps([position, [to_builtins(file) for file in mark.files], mark.reading], sort_keys=True)
    return {"files": position.get("files", 0) + len(mark.files), "digest": digest(text.encode())}


@dataclass(frozen=True, slots=True)
class Record:
    """What an edge knew when it cut a frame, as far as it is new. Partitions have their highest event times."""

    incarnation: int
    sequence: int
    clock_us: int
    position: Position
    watermark_us: int | None
    partitions: Mapping[str, int] = field(default_factory=dict)
    files: tuple[InputFile, ...] = ()
    reading: Reading | None = None

    @property
    def key(self) -> tuple[int, int]:
        return self.incarnation, self.sequence


@dataclass(frozen=True, slots=True)
class Known:
    """All that the records of an edge said up to one of them."""

    edge: str
    stream: str
    incarnation: int = 0
    sequence: int = 0
    clock_us: int | None = None
    position: Position = field(default_factory=lambda: BEGINNING)
    watermark_us: int | None = None
    partitions: Mapping[str, int] = field(default_factory=dict)
    files: Mapping[str, Look] = field(default_factory=dict)
    reading: Reading | None = None
    absent_us: Mapping[str, int] = field(default_factory=dict)
    """Since when files that were read are known to be gone: they may come back, and must not be read again then."""

    @property
    def key(self) -> tuple[int, int]:
        return self.incarnation, self.sequence

    def after(self, record: Record) -> Known:
        return replace(
            self,
            incarnation=record.incarnation,
            sequence=record.sequence,
            clock_us=record.clock_us,
            position=record.position,
            watermark_us=record.watermark_us,
            partitions={**self.partitions, **record.partitions} if record.partitions else self.partitions,
            files={**self.files, **looks(record.files)} if record.files else self.files,
            reading=record.reading,
        )

    def with_files(self, present: Collection[str]) -> Known:
        """Without the files that are gone for long."""
        absent_us = remembered_absent(self.files, self.absent_us, present, self.clock_us or 0)
        files = {path: look for path, look in self.files.items() if path in present or path in absent_us}
        return replace(self, files=files, absent_us=absent_us)


def looks(files: Collection[InputFile]) -> dict[str, Look]:
    return {file.path: Look(file.size, file.modified_ns) for file in files}


# From JSON

Check = Callable[[Any], bool]


def record_from(document: Any) -> Record:
    """Raise a ValueError if it is no record."""
    check_fields(document, RECORD)
    files = tuple(InputFile(**each) for each in document["files"])
    return Record(**{**document, "files": files, "reading": reading_from(document["reading"])})


def parse_known(document: Any) -> Known:
    """Raise a ValueError if it is not what was known. In version 0.1 files that were gone were forgotten."""
    if isinstance(document, dict):
        document = {"absent_us": {}, **document}
    check_fields(document, KNOWN)
    files = {path: Look(*look) for path, look in document["files"].items()}
    return Known(**{**document, "files": files, "reading": reading_from(document["reading"])})


def reading_from(values: list[Any] | None) -> Reading | None:
    return None if values is None else Reading(*values)


def check_fields(document: Any, checks: Mapping[str, Check]) -> None:
    if not isinstance(document, dict) or document.keys() != checks.keys():
        raise ValueError("it lacks fields, or has others")
    for name, check in checks.items():
        if not check(document[name]):
            raise ValueError(f"'{name}' is {str(document[name])[:100]!r}")


def is_path(value: Any) -> bool:
    return isinstance(value, str) and "\0" not in value


def is_number(value: Any) -> bool:
    return type(value) is int


def is_position(value: Any) -> bool:
    """What is in it is for its source to say, but for the count of files."""
    return value is None or (isinstance(value, dict) and is_plain(value) and is_count(value.get("files", 0)))


def is_partitions(value: Any) -> bool:
    return isinstance(value, dict) and all(each is not None and is_time(each) for each in value.values())


def is_row_of(value: Any, *checks: Check) -> bool:
    return (
        isinstance(value, list)
        and len(value) == len(checks)
        and all(check(each) for check, each in zip(checks, value, strict=True))
    )


def is_file(value: Any) -> bool:
    return isinstance(value, dict) and is_row_of([value.get(name) for name in FILE], is_path, is_count, is_number)


FILE = ("path", "size", "modified_ns")
READING = (is_path, is_count, is_number, lambda value: is_count(value) and value > 0, is_count, is_count)
SHARED: Mapping[str, Check] = {
    "incarnation": is_count,
    "sequence": is_count,
    "clock_us": is_time,
    "position": is_position,
    "watermark_us": is_time,
    "partitions": is_partitions,
    "reading": lambda value: value is None or is_row_of(value, *READING),
}
RECORD: Mapping[str, Check] = {
    **SHARED,
    "files": lambda value: isinstance(value, list) and all(is_file(each) and len(each) == len(FILE) for each in value),
}
KNOWN: Mapping[str, Check] = {
    **SHARED,
    "edge": is_name,
    "stream": is_text,
    "files": lambda value: (
        isinstance(value, dict)
        and all(is_path(path) and is_row_of(look, is_count, is_number) for path, look in value.items())
    ),
    "absent_us": lambda value: isinstance(value, dict) and all(map(is_number, value.values())),
}
