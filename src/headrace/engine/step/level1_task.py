"""Level 1 in a task: rows judged by time, folded by the kernel, and partials sent to the reducers that own them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import NamedTuple

from headrace.engine.edge_inbox import frame_at
from headrace.engine.step.context import Step, StreamSetting, reader_of, step_columns, step_of
from headrace.engine.step.late_rows import Admission
from headrace.engine.step.side_output import SideOutput
from headrace.engine.step.task_counts import Counted
from headrace.inputs import BadFile, InputRows, read
from headrace.kernel.combine import NodePartials
from headrace.kernel.failures import failures_named
from headrace.kernel.group_owners import split
from headrace.kernel.interchange import pack, to_bytes
from headrace.kernel.level1.fold import BUDGET_BYTES, level_one
from headrace.kernel.level1.reader import Reader, ReadResult
from headrace.model.units import Unit
from headrace.storage.directory import Directory
from headrace.storage.disk import DamagedError, to_json
from headrace.storage.records import Attempt, UnitRead
from headrace.storage.store import read_object
from headrace.wire.frame_checks import check_partials, check_rows
from headrace.wire.frames import Frame, FrameError, from_bytes

BEGUN = 'run once with on_bad_file = "quarantine": a step that has begun is finished with the files it began with'


class ReducerInput(NamedTuple):
    """Bytes for a reducer: partials of a plan, or COUNTS, what a task counted."""

    reducer: int
    plan: str
    data: bytes


COUNTS = ""
"""In place of a plan."""


def map_units(setting: StreamSetting, attempt: Attempt, places: Iterable[int]) -> Iterator[ReducerInput]:
    """Level 1 over units of files, and partials that edges sent; the units are known by their places in the journal."""
    step = step_of(setting, attempt)
    task = Task(step)
    partials: list[Frame] = []
    yield from task.run(rows for place in places for rows in unit_rows(step, place, task, partials))
    for frame in partials:
        assert frame.header.plan is not None
        plan = setting.directory.plan(frame.header.plan)
        yield from task.send(frame.header.plan, check_partials(frame, setting.stream, plan))


def unit_rows(step: Step, place: int, task: Task, partials: list[Frame]) -> Iterator[InputRows]:
    """The rows of a unit, and a note of what was read of it. Partials have none: their frames are put aside."""
    unit = step.journal.units[place]
    row_count, problem, is_partials = 0, None, False
    name = frame_at(step.setting.root, unit)
    if name is None:
        try:
            for rows in file_rows(step, unit):
                row_count += rows.table.num_rows + rows.rejected.num_rows
                yield rows
        except BadFile as bad:
            if step.setting.on_bad_file == "stop":
                raise BadFile(bad.path, bad.problem, bad.detail, BEGUN) from None
            problem = bad.reason
    else:
        frame = kept_frame(step.setting.directory, name)
        row_count = sum(table.num_rows for table in frame.tables)
        if frame.header.plan is None:
            yield from (InputRows(table, is_from_edge=True) for table in check_rows(frame, step.setting.declared))
        else:
            partials.append(frame)
            is_partials = True
    task.counted.units.append(UnitRead(place, row_count, problem, is_partials))


def kept_frame(directory: Directory, name: str) -> Frame:
    """A frame as the state keeps it until its step is committed."""
    try:
        return from_bytes(read_object(directory.store, name))
    except FrameError as problem:
        raise DamagedError(directory.place(name), f"is damaged: {problem.reason}") from None


def file_rows(step: Step, unit: Unit) -> Iterator[InputRows]:
    setting = step.setting
    assert setting.source is not None
    for rows in read(setting.source, unit, setting.declared, step_columns(setting, step.journal.registry)):
        yield replace(rows, path=unit.path)


def map_rows(setting: StreamSetting, attempt: Attempt, pieces: Iterable[InputRows]) -> Iterator[ReducerInput]:
    """Level 1 over rows that came from a DataFrame."""
    yield from Task(step_of(setting, attempt)).run(pieces)


class Task:
    """One task of level 1."""

    def __init__(self, step: Step) -> None:
        self.step = step
        self.stream = step.setting.declared
        self.counted = Counted()
        self.side = SideOutput(step)
        self.admission = Admission(step, self.counted, self.side)

    def run(self, pieces: Iterable[InputRows]) -> Iterator[ReducerInput]:
        if self.step.journal.plan is None:
            for rows in pieces:
                self.admission.admit(rows)
        else:
            yield from self.partials(reader_of(self.step), pieces)
        self.counted.rejected = self.side.close()
        yield ReducerInput(0, COUNTS, to_json(self.counted))

    def partials(self, reader: Reader, pieces: Iterable[InputRows]) -> Iterator[ReducerInput]:
        run = ReadResult()
        chunks = (chunk for rows in pieces for chunk in reader.chunks(run, self.admission.admit(rows)))
        functions, zone = self.step.setting.catalog.functions, self.stream.zone
        assert self.step.journal.plan is not None
        with failures_named(reader.queries):
            for shipped in level_one(reader.plan, chunks, functions, zone, BUDGET_BYTES):
                self.counted.node_rows += sum(part.rows for part in shipped.values())
                yield from self.send(self.step.journal.plan, shipped.values())
        self.counted.errors = run.errors

    def send(self, plan: str, parts: Iterable[NodePartials]) -> Iterator[ReducerInput]:
        by_reducer: dict[int, list[NodePartials]] = {}
        for part in parts:
            if part.rows:
                for reducer, share in split(part, self.step.setting.reducers):
                    by_reducer.setdefault(reducer, []).append(share)
        packed: dict[tuple[int, ...], bytes] = {}
        for reducer, shares in by_reducer.items():
            same = tuple(map(id, shares))  # rows without groups go to several reducers
            if same not in packed:
                packed[same] = to_bytes(pack(self.stream.name, shares))
            yield ReducerInput(reducer, plan, packed[same])
