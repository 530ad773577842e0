"""The spool: frames on the disk until the upper side has them, and with each how far its source was read.

<edge>~<incarnation>~<sequence>.spooled    a record of what the edge knew when it cut the frame, then the frame
known.json                                 what the records of frames said that are gone
lock                                       held while an agent runs

A frame and the place behind it in the source are one file, so both are there or neither is. So are the frames that
share a span of the source, since there is no place between them. With the record goes a checksum of them all.
"""

from __future__ import annotations

import fcntl
import json
import os
import threading
from collections import deque
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import accumulate, pairwise
from pathlib import Path
from typing import Annotated

import msgspec

from headrace.edge.edge_state import EdgeRecord, Known, nothing_known
from headrace.model.errors import UsageError
from headrace.model.record import Record, convert
from headrace.storage.disk import (
    TEMPORARY,
    DamagedError,
    digest,
    make_folder,
    read_file,
    read_record,
    to_record,
    translate_errors,
    write_file,
)
from headrace.wire.frames import Header

SUFFIX = ".spooled"
SETTLED_EVERY = 16
"""Frames that the upper side has are deleted in groups: what they said of the source is then written once."""
RECOVERY_HINT = (
    "an edge can continue without it: delete this file and all .spooled files after it by name, then start again. Their"
    " rows are read again from files that are still there, all others are lost; see docs/edge.md, also for a relay"
)

LOST = (
    "restore it from a copy. Without it nobody knows which files were read: their rows would count twice. docs/edge.md"
    " says what to do when a state is lost"
)


@contextmanager
def add_recovery_hint() -> Iterator[None]:
    """Add the hint to the error of a damaged file with frames: those before it are not concerned."""
    try:
        yield
    except DamagedError as problem:
        problem.hint = RECOVERY_HINT
        raise


@contextmanager
def refusing_fields(path: Path) -> Iterator[None]:
    """Values that no agent writes are damage, whatever the checksum says."""
    try:
        yield
    except (ValueError, KeyError, TypeError, RecursionError) as problem:
        raise DamagedError(path, f"is damaged: {problem}") from None


class SpoolHead(Record, frozen=True):
    """What a file of the spool says of the frames behind it."""

    record: EdgeRecord
    checksum: str
    sizes: Annotated[list[Annotated[int, msgspec.Meta(ge=1)]], msgspec.Meta(min_length=1)]


@dataclass(frozen=True, slots=True)
class SpooledFrame:
    """A frame in the spool. Its bytes are read when they are sent, and none of a file that is damaged. `is_last`: of
    those in its file.
    """

    path: Path
    head: SpoolHead
    head_bytes: int
    begin: int
    size: int
    is_last: bool

    @add_recovery_hint()
    def frame(self) -> bytes:
        frames = read_file(self.path)[self.head_bytes :]
        end = self.begin + self.size
        if digest(frames) != self.head.checksum:
            raise DamagedError(self.path, "is damaged: its frame has another checksum than when it was written")
        if end > len(frames) or (self.is_last and end < len(frames)):
            raise DamagedError(self.path, "is damaged: its frames have other sizes than when they were written")
        return frames[self.begin : end]


def entries_in(path: Path, head: SpoolHead, head_bytes: int) -> list[SpooledFrame]:
    """Return the frames of a file."""
    begins = list(accumulate(head.sizes, initial=0))
    return [
        SpooledFrame(path, head, head_bytes, begin, end - begin, is_last=end == begins[-1])
        for begin, end in pairwise(begins)
    ]


@add_recovery_hint()
def read_entries(path: Path) -> list[SpooledFrame]:
    try:
        with open(path, "rb") as file:
            head, text = file.readline(), file.readline()
    except OSError as problem:
        raise DamagedError(path, f"can't be read: {problem.strerror}") from None
    if digest(text.removesuffix(b"\n")) != head.decode("ascii", "replace").strip():
        raise DamagedError(path, "is damaged: its record has another checksum than when it was written")
    with refusing_fields(path):
        document = json.loads(text)
        if "record" not in document:
            raise DamagedError(path, "is of an older version of Headrace: let that one send it")
        return entries_in(path, convert(document, SpoolHead), len(head) + len(text))


