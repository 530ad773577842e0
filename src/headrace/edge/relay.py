"""The relay: frames of many edges are combined across space, and go up as one.

Which frames are in it is written with every frame that a relay cuts: its position is the ledger of its edges, which the
header names by its digest. So a frame is spooled, then the frames that it is made of are deleted; what a relay that was
killed did not delete is a duplicate.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, field
from functools import partial, reduce
from pathlib import Path

import pyarrow as pa

from headrace.edge.edge_state import EdgeRecord
from headrace.edge.relay_plans import Plans
from headrace.edge.spool import Spool
from headrace.kernel.combine import NodePartials, combine
from headrace.kernel.interchange import pack
from headrace.model.schema import Stream
from headrace.model.time import earlier, later
from headrace.planner.lattice import Node
from headrace.storage.disk import digest
from headrace.wire.exchange import DirectoryExchange
from headrace.wire.frame_checks import check_partials, check_rows
from headrace.wire.frame_intake import FrameIntake, WaitingFrame
from headrace.wire.frames import (
    MAX_BYTES,
    MIN_PLAIN_BYTES,
    Frame,
    Header,
    Member,
    Position,
    RowCounts,
    plain_bytes,
    to_bytes,
)
from headrace.wire.ledger import BEGINNING, Decision, EdgeState, FrameVerdict, Ledger, decide, from_json, to_json

MAX_TAKEN_BYTES = MAX_BYTES // 2
"""Of the frames that become one, unless one of them is larger."""
MAX_SPOOLED_BYTES = 1 << 30
"""If more waits to be sent, no more is taken: the edges keep it."""


@dataclass(slots=True)
class FrameBatch:
    """Frames that become one: leading runs of each edge's, and of one plan, but that those without rows fit any."""

    ledger: Ledger = field(default_factory=dict)
    frames: list[Frame] = field(default_factory=list)
    paths: list[Path] = field(default_factory=list)
    parts: list[NodePartials] = field(default_factory=list)
    rows: list[pa.Table] = field(default_factory=list)
    stopped: set[str] = field(default_factory=set)
    """Edges of which no further frame is taken."""
    size: int = 0
    plain_bytes: int = 0
    """Of their tables: however well those of a combined frame are packed, it is taken above."""

    def has_room(self, size: int) -> bool:
        return not self.frames or self.size + size <= MAX_TAKEN_BYTES

    @property
    def plans(self) -> list[str | None]:
        """Of the frames with rows; all the same."""
        return [frame.header.plan for frame in self.frames if frame.has_rows]

    def tables(self, stream: str) -> tuple[pa.Table, ...]:
        """Combined, one row for each node, slice, cell and group; rows as they are one after the other."""
        if self.rows:
            return (pa.concat_tables(self.rows).combine_chunks(),)
        by_node: dict[Node, list[NodePartials]] = {}
        for part in self.parts:
            by_node.setdefault(part.node, []).append(part)
        return pack(stream, [combine(parts) for parts in by_node.values()])


