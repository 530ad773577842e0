"""Tables 1 and 2 of "Holistic UDAFs at streaming speeds": the smallest table without a drop, and what a flush drops."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import sqrt

from benchmarks.edge.queue import SIZES, Arrivals, Costs, Outcome, Setting, costs_at, simulate
from benchmarks.edge.speed import UNIFORM, Trace, trace
from headrace.edge.tables.tables import Flush, Replacement

PAPER_SMALLEST = {
    2_000: (1_900, 1_300),
    5_000: (4_300, 3_300),
    10_000: (7_300, 7_300),
    20_000: (64_000, 19_000),
    40_000: (410_000, 44_000),
}
"""Table 1: entries by groups, direct mapped and second chance."""
PAPER_LOSSES = {2: (50_000, 0.018, 0.001, 0.37), 3: (25_000, 0.004, 0.0, 0.51), 5: (12_000, 0.005, 0.003, 0.8)}
"""Table 2: by queries the fewest groups with drops; the loss with an eager and with a lazy flush; how busy it was."""

MIN_ENTRIES = 4
MAX_ENTRIES_PER_GROUP = 32
"""The tables that are tried."""
PRECISION = 1.03
"""Of the smallest size, and of the fewest groups."""
FULLEST = 0.5
"""How busy the most queries of table 2 are with hits alone, in small tables."""
ENTRIES_PER_GROUP = 2
"""Of the tables there, so that few groups collide."""
MORE_GROUPS = 1.25
"""Losses are measured with this many times the fewest groups that lose anything, which lose next to nothing."""
LAZINESS = (1, 4)
"""Entries swept with each record: as the paper does it, and the default of the edge."""
MAX_GROUPS = 100_000


def interval_of(costs: Sequence[Costs], replacement: Replacement, load: float) -> float:
    """Return the ns between records at which hits alone in a small table take a share of the time."""
    return costs_at(costs, replacement, min(SIZES)).hit_ns / load


def run_setting(
    setting: Setting,
    source: Trace,
    costs: Sequence[Costs],
    arrivals: Arrivals,
    entries: int,
    *,
    is_ended_by_drop: bool = False,
) -> Outcome:
    priced = costs_at(costs, setting.replacement, entries)
    return simulate(setting, source, priced, arrivals, is_ended_by_drop=is_ended_by_drop)


def has_drops(setting: Setting, source: Trace, costs: Sequence[Costs], arrivals: Arrivals, entries: int) -> bool:
    return run_setting(setting, source, costs, arrivals, entries, is_ended_by_drop=True).loss > 0


# Sizes


@dataclass(frozen=True, slots=True)
class Smallest:
    """The smallest table without a drop, None if there is none, and what half and a quarter of it lose."""

    packets: str
    load: float
    records_per_s: float
    groups: int
    replacement: str
    flush: str
    entries: int | None
    loss_half: float | None
    loss_quarter: float | None


def smallest_tables(source: Trace, costs: Sequence[Costs], load: float, ring: int) -> Iterator[Smallest]:
    """Find the smallest tables [UDAF table 1]; hits alone, in a small direct-mapped one, take `load` of the time."""
    arrivals = Arrivals(interval_of(costs, Replacement.DIRECT_MAPPED, load), ring)
    for replacement in Replacement:
        for flush in Flush:
            setting = Setting(replacement, flush)
            entries = smallest_table(setting, source, costs, arrivals)
            half, quarter = (
                None if entries is None else run_setting(setting, source, costs, arrivals, max(1, entries // part)).loss
                for part in (2, 4)
            )
            yield Smallest(
                packets=source.kind,
                load=load,
                records_per_s=1e9 / arrivals.interval_ns,
                groups=source.groups,
                replacement=replacement.value,
                flush=flush.value,
                entries=entries,
                loss_half=half,
                loss_quarter=quarter,
            )


def smallest_table(setting: Setting, source: Trace, costs: Sequence[Costs], arrivals: Arrivals) -> int | None:
    """Search below the first of growing sizes that drops nothing.

    Larger tables evict less, but take longer to reach and to flush.
    """
    low, high = 1, MIN_ENTRIES
    while has_drops(setting, source, costs, arrivals, high):
        low, high = high, 2 * high
        if high > MAX_ENTRIES_PER_GROUP * source.groups:
            return None
    while high > PRECISION * low + 1:
        middle = round(sqrt(low * high))
        if has_drops(setting, source, costs, arrivals, middle):
            low = middle
        else:
            high = middle
    return high


# The end of a slice


@dataclass(frozen=True, slots=True)
class Losses:
    """The fewest groups at which an eager flush drops records; then, of some more, what is lost by how it is done.

    `longest_queue` is a share of the ring, `busy` of the time.
    """

    queries: int
    records_per_s: float
    fewest_groups: int
    groups: int
    loss: Mapping[str, float]
    longest_queue: Mapping[str, float]
    busy: Mapping[str, float]


def flush_losses(costs: Sequence[Costs], rows: int, slice_rows: int, ring: int) -> Iterator[Losses]:
    """Measure what flushes lose [UDAF table 2], at one rate for all numbers of queries."""
    interval_ns = max(PAPER_LOSSES) * interval_of(costs, Replacement.SECOND_CHANCE, FULLEST)
    arrivals = Arrivals(interval_ns, ring)
    for queries in PAPER_LOSSES:
        settings = [
            Setting(Replacement.SECOND_CHANCE, Flush.EAGER, queries=queries),
            *(Setting(Replacement.SECOND_CHANCE, Flush.LAZY, swept, queries) for swept in LAZINESS),
        ]
        fewest = fewest_groups(settings[0], costs, arrivals, rows, slice_rows)
        groups = round(MORE_GROUPS * fewest)
        source = trace(UNIFORM, groups, rows, slice_rows)
        found = {each.name: run_setting(each, source, costs, arrivals, ENTRIES_PER_GROUP * groups) for each in settings}
        yield Losses(
            queries,
            1e9 / interval_ns,
            fewest,
            groups,
            {name: each.loss for name, each in found.items()},
            {name: each.longest_queue for name, each in found.items()},
            {name: each.busy for name, each in found.items()},
        )


def fewest_groups(setting: Setting, costs: Sequence[Costs], arrivals: Arrivals, rows: int, slice_rows: int) -> int:
    """Return the fewest groups with drops; the most that are tried, if there are none."""
    low, high = 1, min(MAX_GROUPS, slice_rows)
    while high > PRECISION * low + 1:
        middle = round(sqrt(low * high))
        source = trace(UNIFORM, middle, rows, slice_rows)
        if has_drops(setting, source, costs, arrivals, ENTRIES_PER_GROUP * middle):
            high = middle
        else:
            low = middle
    return high
