"""Folders of results belong to one job: a mark of each of its streams says which, and which step was written last.

A state that is another one, or older than what a folder shows, would write rows a second time or over those of others.
A folder without a mark is adopted.
"""

from __future__ import annotations

from functools import cached_property
from pathlib import Path
from uuid import uuid4

from headrace.model.errors import UsageError
from headrace.model.record import Count, Record
from headrace.storage.directory import Directory, list_states
from headrace.storage.disk import DamagedError, make_folder, read_record, sync, to_record, translate_errors, write_file
from headrace.storage.records import Commit
from headrace.storage.store import open_store, place_of

PREFIX = ".headrace-"


class ResultMark(Record, frozen=True, array_like=True):
    """Whose results a folder has: the identity of a job, the last step that was written, the digest of its commit."""

    identity: str
    step: Count
    commit: str


class ResultMarks:
    """The mark of one state in a folder of results."""

    def __init__(self, directory: Directory, folder: Path) -> None:
        self.directory = directory
        self.folder = folder
        self.path = folder / f"{PREFIX}{directory.name}.json"

    @cached_property
    def identity(self) -> str:
        return self.directory.identity

    def check(self, last: Commit | None, *, reset: bool = False) -> None:
        """Raise an error if the folder has results of another state, or of later steps than the last commit; with
        `reset` it is moved aside.
        """
        problem = self.problem(last)
        if problem is not None and not reset:
            hint = (
                "give this job a folder of its own, or restore the state that they belong to; "
                "--reset-results (reset_results=True) moves them aside and begins with an empty folder"
            )
            raise UsageError("results-owned", f"the results in {self.folder} {problem}", hint=hint)
        if problem is not None or (reset and not self.folder.exists()):
            self.reset_folder()

    def step(self) -> int | None:
        """Return the last step that was written; None if the folder has no mark."""
        return read_mark(self.path).step if self.path.exists() else None

    def reset_folder(self) -> None:
        """Move the folder aside. The new one has the marks of all streams of the job, so that no old results come."""
        folder = self.folder
        new = folder.with_name(f".{folder.name}-{uuid4().hex}")
        make_folder(new)
        job = self.directory.job
        for name in list_states(job):
            other = Directory(open_store(place_of(job, name)))
            if steps := other.steps():
                mark = ResultMark(self.identity, steps[-1], other.commit_digest(steps[-1]))
                write_file(new / f"{PREFIX}{name}.json", to_record(mark))
        with translate_errors(folder):
            if folder.exists():
                folder.rename(unused_name(folder))
            new.rename(folder)
            sync(folder.parent)

    def problem(self, last: Commit | None) -> str | None:
        for path in sorted(self.folder.glob(f"{PREFIX}*.json")):
            if read_mark(path).identity != self.identity:
                return "belong to another state"
        if not self.path.exists():
            return None
        mark, step = read_mark(self.path), last.step if last else 0
        if mark.step > step:
            return f"are of a later step than the state: {mark.step}, and the state is at {step}"
        if mark.step in self.directory.steps() and self.directory.commit_digest(mark.step) != mark.commit:
            return f"are those of a copy of the state that had another step {mark.step}"
        return None

    def write(self, step: int) -> None:
        """Note that all results up to a step are written, unless another engine is further."""
        if (self.step() or 0) < step:
            mark = ResultMark(self.identity, step, self.directory.commit_digest(step))
            write_file(self.path, to_record(mark))


def read_mark(path: Path) -> ResultMark:
    try:
        return read_record(path, ResultMark)
    except DamagedError:
        problem = f"{path}, which says whose results these are, is damaged"
        hint = "delete it if you are sure that the results are those of this job"
        raise UsageError("results-owned", problem, hint=hint) from None


def unused_name(folder: Path) -> Path:
    number = 1
    while (path := folder.with_name(f"{folder.name}.old-{number}")).exists():
        number += 1
    return path
