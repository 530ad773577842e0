"""Sinks follow the commits: each has a thread that takes the results of committed steps, in order, beside later steps.

How far it came is its cursor. Results stay in the state until every sink has them. A slow sink delays itself only; one
that fails ends the run, and begins behind its cursor at the next start.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Protocol
from uuid import uuid4

import pyarrow as pa

from headrace.engine.sinks.file_formats import FORMATS
from headrace.engine.sinks.sinks import Callback, ResultFolder, Sink
from headrace.storage.directory import Directory
from headrace.storage.disk import begin_sync, make_folder, to_record, translate_errors, write_whole
from headrace.storage.records import Commit, ResultObject, ResultSection
from headrace.storage.result_marks import ResultMarks
from headrace.storage.results import read_sections, results_of
from headrace.storage.store import find_stored

LOG = logging.getLogger(__name__)
STAGING = ".staged"
"""The folder of files that are being written: readers skip names that begin with a dot."""
MARKED_EVERY = 32
"""Steps without results after which a cursor is written all the same: records are kept for some more."""


class Target(Protocol):
    """Where a follower delivers results to, one step after the other."""

    def cursor(self, last: Commit | None) -> int | None:
        """Return the last step that was delivered; None if all results that are kept are to be."""

    def deliver(self, commit: Commit) -> None:
        """Deliver the results of a step; it is not delivered again once this returns."""


class FileTarget:
    """Writes a file per query, step and reducer. The mark in the folder is its cursor."""

    def __init__(self, folder: ResultFolder, directory: Directory) -> None:
        self.root = Path(folder.path)
        self.format = folder.format
        self.directory = directory
        self.marks = ResultMarks(directory, self.root)
        self.staging = self.root / STAGING / directory.name
        self.marked = 0

    def cursor(self, last: Commit | None) -> int | None:
        self.delete_staged()
        known = self.marks.step()
        self.marked = known or 0
        return known

    def delete_staged(self) -> None:
        """Delete what a process that died was writing."""
        if self.staging.exists():
            for path in self.staging.iterdir():
                path.unlink(missing_ok=True)

    def deliver(self, commit: Commit) -> None:
        """Write the files aside, then give them their names: a reader sees whole files only. It does no harm to write
        them again.
        """
        written: dict[Path, Path] = {}
        for results in results_of(self.directory, commit):
            for section, table in read_tables(self.directory, results):
                path = self.root / section.query / file_name(commit.step, results, section, self.format)
                written[path] = self.write_aside(table)
        begin_sync(written.values())()
        for path, staged in written.items():
            make_folder(path.parent)
            with translate_errors(path):
                staged.replace(path)
        begin_sync({path.parent for path in written})()
        if written or commit.step - self.marked >= MARKED_EVERY:
            make_folder(self.root)
            self.marks.write(commit.step)
            self.marked = commit.step

    def write_aside(self, table: pa.Table) -> Path:
        make_folder(self.staging)
        path = self.staging / uuid4().hex
        with translate_errors(path):
            write_whole(path, FORMATS[self.format](table), is_synced=False)
        return path


def file_name(step: int, results: ResultObject, section: ResultSection, file_format: str) -> str:
    """Return the name of a file: with the reducer, unless the rows were chosen from those of all."""
    reducer = results.object.name.split("-")[-2]
    part = f"-{reducer}" if reducer.isdigit() else ""
    former = f"-former-{section.generation}" if section.is_former else ""
    return f"step-{step:09}{part}{former}.{file_format}"


class RowTarget:
    """Hands the rows of each query to a sink in this process. With a name its cursor is kept in the state."""

    def __init__(self, sink: Sink, directory: Directory, name: str | None) -> None:
        self.sink = sink
        self.directory = directory
        self.object = None if name is None else f"cursors/{name}"

    def cursor(self, last: Commit | None) -> int:
        """Return where to begin: if nothing is known, before the last step. That is known from then on."""
        known = find_stored(self.directory.store, self.object, int) if self.object is not None else None
        if known is not None:
            return known
        begin = max(0, last.step - 1) if last else 0
        self.write_cursor(begin)
        return begin

    def write_cursor(self, step: int) -> None:
        if self.object is not None:
            self.directory.store.put(self.object, to_record(step))

    def deliver(self, commit: Commit) -> None:
        by_query: dict[str, list[pa.Table]] = {}
        for results in results_of(self.directory, commit):
            for section, table in read_tables(self.directory, results):
                by_query.setdefault(section.query, []).append(table)
        for query, tables in by_query.items():
            self.sink(query, commit.step, pa.concat_tables(tables))
        if by_query or commit.step % MARKED_EVERY == 0:
            self.write_cursor(commit.step)


def read_tables(directory: Directory, results: ResultObject) -> Iterable[tuple[ResultSection, pa.Table]]:
    """Yield the sections of an object that are results, with their rows."""
    sections = [section for section in results.sections if not section.is_candidate]
    places = [(section.begin, section.end, section.digest) for section in sections]
    return zip(sections, read_sections(directory.store, results.object.name, places), strict=True)


class Follower:
    """Delivers the results of committed steps to a target, in a thread of its own."""

    def __init__(self, target: Target, directory: Directory, last: Commit | None) -> None:
        self.target = target
        self.directory = directory
        self.last = last
        self.problem: BaseException | None = None
        self.stopping = False
        self.changed = threading.Condition()
        cursor = target.cursor(last)
        oldest = next(iter(directory.steps()), 1) - 1
        if cursor is not None and cursor < oldest:
            LOG.warning("results of steps %s to %s are not kept any more: they are left out", cursor + 1, oldest)
        self.step = max(cursor or 0, oldest)
        """The last step that was delivered."""
        self.thread = threading.Thread(target=self.follow, name="sink", daemon=True)
        self.thread.start()

    def follow(self) -> None:
        try:
            while (commit := self.next_commit()) is not None:
                self.target.deliver(commit)
                with self.changed:
                    self.step = commit.step
                    self.changed.notify_all()
        except BaseException as problem:  # noqa: BLE001 - the outermost loop of the thread: the run raises it
            with self.changed:
                self.problem = problem
                self.changed.notify_all()

    def next_commit(self) -> Commit | None:
        """Wait for the next step that is committed; None at the end."""
        with self.changed:
            while not self.stopping and (self.last is None or self.step >= self.last.step):
                self.changed.wait()
            last, step = self.last, self.step + 1
            if self.stopping or last is None:
                return None
        return last if step == last.step else self.directory.commit(step)

    def notify(self, commit: Commit) -> None:
        with self.changed:
            self.last = commit
            self.changed.notify_all()

    def wait(self) -> None:
        """Wait until all committed results are delivered."""
        with self.changed:
            self.changed.wait_for(lambda: self.problem or self.last is None or self.step >= self.last.step)

    def stop(self) -> None:
        """Finish the step that is being delivered, and end."""
        with self.changed:
            self.stopping = True
            self.changed.notify_all()
        if self.thread is not threading.current_thread():
            self.thread.join()


class Delivery:
    """All sinks of a stream."""

    def __init__(
        self,
        directory: Directory,
        folders: Sequence[ResultFolder],
        sinks: Sequence[Sink],
        last: Commit | None,
        *,
        reset: bool = False,
    ) -> None:
        """Begin to follow the commits of a state.

        Raises:
            UsageError: A folder has results of another job; with `reset` it is moved aside.
        """
        self.folders = folders
        files = [FileTarget(folder, directory) for folder in folders]
        for target in files:
            target.marks.check(last, reset=reset)
        rows = [RowTarget(sink, directory, cursor_name(sinks, sink)) for sink in sinks]
        targets: list[Target] = [*files, *rows]
        self.followers = [Follower(target, directory, last) for target in targets]

    @property
    def step(self) -> int | None:
        """The last step that all sinks have; None without sinks."""
        return min((follower.step for follower in self.followers), default=None)

    def notify(self, commit: Commit) -> None:
        """Say that a step is committed, and raise what went wrong with one before."""
        for follower in self.followers:
            follower.notify(commit)
        self.check()

    def check(self) -> None:
        for follower in self.followers:
            if follower.problem is not None:
                raise follower.problem

    def drain(self) -> None:
        """Wait until all sinks have all results; raise what went wrong."""
        for follower in self.followers:
            follower.wait()
        self.check()

    def close(self) -> None:
        for follower in self.followers:
            follower.stop()


def cursor_name(sinks: Sequence[Sink], sink: Sink) -> str | None:
    """Return the name of a callback's cursor, by its place. Other sinks end with the process and need none."""
    callbacks = [other for other in sinks if isinstance(other, Callback)]
    return f"callback-{callbacks.index(sink) + 1}" if isinstance(sink, Callback) else None
