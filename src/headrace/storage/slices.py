"""Slice files: partials of one reducer, by the plans they were computed under, as interchange tables.

A file is written once, never changed, and read back only against the digest in a commit record.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import NamedTuple
from uuid import uuid4

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headrace.kernel.combine import NodePartials, gather_parts
from headrace.kernel.interchange import from_bytes, pack, to_bytes, unpack
from headrace.model.errors import DataError
from headrace.planner.plan import Plan
from headrace.storage.directory import Directory
from headrace.storage.disk import DamagedError, digest
from headrace.storage.records import SliceFile, StoredFile
from headrace.storage.store import read_object

Parts = dict[str, dict[int, list[NodePartials]]]
"""Partials by plan and by the place of their node in it."""

LENGTH = struct.Struct("<Q")
KEPT_BYTES = 256 << 20
"""How much of what was read a process keeps, since the next step reads most of it again."""


class Section(NamedTuple):
    """Partials that were computed under one plan, as a file keeps them and as tasks send them."""

    plan: str
    tables: Sequence[pa.Table]
    data: bytes


def sections_of(stream: str, parts: Parts) -> Iterator[Section]:
    for plan, places in parts.items():
        tables = pack(stream, (part for same in places.values() for part in same))
        yield Section(plan, tables, to_bytes(tables))


def write_slices(directory: Directory, reducer: int, step: int, sections: Sequence[Section]) -> SliceFile | None:
    """One file of a name that no other attempt has; None if there are no rows."""
    tables = [table for section in sections for table in section.tables if table.num_rows]
    if not tables:
        return None
    data = pack_sections(sections)
    name = f"slices/{step:09}-{reducer}-{uuid4().hex[:12]}.slices"
    directory.store.put(name, data)
    last_end_us = max(pc.max(table["slice_end"].cast(pa.int64())).as_py() for table in tables)
    rows = sum(table.num_rows for table in tables)
    return SliceFile(StoredFile(name, digest(data), len(data)), reducer, rows, last_end_us)


def pack_sections(sections: Sequence[Section]) -> bytes:
    head = json.dumps([[section.plan, len(section.data)] for section in sections]).encode()
    return b"".join([LENGTH.pack(len(head)), head, *(section.data for section in sections)])


def unpack_sections(data: bytes) -> Iterable[tuple[str, bytes]]:
    (length,) = LENGTH.unpack_from(data)
    begin = LENGTH.size + length
    for name, size in json.loads(data[LENGTH.size : begin]):
        yield name, data[begin : begin + size]
        begin += size


class Cache:
    """What was read of files, the least recently used forgotten first. Files never change."""

    def __init__(self, max_bytes: int) -> None:
        self.max_bytes = max_bytes
        self.held: dict[tuple[str, str], tuple[int, Parts]] = {}
        """By the location of the state and the name of the object."""

    def read(self, directory: Directory, stream: str, file: SliceFile, live: Collection[str]) -> Parts:
        """The partials of plans under which something was counted that is not forgotten, by now."""
        key = directory.store.location, file.file.name
        size, parts = self.held.pop(key, (0, None))
        if parts is None:
            parts = read_slices(directory, stream, file, live)
            size = sum(part.nbytes for places in parts.values() for same in places.values() for part in same)
        self.held[key] = size, parts
        while sum(held for held, _ in self.held.values()) > self.max_bytes and len(self.held) > 1:
            del self.held[next(iter(self.held))]
        return {plan: places for plan, places in parts.items() if plan in live}

    def keep_only(self, directory: Directory, files: Iterable[SliceFile]) -> None:
        """Of this state, these."""
        location = directory.store.location
        live = {(location, file.file.name) for file in files}
        for key in [key for key in self.held if key[0] == location and key not in live]:
            del self.held[key]


CACHE = Cache(KEPT_BYTES)


def read_slices(directory: Directory, stream: str, file: SliceFile, live: Collection[str]) -> Parts:
    """The partials of plans under which something was counted that is not forgotten."""
    data = read_object(directory.store, file.file.name, file.file.digest)
    parts: Parts = {}
    for name, section in unpack_sections(data):
        if name not in live:
            continue
        try:
            places = by_place(stream, directory.plan(name), from_bytes(section))
        except DataError as problem:
            raise DamagedError(directory.place(file.file.name), f"can't be used: {problem.message}") from None
        for place, part in places:
            parts.setdefault(name, {}).setdefault(place, []).append(part)
    return parts


def by_place(stream: str, plan: Plan, tables: Sequence[pa.Table]) -> list[tuple[int, NodePartials]]:
    """The partials in interchange tables with the places of their nodes in the plan, which must know them all."""
    places = {plan.nodes[place].node: place for place in plan.shipped}
    placed = [(places[part.node], part) for part in unpack(stream, tables, places)]
    if sum(part.rows for _, part in placed) != sum(table.num_rows for table in tables):
        raise DataError("unknown-node", f"there are partials of {stream} that their plan does not know")
    return placed


def merge_parts(files: Iterable[Parts]) -> Parts:
    merged: Parts = {}
    for parts in files:
        for name, places in parts.items():
            for place, same in places.items():
                merged.setdefault(name, {}).setdefault(place, []).extend(same)
    return merged


def compact(parts: Parts, needed_us: int | None) -> Parts:
    """One part per plan and node, without slices that nobody needs."""
    compacted: Parts = {}
    for name, places in parts.items():
        for place, same in places.items():
            kept = [part for part in (needed_slices(partial, needed_us) for partial in same) if part.rows]
            if kept:
                compacted.setdefault(name, {})[place] = [gather_parts(kept)]
    return compacted


def needed_slices(part: NodePartials, needed_us: int | None) -> NodePartials:
    if needed_us is None or part.starts_us.size == 0 or int(part.ends_us.min()) > needed_us:
        return part
    return part.at(np.flatnonzero(part.ends_us > needed_us))
