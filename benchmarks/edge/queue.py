"""Which records of a trace wait and which are dropped, from the measured costs of rows and entries [UDAF 6]."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, fields

import numpy as np
import pyarrow as pa

from benchmarks.edge.speed import LONGEST, SHORTEST, Integers, Trace, partials_in
from benchmarks.timing import processor_seconds
from headrace.datasets.random_values import generator
from headrace.edge.tables.memory_layout import StateColumn, StateKind
from headrace.edge.tables.tables import Flush, Replacement, Tables
from headrace.planner.phantoms.configuration import Configuration, EdgeTable
from headrace.wire.frames import Frame, Header, to_bytes

COLUMNS = (StateColumn(StateKind.COUNT), StateColumn(StateKind.LEAST, 0), StateColumn(StateKind.GREATEST, 0))
"""The query of the paper's experiment [UDAF 6]."""
SIZES = tuple(1 << bits for bits in range(12, 21, 2))
"""Entries. In smaller tables what a call takes, whatever it does, would be taken for the time of entries."""
ROWS = 1 << 18
"""At least; more for the largest tables, so that they are crowded."""
REPEATS = 3
FRAME_ROWS = 1 << 14
MAX_GROUPS = 40_000
CROWD = 2
"""Groups for each entry, where about half of the rows push another out."""


@dataclass(frozen=True, slots=True)
class Costs:
    """ns in a table of `entries`.

    `hit`: of a row that finds its group, or room. `evict`: of one that pushes another group out. `flush`: of an entry
    that leaves because its slice is over. `look`: of one that has nothing to flush. `ship`: of a partial that left,
    until it is in a frame.
    """

    replacement: str
    entries: int
    hit_ns: float
    evict_ns: float
    flush_ns: float
    look_ns: float
    ship_ns: float


def one_table(entries: int, queries: int = 1) -> Configuration:
    """Configure a query by one attribute, or several that are not shared."""
    return Configuration((EdgeTable(frozenset("A"), None, True, entries),) * queries)


def measure_costs(replacement: Replacement, entries: int) -> Costs:
    rng, rows = generator(1, entries), max(ROWS, CROWD * entries)
    resident = resident_groups(replacement, entries)
    calm, calm_ns = time_rows(replacement, entries, resident[rng.integers(0, len(resident), rows)])
    crowded, crowded_ns = time_rows(replacement, entries, rng.integers(0, CROWD * entries, rows))
    hit_ns, evict_ns = np.linalg.solve([[1 - calm, calm], [1 - crowded, crowded]], [calm_ns, crowded_ns])
    alone_ns = time_flush(replacement, entries, resident[:1])
    look_ns = alone_ns / entries
    flush_ns = (time_flush(replacement, entries, resident) - alone_ns) / (len(resident) - 1) + look_ns
    return Costs(replacement.value, entries, float(hit_ns), float(evict_ns), flush_ns, look_ns, time_frame())


def resident_groups(replacement: Replacement, entries: int) -> Integers:
    """Return groups that fill nearly half a table. Except for the few that wait in the output they do not collide."""
    tables = Tables(one_table(entries), COLUMNS, {"A": entries}, replacement=replacement, buffered=8)
    feed_codes(tables, np.arange(entries // 2), 0)
    return np.concatenate([evicted.codes[0] for evicted in tables.flush()])


def time_rows(replacement: Replacement, entries: int, codes: Integers) -> tuple[float, float]:
    """Return the share of rows that evict another group, and ns per row: the least of some runs, all in one slice."""
    tables = Tables(one_table(entries), COLUMNS, {"A": CROWD * entries}, replacement=replacement)
    feed_codes(tables, codes, 0)
    before = tables.counts[0]
    least_s = min(processor_seconds(lambda: feed_codes(tables, codes, 0)) for _ in range(REPEATS))
    after = tables.counts[0]
    share = (after.collisions - before.collisions) / (after.probes - before.probes)
    return share, 1e9 * least_s / len(codes)


def time_flush(replacement: Replacement, entries: int, codes: Integers) -> float:
    """Return the ns to flush a table that has these groups."""
    tables = Tables(one_table(entries), COLUMNS, {"A": CROWD * entries}, replacement=replacement, flush=Flush.EAGER)
    runs_s = []
    for slice_ in range(REPEATS):
        feed_codes(tables, codes, slice_)
        runs_s.append(processor_seconds(lambda: partials_in(tables.flush())))
    return 1e9 * min(runs_s)


def time_frame() -> float:
    """Return the ns for each partial of a frame: the group, the slice and three states."""
    rng = generator(1)
    names = ("group", "slice_start", "count", "least", "greatest")
    highest = (MAX_GROUPS, 1, 100, SHORTEST, LONGEST)
    columns = {name: rng.integers(0, most, FRAME_ROWS) for name, most in zip(names, highest, strict=True)}
    frame = Frame(Header("edge", 0, 1, "Packets", "plan"), (pa.table(columns),))
    return 1e9 * min(processor_seconds(lambda: to_bytes(frame)) for _ in range(REPEATS)) / FRAME_ROWS


def feed_codes(tables: Tables, codes: Integers, slice_: int) -> int:
    """Feed codes. The length of a packet does not matter here, so its code stands for it."""
    return partials_in(tables.feed(codes.reshape(1, -1), (codes,), slice_))


def costs_at(measured: Sequence[Costs], replacement: Replacement, entries: int) -> Costs:
    """Interpolate between the sizes that were measured, by the logarithm of the entries."""
    line = [each for each in measured if each.replacement == replacement.value]
    places = np.log2([each.entries for each in line])
    names = [field.name for field in fields(Costs) if field.name.endswith("_ns")]
    between = {
        name: float(np.interp(np.log2(entries), places, [getattr(each, name) for each in line])) for name in names
    }
    return Costs(replacement.value, entries, **between)


# A trace that arrives at a fixed rate in a ring before the tables
#
# What happens to each record is what the real tables count; how long it takes is what was measured of them.

RING = 1 << 16
TAKEN_SHARE = 32
"""This part of the ring leaves it together: many records compared with the cost of a call."""
TINY = 1e-6
"""Of an interval: what a product may lose in its last bit."""


@dataclass(frozen=True, slots=True)
class Arrivals:
    """A record after each interval, and how many can wait."""

    interval_ns: float
    ring: int = RING

    @property
    def taken(self) -> int:
        """Return how many leave the ring together."""
        return self.ring // TAKEN_SHARE

    def before(self, clock_ns: float, rows: int) -> int:
        """Count the rows that have arrived."""
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
    """Tables that are fed with records, and the time that takes."""

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
        """Feed some records of one slice and return the ns. What leaves without a collision leaves with its slice."""
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
    """Drop a record where the ring has no room for it. Those that are taken out make room at once."""
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
