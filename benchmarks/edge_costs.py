"""How long a row takes that finds its group, one that pushes another out, and an entry that is flushed and sent."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields

import numpy as np
import pyarrow as pa

from benchmarks.edge_speed import partials_in, processor_seconds
from benchmarks.edge_traffic import LONGEST, SHORTEST, Integers
from headrace.datasets.random_values import generator
from headrace.edge.tables.memory_layout import Column, Kind
from headrace.edge.tables.tables import Flush, Replacement, Tables
from headrace.planner.phantoms.configuration import Configuration, Table
from headrace.wire.frames import Frame, Header, to_bytes

COLUMNS = (Column(Kind.COUNT), Column(Kind.LEAST, 0), Column(Kind.GREATEST, 0))
"""The query of the paper's experiment [UDAF 6]."""
SIZES = tuple(1 << bits for bits in range(12, 21, 2))
"""Entries. In smaller tables what a call takes, whatever it does, would be taken for the time of entries."""
ROWS = 1 << 18
"""At least; more for the largest tables, so that they are crowded."""
REPEATS = 3
FRAME_ROWS = 1 << 14
MOST_GROUPS = 40_000
CROWD = 2
"""Groups for each entry, where about half of the rows push another out."""


@dataclass(frozen=True, slots=True)
class Costs:
    """ns in a table of so many entries.

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
    """A query by the one attribute, or several that are not shared."""
    return Configuration((Table(frozenset("A"), None, True, entries),) * queries)


def measured_costs(replacement: Replacement, entries: int) -> Costs:
    rng, rows = generator(1, entries), max(ROWS, CROWD * entries)
    resident = survivors(replacement, entries)
    calm, calm_ns = timed_rows(replacement, entries, resident[rng.integers(0, len(resident), rows)])
    crowded, crowded_ns = timed_rows(replacement, entries, rng.integers(0, CROWD * entries, rows))
    hit_ns, evict_ns = np.linalg.solve([[1 - calm, calm], [1 - crowded, crowded]], [calm_ns, crowded_ns])
    alone_ns = timed_flush(replacement, entries, resident[:1])
    look_ns = alone_ns / entries
    flush_ns = (timed_flush(replacement, entries, resident) - alone_ns) / (len(resident) - 1) + look_ns
    return Costs(replacement.value, entries, float(hit_ns), float(evict_ns), flush_ns, look_ns, timed_frame())


def survivors(replacement: Replacement, entries: int) -> Integers:
    """Groups that fill nearly half a table. But for the few that wait in the output they do not collide."""
    tables = Tables(one_table(entries), COLUMNS, {"A": entries}, replacement=replacement, buffered=8)
    fed(tables, np.arange(entries // 2), 0)
    return np.concatenate([evicted.codes[0] for evicted in tables.flush()])


def timed_rows(replacement: Replacement, entries: int, codes: Integers) -> tuple[float, float]:
    """The share of rows that push another group out, and ns per row; the least of some runs, all in one slice."""
    tables = Tables(one_table(entries), COLUMNS, {"A": CROWD * entries}, replacement=replacement)
    fed(tables, codes, 0)
    before = tables.counts[0]
    least_s = min(processor_seconds(lambda: fed(tables, codes, 0)) for _ in range(REPEATS))
    after = tables.counts[0]
    share = (after.collisions - before.collisions) / (after.probes - before.probes)
    return share, 1e9 * least_s / len(codes)


def timed_flush(replacement: Replacement, entries: int, codes: Integers) -> float:
    """ns to flush a table that has these groups."""
    tables = Tables(one_table(entries), COLUMNS, {"A": CROWD * entries}, replacement=replacement, flush=Flush.EAGER)
    runs_s = []
    for slice_ in range(REPEATS):
        fed(tables, codes, slice_)
        runs_s.append(processor_seconds(lambda: partials_in(tables.flush())))
    return 1e9 * min(runs_s)


def timed_frame() -> float:
    """ns for each partial of a frame: the group, the slice and three states."""
    rng = generator(1)
    names = ("group", "slice_start", "count", "least", "greatest")
    highest = (MOST_GROUPS, 1, 100, SHORTEST, LONGEST)
    columns = {name: rng.integers(0, most, FRAME_ROWS) for name, most in zip(names, highest, strict=True)}
    frame = Frame(Header("edge", 0, 1, "Packets", "plan"), (pa.table(columns),))
    return 1e9 * min(processor_seconds(lambda: to_bytes(frame)) for _ in range(REPEATS)) / FRAME_ROWS


def fed(tables: Tables, codes: Integers, slice_: int) -> int:
    """The length of a packet does not matter here, so its code stands for it."""
    return partials_in(tables.feed(codes.reshape(1, -1), (codes,), slice_))


def costs_at(measured: Sequence[Costs], replacement: Replacement, entries: int) -> Costs:
    """Between the sizes that were measured, by the logarithm of the entries."""
    line = [each for each in measured if each.replacement == replacement.value]
    places = np.log2([each.entries for each in line])
    names = [field.name for field in fields(Costs) if field.name.endswith("_ns")]
    between = {
        name: float(np.interp(np.log2(entries), places, [getattr(each, name) for each in line])) for name in names
    }
    return Costs(replacement.value, entries, **between)
