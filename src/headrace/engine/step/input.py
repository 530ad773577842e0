"""What a step takes of the source: files that no step has read, and for the planner a sample of their rows."""

from __future__ import annotations

import time
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from threading import Event, Thread
from typing import Protocol

import pyarrow as pa

from headrace.engine.plan_in_force import SAMPLE_ROWS
from headrace.engine.step.context import StreamSetting, step_columns
from headrace.inputs import (
    BadFile,
    FooterReader,
    choose_unit_bytes,
    cut_units,
    list_files,
    read,
)
from headrace.inputs.conversion import as_stream
from headrace.inputs.footers import MAX_KEPT
from headrace.inputs.readers import MAX_UNIT_BYTES
from headrace.model.arrow import conform
from headrace.model.units import FRAME, RESULTS, InputFile, Unit
from headrace.storage.records import Commit, CountedSpan, LeftOut
from headrace.storage.results import read_results
from headrace.storage.seen_files import SeenFiles
from headrace.wire.frame_checks import check_rows
from headrace.wire.frames import from_bytes as frame_from_bytes

STEP_BYTES = 1 << 30
PAUSE_S = 1.0
LISTING_SHARE = 0.1
"""How much of its time the prefetch may spend on listing files again; between, it pauses for `PAUSE_S` at least."""
CLOSE_S = 5.0
"""How long an engine that closes waits for a file system that may hang."""


def default_step_bytes(tasks: int) -> int:
    """Return how much input one step takes, for this many tasks at once; the rest waits for the next."""
    return max(STEP_BYTES, tasks * MAX_UNIT_BYTES)


@dataclass(slots=True)
class NewResults:
    """What a step takes of the results of other queries: sections of all steps up to `step`, and up to where results
    are known then. `closed_us` is up to where they are closed.
    """

    units: list[Unit] = field(default_factory=list)
    step: int = 0
    closed_us: int | None = None
    known_us: int | None = None
    is_more: bool = False


class Upstream(Protocol):
    """For a stream of results: what it reads."""

    def take(self, before: Commit | None, step_bytes: int) -> NewResults:
        """Return what the step after a commit takes."""

    def tables(self, since_us: int | None) -> Mapping[str, pa.Table]:
        """Return the results that are joined, of windows that end later than a time."""

    def lost_spans(self) -> tuple[CountedSpan, ...]: ...


@dataclass(slots=True)
class NewFiles:
    """What a step takes of the source: files and their units; those that are bad; those that are no longer what was
    read; and whether some are left for another step.
    """

    files: list[InputFile] = field(default_factory=list)
    units: list[Unit] = field(default_factory=list)
    bad: list[LeftOut] = field(default_factory=list)
    changed: list[str] = field(default_factory=list)
    is_more: bool = False


class FileIntake:
    """Takes the files of each step. While a step runs, it reads ahead the footers of files that the next may take."""

    def __init__(self, setting: StreamSetting, seen: SeenFiles) -> None:
        self.footers = FooterReader(setting.source, setting.declared) if setting.source else None
        self.on_bad_file = setting.on_bad_file
        self.seen = seen
        self.stop = Event()
        self.thread: Thread | None = None

    def take(self, step_bytes: int, tasks: int) -> NewFiles:
        """Take files that no step has read, oldest first, as many as a step takes."""
        if self.footers is None:
            return NewFiles()
        self.end_prefetch()
        listed = list_files(self.footers.source)
        self.seen.check_device(self.footers.source.path)
        new = self.seen.new(listed)
        count = count_taken(new, step_bytes)
        taken = NewFiles(files=new[:count], changed=self.seen.list_changed(listed), is_more=count < len(new))
        unit_bytes = choose_unit_bytes(sum(file.size for file in taken.files), tasks)
        footers = self.footers.read(taken.files)
        for file in taken.files:
            footer = footers[file]
            if isinstance(footer, BadFile) and self.on_bad_file != "stop":
                taken.bad.append(LeftOut(file.path, footer.reason))
            elif isinstance(footer, Exception):
                raise footer
            else:
                taken.units += cut_units(file, footer, unit_bytes)
        return taken

    @contextmanager
    def prefetch(self, running: Iterable[InputFile]) -> Iterator[None]:
        """Read ahead while a step runs on these files. Nothing is decided: the next step lists the files again."""
        self.end_prefetch()
        if self.footers is not None:
            paths, self.stop = {file.path for file in running}, Event()
            arguments = self.footers, self.seen, paths, self.stop
            self.thread = Thread(target=read_ahead, args=arguments, name="prefetch", daemon=True)
            with suppress(RuntimeError):  # the system may have no thread to spare
                self.thread.start()
        try:
            yield
        finally:
            self.end_prefetch(0)

    def end_prefetch(self, timeout_s: float | None = None) -> None:
        """End the thread; in a process that was forked there is none, and nothing to wait for."""
        if self.thread is not None and self.thread.is_alive():
            self.stop.set()
            self.thread.join(timeout_s)

    def close(self) -> None:
        self.end_prefetch(CLOSE_S)


def count_taken(new: Sequence[InputFile], step_bytes: int) -> int:
    """Return how many of the files, oldest first, a step takes: one at least."""
    size = 0
    for place, file in enumerate(new):
        size += file.size
        if place and size > step_bytes:
            return place
    return len(new)


def read_ahead(footers: FooterReader, seen: SeenFiles, running: Collection[str], stop: Event) -> None:
    """Read footers of files that no step has read, until `stop` is set: of those that are there, then of new ones."""
    with suppress(Exception):  # what lasts is met by the next step
        while not stop.is_set():
            begun_s = time.monotonic()
            new = [file for file in seen.new(list_files(footers.source)) if file.path not in running]
            pause_s = max(PAUSE_S, (time.monotonic() - begun_s) / LISTING_SHARE)
            footers.read(new[:MAX_KEPT], stop)
            stop.wait(pause_s)


def sample_of(setting: StreamSetting, units: Sequence[Unit], version: int) -> pa.Table:
    """Rows from the middle of the input, of the columns that a version of the registry may name."""
    middle = len(units) // 2
    samples = [conform(pa.table({}), setting.declared.columns)]
    for rows in (rows for unit in (*units[middle:], *units[:middle]) for rows in sampled_rows(setting, unit, version)):
        samples.append(rows)
        if sum(table.num_rows for table in samples) >= SAMPLE_ROWS // 4:
            break
    return pa.concat_tables(samples)


def sampled_rows(setting: StreamSetting, unit: Unit, version: int) -> Iterator[pa.Table]:
    """Of a damaged file, if such files are left out, what the step will read: the columns that queries name. The step
    says what is wrong with it.
    """
    stream, source = setting.declared, setting.source
    if unit.kind == FRAME:
        sent = frame_from_bytes(setting.directory.store.get(setting.directory.name_at(unit.path)))
        yield from check_rows(sent, stream) if sent.header.plan is None else ()
        return
    if unit.kind == RESULTS:
        yield as_stream(read_results(unit), stream)
        return
    assert source is not None
    for columns in ({column.name for column in stream.columns}, step_columns(setting, version)):
        is_begun = False
        try:
            for rows in read(source, unit, stream, columns):
                is_begun = True
                is_whole = rows.table.num_columns == len(stream.columns)
                yield rows.table if is_whole else conform(rows.table, stream.columns)
        except BadFile:
            if setting.on_bad_file == "stop":
                raise
            if not is_begun:
                continue
        return
