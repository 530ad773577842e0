"""Rows judged by time at an edge, as a task of the engine does it. Late rows are counted and passed on: which
windows are still open is for the root to say.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from msgspec.structs import replace

from headrace.edge.intake import Intake
from headrace.engine.step.late_rows import event_times_us, highest_by_partition, is_future
from headrace.engine.step.watermark import is_idle
from headrace.model.arrays import Integers
from headrace.model.schema import Stream
from headrace.model.time import earlier, later
from headrace.storage.records import PartitionTime
from headrace.wire.frames import RowCounts


@dataclass(slots=True)
class Judged:
    """What was counted since the last cut; partitions have their highest event times, as far as they moved."""

    rows: RowCounts = field(default_factory=RowCounts)
    lowest_us: int | None = None
    highest_us: int | None = None
    partitions: dict[str, int] = field(default_factory=dict)


class Judge:
    """Knows how far each partition of the source is. Without a clock no row is of the future, and no partition idle.

    `held_us` is the watermark that was last asked for, with a cut: rows below it are late.
    """

    def __init__(
        self,
        stream: Stream,
        partitions: Mapping[str, int],
        watermark_us: int | None,
        clock: Callable[[], int] | None,
    ) -> None:
        self.stream = stream
        self.clock = clock
        self.judged = Judged()
        self.held_us = watermark_us
        self.now_us: int | None = None
        now_us = None if clock is None else clock()
        self.partitions = {key: PartitionTime(highest_us, now_us) for key, highest_us in partitions.items()}

    def admit(self, rows: Intake) -> pa.Table:
        """The rows that are counted."""
        self.now_us = None if self.clock is None else self.clock()
        table, dropped = self.timely(rows.table), rows.table[self.stream.event_time].null_count
        self.judged.rows = self.judged.rows.plus(
            RowCounts(
                read=rows.table.num_rows + rows.bad,
                future=rows.table.num_rows - dropped - table.num_rows,
                dropped=dropped,
                bad=rows.bad,
            )
        )
        if table.num_rows:
            self.note_times(table, self.now_us)
        return table

    def timely(self, table: pa.Table) -> pa.Table:
        """The rows with a time that is not of the future, by the clock when `accepted` was last called."""
        if table[self.stream.event_time].null_count:
            table = table.filter(pc.is_valid(table[self.stream.event_time]))
        return table if self.now_us is None else table.filter(pc.invert(is_future(table, self.stream, self.now_us)))

    def note_times(self, table: pa.Table, now_us: int | None) -> None:
        times_us, judged = event_times_us(table, self.stream), self.judged
        judged.lowest_us = earlier(judged.lowest_us, int(times_us.min()))
        judged.highest_us = later(judged.highest_us, int(times_us.max()))
        judged.rows = replace(judged.rows, late=judged.rows.late + self.count_late(times_us))
        for key, time_us in highest_by_partition(table, times_us, self.stream):
            known = self.partitions.get(key)
            highest_us = time_us if known is None else max(known.highest_us, time_us)
            self.partitions[key] = PartitionTime(highest_us, now_us)
            judged.partitions[key] = highest_us

    def count_late(self, times_us: Integers) -> int:
        return 0 if self.held_us is None else int(np.count_nonzero(times_us < self.held_us))

    @property
    def watermark_us(self) -> int | None:
        """The lowest of the partitions that are not idle; it never goes back."""
        now_us = None if self.clock is None else self.clock()
        active = [part for part in self.partitions.values() if not is_idle(part, now_us, self.stream)]
        if active:
            self.held_us = later(self.held_us, min(part.highest_us for part in active) - self.stream.lateness_us)
        return self.held_us

    def cut(self) -> Judged:
        judged, self.judged = self.judged, Judged()
        return judged
