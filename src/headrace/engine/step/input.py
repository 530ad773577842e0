"""What a step takes of the source: files that no step has read, and for the planner a sample of their rows."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import pyarrow as pa

from headrace.engine.edge_inbox import frame_at
from headrace.engine.plan_in_force import SAMPLE_ROWS
from headrace.engine.step.context import StreamSetting, step_columns
from headrace.inputs import (
    BadFile,
    cut,
    list_files,
    read,
)
from headrace.model.arrow import conform
from headrace.model.units import InputFile, Unit
from headrace.storage.records import CountedSpan, LeftOut
from headrace.storage.seen_files import SeenFiles
from headrace.wire.frame_checks import check_rows
from headrace.wire.frames import from_bytes as frame_from_bytes

STEP_BYTES = 1 << 30
"""How much input one step takes; the rest waits for the next."""


class Upstream(Protocol):
    """For a stream of results: what it may read, and up to where it is known."""

    def closed_us(self) -> int | None: ...

    def is_ours(self, file: InputFile) -> bool: ...

    def accepts(self, file: InputFile, closed_us: int | None) -> bool: ...

    def known_us(self, left: Sequence[InputFile], closed_us: int | None) -> int | None: ...

    def tables(self, since_us: int | None) -> Mapping[str, pa.Table]: ...

    def lost_spans(self) -> tuple[CountedSpan, ...]: ...


@dataclass(slots=True)
class NewFiles:
    """What a step takes of the source: files and their units; those that are bad; those that are no longer what was
    read; and those that are left for another step.
    """

    files: list[InputFile] = field(default_factory=list)
    units: list[Unit] = field(default_factory=list)
    bad: list[LeftOut] = field(default_factory=list)
    changed: list[str] = field(default_factory=list)
    left: list[InputFile] = field(default_factory=list)


def new_files(
    setting: StreamSetting, seen: SeenFiles, step_bytes: int, upstream: Upstream | None, upstream_us: int | None
) -> NewFiles:
    """Files that no step has read, oldest first, as many as a step takes."""
    if setting.source is None:
        return NewFiles()
    listed = list_files(setting.source)
    seen.check_device(setting.source.path)
    taken = NewFiles(changed=seen.list_changed(listed))
    size = 0
    new = seen.new(listed)
    if upstream:
        new = [file for file in new if upstream.is_ours(file)]
    for place, file in enumerate(new):
        is_held_back = upstream is not None and not upstream.accepts(file, upstream_us)
        if is_held_back or (taken.files and size + file.size > step_bytes):
            taken.left = new[place:]
            return taken
        size += file.size
        try:
            taken.units += cut(setting.source, file, setting.declared)
        except BadFile as problem:
            if setting.on_bad_file == "stop":
                raise
            taken.bad.append(LeftOut(file.path, problem.reason))
        taken.files.append(file)
    return taken


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
    if (frame := frame_at(setting.root, unit)) is not None:
        sent = frame_from_bytes(setting.directory.store.get(frame))
        yield from check_rows(sent, stream) if sent.header.plan is None else ()
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
