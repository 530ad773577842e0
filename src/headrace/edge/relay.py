"""The relay: frames of many edges are combined across space, and go up as one.

Which frames are in it is written with every frame that a relay cuts: its position is the ledger of its edges, which the
header names by its digest. So a frame is spooled, then the frames that it is made of are deleted; what a relay that was
killed did not delete is a duplicate.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa

from headrace.aggregates.registry import USER_AGGREGATES
from headrace.aggregates.user import KIND_PREFIX
from headrace.edge.edge_state import EdgeRecord
from headrace.edge.spool import Spool
from headrace.kernel.combine import NodePartials, combine
from headrace.kernel.interchange import pack
from headrace.model.caches import note_plan
from headrace.model.errors import UsageError
from headrace.model.schema import Stream
from headrace.model.time import later
from headrace.planner.codec import decode, digest_of, encode
from headrace.planner.lattice import Node
from headrace.planner.plan import Plan
from headrace.storage.disk import DamagedError, digest, make_folder, read_file, write_file
from headrace.wire.exchange import DirectoryExchange, Exchange, header_of
from headrace.wire.frame_checks import check_partials, check_rows
from headrace.wire.frames import (
    MIN_PLAIN_BYTES,
    MOST_BYTES,
    Frame,
    FrameError,
    Header,
    Member,
    Position,
    Rows,
    StrangerError,
    from_bytes,
    plain_bytes,
    to_bytes,
)
from headrace.wire.ledger import (
    BEGINNING,
    EdgeState,
    Ledger,
    Verdict,
    decide,
    from_json,
    take_frame,
    to_json,
)
from headrace.wire.orders import Orders

MOST_TAKEN_BYTES = MOST_BYTES // 2
"""Of the frames that become one, unless one of them is larger."""
MOST_SPOOLED_BYTES = 1 << 30
"""If more waits to be sent, no more is taken: the edges keep it."""
MOST_PLANS = 256
"""An edge may be this many plans behind, and its frames can still be read."""


class Plans:
    """The plans that frames may be of, by their ids."""

    def __init__(self, folder: Path) -> None:
        make_folder(folder)
        self.folder = folder
        self.known: dict[str, Plan] = {}

    def keep(self, plan: Plan) -> None:
        check_aggregates(plan)
        text = encode(plan)
        path = self.folder / f"{digest_of(text)}.json"
        if not path.exists():
            write_file(path, text.encode())

    def find(self, name: str) -> Plan | None:
        note_plan(name)
        path = self.folder / f"{name}.json"
        if name not in self.known and path.exists():
            text = read_file(path).decode("utf-8", "replace")
            if digest_of(text) != name:
                raise DamagedError(path, "is damaged: it has another checksum than when it was written")
            self.known[name] = decode(text)
        return self.known.get(name)

    def forget_old(self, needed: Collection[str | None]) -> None:
        """All but the newest, and those that are needed."""
        paths = sorted(self.folder.glob("*.json"), key=lambda path: path.stat().st_mtime_ns)
        for path in paths[:-MOST_PLANS]:
            if path.stem not in needed:
                self.known.pop(path.stem, None)
                path.unlink()


def check_aggregates(plan: Plan) -> None:
    """Those of users must be known here, since their own code combines them."""
    kinds = {partial.kind for each in plan.nodes for partial in each.node.partials}
    unknown = sorted(
        kind.removeprefix(KIND_PREFIX) for kind in kinds if kind.startswith(KIND_PREFIX) and kind not in USER_AGGREGATES
    )
    if unknown:
        problem = f"the plan has aggregates that are not known here: {', '.join(unknown)}"
        raise UsageError("functions", problem, hint="name the Python file that defines them in 'functions'")


class PlanKeeping:
    """The upper side, but that the plans of its orders are kept: before they are passed on, and any edge has them."""

    def __init__(self, above: Exchange, plans: Plans) -> None:
        self.above = above
        self.plans = plans
        self.put = above.put
        self.table_bytes = above.table_bytes

    def orders(self) -> Orders | None:
        found = self.above.orders()
        if found is not None and found.plan is not None:
            self.plans.keep(found.plan)
        return found


@dataclass(slots=True)
class Taken:
    """Frames that become one: leading runs of each edge's, and of one plan, but that those without rows fit any."""

    ledger: Ledger
    frames: list[Frame] = field(default_factory=list)
    paths: list[Path] = field(default_factory=list)
    parts: list[NodePartials] = field(default_factory=list)
    rows: list[pa.Table] = field(default_factory=list)
    size: int = 0
    plain_bytes: int = 0
    """Of their tables: however well those of a combined frame are packed, it is taken above."""

    @property
    def headers(self) -> list[Header]:
        return [frame.header for frame in self.frames]

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
    """Of one stream. `parked` says why frames wait, `refused` counts those that were put aside.

    The edges of `edges` hold the watermark back until they end, or were silent for `idle_us` of the clock.
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
        self.spool = spool
        self.plans = plans
        self.clock = clock
        self.idle_us = idle_us
        self.ledger: Ledger = from_json((spool.known.position or {}).get("ledger", {}))
        self.watermark_us = spool.known.watermark_us
        self.incarnation = max(clock(), spool.known.incarnation + 1)
        self.sequence = 0
        self.heard_us = dict.fromkeys(self.edges, clock())
        self.headers: dict[Path, Header] = {}
        self.parked: dict[str, str] = {}
        self.refused = 0
        inbox.admit(self.edges)

    def step(self) -> int:
        """Combine all that is ready. Gives how many frames were cut."""
        before = self.sequence
        while self.spool.waiting_bytes < MOST_SPOOLED_BYTES:
            found = self.take()
            is_news = self.watermark_after(found.ledger) != self.watermark_us
            if not found.frames and not is_news:
                break
            self.cut(found)
        self.inbox.report_parked(self.parked)
        self.spool.settle(None)
        self.plans.forget_old({*(state.plan for state in self.ledger.values()), *self.waiting_plans()})
        return self.sequence - before

    # What is taken

    def take(self) -> Taken:
        found, stopped = Taken(self.ledger), set[str]()
        self.parked = {}
        for path, header in self.waiting():
            if found.frames and found.size + path.stat().st_size > MOST_TAKEN_BYTES:
                break
            verdict, reason = decide(found.ledger, header)
            if verdict is Verdict.DUPLICATE:
                path.unlink()
            elif verdict is Verdict.WAIT or header.edge in stopped:
                self.parked[path.name] = reason or "the frame before it waits"
            elif not self.take_one(found, path):
                stopped.add(header.edge)
        return found

    def waiting(self) -> Iterator[tuple[Path, Header]]:
        """Yield the frames of known edges. An edge with news here is not silent."""
        paths = list(self.inbox.waiting())
        self.headers = {path: self.headers[path] for path in paths if path in self.headers}
        for path in paths:
            try:
                if path not in self.headers:
                    self.headers[path] = self.checked_header(path)
            except FrameError as problem:
                self.refuse(path, problem)
                continue
            header = self.headers[path]
            if self.has_news(header):
                self.heard_us[header.edge] = self.clock()
            yield path, header

    def has_news(self, header: Header) -> bool:
        """Whether there are rows in it, or its edge is further. One that only lives is idle, as at the root."""
        known_us = self.ledger.get(header.edge, EdgeState()).watermark_us
        return header.rows.read > 0 or later(known_us, header.watermark_us) != known_us

    def checked_header(self, path: Path) -> Header:
        header = header_of(path)
        if header.file_name != path.name:
            raise FrameError(f"it is {header.file_name} by its header")
        if header.stream.lower() != self.stream.name.lower():
            raise FrameError(f"it is of the stream {header.stream}")
        if header.edge not in self.edges:
            raise StrangerError(header.edge, self.edges)
        return header

    def take_one(self, found: Taken, path: Path) -> bool:
        """Whether the frame is taken, so that the next one of its edge may be."""
        try:
            data = path.read_bytes()
            frame = from_bytes(data)
            plan = frame.header.plan
            if frame.has_rows and found.plans and plan != found.plans[0]:
                return False
            plain = plain_bytes(data)
            if found.plain_bytes and found.plain_bytes + plain > MIN_PLAIN_BYTES:
                return False
            if frame.tables and plan is None:
                found.rows += check_rows(frame, self.stream)
            elif frame.tables and plan is not None:
                known = self.plans.find(plan)
                if known is None:
                    self.parked[path.name] = f"its plan {plan} is not known"
                    return False
                found.parts += check_partials(frame, self.stream.name, known)
        except FrameError as problem:
            self.refuse(path, problem)
            return False
        found.frames.append(frame)
        found.paths.append(path)
        found.size += len(data)
        found.plain_bytes += plain
        found.ledger = take_frame(found.ledger, frame.header, len(data))
        return True

    def refuse(self, path: Path, problem: FrameError) -> None:
        self.inbox.refuse(path, problem.reason)
        self.refused += 1

    def waiting_plans(self) -> set[str | None]:
        return {header.plan for header in self.headers.values()}

    # What is cut

    def cut(self, found: Taken) -> None:
        """One frame: on the disk first, then what it is made of goes."""
        self.watermark_us = self.watermark_after(found.ledger)
        self.sequence += 1
        frame = Frame(self.header(found), found.tables(self.stream.name))
        position = {"ledger": to_json(found.ledger)}
        record = EdgeRecord(
            incarnation=self.incarnation,
            sequence=self.sequence,
            clock_us=self.clock(),
            position=position,
            watermark_us=self.watermark_us,
        )
        self.spool.add(frame.header, record, to_bytes(frame))
        self.ledger = found.ledger
        for path in found.paths:
            path.unlink()

    def header(self, found: Taken) -> Header:
        headers = found.headers
        times_us = [(each.lowest_us, each.highest_us) for each in headers]
        plans = found.plans or [header.plan for header in headers[-1:]] or [None]
        errors: Counter[str] = Counter()
        rows = Rows()
        for header in headers:
            errors.update(header.errors)
            rows = rows.plus(header.rows)
        return Header(
            edge=self.name,
            incarnation=self.incarnation,
            sequence=self.sequence,
            stream=self.stream.name,
            plan=plans[0],
            begins=digest_ledger(self.ledger),
            position=digest_ledger(found.ledger),
            watermark_us=self.watermark_us,
            lowest_us=min((lowest for lowest, _ in times_us if lowest is not None), default=None),
            highest_us=max((highest for _, highest in times_us if highest is not None), default=None),
            rows=rows,
            errors=dict(errors),
            ended=all(found.ledger.get(edge, EdgeState()).ended for edge in self.edges),
            members=members_of(found.ledger),
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
    known_us = [each for each in held_us if each is not None]
    return min(known_us, default=None) if len(known_us) == len(held_us) else None


def members_of(ledger: Ledger) -> dict[str, Member]:
    """Edges: those behind a relay stand for it."""
    found: dict[str, Member] = {}
    for name, state in ledger.items():
        found |= state.members or {name: Member(state.plan, state.watermark_us, state.highest_us)}
    return found


def digest_ledger(ledger: Ledger) -> Position:
    """A ledger by its digest: the next frame says the same of it. Of none, where a source begins."""
    text = json.dumps(to_json(ledger), sort_keys=True)
    return {"digest": digest(text.encode())} if ledger else BEGINNING
