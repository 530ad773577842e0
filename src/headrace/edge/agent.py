"""The agent of an edge: rows of a source through level 1 into frames, frames into the spool, from there up.

A frame covers a span of the source. It is cut now and then, when level 1 is full, and before new orders are followed,
so that it holds partials of one plan only. Where the span ends is written down with the frame, in one step: whatever
happens, no row that can be read again is in two frames, or in none.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence

from msgspec.structs import replace

from headrace.edge.admission import Judge
from headrace.edge.agent_progress import AgentProgress, Mode, Pace
from headrace.edge.edge_state import EdgeRecord, SourceMark, position_after
from headrace.edge.file_source import Report, RowSource
from headrace.edge.intake import Intake, Refused, add
from headrace.edge.orders_poll import OrdersPoll, ReceivedOrders
from headrace.edge.sender import Sender
from headrace.edge.spool import Spool
from headrace.edge.tables.level1 import Unfolded
from headrace.edge.work import (
    MAX_SENT_BYTES,
    EdgeWork,
    Forwarding,
    Passed,
    ordered_columns,
    pack_frame,
    split_span,
    work_for,
)
from headrace.engine.step.late_rows import event_times_us
from headrace.kernel.failures import queries_using
from headrace.model.caches import note_plan
from headrace.model.errors import DataError, ExpressionFailure, HeadraceError, UsageError
from headrace.model.schema import Catalog, Stream
from headrace.model.time import format_timestamp
from headrace.wire.exchange import Exchange
from headrace.wire.frames import Header, Position, RowCounts

TAKEN_S = 0.1
"""How long the source is waited for before the agent looks around."""
FIRST_ROWS = 10_000
"""Rows that go up as they are when there is no plan: then a plan is waited for, as long as the agent has patience."""
DRAINED_S = 0.5
"""A channel that was stopped and brings nothing for so long has brought all."""


def clock_us() -> int:
    return time.time_ns() // 1_000


class Agent:
    """`connect` gives a connection to the upper side: frames and orders each have one of their own."""

    def __init__(
        self,
        catalog: Catalog,
        stream: Stream,
        spool: Spool,
        source: RowSource,
        connect: Callable[[], Exchange],
        *,
        mode: Mode = Mode.LIVE,
        pace: Pace = Pace(),  # noqa: B008 - a frozen value
        report: Report = lambda text: None,
        clock: Callable[[], int] = clock_us,
    ) -> None:
        self.catalog = catalog
        self.stream = stream
        self.spool = spool
        self.source = source
        self.mode = mode
        self.pace = pace
        self.report = report
        self.clock = clock
        self.stopping = threading.Event()
        known = spool.known
        self.incarnation = max(clock(), known.incarnation + 1)
        self.sequence = 0
        self.judge = Judge(stream, known.partitions, known.watermark_us, clock if mode is Mode.LIVE else None)
        self.rows = RowCounts()
        self.refused: dict[str, Refused] = {}
        self.work: EdgeWork | None = None
        self.passed = Forwarding(pace.memory_bytes)
        self.reported: set[tuple[str, ...]] = set()
        self.in_force: ReceivedOrders | None = None
        self.seen: ReceivedOrders | None = None
        self.columns: frozenset[str] = frozenset()
        self.cut_s = time.monotonic()
        self.unplanned_rows = 0
        self.unplanned_s: float | None = None
        self.check_source()
        self.sender = Sender(spool, connect(), report=report)
        self.following = OrdersPoll(connect(), spool.folder / "orders", stream.name, pace.poll_s)

    def check_source(self) -> None:
        """Check that the state is of such a source; if that can't be read again, report what was missed."""
        known = self.spool.known
        if known.clock_us is None:
            return
        if (known.position is not None) != self.source.has_position:
            problem = f"{self.spool.folder} is the state of an edge with another kind of source"
            raise UsageError(
                "state", problem, hint="another source is another edge: give it a name and a state of its own"
            )
        if not self.source.has_position:
            since, now = (format_timestamp(time_us) for time_us in (known.clock_us, self.clock()))
            self.report(f"the gap: what came between {since} and {now} was not read, and can't be")

    # The loop

    def run(self) -> None:
        """To the end of the input, or until `stopping` is set. What was read is in the spool when it returns."""
        try:
            self.follow_first()
            while not self.stopping.is_set() and not self.source.is_ended:
                self.sender.check()
                self.follow()
                if not self.has_room():
                    continue
                if not self.take(TAKEN_S) and self.mode is not Mode.LIVE and self.source.has_position:
                    break
                if self.is_due():
                    self.cut()
            self.source.stop()
            while self.take(DRAINED_S):
                if self.is_full:
                    self.cut()
            self.cut(ended=self.mode is Mode.BOUNDED and not self.stopping.is_set())
        finally:
            self.source.stop()
            self.following.stop()
            self.sender.stop(self.pace.patience_s)
            self.spool.settle(self.source.present, at_once=True)
            self.spool.close()
        self.sender.check()

    def follow_first(self) -> None:
        """Who reads only what is there does not wait for orders for long."""
        if self.mode is Mode.LIVE:
            return
        until_s = time.monotonic() + self.pace.patience_s
        while self.following.newest is None and not self.stopping.is_set():
            if time.monotonic() >= until_s:
                detail = self.following.problem
                hint = "start what is above first: it says what it asks for" if detail is None else self.following.hint
                raise UsageError("no-orders", "there are no orders for this edge", detail=detail, hint=hint)
            self.stopping.wait(TAKEN_S / 2)

    def follow(self) -> None:
        """Follow new orders, behind a cut. Those that can't be followed are reported, and the old ones stay, if there
        are any or others may come.
        """
        newest = self.following.newest
        if newest is None or newest is self.seen:
            return
        self.seen = newest
        try:
            work = work_for(newest.orders, self.catalog, newest.tables, self.pace.memory_bytes)
            columns = ordered_columns(newest.orders, self.stream)
        except HeadraceError as problem:
            if self.work is None and self.mode is not Mode.LIVE:
                raise
            self.report(f"new orders can't be followed: {problem.message}")
            return
        if self.work is not None:
            self.cut()
        self.work, self.in_force, self.columns = work, newest, columns
        note_plan(newest.orders.plan_id or "")
        self.reported.clear()

    def has_room(self) -> bool:
        """Whether rows may be read now; if not, some time has passed."""
        self.spool.settle(self.source.present)
        if self.work is None:
            self.stopping.wait(TAKEN_S)
            if self.is_due():
                self.cut()
            return False
        if self.awaits_plan():
            self.stopping.wait(TAKEN_S)
            return False
        if self.spool.waiting_bytes < self.pace.spool_bytes:
            return True
        if self.mode is not Mode.LIVE and self.sender.has_failed_for(self.pace.patience_s):
            raise DataError("spool-full", "the spool is full and nothing can be sent", detail=self.sender.problem)
        self.spool.wait_for_room(TAKEN_S)
        return False

    def awaits_plan(self) -> bool:
        """Whether rows enough have gone up as they are to make a plan from, and there was no time yet to make it."""
        if self.in_force is None or self.in_force.orders.plan is not None or self.in_force.orders.wants_rows:
            return False
        if self.unplanned_rows < FIRST_ROWS:
            return False
        if self.unplanned_s is None:
            self.cut()
            self.unplanned_s = time.monotonic()
        return time.monotonic() < self.unplanned_s + self.pace.patience_s

    def take(self, timeout_s: float) -> bool:
        """Whether a piece of rows came."""
        if self.work is None:
            return False
        rows = self.source.take(self.columns, timeout_s)
        if rows is None:
            return False
        self.note_refused(rows)
        accepted = self.judge.admit(rows)
        if accepted.num_rows:
            self.pass_on(accepted.num_rows, self.work.feed(accepted))
            self.unplanned_rows += accepted.num_rows
        return True

    def pass_on(self, count: int, unfolded: Sequence[Unfolded]) -> None:
        """Send rows of the last piece up as they are, with all columns: the root computes what can't be computed here,
        or quarantines its queries.
        """
        if not unfolded:
            return
        rows = self.judge.timely(self.source.take_again([column.name for column in self.stream.columns]).table)
        if rows.num_rows != count:
            raise DataError("source", f"{count:,} rows were read, and {rows.num_rows:,} when they were read again")
        for begin, end, problem in unfolded:
            self.passed.feed(rows.slice(begin, end - begin))
            self.report_failure(problem)

    def report_failure(self, problem: ExpressionFailure) -> None:
        """Once for each set of queries, until other orders come."""
        assert self.in_force is not None
        names = queries_using(self.in_force.orders.queries, problem.expression)
        if names not in self.reported:
            self.reported.add(names)
            queries = f"{'query' if len(names) == 1 else 'queries'} {', '.join(names)}: " if names else ""
            self.report(f"{queries}{problem.message}; these rows go up as they are")

    def note_refused(self, rows: Intake) -> None:
        """Count input that is no row by its reason; each reason is reported once, with a sample."""
        for refused in rows.refused:
            if add(self.refused, refused) and not refused.is_reported:
                sample = f", such as {refused.sample}" if refused.sample else ""
                self.report(f"bad input: {refused.reason}{sample}")

    @property
    def is_full(self) -> bool:
        return self.passed.is_full or (self.work is not None and self.work.is_full)

    def is_due(self) -> bool:
        if self.is_full:
            return True
        since_s = time.monotonic() - self.cut_s
        return since_s >= (self.pace.every_s if self.judge.judged.rows.read else self.pace.heartbeat_s)

    # Frames

    def cut(self, *, ended: bool = False) -> None:
        """All that was read since the last cut, as a frame in the spool; as several, if the rows take more."""
        errors = {} if self.work is None else dict(self.work.errors)
        tables = () if self.work is None else self.work.cut()
        passed = self.cut_passed()
        judged, mark, known = self.judge.cut(), self.source.mark(), self.spool.known
        header = Header(
            edge=known.edge,
            incarnation=self.incarnation,
            sequence=self.sequence + 1,
            stream=self.stream.name,
            plan=None if self.in_force is None else self.in_force.orders.plan_id,
            begins=known.position if self.source.has_position else None,
            position=self.position_after(mark),
            watermark_us=self.judge.watermark_us,
            lowest_us=judged.lowest_us,
            highest_us=judged.highest_us,
            rows=judged.rows,
            errors=errors,
            ended=ended,
        )
        parts = split_span(header, tables, passed, known.watermark_us)
        frames = [frame for part in parts for frame in pack_frame(part, known.watermark_us)]
        self.sequence += len(frames)
        record = EdgeRecord(
            incarnation=self.incarnation,
            sequence=self.sequence,
            clock_us=self.clock(),
            position=header.position,
            watermark_us=header.watermark_us,
            partitions=judged.partitions,
            files=mark.files,
            reading=mark.reading,
        )
        self.spool.add(frames[-1].header, record, *(frame.data for frame in frames))
        bad = sum(frame.header.rows.bad for frame in frames)
        if bad > judged.rows.bad:
            count = bad - judged.rows.bad
            self.report(f"left out as bad: {count:,} of the rows, each above the {MAX_SENT_BYTES:,} bytes of a frame")
        self.rows = self.rows.plus(replace(judged.rows, bad=bad))
        self.cut_s = time.monotonic()

    def cut_passed(self) -> Passed:
        """Rows that go up beside the partials since the last cut."""
        tables = self.passed.cut()
        late = sum(self.judge.count_late(event_times_us(table, self.stream)) for table in tables)
        return Passed(tables, RowCounts(read=sum(table.num_rows for table in tables), late=late))

    def position_after(self, mark: SourceMark) -> Position:
        known = self.spool.known
        if not self.source.has_position:
            return None
        return known.position if mark == SourceMark((), known.reading) else position_after(known.position, mark)

    def progress(self) -> AgentProgress:
        in_force = self.in_force
        return AgentProgress(
            rows=self.rows.plus(self.judge.judged.rows),
            frames_sent=self.sender.frames,
            bytes_sent=self.sender.bytes,
            frames_waiting=len(self.spool.waiting),
            bytes_waiting=self.spool.waiting_bytes,
            has_orders=in_force is not None,
            plan=None if in_force is None else in_force.orders.plan_id,
            watermark_us=self.judge.held_us,
            datagrams_dropped=self.source.datagrams_dropped,
            problem=self.sender.problem or self.following.problem,
            refused=tuple(self.refused.values()),
        )
