"""States of version 0.1 become states of this version: the engine that owns one rewrites its records.

Slices stay as they are. Their groups were hashed to other reducers then, so all reducers share them until they are
merged.
"""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from headrace.model.errors import UsageError
from headrace.model.key_groups import KEY_GROUPS, Partitioning
from headrace.model.record import convert
from headrace.model.units import FRAME
from headrace.storage.directory import (
    FORMAT,
    FORMAT_VERSION,
    UPGRADED_VERSION,
    Directory,
    StateFormat,
    commit_name,
    object_name,
)
from headrace.storage.disk import DamagedError, digest, to_record
from headrace.storage.records import Commit, Journal, Manifest, ObjectRef, SliceObject, StoredObject
from headrace.storage.store import read_stored

OLD_COPIES = 4
"""Reducers that had rows without groups."""
ID = "upgraded"


def upgrade_state(directory: Directory, *, is_derived: bool) -> None:
    """Rewrite the records of a state in the old format. The format comes last: what was left in the middle is done
    again.
    """
    fields = read_stored(directory.store, FORMAT, dict[str, Any])
    if fields["version"] != UPGRADED_VERSION:
        return
    if is_derived:
        problem = f"the state in {directory.store.location} is of version 0.1, and of results, which it has in files"
        raise UsageError("state-version", problem, hint="delete it: the queries over results then begin again")
    reducers = int(fields.pop("reducers"))
    *older, newest = directory.steps() or [0]
    if newest:
        upgrade_commit(directory, newest, reducers)
    for entry in directory.store.list("journal"):
        upgrade_journal(directory, entry.name, newest, reducers)
    directory.store.delete([*map(commit_name, older), "commits/last"])
    directory.store.put(FORMAT, to_record(convert({**fields, "version": FORMAT_VERSION}, StateFormat)))


def upgrade_commit(directory: Directory, step: int, reducers: int) -> None:
    """Rewrite a commit, with one manifest of all slices. Results were written as files when it was made."""
    fields = read_stored(directory.store, commit_name(step), dict[str, Any])
    if "slices" not in fields:
        return
    slices = [upgrade_slices(**file) for file in fields.pop("slices")]
    manifest = to_record(Manifest(step, 0, tuple(slices)))
    directory.store.put(object_name("manifests", step, 0, ID), manifest)
    del fields["results"], fields["rejected"]
    windows = fields.pop("windows", None)
    try:
        commit = convert(fields, Commit)
    except ValueError as problem:
        raise DamagedError(directory.place(commit_name(step)), f"can't be used: {problem}") from None
    upgraded = replace(
        commit,
        all_queries=step,
        reducers=reducers,
        manifests=(ObjectRef(step, ID, digest(manifest)),),
        slice_objects=len(slices),
        slice_bytes=sum(part.object.bytes for part in slices),
        windows=sum(state.windows for state in commit.queries.values()) if windows is None else windows,
    )
    directory.store.put(commit_name(step), to_record(upgraded))


def upgrade_slices(file: dict[str, Any], reducer: int, rows: int, end_us: int) -> SliceObject:
    """Return an old slice file as an object that may hold rows of all key groups."""
    return SliceObject(StoredObject(**file), rows, end_us, 0, KEY_GROUPS, ungrouped=reducer == 0, is_shared=True)


def upgrade_journal(directory: Directory, name: str, committed: int, reducers: int) -> None:
    """Write into the journal of a step that was begun which reducers it has, and which units are frames."""
    journal = read_stored(directory.store, name, Journal)
    if journal.step > committed:
        frames = directory.place("frames/")
        units = tuple(replace(unit, kind=FRAME) if unit.path.startswith(frames) else unit for unit in journal.units)
        partitioning = Partitioning(reducers, min(reducers, OLD_COPIES))
        directory.store.put(name, to_record(replace(journal, units=units, partitioning=partitioning)))
