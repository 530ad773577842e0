"""Which rows are aggregated: those with a time that is not of the future. Late rows are counted beside that."""

from __future__ import annotations

import json
from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headrace.engine.step.context import Step
from headrace.engine.step.side_output import SideOutput
from headrace.engine.step.task_counts import Counted
from headrace.inputs import InputRows
from headrace.kernel.row_errors import in_open_instance
from headrace.model.arrays import Integers
from headrace.model.arrow import arrow_type, one_array
from headrace.model.schema import Stream
from headrace.model.time import earlier, later
from headrace.model.types import TIMESTAMP
from headrace.storage.records import StreamTotals


class Admission:
    """Admits the rows of one task."""

    def __init__(self, step: Step, counted: Counted, side: SideOutput) -> None:
        self.step = step
        self.stream = step.setting.declared
        self.counted = counted
        self.side = side

    def count(self, **counts: int) -> None:
        self.counted.totals = self.counted.totals.plus(StreamTotals(**counts))

    def admit(self, rows: InputRows) -> pa.Table:
        """Return the rows that are aggregated; count the others and hand them to the side output."""
        self.count(rows=rows.table.num_rows + rows.rejected.num_rows, bad=rows.rejected.num_rows)
        self.side.path = rows.path
        self.side.add_raw(rows.rejected)
        table = self.without(rows.table, pc.is_null(rows.table[self.stream.event_time]), "no event time", "untimed")
        if not table.num_rows:
            return table
        journal = self.step.journal
        if journal.clock_us is not None:
            table = self.without(table, is_future(table, self.stream, journal.clock_us), "future", "future")
            if not table.num_rows:
                return table
        self.count(admitted=table.num_rows)
        times_us = event_times_us(table, self.stream)
        self.note_times(table, times_us, has_partitions=not rows.is_from_edge)
        self.note_late(table, times_us)
        return table

    def without(self, table: pa.Table, mask: pa.ChunkedArray, reason: str, count: str) -> pa.Table:
        """The table without the rows of the mask, which are noted."""
        row_count = pc.sum(mask).as_py() or 0
        if not row_count:
            return table
        self.count(**{count: row_count})
        self.count(dropped=row_count if count == "untimed" else 0)
        self.side.add(table.filter(mask), reason)
        return table.filter(pc.invert(mask))

    def note_times(self, table: pa.Table, times_us: Integers, *, has_partitions: bool) -> None:
        counted = self.counted
        counted.start_us = earlier(counted.start_us, int(times_us.min()))
        counted.end_us = later(counted.end_us, int(times_us.max()) + 1)
        for key, time_us in highest_by_partition(table, times_us, self.stream) if has_partitions else ():
            counted.highest_us[key] = max(counted.highest_us.get(key, time_us), time_us)

    def note_late(self, table: pa.Table, times_us: Integers) -> None:
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


def event_times_us(table: pa.Table, stream: Stream) -> Integers:
    return np.asarray(one_array(table[stream.event_time]).cast(pa.int64()))


def is_future(table: pa.Table, stream: Stream, clock_us: int) -> pa.ChunkedArray:
    """Return for each row whether it is later than the clock and the allowed skew."""
    limit = pa.scalar(clock_us + stream.skew_us, pa.int64()).cast(arrow_type(TIMESTAMP))
    return pc.greater(table[stream.event_time], limit)


def highest_by_partition(table: pa.Table, times_us: Integers, stream: Stream) -> Iterator[tuple[str, int]]:
    """Of each partition of the source, by its value as text, the highest event time."""
    if stream.partition is None:
        yield "", int(times_us.max())
        return
    by_key = pa.table({"key": table[stream.partition], "time": pa.array(times_us)})
    highest = by_key.group_by("key").aggregate([("time", "max")])
    for key, time_us in zip(highest["key"].to_pylist(), highest["time_max"].to_pylist(), strict=True):
        yield json.dumps(str(key)) if key is not None else "null", time_us
