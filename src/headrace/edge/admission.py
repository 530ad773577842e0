"""Rows judged by time at an edge, as a task of the engine does it. Late rows are counted, and go on: which windows are
still open is for the root to say.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headrace.edge.intake import Intake
from headrace.engine.level1_task import highest_by_partition
from headrace.engine.watermark import earlier, is_idle, later
from headrace.model.arrow import arrow_type, one_array
from headrace.model.schema import Stream
from headrace.model.types import TIMESTAMP
from headrace.storage.records import Partition
from headrace.wire.frames import Rows


@dataclass(slots=True)
class Judged:
    """What was counted since the last cut; partitions have their highest event times, as far as they moved."""

    rows: Rows = field(default_factory=Rows)
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
        now_us = None if clock is None else clock()
        self.partitions = {key: Partition(highest_us, now_us) for key, highest_us in partitions.items()}

    def accepted(self, rows: Intake) -> pa.Table:
        """The rows that are counted."""
        now_us = None if self.clock is None else self.clock()
        timed = rows.table
        if rows.table[self.stream.event_time].null_count:
            timed = timed.filter(pc.is_valid(timed[self.stream.event_time]))
        table = timed if now_us is None else timed.filter(self.is_present(timed, now_us))
        self.judged.rows = self.judged.rows.plus(
            Rows(
                read=rows.table.num_rows + rows.bad,
                future=timed.num_rows - table.num_rows,
                dropped=rows.table.num_rows - timed.num_rows,
                bad=rows.bad,
            )
        )
        if table.num_rows:
            self.note_times(table, now_us)
        return table

    def is_present(self, table: pa.Table, now_us: int) -> pa.ChunkedArray:
        limit = pa.scalar(now_us + self.stream.skew_us, pa.int64()).cast(arrow_type(TIMESTAMP))
        return pc.less_equal(table[self.stream.event_time], limit)

    def note_times(self, table: pa.Table, now_us: int | None) -> None:
        times_us = np.asarray(one_array(table[self.stream.event_time]).cast(pa.int64()))
        judged = self.judged
        judged.lowest_us = earlier(judged.lowest_us, int(times_us.min()))
        judged.highest_us = later(judged.highest_us, int(times_us.max()))
        if self.held_us is not None:
            late = int(np.count_nonzero(times_us < self.held_us))
            judged.rows = replace(judged.rows, late=judged.rows.late + late)
        for key, time_us in highest_by_partition(table, times_us, self.stream):
            known = self.partitions.get(key)
            highest_us = time_us if known is None else max(known.highest_us, time_us)
            self.partitions[key] = Partition(highest_us, now_us)
            judged.partitions[key] = highest_us

    @property
    def watermark_us(self) -> int | None:
        """The lowest of the partitions that are not idle; it never goes back."""
        now_us = None if self.clock is None else self.clock()
        active = [each.highest_us for each in self.partitions.values() if not is_idle(each, now_us, self.stream)]
        if active:
            self.held_us = later(self.held_us, min(active) - self.stream.lateness_us)
        return self.held_us

    def cut(self) -> Judged:
        judged, self.judged = self.judged, Judged()
        return judged
