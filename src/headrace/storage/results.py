"""Objects of results: all that one reducer answered in a step, with a section for each query.

Only what a commit names counts: readers go from the commit to the manifests of its step, and from these to sections.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache

import pyarrow as pa
import pyarrow.compute as pc

from headrace.model.units import Unit
from headrace.storage.directory import Directory, object_name
from headrace.storage.disk import DamagedError, check_digest, digest, parse_record
from headrace.storage.records import Commit, Manifest, ObjectRef, ResultObject, ResultSection, StoredObject
from headrace.storage.store import MissingObjectError, Store, open_store, place_of, read_object, store_threads

COMPRESSED_BYTES = 1 << 16
"""Larger sections are compressed."""


class ResultWriter:
    """Puts the results of one reducer together."""

    def __init__(self) -> None:
        self.sections: list[ResultSection] = []
        self.pieces: list[bytes] = []
        self.size = 0

    def add(
        self, query: str, generation: int, table: pa.Table, end: str, *, is_former: bool, is_candidate: bool = False
    ) -> None:
        """Add the rows of a query; the column `end` has the ends of their windows."""
        data = to_ipc(table)
        ends = pc.min_max(table[end].cast(pa.int64())).as_py()
        begin, self.size = self.size, self.size + len(data)
        self.sections.append(
            ResultSection(
                query,
                generation,
                begin,
                self.size,
                digest(data),
                table.num_rows,
                ends["min"],
                ends["max"],
                is_former,
                is_candidate,
            )
        )
        self.pieces.append(data)

    def finish(self, step: int, reducer: int | str, id: str) -> tuple[ResultObject, bytes] | None:
        """Return the object and its bytes; None if there are no results."""
        if not self.sections:
            return None
        data = b"".join(self.pieces)
        stored = StoredObject(object_name("outputs", step, reducer, id), digest(data), len(data))
        return ResultObject(stored, tuple(self.sections)), data


def to_ipc(table: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    compression = "zstd" if table.nbytes > COMPRESSED_BYTES else None
    with pa.ipc.new_stream(sink, table.schema, options=pa.ipc.IpcWriteOptions(compression=compression)) as writer:
        writer.write_table(table.combine_chunks())
    return bytes(sink.getvalue())


def read_sections(store: Store, name: str, sections: Sequence[tuple[int, int, str]]) -> list[pa.Table]:
    """Return the rows of sections [begin, end) of an object of results, which must have the digests that follow."""
    place = place_of(store, name)
    try:
        pieces = store.get_ranges(name, [(begin, end) for begin, end, _ in sections])
    except MissingObjectError:
        raise DamagedError(place, "is missing") from None
    checked = (check_digest(data, known, place) for data, (_, _, known) in zip(pieces, sections, strict=True))
    return [pa.ipc.open_stream(data).read_all() for data in checked]


def read_results(unit: Unit) -> pa.Table:
    """Return the rows of a unit that is a section of results."""
    location, folder, name = unit.path.rsplit("/", 2)
    (table,) = read_sections(open_store(location), f"{folder}/{name}", [(unit.begin, unit.end, unit.digest)])
    return table


def results_of(directory: Directory, commit: Commit) -> list[ResultObject]:
    """Return the objects of results that a step wrote, in the order of the reducers."""
    written = [
        (place, ref) for place, ref in enumerate(commit.manifests) if ref is not None and ref.step == commit.step
    ]
    location = directory.store.location
    manifests = store_threads().map(lambda item: read_manifest(location, *item), written)
    objects = [manifest.results for manifest in manifests if manifest.results is not None]
    return [*objects, *([commit.best] if commit.best is not None else [])]


def sections_of_query(directory: Directory, commit: Commit, query: str) -> Iterator[tuple[str, ResultSection]]:
    """Yield the sections of a query in a step with the names of their objects, also if the name of the query stands for
    another one since.
    """
    for results in results_of(directory, commit):
        for section in results.sections:
            if section.query == query and not section.is_candidate:
                yield results.object.name, section


@lru_cache(maxsize=256)
def read_manifest(location: str, reducer: int, ref: ObjectRef) -> Manifest:
    """Return what a reducer had after a step."""
    store, name = open_store(location), object_name("manifests", ref.step, reducer, ref.id)
    manifest = parse_record(read_object(store, name, ref.digest), Manifest, place_of(store, name))
    if (manifest.step, manifest.reducer) != (ref.step, reducer):
        raise DamagedError(place_of(store, name), f"is of reducer {manifest.reducer} in step {manifest.step}")
    return manifest
