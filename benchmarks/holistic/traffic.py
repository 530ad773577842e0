"""Packets of two kinds in a given number of groups [UDAF 5, 7], and how the levels are timed over them.

The presets of the generator have 2,837 groups, so groups, addresses and lengths are drawn here, by its own tables.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa

from benchmarks.timing import seconds
from headrace.datasets.packets import LENGTHS, SKEW
from headrace.datasets.random_values import Weighted, generator, hosts
from headrace.kernel.sketches.counters_loops import add_by_slot
from headrace.kernel.states.columns import Columns, Slots
from headrace.model.arrays import Integers

UNIFORM, SKEWED = "uniform", "skewed"
KINDS = (UNIFORM, SKEWED)
DISTINCT = (10, 120, 1_436)
"""Addresses in a group. The paper's traffic generator has as many lengths as the last, 782 bytes on average."""
SHORTEST = 64
BATCH_ROWS = 100_000
"""Rows of a low level that lifts a batch at a time; the paper's levels flush when they are full."""
GK = "gk"
"""The high level of quantiles by Greenwald-Khanna summaries."""
ROUNDS = 5
"""All levels are timed this often in turn, so that other load on the machine affects all, and the best counts."""


@dataclass(frozen=True, slots=True, eq=False)
class Traffic:
    """The group, the address and the length of each packet; the length is both weight and value."""

    kind: str
    group_count: int
    distinct: int
    groups: Integers
    keys: Integers
    lengths: Integers

    @property
    def rows(self) -> int:
        return len(self.groups)

    @property
    def values(self) -> pa.Array:
        return pa.array(self.lengths.astype(np.float64))

    @property
    def batches(self) -> list[slice]:
        return [slice(begin, begin + BATCH_ROWS) for begin in range(0, self.rows, BATCH_ROWS)]

    def every_group(self) -> Integers:
        """Return the slots of a state for each group and batch."""
        return np.tile(np.arange(self.group_count), len(self.batches))


def draw(kind: str, rows: int, group_count: int, distinct: int = DISTINCT[-1], seed: int = 1) -> Traffic:
    """Draw packets: uniform, or by the power law at which 3% of 2,837 groups carry 92% of the packets."""
    rng = generator(seed, KINDS.index(kind))
    addresses = hosts(rng, distinct)
    if kind == UNIFORM:
        groups, places = rng.integers(0, group_count, rows), rng.integers(0, distinct, rows)
        lengths = rng.integers(SHORTEST, SHORTEST + DISTINCT[-1], rows)
    else:
        groups, places = (by_power_law(size).draw(rng, rows).astype(np.int64) for size in (group_count, distinct))
        shares = Weighted.by(list(LENGTHS.values()))
        lengths = np.array(list(LENGTHS))[shares.draw(rng, rows)]
    return Traffic(kind, group_count, distinct, groups, addresses[(places + groups) % distinct], lengths)


def by_power_law(size: int) -> Weighted:
    return Weighted.by(np.rint(1e9 * (1.0 + np.arange(size)) ** -SKEW))


# Times


@dataclass(frozen=True, slots=True)
class Cost:
    """ns per packet at both levels, beside the null UDAF in the same run; bytes per group at the end."""

    traffic: str
    groups: int
    low: str
    high: str
    low_ns: float
    high_ns: float
    null_ns: float
    low_bytes: float
    shipped_bytes: float
    held_bytes: float

    @property
    def name(self) -> str:
        return name_of(self.low, self.high)

    @property
    def total_ns(self) -> float:
        return self.low_ns + self.high_ns

    @property
    def low_ratio(self) -> float:
        return self.low_ns / self.null_ns

    @property
    def total_ratio(self) -> float:
        return self.total_ns / self.null_ns


def name_of(low: str, high: str) -> str:
    """Name a pair of levels; the low one alone where it has no choice above it."""
    return low if high in (low, GK) else f"{low} + {high}"


@dataclass(frozen=True, slots=True)
class Low:
    """A low level, the high levels that take what it ships, and the bytes of both."""

    run: Callable[[], Any]
    highs: Mapping[str, Callable[[Any], Any]]
    low_bytes: Callable[[Any], int]
    """Of all groups, from what is shipped."""
    shipped_bytes: Callable[[Any], int] = lambda shipped: int(shipped.nbytes)
    held_bytes: Callable[[Any], int] = lambda held: int(held.nbytes)


def time_levels(traffic: Traffic, lows: Mapping[str, Low]) -> Iterator[Cost]:
    """Time the paper's null UDAF, the sum of the lengths of each group, and all levels, each after a warm-up run."""
    shipped = {name: low.run() for name, low in lows.items()}
    works: dict[tuple[str, str], Callable[[], object]] = {("", ""): partial(add_lengths, traffic)}
    held: dict[tuple[str, str], int] = {}
    for name, low in lows.items():
        works[name, ""] = low.run
        for high, run in low.highs.items():
            works[name, high] = partial(run, shipped[name])
            held[name, high] = low.held_bytes(run(shipped[name]))
    least_s = least_seconds(works)
    for (low_name, high), held_bytes in held.items():
        low = lows[low_name]
        yield Cost(
            traffic=traffic.kind,
            groups=traffic.group_count,
            low=low_name,
            high=high,
            low_ns=1e9 * least_s[low_name, ""] / traffic.rows,
            high_ns=1e9 * least_s[low_name, high] / traffic.rows,
            null_ns=1e9 * least_s["", ""] / traffic.rows,
            low_bytes=low.low_bytes(shipped[low_name]) / traffic.group_count,
            shipped_bytes=low.shipped_bytes(shipped[low_name]) / traffic.group_count,
            held_bytes=held_bytes / traffic.group_count,
        )


def least_seconds(works: Mapping[tuple[str, str], Callable[[], object]]) -> Mapping[tuple[str, str], float]:
    runs = [{name: seconds(work) for name, work in works.items()} for _ in range(ROUNDS)]
    return {name: min(run[name] for run in runs) for name in works}


def add_lengths(traffic: Traffic) -> None:
    add_by_slot(traffic.groups, traffic.lengths, np.zeros(traffic.group_count, np.int64))


def batch_levels(
    traffic: Traffic,
    name: str,
    lift: Callable[[slice], Columns],
    combine: Callable[[Slots, int, Columns], Columns],
) -> Low:
    """Return levels as the kernel has them: the low makes a state for each group of a batch, the high combines them."""
    slots, count = traffic.every_group(), traffic.group_count
    return Low(
        run=lambda: pa.concat_arrays([lift(batch)[0] for batch in traffic.batches]),
        highs={name: lambda states: combine(slots, count, (states,))[0]},
        low_bytes=lambda states: int(states.nbytes) // len(traffic.batches),
    )
