"""A trace that arrives at a fixed rate in a ring before the tables: who waits, and who is dropped [UDAF 6].

What happens to each record is what the real tables count; how long it takes is what was measured of them.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

from benchmarks.edge_costs import COLUMNS, Costs, one_table
from benchmarks.edge_speed import partials_in
from benchmarks.edge_traffic import Trace
from headrace.edge.tables.tables import Flush, Replacement, Tables

RING = 1 << 16
TAKEN_SHARE = 32
"""So small a part of the ring leaves it together: many records beside the cost of a call."""
TINY = 1e-6
"""Of an interval: what a product may lose in its last bit."""


@dataclass(frozen=True, slots=True)
class Arrivals:
    """A record after each interval, and how many can wait."""

    interval_ns: float
    ring: int = RING

    @property
    def taken(self) -> int:
        """How many leave the ring together."""
        return self.ring // TAKEN_SHARE

    def before(self, clock_ns: float, rows: int) -> int:
        """How many of the rows have arrived."""
        return min(rows, int(clock_ns / self.interval_ns + TINY))


@dataclass(frozen=True, slots=True)
class Setting:
    """How the tables work. Several queries have a table each, of the same size, and see every record."""

    replacement: Replacement
    flush: Flush
    swept: int = 1
    """Entries looked at with each record in a lazy flush; the paper's flushes one [UDAF 6]."""
    queries: int = 1

    @property
    def name(self) -> str:
        return f"{self.flush.value} {self.swept}" if self.flush is Flush.LAZY else self.flush.value

    def tables(self, entries: int, groups: int) -> Tables:
        return Tables(
            one_table(entries, self.queries),
            COLUMNS,
            {"A": groups},
            replacement=self.replacement,
            flush=self.flush,
            swept=self.swept,
        )


@dataclass(frozen=True, slots=True)
class Outcome:
    """Shares of the records, of the time, and of the ring."""

    loss: float
    busy: float
    longest_queue: float


class Service:
    """Tables that are told what to do, and tell how long it took."""

    def __init__(self, setting: Setting, trace: Trace, costs: Costs) -> None:
        self.trace = trace
        self.costs = costs
        self.queries = setting.queries
        self.all_entries = setting.queries * costs.entries
        self.tables = setting.tables(costs.entries, trace.groups)
        self.unswept = 0
        self.collisions = 0
        self.evictions = 0

    def take(self, begin: int, end: int) -> float:
        """ns for some records of one slice. What leaves without a collision leaves because its slice is over."""
        slice_ = begin // self.trace.slice_rows
        if self.tables.slice not in (None, slice_):
            self.unswept = self.all_entries
        partials_in(self.tables.feed(self.trace.codes[:, begin:end], (self.trace.lengths[begin:end],), slice_))
        collisions = sum(each.collisions for each in self.tables.counts)
        evictions = sum(each.evictions for each in self.tables.counts)
        probes = (end - begin) * self.queries
        collided, left = collisions - self.collisions, evictions - self.evictions - (collisions - self.collisions)
        self.collisions, self.evictions = collisions, evictions
        looked = self.unswept
        if self.tables.older_slice is not None:
            looked = min(looked, probes * self.tables.swept)
        self.unswept -= looked
        return (
            (probes - collided) * self.costs.hit_ns
            + collided * self.costs.evict_ns
            + left * self.costs.flush_ns
            + (collided + left) * self.costs.ship_ns
            + max(0, looked - left) * self.costs.look_ns
        )


def simulate(
    setting: Setting, trace: Trace, costs: Costs, arrivals: Arrivals, *, is_ended_by_drop: bool = False
) -> Outcome:
    """A record is dropped where the ring has no room for it. Those that are taken out make room at once."""
    service, rows = Service(setting, trace, costs), len(trace)
    waiting: deque[tuple[int, int]] = deque()
    arrived = queued = longest = dropped = 0
    clock_ns = busy_ns = 0.0
    while arrived < rows or queued:
        awaited = min(rows, arrived + max(0, arrivals.taken - queued))
        clock_ns = max(clock_ns, arrivals.interval_ns * awaited)
        now = arrivals.before(clock_ns, rows)
        admitted = min(now - arrived, arrivals.ring - queued)
        if admitted:
            waiting.append((arrived, arrived + admitted))
        dropped += now - arrived - admitted
        arrived, queued = now, queued + admitted
        longest = max(longest, queued)
        if dropped and is_ended_by_drop:
            break
        begin, end = waiting.popleft()
        taken = min(end, begin + arrivals.taken, (begin // trace.slice_rows + 1) * trace.slice_rows)
        if taken < end:
            waiting.appendleft((taken, end))
        queued -= taken - begin
        spent_ns = service.take(begin, taken)
        clock_ns += spent_ns
        busy_ns += spent_ns
    return Outcome(dropped / rows, busy_ns / clock_ns, longest / arrivals.ring)
