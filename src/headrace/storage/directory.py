"""The state of a stream: one owner, one log of commit records, and only what the last of them names exists.

format.json            version, declaration of the stream
epochs/                who owns it; on a disk a file `lock` beside, else `alive/`
journal/, commits/     per step what it depends on, and what came of it
manifests/             per reducer what it has after a step: names of objects in slices/ and outputs/ (results)
registry/, plans/, tables/, inputs/, rejected/, frames/, inbox/, outbox/
spark/, exchange/      on a disk only: Spark's checkpoint, and what edges send and are sent, unless it is elsewhere
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Collection
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple
from uuid import uuid4

import pyarrow as pa
from msgspec.structs import replace

from headrace.model.errors import UsageError
from headrace.model.record import Count, Record, convert
from headrace.planner.codec import decode, digest_of, encode
from headrace.planner.plan import Plan
from headrace.storage.disk import DamagedError, digest, local_path, to_record
from headrace.storage.records import Commit, Journal, QueryState
from headrace.storage.store import (
    Store,
    find_stored,
    is_remote,
    open_store,
    place_of,
    read_object,
    read_stored,
    store_threads,
)

FORMAT_VERSION = 3
UPGRADED_VERSION = 2
"""The format that an engine upgrades when it starts."""
FORMAT = "format.json"
STATES = ".states"
"""Where a job in an object store has an object for each of its states: a listing has no folders there."""


@dataclass(frozen=True, slots=True)
class Directory:
    """Reads and writes records; owns nothing by itself."""

    store: Store
    id: str = field(default_factory=lambda: uuid4().hex)
    """What was read is kept under it: every opening has its own, since a state may be deleted and made again."""

    @property
    def root(self) -> Path:
        """The directory, if the state is on a disk."""
        return local_path(self.store.location)

    @property
    def name(self) -> str:
        """The name of the stream, or of the results, that it is of."""
        return self.store.location.rpartition("/")[2]

    @property
    def job(self) -> Store:
        """Where the states of all streams of the job are."""
        return open_store(self.store.location.rpartition("/")[0])

    def place(self, name: str) -> str:
        return place_of(self.store, name)

    def name_at(self, place: str) -> str:
        """Return the name of an object of the state at a place."""
        return place.removeprefix(f"{self.store.location}/")

    # Records of steps

    def journal(self, step: int, attempt: int = 0) -> Journal | None:
        """What an attempt at a step depends on; None if there was none."""
        name = journal_name(step, attempt)
        journal = find_stored(self.store, name, Journal)
        if journal is not None and journal.key != (step, attempt):
            raise DamagedError(self.place(name), f"is the journal of step {journal.step}, attempt {journal.attempt}")
        return journal

    def newest_journal(self, step: int) -> Journal | None:
        """That of the last attempt that was no trial."""
        journals = (self.journal(step, attempt) for attempt in range(self.attempts(step) - 1, -1, -1))
        return next((journal for journal in journals if journal is not None and not journal.is_trial), None)

    def attempts(self, step: int) -> int:
        """How many there are."""
        names = {entry.name for entry in self.store.list("journal")}
        attempt = 0
        while journal_name(step, attempt) in names:
            attempt += 1
        return attempt

    def write_journal(self, journal: Journal) -> bool:
        return self.store.create(journal_name(*journal.key), to_record(journal))

    def steps(self) -> list[int]:
        return list_steps(self.store, "commits")

    def commit(self, step: int) -> Commit:
        """Return the record of a step, with the queries that changed in it; `last_commit` has all."""
        commit = read_stored(self.store, commit_name(step), Commit)
        if commit.step != step:
            raise DamagedError(self.place(commit_name(step)), f"is the commit record of step {commit.step}")
        return commit

    def last_commit(self) -> Commit | None:
        """Return the newest record, which must follow the one before it and be followed by no journal but the next,
        with all queries.
        """
        steps = self.steps()
        newest = steps[-1] if steps else 0
        for step in list_steps(self.store, "journal"):
            if step > newest + 1:
                raise DamagedError(self.place(commit_name(step - 1)), "is missing, but a later step began")
        if not steps:
            return None
        commit = self.commit(newest)
        if len(steps) > 1 and commit.previous != self.commit_digest(newest - 1):
            raise DamagedError(self.place(commit_name(newest - 1)), "is not the one that the next step followed")
        return self.with_all_queries(commit)

    def with_all_queries(self, commit: Commit) -> Commit:
        """Return a record with the queries that did not change in its step, from those before it."""
        queries: dict[str, QueryState] = {}
        older = range(commit.all_queries, commit.step) if commit.all_queries else ()
        for record in (*store_threads().map(self.commit, older), commit):
            queries = {name: state for name, state in queries.items() if name not in record.left} | dict(record.queries)
        return replace(commit, queries=queries, left=())

    def commit_digest(self, step: int) -> str:
        return digest(read_object(self.store, commit_name(step)))

    # Plans and static tables are known by their digests. The name of an object also has the step that wrote it: what
    # the last commit does not name is written again, since another engine may be about to delete that of an older step

    def keep_plan(self, plan: Plan, step: int, live: Collection[str]) -> str:
        """Store a plan for a step, unless it is among the live ones, which the last commit names; return its name."""
        text = encode(plan)
        return self.keep_content("plans", digest_of(text), text.encode(), step, live)

    def plan(self, name: str) -> Plan:
        return read_plan(self.store.location, name)

    def keep_table(self, table: pa.Table, step: int, live: Collection[str]) -> str:
        """Store a static table, as `keep_plan` does a plan."""
        sink = pa.BufferOutputStream()
        with pa.ipc.new_file(sink, table.schema) as writer:
            writer.write_table(table.combine_chunks())
        data = bytes(sink.getvalue())
        return self.keep_content("tables", digest(data), data, step, live)

    def table(self, name: str) -> pa.Table:
        return read_arrow(self.store.location, name)

    def table_bytes(self, name: str) -> bytes:
        return read_object(self.store, find_content(self.store, "tables", name), name)

    def keep_content(self, folder: str, name: str, data: bytes, step: int, live: Collection[str]) -> str:
        stored_name = f"{folder}/{step:09}-{name}{ENDINGS[folder]}"
        if name not in live and not self.store.create(stored_name, data):
            self.store.put(stored_name, data)  # it is damaged
        return name

    @property
    def identity(self) -> str:
        """What folders of results know the job by; all streams of a job have the same."""
        if (known := find_stored(self.job, "identity", str)) is not None:
            return known
        self.job.create("identity", to_record(uuid4().hex))
        return read_stored(self.job, "identity", str)


def journal_name(step: int, attempt: int = 0) -> str:
    return f"journal/{step:09}-{attempt}.json" if attempt else f"journal/{step:09}.json"


def commit_name(step: int) -> str:
    return f"commits/{step:09}.json"


def object_name(folder: str, step: int, reducer: int | str, id: str) -> str:
    """Return the name of an object that a reducer writes in a step; `id` is that of its attempt."""
    return f"{folder}/{step:09}-{reducer}-{id}{ENDINGS[folder]}"


def list_steps(store: Store, folder: str) -> list[int]:
    """Return the steps that have records there, in order."""
    names = (entry.name.rpartition("/")[2] for entry in store.list(folder))
    return sorted({int(name[:9]) for name in names if name[:9].isdigit() and name.endswith(".json")})


ENDINGS = {"plans": ".json", "tables": ".arrow", "manifests": ".json", "slices": ".slices", "outputs": ".results"}


def content_name(file_name: str) -> tuple[int, str]:
    """The step that wrote a plan or a table, and its digest. Those of version 0.1 have no step."""
    stem = file_name.partition(".")[0]
    step, dash, name = stem.partition("-")
    return (int(step), name) if dash else (0, stem)


def find_content(store: Store, folder: str, name: str) -> str:
    """The object of a plan or table; if it was written more than once, any of them."""
    for entry in store.list(folder):
        if content_name(entry.name.rpartition("/")[2])[1] == name:
            return entry.name
    raise DamagedError(place_of(store, f"{folder}/*-{name}{ENDINGS[folder]}"), "is missing")


@lru_cache(maxsize=16)
def read_plan(location: str, name: str) -> Plan:
    store = open_store(location)
    object_name = find_content(store, "plans", name)
    text = read_object(store, object_name).decode("utf-8", "replace")
    if digest_of(text) != name:
        place = place_of(store, object_name)
        raise DamagedError(place, "is damaged: it has another checksum than when it was written")
    plan: Plan = decode(text)
    return plan


@lru_cache(maxsize=16)
def read_arrow(location: str, name: str) -> pa.Table:
    store = open_store(location)
    data = read_object(store, find_content(store, "tables", name), name)
    return pa.ipc.open_file(pa.py_buffer(data)).read_all()


class Beginning(NamedTuple):
    """Where a stream of results begins: behind a step of those results, which were closed up to a time."""

    step: int = 0
    time_us: int | None = None


FIRST = Beginning()


class StateFormat(Record, frozen=True):
    """What a state is, in `format.json`: the stream is known by the text that declares it."""

    version: Count
    declaration: str
    beginning: Beginning = FIRST


def prepare(place: str | os.PathLike[str], declaration: str, beginning: Beginning = FIRST) -> Directory:
    """Return a new state, or the one that is there, which must be of this stream."""
    store = open_store(place)
    known = find_format(store)
    if known is None:
        if store.list("commits"):
            raise DamagedError(place_of(store, FORMAT), "is missing")
        store.create(FORMAT, to_record(StateFormat(FORMAT_VERSION, declaration, beginning)))
        known = read_format(store)
    if known.declaration != declaration:
        raise UsageError(
            "state-schema",
            f"the state in {store.location} is of a stream with another declaration",
            detail=f"it was declared as {known.declaration}",
            hint="declare it as it was, or start over with an empty state directory",
        )
    directory = Directory(store)
    if is_remote(store.location):
        directory.job.create(f"{STATES}/{directory.name}", b"")
    return directory


def find_directory(place: str | os.PathLike[str]) -> Directory | None:
    """Return the state that is there, if there is one."""
    store = open_store(place)
    known = find_format(store)
    if known is not None and known.version != FORMAT_VERSION:
        problem = f"the state in {store.location} was written by an older version"
        raise UsageError("state-version", problem, hint="headrace run upgrades it when the job is started")
    return None if known is None else Directory(store)


def list_states(job: Store) -> list[str]:
    """Return the names of the states of a job."""
    if is_remote(job.location):
        return [entry.name.rpartition("/")[2] for entry in job.list(STATES)]
    return sorted(path.parent.name for path in Path(job.location).glob(f"*/{FORMAT}"))


def delete_state(directory: Directory) -> None:
    """Delete a state that nobody owns."""
    if is_remote(directory.store.location):
        directory.job.delete([f"{STATES}/{directory.name}"])
        directory.store.delete([entry.name for entry in directory.store.list("")])
    else:
        shutil.rmtree(directory.root)


def open_directory(place: str | os.PathLike[str]) -> Directory:
    directory = find_directory(place)
    if directory is None:
        raise UsageError("state", f"there is no state in {open_store(place).location}", hint="headrace run makes it")
    return directory


def read_format(store: Store) -> StateFormat:
    known = find_format(store)
    if known is None:
        raise DamagedError(place_of(store, FORMAT), "is missing")
    return known


def find_format(store: Store) -> StateFormat | None:
    """Return the format of a state. The version comes first: those to come may have other fields."""
    fields = find_stored(store, FORMAT, dict[str, Any])
    if fields is None:
        return None
    version = fields.get("version")
    if version == UPGRADED_VERSION:
        del fields["reducers"]
    elif version != FORMAT_VERSION:
        problem = f"the state in {store.location} has format {version}, this program has {FORMAT_VERSION}"
        raise UsageError("state-version", problem, hint="use the version of Headrace that wrote it")
    try:
        return convert(fields, StateFormat)
    except ValueError as problem:
        raise DamagedError(place_of(store, FORMAT), f"can't be used: {problem}") from None
