"""Frames of edges as input: which of those that wait a step takes, and what they count.

A frame that is taken is copied into the state first, so a step that is run again finds what it began with. Who sent
what is in a ledger, in every commit record; a frame that can't be taken yet stays where it is.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

import pyarrow as pa

from headrace.engine.registry import Registry
from headrace.engine.step.watermark import BEGINNING_US
from headrace.model.schema import Stream
from headrace.model.units import FRAME, Unit
from headrace.planner.demand import demand
from headrace.planner.plan import Plan, route
from headrace.storage.directory import Directory
from headrace.storage.records import Commit, CountedSpan, PartitionTime, StreamTotals, TakenFrame
from headrace.storage.store import MissingObjectError, Store
from headrace.wire.exchange import DirectoryExchange
from headrace.wire.frame_checks import check_partials, check_rows
from headrace.wire.frame_intake import FrameIntake, WaitingFrame
from headrace.wire.frames import Frame, Header, Member
from headrace.wire.ledger import Decision, EdgeState, FrameVerdict, Ledger, decide, from_json
from headrace.wire.orders import Orders

PUSHES = ("partials", "rows")
"""What edges may be asked to send."""
FOLDER = "frames"
"""In the state: frames of the steps that have not been committed."""
SAMPLE = "sample.arrow"
SAMPLE_ROWS = 50_000
MAX_PLANS = 1_000
KEY = "edge "
"""Before the name of an edge it makes the key of its partition; those of a column are JSON."""


@dataclass(slots=True)
class NewFrames:
    """What a step takes of the frames that wait; and why others wait on."""

    frames: list[TakenFrame] = field(default_factory=list)
    units: list[Unit] = field(default_factory=list)
    ledger: Ledger = field(default_factory=dict)
    parked: Mapping[str, str] = field(default_factory=dict)
    is_more: bool = False
    size: int = 0


class Inbox:
    """The frames that edges sent to one stream."""

    def __init__(
        self,
        directory: Directory,
        stream: Stream,
        names: Iterable[str],
        exchange: DirectoryExchange,
        *,
        wants_rows: bool = False,
    ) -> None:
        self.directory = directory
        self.stream = stream
        self.names = frozenset(names)
        self.exchange = exchange
        self.wants_rows = wants_rows
        self.intake = FrameIntake(exchange, stream.name, self.names)

    def take(self, ledger: Ledger, most_bytes: int, plans: Collection[str]) -> NewFrames:
        """Take frames whose turn it is, as many as a step takes, of the plans that the last commit names."""

        def decide_known(ledger: Ledger, header: Header) -> Decision:
            decision = decide(ledger, header)
            if decision.verdict is FrameVerdict.TAKE and header.plan is not None and header.plan not in plans:
                return Decision(FrameVerdict.WAIT, f"its plan {header.plan} is not known")
            return decision

        new = NewFrames()
        new.ledger = self.intake.take(ledger, lambda _: new.size < most_bytes, decide_known, partial(self.accept, new))
        new.parked, new.is_more = self.intake.parked, self.intake.is_more
        self.exchange.report_parked(new.parked)
        return new

    def accept(self, new: NewFrames, waiting: WaitingFrame) -> bool:
        path, data, frame = waiting
        if frame.header.plan is None:
            check_rows(frame, self.stream)
        else:
            check_partials(frame, self.stream.name, self.directory.plan(frame.header.plan))
        if frame.tables:
            copy = f"{FOLDER}/{path.name}"
            self.directory.store.put(copy, data)
            rows = sum(table.num_rows for table in frame.tables)
            new.units.append(Unit(self.directory.place(copy), 0, len(data), len(data), rows, FRAME))
        new.frames.append(taken_frame(frame, path.name))
        new.size += len(data)
        return True

    def forget(self, taken: Sequence[TakenFrame]) -> None:
        """What a commit record has counted."""
        for frame in taken:
            (self.exchange.root / frame.name).unlink(missing_ok=True)
        self.directory.store.delete(f"{FOLDER}/{frame.name}" for frame in taken)

    def sample(self, rows: pa.Table) -> pa.Table:
        """Rows to plan for, kept for the time when edges send none any more."""
        if not rows.num_rows:
            return kept_sample(self.directory.store) or rows
        sink = pa.BufferOutputStream()
        with pa.ipc.new_file(sink, rows.schema) as writer:
            writer.write_table(rows.slice(0, SAMPLE_ROWS).combine_chunks())
        self.directory.store.put(SAMPLE, bytes(sink.getvalue()))
        return rows

    def all_ended(self, ledger: Ledger) -> bool:
        return all(ledger.get(name, EdgeState()).ended for name in self.names)

    def publish(self, plan: Plan | None, registry: Registry, tables: Mapping[str, str]) -> None:
        """What edges are asked to do from now on."""
        for name in tables.values():
            self.exchange.keep_table(self.directory.table_bytes(name))
        wanted = None if self.wants_rows else plan
        self.exchange.publish(Orders(self.stream.name, wanted, registry.active, tables, self.wants_rows))


def kept_sample(store: Store) -> pa.Table | None:
    """The rows that a root keeps to plan for, if it has seen any."""
    try:
        return pa.ipc.open_file(pa.py_buffer(store.get(SAMPLE))).read_all()
    except MissingObjectError:
        return None


def taken_frame(frame: Frame, name: str) -> TakenFrame:
    """Rows that come as they are are counted by the task that reads them, late ones too; what the edge left out is
    counted here. For partials the edge sends the number of late rows.
    """
    header = frame.header
    is_rows, rows = header.plan is None, header.rows
    inside = sum(table.num_rows for table in frame.tables) if is_rows else 0
    late = 0 if is_rows else rows.late
    totals = StreamTotals(rows=rows.read - inside, late=late, future=rows.future, dropped=rows.dropped, bad=rows.bad)
    return TakenFrame(
        name,
        header.edge,
        header.plan,
        header.lowest_us,
        header.highest_us,
        header.watermark_us,
        header.rows.read,
        header.ended,
        totals,
        dict(header.errors),
    )


# What frames count, when their step is committed


def spans_of(frames: Iterable[TakenFrame]) -> Iterator[CountedSpan]:
    """The event times that edges counted under each plan."""
    for frame in frames:
        if frame.plan is not None and frame.lowest_us is not None and frame.highest_us is not None:
            yield CountedSpan(frame.plan, frame.lowest_us, frame.highest_us + 1)


def highest_of(frames: Iterable[TakenFrame], stream: Stream, known: Mapping[str, PartitionTime]) -> dict[str, int]:
    """Of each edge that sent rows, or is further than it was, the time that its watermark stands for. A relay may not
    have one yet. One that only lives is as idle as one that does not.
    """
    highest_us: dict[str, int] = {}
    for frame in frames:
        key = KEY + frame.edge
        time_us = BEGINNING_US if frame.watermark_us is None else frame.watermark_us + stream.lateness_us
        before_us = known[key].highest_us if key in known else BEGINNING_US
        if frame.read or time_us > before_us:
            highest_us[key] = max(highest_us.get(key, BEGINNING_US), time_us)
    return highest_us


def with_edges(
    partitions: Mapping[str, PartitionTime], names: Iterable[str], ledger: Ledger, clock_us: int | None
) -> dict[str, PartitionTime]:
    """Edges that nobody has heard of hold the watermark back, for as long as an idle one does; ended ones do not."""
    with_all = dict(partitions)
    for name in names:
        state = ledger.get(name)
        if state is not None and state.ended:
            with_all.pop(KEY + name, None)
        elif KEY + name not in with_all:
            with_all[KEY + name] = PartitionTime(BEGINNING_US, clock_us)
    return with_all


def plans_in_use(ledger: Ledger) -> dict[str, str | None]:
    """Of each edge that has not ended, also behind relays, the plan that it sent last under."""
    plans: dict[str, str | None] = {}
    for name, state in ledger.items():
        behind: Mapping[str, EdgeState | Member] = state.members or {name: state}
        plans |= {} if state.ended else {edge: known.plan for edge, known in behind.items()}
    return plans


def plans_to_keep(known: Iterable[str], newest: str | None, ledger: Ledger, names: Iterable[str]) -> tuple[str, ...]:
    """The plans that frames may still come under, oldest first, one that came back twice: an edge goes from each to a
    later one.
    """
    plans = list(known)
    if newest is not None and plans[-1:] != [newest]:
        plans.append(newest)
    in_use = set(plans_in_use(ledger).values())
    if None in in_use or any(name not in ledger for name in names):
        return tuple(plans[-MAX_PLANS:])
    oldest = min((plans.index(plan) for plan in in_use if plan in plans), default=0)
    return tuple(plans[oldest:][-MAX_PLANS:])


def holding_back(directory: Directory, commit: Commit, registry: Registry) -> dict[str, list[str]]:
    """Of each query the edges that still count under a plan without it."""
    in_use = plans_in_use(from_json(commit.edges))
    plans = {edge: plan for edge, plan in in_use.items() if plan is not None and plan in commit.plans}
    lacking_edges: dict[str, list[str]] = {}
    for name, query in registry.active.items():
        lacking = [edge for edge, plan in plans.items() if route(directory.plan(plan), demand(query)) is None]
        if lacking:
            lacking_edges[name] = sorted(lacking)
    return lacking_edges
