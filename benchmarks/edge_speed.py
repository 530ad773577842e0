"""Records per second of the fixed-memory tables: four pairs of attributes below a phantom of all four [GS 6]."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from statistics import median

from benchmarks.edge_traffic import Packets
from headrace.edge.tables.memory_layout import Column, Kind
from headrace.edge.tables.tables import Evicted, Replacement, Tables
from headrace.planner.phantoms.configuration import Configuration, Table

PAIRS = ("AB", "BC", "BD", "CD")
PHANTOM = "ABCD"
COLUMNS = (Column(Kind.COUNT),)
"""As in the paper's queries."""
BATCH_ROWS = 1 << 16
MOST_ENTRIES = 1 << 18
ROUNDS = 11
"""All rows go in so often, each time as a slice of their own, and the median counts."""


@dataclass(frozen=True, slots=True)
class Speed:
    """One configuration: the rate that was asked for, the rate of the phantom while it was timed, and its speed."""

    packets: str
    replacement: str
    wanted_rate: float
    collision_rate: float
    phantom_entries: int
    nbytes: int
    partials_per_record: float
    records_per_s: float


def speeds(traffic: Packets, rates: Sequence[float]) -> Iterator[Speed]:
    entries = {pair: traffic.group_count(pair) for pair in PAIRS}
    for replacement in Replacement:
        for wanted in rates:
            phantom = entries_for(traffic, replacement, wanted)
            yield speed(traffic, replacement, wanted, pairs_below(phantom, entries))


def pairs_below(phantom: int, entries: Mapping[str, int]) -> Configuration:
    """The queries have as many entries as groups, whatever the phantom has."""
    queries = (Table(frozenset(pair), 0, True, entries[pair]) for pair in PAIRS)
    return Configuration((Table(frozenset(PHANTOM), None, False, phantom), *queries))


def speed(traffic: Packets, replacement: Replacement, wanted: float, configuration: Configuration) -> Speed:
    tables = Tables(configuration, COLUMNS, traffic.sizes, replacement=replacement)
    feed(tables, traffic, 0)
    runs_s = [processor_seconds(partial(feed, tables, traffic, 1 + number)) for number in range(ROUNDS)]
    sent = sum(tables.counts[number].evictions for number in configuration.children(0))
    return Speed(
        packets=traffic.kind,
        replacement=replacement.value,
        wanted_rate=wanted,
        collision_rate=tables.counts[0].collision_rate,
        phantom_entries=configuration.tables[0].entries,
        nbytes=tables.nbytes,
        partials_per_record=sent / tables.counts[0].probes,
        records_per_s=len(traffic) / median(runs_s),
    )


def feed(tables: Tables, traffic: Packets, slice_: int) -> None:
    """All packets as one slice, while the one before leaves."""
    for begin in range(0, len(traffic), BATCH_ROWS):
        partials_in(tables.feed(traffic.codes[:, begin : begin + BATCH_ROWS], (), slice_))


def processor_seconds(run: Callable[[], object]) -> float:
    """Of one core, whatever else the machine does."""
    begin = time.process_time()
    run()
    return time.process_time() - begin


def partials_in(evicted: Iterable[Evicted]) -> int:
    return sum(map(len, evicted))


def entries_for(traffic: Packets, replacement: Replacement, wanted: float) -> int:
    """About the fewest entries of the phantom, alone, that collide no more often than wanted."""
    low, high = 0, MOST_ENTRIES
    while high - low > 1 + low // 64:
        middle = (low + high) // 2
        if collision_rate(traffic, replacement, middle) > wanted:
            low = middle
        else:
            high = middle
    return high


def collision_rate(traffic: Packets, replacement: Replacement, entries: int) -> float:
    configuration = Configuration((Table(frozenset(PHANTOM), None, False, entries),))
    tables = Tables(configuration, COLUMNS, traffic.sizes, replacement=replacement)
    partials_in(tables.feed(traffic.codes, (), 0))
    return tables.counts[0].collision_rate
