"""Objects of slices: partials of one reducer, by the plans they were computed under, as interchange tables.

An object is written once, never changed, and read back only against the digest in a manifest.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Collection, Iterable, Iterator, Sequence
from functools import partial
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from msgspec.structs import replace

from headrace.kernel.combine import NodePartials, gather_parts
from headrace.kernel.group_owners import key_groups_of
from headrace.kernel.interchange import from_bytes, pack, to_bytes, unpack
from headrace.model.errors import DataError
from headrace.planner.plan import Plan
from headrace.storage.directory import Directory
from headrace.storage.disk import DamagedError, digest
from headrace.storage.records import SliceObject, StoredObject
from headrace.storage.store import read_object, store_threads

Parts = dict[str, dict[int, list[NodePartials]]]
"""Partials by plan and by the place of their node in it."""

CacheKey = tuple[str, SliceObject]
"""The location of the state, and an object with the rows of it that are meant."""

LENGTH = struct.Struct("<Q")
KEPT_BYTES = 256 << 20
"""How much of what was read a process keeps, since the next step reads most of it again."""


PLACEMENT = "groups"
"""What is hashed to find the key group of a row: all group expressions of its node. A section names it, so that others
may come.
"""


class Section(NamedTuple):
    """Partials that were computed under one plan, as an object keeps them and as tasks send them."""

    plan: str
    tables: Sequence[pa.Table]
    data: bytes


def sections_of(stream: str, parts: Parts) -> Iterator[Section]:
    for plan, places in parts.items():
        tables = pack(stream, (part for same in places.values() for part in same))
        yield Section(plan, tables, to_bytes(tables))


def pack_slices(
    name: str, sections: Sequence[Section], key_groups: tuple[int, int]
) -> tuple[SliceObject, bytes] | None:
    """Return an object with the partials of a range of key groups, and its bytes; None if there are no rows."""
    tables = [table for section in sections for table in section.tables if table.num_rows]
    if not tables:
        return None
    data = pack_sections(sections)
    last_end_us = max(pc.max(table["slice_end"].cast(pa.int64())).as_py() for table in tables)
    rows = sum(table.num_rows for table in tables)
    return SliceObject(StoredObject(name, digest(data), len(data)), rows, last_end_us, *key_groups), data


def pack_sections(sections: Sequence[Section]) -> bytes:
    head = json.dumps([[section.plan, PLACEMENT, len(section.data)] for section in sections]).encode()
    return b"".join([LENGTH.pack(len(head)), head, *(section.data for section in sections)])


def unpack_sections(data: bytes) -> Iterable[tuple[str, bytes]]:
    (length,) = LENGTH.unpack_from(data)
    begin = LENGTH.size + length
    for name, *placement, size in json.loads(data[LENGTH.size : begin]):
        if placement not in ([], [PLACEMENT]):  # version 0.1 had no other
            raise DataError("unknown-placement", f"rows are placed by {placement}, which this program does not know")
        yield name, data[begin : begin + size]
        begin += size


class Cache:
    """What was read of objects, the least recently used forgotten first. Objects never change."""

    def __init__(self, max_bytes: int) -> None:
        self.max_bytes = max_bytes
        self.held: dict[CacheKey, tuple[int, Parts]] = {}

    def read(self, directory: Directory, stream: str, slices: Sequence[SliceObject], live: Collection[str]) -> Parts:
        """Return the partials of plans under which something was counted that is not forgotten, by now."""
        location = directory.store.location
        missing = [part for part in slices if (location, part) not in self.held]
        for part, data in zip(missing, store_threads().map(partial(read_slices, directory), missing), strict=True):
            parts = unpack_slices(directory, stream, part, data, live)
            size = sum(rows.nbytes for places in parts.values() for same in places.values() for rows in same)
            self.held[location, part] = size, parts
        for part in slices:
            self.held[location, part] = self.held.pop((location, part))
        while sum(size for size, _ in self.held.values()) > self.max_bytes and len(self.held) > len(slices):
            del self.held[next(iter(self.held))]
        return merge_parts(
            {plan: places for plan, places in self.held[location, part][1].items() if plan in live} for part in slices
        )

    def forget(self, directory: Directory, needed_us: int | None) -> None:
        """Forget the objects of a state whose slices all end by a time: nobody needs them any more."""
        if needed_us is not None:
            location = directory.store.location
            for key in [key for key in self.held if key[0] == location and key[1].end_us <= needed_us]:
                del self.held[key]


CACHE = Cache(KEPT_BYTES)


def read_slices(directory: Directory, slices: SliceObject) -> bytes:
    return read_object(directory.store, slices.object.name, slices.object.digest)


def unpack_slices(directory: Directory, stream: str, slices: SliceObject, data: bytes, live: Collection[str]) -> Parts:
    """Return the partials of plans under which something was counted that is not forgotten."""
    parts: Parts = {}
    try:
        for name, section in unpack_sections(data):
            if name in live:
                for place, part in by_place(stream, directory.plan(name), from_bytes(section)):
                    parts.setdefault(name, {}).setdefault(place, []).append(own_rows(part, slices))
    except DataError as problem:
        raise DamagedError(directory.place(slices.object.name), f"can't be used: {problem.message}") from None
    return parts


def own_rows(part: NodePartials, slices: SliceObject) -> NodePartials:
    """Return the rows of an object that are meant by a reference to it: others may refer to other rows."""
    if not slices.is_shared:
        return part
    if not part.groups:
        return part if slices.ungrouped else part.at(np.arange(0))
    key_groups = key_groups_of(part)
    return part.at(np.flatnonzero((key_groups >= slices.first) & (key_groups < slices.end)))


def share_slices(
    manifests: Sequence[Sequence[SliceObject]], source: int | None, key_groups: tuple[int, int]
) -> list[SliceObject]:
    """Return what a reducer has under a new partitioning, of the slices that each reducer had under the one before:
    those that may hold rows of its key groups, and all rows without groups that the reducer `source` had, if it is to
    have them.
    """
    shared = []
    for reducer, slices in enumerate(manifests):
        for part in slices:
            first, end = max(part.first, key_groups[0]), min(part.end, key_groups[1])
            ungrouped = part.ungrouped and reducer == source
            if first < end or ungrouped:
                shared.append(replace(part, first=first, end=max(first, end), ungrouped=ungrouped, is_shared=True))
    return shared


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
