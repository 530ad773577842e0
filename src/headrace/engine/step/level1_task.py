"""Level 1 in a task: rows judged by time, folded by the kernel, and partials sent to the reducers that own them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import NamedTuple

from headrace.engine.step.context import Step, reader_of, step_columns
from headrace.engine.step.late_rows import Admission
from headrace.engine.step.side_output import SideOutput
from headrace.engine.step.task_counts import Counted
from headrace.inputs import BadFile, InputRows, read
from headrace.inputs.conversion import as_stream
from headrace.kernel.combine import NodePartials
from headrace.kernel.failures import failures_named
from headrace.kernel.group_owners import split
from headrace.kernel.interchange import pack, to_bytes
from headrace.kernel.level1.fold import BUDGET_BYTES, level_one
from headrace.kernel.level1.reader import Reader, ReadResult
from headrace.model.units import FRAME, RESULTS, Unit
from headrace.storage.directory import Directory
from headrace.storage.disk import DamagedError, to_json
from headrace.storage.records import UnitRead
from headrace.storage.results import read_results
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


def map_units(step: Step, places: Iterable[int]) -> Iterator[ReducerInput]:
    """Level 1 over units of input, and partials that edges sent; the units are known by their places in the journal."""
    setting, task = step.setting, Task(step)
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
    if unit.kind == FRAME:
        frame = kept_frame(step.setting.directory, unit.path)
        row_count = sum(table.num_rows for table in frame.tables)
        if frame.header.plan is None:
            yield from (InputRows(table, is_from_edge=True) for table in check_rows(frame, step.setting.declared))
        else:
            partials.append(frame)
            is_partials = True
    else:
        try:
            for rows in result_rows(step, unit) if unit.kind == RESULTS else file_rows(step, unit):
                row_count += rows.table.num_rows + rows.rejected.num_rows
                yield rows
        except BadFile as bad:
            if step.setting.on_bad_file == "stop":
                raise BadFile(bad.path, bad.problem, bad.detail, BEGUN) from None
            problem = bad.reason
    task.counted.units.append(UnitRead(place, row_count, problem, is_partials))


def kept_frame(directory: Directory, place: str) -> Frame:
    """A frame as the state keeps it until its step is committed."""
    try:
        return from_bytes(read_object(directory.store, directory.name_at(place)))
    except FrameError as problem:
        raise DamagedError(place, f"is damaged: {problem.reason}") from None


def result_rows(step: Step, unit: Unit) -> Iterator[InputRows]:
    """The results of another query, as rows of the stream that they are."""
    stream, needed = step.setting.declared, step_columns(step.setting, step.journal.registry)
    rows = as_stream(read_results(unit), stream)
    rows = rows.select([column.name for column in stream.columns if column.name in needed])
    yield InputRows(rows, path=unit.path)


def file_rows(step: Step, unit: Unit) -> Iterator[InputRows]:
    setting = step.setting
    assert setting.source is not None
    for rows in read(setting.source, unit, setting.declared, step_columns(setting, step.journal.registry)):
        yield replace(rows, path=unit.path)


def map_rows(step: Step, pieces: Iterable[InputRows]) -> Iterator[ReducerInput]:
    """Level 1 over rows that came from a DataFrame."""
    yield from Task(step).run(pieces)


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
                for reducer, share in split(part, self.step.journal.partitioning):
                    by_reducer.setdefault(reducer, []).append(share)
        packed: dict[tuple[int, ...], bytes] = {}
        for reducer, shares in by_reducer.items():
            same = tuple(map(id, shares))  # rows without groups go to several reducers
            if same not in packed:
                packed[same] = to_bytes(pack(self.stream.name, shares))
            yield ReducerInput(reducer, plan, packed[same])
