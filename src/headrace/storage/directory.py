"""The state directory: one owner, one log of commit records, and only what the last of them names exists.

format.json            version, number of reducers, declaration of the stream
lock, epochs/          who owns it
journal/, commits/     per step what it depends on, and what came of it
registry/, plans/, tables/, inputs/, slices/, rejected/, frames/, inbox/, outbox/, spark/
exchange/              what edges send and are sent, unless it is elsewhere
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple
from uuid import uuid4

import pyarrow as pa

from headrace.model.errors import UsageError
from headrace.model.record import Count, Record
from headrace.planner.codec import decode, digest_of, encode
from headrace.planner.plan import Plan
from headrace.storage.disk import (
    DamagedError,
    create_file,
    digest,
    make_folder,
    read_file,
    read_record,
    to_record,
    write_file,
)
from headrace.storage.records import Commit, Journal

FORMAT_VERSION = 2
FOLDERS = (
    "epochs",
    "journal",
    "commits",
    "registry",
    "plans",
    "tables",
    "inputs",
    "slices",
    "rejected",
    "frames",
    "inbox",
    "outbox",
)


@dataclass(frozen=True, slots=True)
class Directory:
    """Reads and writes records; owns nothing by itself."""

    root: Path
    reducers: int

    # Records of steps

    def journal_path(self, step: int, attempt: int = 0) -> Path:
        return self.root / "journal" / (f"{step:09}-{attempt}.json" if attempt else f"{step:09}.json")

    def commit_path(self, step: int) -> Path:
        return self.root / "commits" / f"{step:09}.json"

    def journal(self, step: int, attempt: int = 0) -> Journal | None:
        """What an attempt at a step depends on; None if there was none."""
        path = self.journal_path(step, attempt)
        if not path.exists():
            return None
        journal = read_record(path, Journal)
        if journal.key != (step, attempt):
            raise DamagedError(path, f"is the journal of step {journal.step}, attempt {journal.attempt}")
        return journal

    def newest_journal(self, step: int) -> Journal | None:
        """That of the last attempt that was no trial."""
        journals = (self.journal(step, attempt) for attempt in range(self.attempts(step) - 1, -1, -1))
        return next((journal for journal in journals if journal is not None and not journal.is_trial), None)

    def attempts(self, step: int) -> int:
        """How many there are."""
        attempt = 0
        while self.journal_path(step, attempt).exists():
            attempt += 1
        return attempt

    def write_journal(self, journal: Journal) -> bool:
        return create_file(self.journal_path(*journal.key), to_record(journal))

    def steps(self) -> list[int]:
        return sorted(int(path.stem) for path in (self.root / "commits").glob("[0-9]*.json"))

    def commit(self, step: int) -> Commit:
        path = self.commit_path(step)
        commit = read_record(path, Commit)
        if commit.step != step:
            raise DamagedError(path, f"is the commit record of step {commit.step}")
        return commit

    def last_commit(self) -> Commit | None:
        """The newest one, which must follow the one before it and be followed by no journal but the next."""
        steps = self.steps()
        later = [int(path.name[:9]) for path in (self.root / "journal").glob("[0-9]*.json")]
        newest = steps[-1] if steps else 0
        for step in later:
            if step > newest + 1:
                raise DamagedError(self.commit_path(step - 1), "is missing, but a later step began")
        note = self.root / "commits" / "last"
        if note.exists() and (noted := read_record(note, int)) > newest:
            raise DamagedError(self.commit_path(noted), "is missing")
        if not steps:
            return None
        commit = self.commit(newest)
        if newest > 1 and commit.previous != self.commit_digest(newest - 1):
            raise DamagedError(self.commit_path(newest - 1), "is not the one that the next step followed")
        return commit

    def note_commit(self, step: int) -> None:
        """That there was one: should it get lost, that is noticed."""
        write_file(self.root / "commits" / "last", to_record(step))

    def commit_digest(self, step: int) -> str:
        return digest(read_file(self.commit_path(step)))

    # Plans and static tables are known by their digests. The name of a file also has the step that wrote it: what the
    # last commit does not name is written again, since another engine may be about to delete the file of an older step

    def keep_plan(self, plan: Plan, step: int, live: Collection[str]) -> str:
        """Store a plan for a step, unless it is among the live ones, which the last commit names; return its name."""
        text = encode(plan)
        return self.keep_content("plans", digest_of(text), text.encode(), step, live)

    def plan(self, name: str) -> Plan:
        return read_plan(self.root / "plans", name)

    def keep_table(self, table: pa.Table, step: int, live: Collection[str]) -> str:
        """Store a static table, as `keep_plan` does a plan."""
        sink = pa.BufferOutputStream()
        with pa.ipc.new_file(sink, table.schema) as writer:
            writer.write_table(table.combine_chunks())
        data = bytes(sink.getvalue())
        return self.keep_content("tables", digest(data), data, step, live)

    def table(self, name: str) -> pa.Table:
        return read_arrow(self.root / "tables", name)

    def table_bytes(self, name: str) -> bytes:
        return read_file(find_content(self.root / "tables", name), name)

    def keep_content(self, folder: str, name: str, data: bytes, step: int, live: Collection[str]) -> str:
        path = self.root / folder / f"{step:09}-{name}{ENDINGS[folder]}"
        if name not in live and not path.exists():
            write_file(path, data)
        return name

    @property
    def identity(self) -> str:
        """What folders of results know the job by; all streams of a job have the same."""
        path = self.root.parent / "identity"
        if not path.exists():
            create_file(path, to_record(uuid4().hex))
        return read_record(path, str)


ENDINGS = {"plans": ".json", "tables": ".arrow"}


def content_name(file_name: str) -> tuple[int, str]:
    """The step that wrote a plan or a table, and its digest. Files of version 0.1 have no step."""
    stem = file_name.partition(".")[0]
    step, dash, name = stem.partition("-")
    return (int(step), name) if dash else (0, stem)


def find_content(folder: Path, name: str) -> Path:
    """The file of a plan or table; if it was written more than once, any of them."""
    for path in folder.glob(f"*{name}{ENDINGS[folder.name]}"):
        if content_name(path.name)[1] == name:
            return path
    raise DamagedError(folder / f"*-{name}{ENDINGS[folder.name]}", "is missing")


@lru_cache(maxsize=16)
def read_plan(folder: Path, name: str) -> Plan:
    path = find_content(folder, name)
    text = read_file(path).decode("utf-8", "replace")
    if digest_of(text) != name:
        raise DamagedError(path, "is damaged: it has another checksum than when it was written")
    plan: Plan = decode(text)
    return plan


@lru_cache(maxsize=16)
def read_arrow(folder: Path, name: str) -> pa.Table:
    return pa.ipc.open_file(pa.py_buffer(read_file(find_content(folder, name), name))).read_all()


class Beginning(NamedTuple):
    """Where a stream of results begins: behind a step of those results, which were closed up to a time."""

    step: int = 0
    time_us: int | None = None


FIRST = Beginning()


class StateFormat(Record, frozen=True):
    """What a state directory is, in `format.json`: the stream is known by the text that declares it."""

    version: Count
    reducers: Count
    declaration: str
    beginning: Beginning = FIRST


def prepare(root: Path, declaration: str, reducers: int, beginning: Beginning = FIRST) -> Directory:
    """A new state directory, or the one that is there: its number of reducers stays, and it must be of this stream."""
    make_folder(root)
    for name in FOLDERS:
        make_folder(root / name)
    path = root / "format.json"
    if any((root / "commits").iterdir()) and not path.exists():
        raise DamagedError(path, "is missing")
    create_file(path, to_record(StateFormat(FORMAT_VERSION, reducers, declaration, beginning)))
    known = read_format(path)
    if known.declaration != declaration:
        raise UsageError(
            "state-schema",
            f"the state in {root} is of a stream with another declaration",
            detail=f"it was declared as {known.declaration}",
            hint="declare it as it was, or start over with an empty state directory",
        )
    return Directory(root, known.reducers)


def open_directory(root: Path) -> Directory:
    path = root / "format.json"
    if not path.exists():
        raise UsageError("state", f"there is no state in {root}", hint="headrace run makes it")
    return Directory(root, read_format(path).reducers)


def read_format(path: Path) -> StateFormat:
    """Return the format of a state. The version comes first: those to come may have other fields."""
    version = read_record(path, dict[str, Any]).get("version")
    if version != FORMAT_VERSION:
        problem = f"the state in {path.parent} has format {version}, this program has {FORMAT_VERSION}"
        raise UsageError("state-version", problem, hint="use the version of Headrace that wrote it")
    return read_record(path, StateFormat)
