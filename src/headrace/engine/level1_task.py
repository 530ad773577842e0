"""Level 1 in a task: rows judged by time, folded by the kernel, and partials sent to the reducers that own them."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple
from uuid import uuid4

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headrace.engine.context import Setting, Step, reader_of, step_columns, step_of
from headrace.engine.edge_inbox import frame_at
from headrace.inputs import BadFile, Rows, read
from headrace.kernel.combine import NodePartials
from headrace.kernel.failures import failures_named
from headrace.kernel.group_owners import split
from headrace.kernel.interchange import Counts, Shipment, pack, to_bytes
from headrace.kernel.level1.fold import BUDGET_BYTES, level_one
from headrace.kernel.level1.reader import Reader, ReadResult
from headrace.kernel.row_errors import in_open_instance
from headrace.model.arrow import arrow_type, for_people, one_array
from headrace.model.schema import Stream
from headrace.model.types import TIMESTAMP
from headrace.model.units import Unit
from headrace.storage.disk import DamagedError, begin_sync, read_file
from headrace.storage.records import Attempt, ResultFile, Totals, UnitRead, result_files
from headrace.storage.staged_results import stage
from headrace.wire.frame_checks import check_partials, check_rows
from headrace.wire.frames import Frame, FrameError, from_bytes

MOST_REJECTED = 1_000_000
"""How many rows a task keeps for the side output; those beyond are counted only."""


BEGUN = 'run once with on_bad_file = "quarantine": a step that has begun is finished with the files it began with'


class Piece(NamedTuple):
    """Bytes for a reducer: partials of a plan, or COUNTS, what a task counted."""

    reducer: int
    plan: str
    data: bytes


COUNTS = ""
"""In place of a plan."""


@dataclass(slots=True)
class Counted:
    """What a task counted. Partitions have the highest event time that each sent; errors are by query."""

    totals: Totals = field(default_factory=Totals)
    errors: dict[str, int] = field(default_factory=dict)
    highest_us: dict[str, int] = field(default_factory=dict)
    start_us: int | None = None
    end_us: int | None = None
    node_rows: int = 0
    rejected: list[ResultFile] = field(default_factory=list)
    units: list[UnitRead] = field(default_factory=list)

    @property
    def dataframe_rows(self) -> int:
        """The rows that were read of no unit."""
        return self.totals.rows - sum(unit.rows for unit in self.units if not unit.is_partials)

    def plus(self, other: Counted) -> Counted:
        starts = [each for each in (self.start_us, other.start_us) if each is not None]
        ends = [each for each in (self.end_us, other.end_us) if each is not None]
        return Counted(
            self.totals.plus(other.totals),
            added(self.errors, other.errors),
            {
                key: max(each[key] for each in (self.highest_us, other.highest_us) if key in each)
                for key in self.highest_us | other.highest_us
            },
            min(starts, default=None),
            max(ends, default=None),
            self.node_rows + other.node_rows,
            self.rejected + other.rejected,
            self.units + other.units,
        )


def added(first: Mapping[str, int], second: Mapping[str, int]) -> dict[str, int]:
    return {key: first.get(key, 0) + second.get(key, 0) for key in {**first, **second}}


def to_json(counted: Counted) -> bytes:
    return json.dumps(asdict(counted)).encode()


def counted_from(data: bytes) -> Counted:
    found = json.loads(data)
    rejected, units = list(result_files(found["rejected"])), [UnitRead(**each) for each in found["units"]]
    return Counted(**{**found, "totals": Totals(**found["totals"]), "rejected": rejected, "units": units})


def map_units(setting: Setting, attempt: Attempt, places: Iterable[int]) -> Iterator[Piece]:
    """Level 1 over units of files, and partials that edges sent; the units are known by their places in the journal."""
    step = step_of(setting, attempt)
    task = Task(step)
    partials: list[Frame] = []
    yield from task.run(rows for place in places for rows in unit_rows(step, place, task, partials))
    for frame in partials:
        assert frame.header.plan is not None
        plan = setting.directory.plan(frame.header.plan)
        yield from task.sent(frame.header.plan, check_partials(frame, setting.stream, plan))


def unit_rows(step: Step, place: int, task: Task, partials: list[Frame]) -> Iterator[Rows]:
    """The rows of a unit, and a note of what was read of it. Partials have none: their frames are put aside."""
    unit = step.journal.units[place]
    found, problem, is_partials = 0, None, False
    if frame_at(step.setting.root, unit) is None:
        try:
            for rows in file_rows(step, unit):
                found += rows.table.num_rows + rows.rejected.num_rows
                yield rows
        except BadFile as bad:
            if step.setting.on_bad_file == "stop":
                raise BadFile(bad.path, bad.problem, bad.detail, BEGUN) from None
            problem = bad.reason
    else:
        frame = kept_frame(Path(unit.path))
        found = sum(table.num_rows for table in frame.tables)
        if frame.header.plan is None:
            yield from (Rows(table, is_from_edge=True) for table in check_rows(frame, step.setting.declared))
        else:
            partials.append(frame)
            is_partials = True
    task.counted.units.append(UnitRead(place, found, problem, is_partials))


def kept_frame(path: Path) -> Frame:
    """A frame as the state keeps it until its step is committed."""
    try:
        return from_bytes(read_file(path))
    except FrameError as problem:
        raise DamagedError(path, f"is damaged: {problem.reason}") from None


def file_rows(step: Step, unit: Unit) -> Iterator[Rows]:
    setting = step.setting
    assert setting.source is not None
    for rows in read(setting.source, unit, setting.declared, step_columns(setting, step.journal.registry)):
        yield replace(rows, path=unit.path)


def map_rows(setting: Setting, attempt: Attempt, pieces: Iterable[Rows]) -> Iterator[Piece]:
    """Level 1 over rows that came from a DataFrame."""
    yield from Task(step_of(setting, attempt)).run(pieces)


class Task:
    """One task of level 1."""

    def __init__(self, step: Step) -> None:
        self.step = step
        self.stream = step.setting.declared
        self.counted = Counted()
        self.side = SideOutput(step)

    def count(self, **counts: int) -> None:
        self.counted.totals = self.counted.totals.plus(Totals(**counts))

    def run(self, pieces: Iterable[Rows]) -> Iterator[Piece]:
        if self.step.journal.plan is None:
            for rows in pieces:
                self.accepted(rows)
        else:
            yield from self.partials(reader_of(self.step), pieces)
        self.counted.rejected = self.side.close()
        yield Piece(0, COUNTS, to_json(self.counted))

    def partials(self, reader: Reader, pieces: Iterable[Rows]) -> Iterator[Piece]:
        run = ReadResult()
        chunks = (chunk for rows in pieces for chunk in reader.chunks(run, self.accepted(rows)))
        functions, zone = self.step.setting.catalog.functions, self.stream.zone
        assert self.step.journal.plan is not None
        with failures_named(reader.queries):
            for shipped in level_one(reader.plan, chunks, functions, zone, BUDGET_BYTES):
                self.counted.node_rows += sum(part.rows for part in shipped.values())
                yield from self.sent(self.step.journal.plan, shipped.values())
        self.counted.errors = run.errors

    def sent(self, plan: str, parts: Iterable[NodePartials]) -> Iterator[Piece]:
        by_reducer: dict[int, list[NodePartials]] = {}
        for part in parts:
            if part.rows:
                for reducer, own in split(part, self.step.setting.reducers):
                    by_reducer.setdefault(reducer, []).append(own)
        packed: dict[tuple[int, ...], bytes] = {}
        for reducer, own_parts in by_reducer.items():
            same = tuple(map(id, own_parts))  # rows without groups go to several reducers
            if same not in packed:
                packed[same] = to_bytes(Shipment(pack(self.stream.name, own_parts), Counts()))
            yield Piece(reducer, plan, packed[same])

    # Rows judged by the watermark that entered the step

    def accepted(self, rows: Rows) -> pa.Table:
        """The rows that are counted; the others are noted."""
        self.count(rows=rows.table.num_rows + rows.rejected.num_rows, bad=rows.rejected.num_rows)
        self.side.path = rows.path
        self.side.add_raw(rows.rejected)
        table = self.without(rows.table, pc.is_null(rows.table[self.stream.event_time]), "no event time", "untimed")
        if not table.num_rows:
            return table
        journal = self.step.journal
        if journal.clock_us is not None:
            limit = pa.scalar(journal.clock_us + self.stream.skew_us, pa.int64()).cast(arrow_type(TIMESTAMP))
            table = self.without(table, pc.greater(table[self.stream.event_time], limit), "future", "future")
            if not table.num_rows:
                return table
        self.count(admitted=table.num_rows)
        times_us = np.asarray(one_array(table[self.stream.event_time]).cast(pa.int64()))
        self.note_times(table, times_us, has_partitions=not rows.is_from_edge)
        self.note_late(table, times_us)
        return table

    def without(self, table: pa.Table, mask: pa.ChunkedArray, reason: str, count: str) -> pa.Table:
        """The table without the rows of the mask, which are noted."""
        found = pc.sum(mask).as_py() or 0
        if not found:
            return table
        self.count(**{count: found})
        self.count(dropped=found if count == "untimed" else 0)
        self.side.add(table.filter(mask), reason)
        return table.filter(pc.invert(mask))

    def note_times(
        self, table: pa.Table, times_us: np.ndarray[Any, np.dtype[np.int64]], *, has_partitions: bool
    ) -> None:
        lowest, highest = int(times_us.min()), int(times_us.max())
        counted = self.counted
        counted.start_us = lowest if counted.start_us is None else min(counted.start_us, lowest)
        counted.end_us = highest + 1 if counted.end_us is None else max(counted.end_us, highest + 1)
        for key, time_us in highest_by_partition(table, times_us, self.stream) if has_partitions else ():
            counted.highest_us[key] = max(counted.highest_us.get(key, time_us), time_us)

    def note_late(self, table: pa.Table, times_us: np.ndarray[Any, np.dtype[np.int64]]) -> None:
        """Late rows are folded all the same: a window that is open, or a query to come, may want them."""
        watermark_us = self.step.journal.watermark_us
        if watermark_us is None or int(times_us.min()) >= watermark_us:
            return
        late = np.flatnonzero(times_us < watermark_us)
        taken = np.zeros(len(late), dtype=np.bool_)
        for window in {query.window for query in self.step.registry.active.values()}:
            taken |= in_open_instance(window, times_us[late], watermark_us)
        self.count(late=len(late), dropped=int((~taken).sum()))
        if not taken.all():
            self.side.add(table.take(pa.array(late[~taken])), "late")


def highest_by_partition(
    table: pa.Table, times_us: np.ndarray[Any, np.dtype[np.int64]], stream: Stream
) -> Iterator[tuple[str, int]]:
    """Of each partition of the source, by its value as text, the highest event time."""
    if stream.partition is None:
        yield "", int(times_us.max())
        return
    by_key = pa.table({"key": table[stream.partition], "time": pa.array(times_us)})
    found = by_key.group_by("key").aggregate([("time", "max")])
    for key, time_us in zip(found["key"].to_pylist(), found["time_max"].to_pylist(), strict=True):
        yield json.dumps(str(key)) if key is not None else "null", time_us


class SideOutput:
    """Rows that were not counted, with the file that they are from, the reason and the watermark, as one file of the
    task.
    """

    def __init__(self, step: Step) -> None:
        self.step = step
        self.path: str | None = None
        self.tables: list[pa.Table] = []
        self.rows = 0

    @property
    def room(self) -> int:
        return MOST_REJECTED - self.rows

    def add(self, table: pa.Table, reason: str) -> None:
        table = table.slice(0, self.room)
        declared = {column.name: column for column in self.step.setting.declared.columns}
        shown = for_people(table, [declared[name] for name in table.column_names])
        self.keep(shown, pa.repeat(pa.scalar(reason, pa.string()), table.num_rows))

    def add_raw(self, rejected: pa.Table) -> None:
        if rejected.num_rows:
            kept = rejected.slice(0, self.room)
            self.keep(kept.select(["raw"]), kept["reason"])

    def keep(self, table: pa.Table, reasons: pa.Array) -> None:
        watermark = pa.scalar(self.step.journal.watermark_us, pa.int64()).cast(arrow_type(TIMESTAMP))
        marked = table.append_column("rejected_reason", reasons)
        marked = marked.append_column("rejected_file", pa.repeat(pa.scalar(self.path, pa.string()), table.num_rows))
        marked = marked.append_column("rejected_watermark", pa.repeat(watermark, table.num_rows))
        marked = marked.append_column("rejected_step", pa.repeat(self.step.journal.step, table.num_rows))
        self.tables.append(marked)
        self.rows += marked.num_rows

    def close(self) -> list[ResultFile]:
        if not self.tables:
            return []
        table = pa.concat_tables(self.tables, promote_options="default")
        root = self.step.setting.directory.root
        name = f"step-{self.step.journal.step:09}-{uuid4().hex[:8]}"
        file = stage(root, "rejected", name, self.step.staging, table, "parquet")
        begin_sync([root / file.staged.name])()
        return [file]