class Relay:
    """Of one stream. The edges of `edges` hold the watermark back until they end, or were silent for `idle_us` of the
    clock.
    """

    def __init__(
        self,
        name: str,
        stream: Stream,
        edges: Iterable[str],
        inbox: DirectoryExchange,
        spool: Spool,
        plans: Plans,
        *,
        clock: Callable[[], int],
        idle_us: int,
    ) -> None:
        self.name = name
        self.stream = stream
        self.edges = tuple(edges)
        self.inbox = inbox
        self.intake = FrameIntake(inbox, stream.name, self.edges)
        self.spool = spool
        self.plans = plans
        self.clock = clock
        self.idle_us = idle_us
        self.ledger: Ledger = from_json((spool.known.position or {}).get("ledger", {}))
        self.watermark_us = spool.known.watermark_us
        self.incarnation = max(clock(), spool.known.incarnation + 1)
        self.sequence = 0
        self.heard_us = dict.fromkeys(self.edges, clock())

    def step(self) -> int:
        """Combine all that is ready. Return how many frames were cut."""
        before = self.sequence
        while self.spool.waiting_bytes < MAX_SPOOLED_BYTES:
            batch = self.take()
            is_news = self.watermark_after(batch.ledger) != self.watermark_us
            if not batch.frames and not is_news:
                break
            self.cut(batch)
        self.inbox.report_parked(self.intake.parked)
        self.spool.settle(None)
        waiting_plans = {header.plan for header in self.intake.headers.values()}
        self.plans.forget_old({state.plan for state in self.ledger.values()} | waiting_plans)
        return self.sequence - before

    # What is taken

    def take(self) -> FrameBatch:
        batch = FrameBatch()
        batch.ledger = self.intake.take(
            self.ledger, batch.has_room, partial(self.decide, batch), partial(self.accept, batch)
        )
        return batch

    def decide(self, batch: FrameBatch, ledger: Ledger, header: Header) -> Decision:
        """Decide by the ledger. An edge with rows here, or that is further, is not silent; one that only lives is
        idle, as at the root.
        """
        known_us = self.ledger.get(header.edge, EdgeState()).watermark_us
        if header.rows.read or later(known_us, header.watermark_us) != known_us:
            self.heard_us[header.edge] = self.clock()
        decision = decide(ledger, header)
        if decision.verdict is FrameVerdict.TAKE and header.edge in batch.stopped:
            return Decision(FrameVerdict.WAIT, "the frame before it waits")
        return decision

    def accept(self, batch: FrameBatch, waiting: WaitingFrame) -> bool:
        """Return whether the frame is taken, so that the next one of its edge may be."""
        path, data, frame = waiting
        plan, size = frame.header.plan, plain_bytes(data)
        batch.stopped.add(frame.header.edge)
        if frame.has_rows and batch.plans and plan != batch.plans[0]:
            return False
        if batch.plain_bytes and batch.plain_bytes + size > MIN_PLAIN_BYTES:
            return False
        if frame.tables and plan is None:
            batch.rows += check_rows(frame, self.stream)
        elif frame.tables and plan is not None:
            known = self.plans.find(plan)
            if known is None:
                self.intake.parked[path.name] = f"its plan {plan} is not known"
                return False
            batch.parts += check_partials(frame, self.stream.name, known)
        batch.stopped.remove(frame.header.edge)
        batch.frames.append(frame)
        batch.paths.append(path)
        batch.size += len(data)
        batch.plain_bytes += size
        return True

    # What is cut

    def cut(self, batch: FrameBatch) -> None:
        """Write one frame to the disk, then delete what it is made of."""
        self.watermark_us = self.watermark_after(batch.ledger)
        self.sequence += 1
        frame = Frame(self.header(batch), batch.tables(self.stream.name))
        record = EdgeRecord(
            incarnation=self.incarnation,
            sequence=self.sequence,
            clock_us=self.clock(),
            position={"ledger": to_json(batch.ledger)},
            watermark_us=self.watermark_us,
        )
        self.spool.add(frame.header, record, to_bytes(frame))
        self.ledger = batch.ledger
        for path in batch.paths:
            path.unlink()

    def header(self, batch: FrameBatch) -> Header:
        headers = [frame.header for frame in batch.frames]
        plans = batch.plans or [header.plan for header in headers[-1:]] or [None]
        errors: Counter[str] = Counter()
        for header in headers:
            errors.update(header.errors)
        return Header(
            edge=self.name,
            incarnation=self.incarnation,
            sequence=self.sequence,
            stream=self.stream.name,
            plan=plans[0],
            begins=digest_ledger(self.ledger),
            position=digest_ledger(batch.ledger),
            watermark_us=self.watermark_us,
            lowest_us=reduce(earlier, (header.lowest_us for header in headers), None),
            highest_us=reduce(later, (header.highest_us for header in headers), None),
            rows=reduce(RowCounts.plus, (header.rows for header in headers), RowCounts()),
            errors=dict(errors),
            ended=all(batch.ledger.get(edge, EdgeState()).ended for edge in self.edges),
            members=members_of(batch.ledger),
        )

    def watermark_after(self, ledger: Ledger) -> int | None:
        """It never goes back."""
        now_us = self.clock()
        silent = {edge for edge in self.edges if now_us - self.heard_us[edge] >= self.idle_us}
        return later(self.watermark_us, lowest_watermark(ledger, self.edges, silent))


def lowest_watermark(ledger: Ledger, edges: Iterable[str], silent: Collection[str]) -> int | None:
    """Of the edges that hold it back; None if one of these has none, or if none of them does and some are silent."""
    states = {edge: ledger.get(edge, EdgeState()) for edge in edges}
    if all(state.ended for state in states.values()):
        return max((state.watermark_us for state in states.values() if state.watermark_us is not None), default=None)
    held_us = [state.watermark_us for edge, state in states.items() if not state.ended and edge not in silent]
    known_us = [time_us for time_us in held_us if time_us is not None]
    return min(known_us, default=None) if len(known_us) == len(held_us) else None


def members_of(ledger: Ledger) -> dict[str, Member]:
    """Return the edges: those behind a relay stand for it."""
    members: dict[str, Member] = {}
    for name, state in ledger.items():
        members |= state.members or {name: Member(state.plan, state.watermark_us, state.highest_us)}
    return members


def digest_ledger(ledger: Ledger) -> Position:
    """A ledger by its digest: the next frame says the same of it. Of none, where a source begins."""
    text = json.dumps(to_json(ledger), sort_keys=True)
    return {"digest": digest(text.encode())} if ledger else BEGINNING
