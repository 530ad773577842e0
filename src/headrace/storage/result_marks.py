"""Folders of results belong to one state: a mark in each says which, and which step was shown last.

A state that is another one, or older than what a folder shows, would write rows a second time or over those of others.
A folder without a mark is adopted.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from uuid import uuid4

from headrace.model.errors import UsageError
from headrace.model.record import Count, Record
from headrace.storage.directory import Directory, list_states
from headrace.storage.disk import (
    DamagedError,
    make_folder,
    read_record,
    sync,
    to_record,
    translate_errors,
    write_aside,
    write_file,
)
from headrace.storage.records import Commit, ResultFolder
from headrace.storage.store import open_store, place_of

PREFIX = ".headrace-"


class ResultMark(Record, frozen=True, array_like=True):
    """Who shows results in a folder: the identity of a job, the last step that was shown, the digest of its commit.

    `is_reset`: the results of that step, and of those before, were moved aside.
    """

    identity: str
    step: Count
    commit: str
    is_reset: bool = False


class ResultMarks:
    """The marks of one state in its folders of results."""

    def __init__(self, directory: Directory, folders: Sequence[ResultFolder], *, reset: bool = False) -> None:
        self.directory = directory
        self.folders = [Path(folder.path) for folder in folders]
        self.reset = reset

    def path(self, folder: Path) -> Path:
        return folder / f"{PREFIX}{self.directory.name}.json"

    def check(self, last: Commit | None) -> set[Path]:
        """Raise an error if a folder shows results of another state, or of later steps than the last commit; with
        `reset` it is moved aside. Return the folders that no longer have the results of the last commit.
        """
        reset = set()
        for folder in self.folders:
            problem = self.problem(folder, last)
            if problem is not None and not self.reset:
                hint = (
                    "give this job a folder of its own, or restore the state that they belong to; "
                    "--reset-results (reset_results=True) moves them aside and begins with an empty folder"
                )
                raise UsageError("results-owned", f"the results in {folder} {problem}", hint=hint)
            if problem is not None or (self.reset and not folder.exists()):
                self.reset_folder(folder)
            mark = read_mark(self.path(folder)) if self.path(folder).exists() else None
            if last is not None and mark is not None and mark.is_reset and mark.step == last.step:
                reset.add(folder)
        return reset

    def reset_folder(self, folder: Path) -> None:
        """Move a folder aside. The new one has the marks of all streams of the job from the beginning."""
        new = folder.with_name(f".{folder.name}-{uuid4().hex}")
        make_folder(new)
        job = self.directory.job
        for name in list_states(job):
            other = Directory(open_store(place_of(job, name)), self.directory.reducers)
            if (last := other.last_commit()) is not None:
                mark = ResultMark(self.directory.identity, last.step, other.commit_digest(last.step), is_reset=True)
                write_file(new / f"{PREFIX}{name}.json", to_record(mark))
        with translate_errors(folder):
            if folder.exists():
                folder.rename(unused_name(folder))
            new.rename(folder)
            sync(folder.parent)

    def problem(self, folder: Path, last: Commit | None) -> str | None:
        for path in sorted(folder.glob(f"{PREFIX}*.json")):
            if read_mark(path).identity != self.directory.identity:
                return "belong to another state"
        path = self.path(folder)
        if not path.exists():
            return None
        mark, step = read_mark(path), last.step if last else 0
        if mark.step > step:
            return f"are of a later step than the state: {mark.step}, and the state is at {step}"
        if mark.step in self.directory.steps() and self.directory.commit_digest(mark.step) != mark.commit:
            return f"are those of a copy of the state that had another step {mark.step}"
        return None

    def write(self, commit: Commit) -> Iterator[Path]:
        """Mark the folders before the results of a step are shown; yield what must be synced before the next commit."""
        if not commit.results:
            return
        mark = ResultMark(self.directory.identity, commit.step, self.directory.commit_digest(commit.step))
        for folder in self.folders:
            path = self.path(folder)
            make_folder(folder)
            with translate_errors(path):
                os.replace(write_aside(path, to_record(mark), is_synced=False), path)
            yield path
            yield folder


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