class Spool:
    """One agent adds, a thread of its own sends. Only who adds writes and deletes files."""

    def __init__(self, folder: Path, edge: str, stream: str) -> None:
        make_folder(folder)
        self.folder = folder
        self.lock = lock_file(folder / "lock")
        self.changed = threading.Condition()
        self.waiting: deque[SpooledFrame] = deque()
        self.sent: list[SpooledFrame] = []
        self.waiting_bytes = 0
        try:
            self.settled = self.read_settled(edge, stream)
            self.known = self.settled
            self.read_waiting()
        except BaseException:
            self.close()
            raise

    def read_settled(self, edge: str, stream: str) -> Known:
        path = self.folder / "known.json"
        if not path.exists():
            self.check_new(path)
            write_file(path, to_record(nothing_known(edge, stream)))
        with refusing_fields(path):
            known = convert(read_record(path, dict), Known)
        if (known.edge, known.stream) != (edge, stream):
            problem = f"{self.folder} is the state of edge {known.edge} for stream {known.stream}"
            raise UsageError("state", problem, hint=f"give {edge} a state directory of its own")
        return known

    def check_new(self, path: Path) -> None:
        """Frames are spooled only after `known.json` was written: beside them, none is no beginning."""
        if any(self.folder.glob(f"*{SUFFIX}")):
            problem = DamagedError(path, f"is missing, and there are {SUFFIX} files beside it")
            problem.hint = LOST
            raise problem

    def read_waiting(self) -> None:
        """What waits is sent again; what an agent was about to write or to delete when it ended goes."""
        for half in self.folder.glob(f"{TEMPORARY}*"):
            half.unlink()
        for path in sorted(self.folder.glob(f"*{SUFFIX}")):
            entries = read_entries(path)
            if entries[-1].head.record.key <= self.settled.key:
                path.unlink()
            else:
                self.enqueue(entries)

    def enqueue(self, entries: Sequence[SpooledFrame]) -> None:
        """All of one file."""
        self.known = self.known.after(entries[-1].head.record)
        self.waiting.extend(entries)
        self.waiting_bytes += sum(entry.size for entry in entries)

    # For who cuts frames

    def add(self, header: Header, record: EdgeRecord, *frames: bytes) -> None:
        """All are on the disk when this returns, or none is if it does not. The header is that of the last."""
        path = self.folder / f"{header.file_name}{SUFFIX}"
        data = b"".join(frames)
        head = SpoolHead(record, digest(data), [len(frame) for frame in frames])
        text = to_record(head)
        write_file(path, text + data)
        with self.changed:
            self.enqueue(entries_in(path, head, len(text)))
            self.changed.notify_all()

    def settle(self, present: Collection[str] | None, *, at_once: bool = False) -> None:
        """Delete frames that the upper side has. Files that are not present are forgotten after a time."""
        with self.changed:
            done = self.sent if at_once or len(self.sent) >= SETTLED_EVERY else []
            self.sent = self.sent[len(done) :]
        if not done:
            return
        for entry in done:
            self.settled = self.settled.after(entry.head.record)
        if present is not None:
            self.settled = self.settled.with_files(present)
        write_file(self.folder / "known.json", to_record(self.settled))
        with translate_errors(self.folder):
            for entry in done:
                entry.path.unlink()

    def wait_for_room(self, timeout_s: float) -> None:
        """Until something was sent, or for some time."""
        with self.changed:
            self.changed.wait(timeout_s)

    def close(self) -> None:
        os.close(self.lock)

    # For who sends

    def first(self, timeout_s: float) -> SpooledFrame | None:
        """The frame to send next, if there is one or comes in time."""
        with self.changed:
            if not self.waiting:
                self.changed.wait(timeout_s)
            return self.waiting[0] if self.waiting else None

    def acknowledge(self) -> None:
        """The upper side has the first frame."""
        with self.changed:
            entry = self.waiting.popleft()
            self.waiting_bytes -= entry.size
            if entry.is_last:
                self.sent.append(entry)
            self.changed.notify_all()


def lock_file(path: Path) -> int:
    """Held until it is closed, or the process ends."""
    with translate_errors(path):
        lock = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(lock)
            raise UsageError("state-in-use", f"another agent runs with {path.parent}", hint="stop it first") from None
    return lock
