"""Heavy hitters of packets by group: the paper's low and high levels over count-min sketches, beside counters.

The items are addresses, the weights lengths in bytes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
import pyarrow as pa

from benchmarks.holistic.traffic import DISTINCT, UNIFORM, Cost, Low, Traffic, batch_levels, draw, time_levels
from benchmarks.sketches.countmin_strategies import (
    HIGH,
    LOW,
    Adaptive,
    Direct,
    Held,
    HighStrategy,
    LowStrategy,
    Shipped,
)
from headrace.kernel.sketches import counters
from headrace.kernel.sketches.counters import Counters
from headrace.kernel.states.columns import Columns
from headrace.model.errors import UsageError

THRESHOLDS = (64, 128, 256)
LOW_SKETCH, COUNTERS = "low sketch", "counters"
COUNTING: Mapping[str, Counters] = {COUNTERS: Counters(), "counters, compress": Counters(is_compressed=True)}
"""Packets counted as they come, or equal ones combined first: what the planner chooses between."""
HIGH_OF_PAIRS: Mapping[str, HighStrategy] = {
    "direct": Direct(),
    **{f"adaptive {threshold}": Adaptive(threshold=threshold) for threshold in THRESHOLDS},
}
TOP = 5
MAX_GROUPS = 100
"""Groups, from all parts of their order by size, whose top five are compared."""


# Times [UDAF figures 5 to 9]


def hitter_costs(traffic: Traffic) -> Iterator[Cost]:
    lows = {name: low_level(traffic, name, strategy) for name, strategy in LOW.items()}
    counting = {
        name: batch_levels(traffic, name, partial(count_batch, traffic, summary), summary.combine)
        for name, summary in COUNTING.items()
    }
    return time_levels(traffic, {**lows, **counting})


def low_level(traffic: Traffic, name: str, strategy: LowStrategy) -> Low:
    highs = {LOW_SKETCH: HIGH[LOW_SKETCH]} if name == LOW_SKETCH else HIGH_OF_PAIRS
    return Low(
        run=lambda: strategy.run(traffic.keys, traffic.lengths, traffic.groups, traffic.group_count),
        highs={high: partial(run_high, traffic, each) for high, each in highs.items()},
        low_bytes=lambda shipped: int(shipped.low_nbytes),
    )


def run_high(traffic: Traffic, strategy: HighStrategy, shipped: Shipped) -> Held:
    return strategy.run(shipped, traffic.group_count)


def count_batch(traffic: Traffic, summary: Counters, batch: slice) -> Columns:
    keys, lengths = pa.array(traffic.keys[batch]), pa.array(traffic.lengths[batch])
    return summary.lift(traffic.groups[batch], traffic.group_count, keys, lengths)


# Space and accuracy [UDAF figures 10 and 11]


@dataclass(frozen=True, slots=True)
class Accuracy:
    """The exact top five of groups: shares by their place in the top five that were found; and the space."""

    traffic: str
    groups: int
    distinct: int
    high: str
    correct: float
    off_by_one: float
    off_by_more: float
    missed: float
    bytes_per_group: float
    bytes_per_packet: float


Tops = Callable[[int], Sequence[int]]
"""Returns the top five of a group, as they were found."""


def accuracies(kind: str, rows: int, group_count: int) -> Iterator[Accuracy]:
    """Measure uniform packets once with each number of addresses; the low level does not matter."""
    for distinct in DISTINCT if kind == UNIFORM else DISTINCT[-1:]:
        traffic = draw(kind, rows, group_count, distinct)
        asked = groups_asked(traffic)
        exact = {group: exact_top(traffic, group) for group in asked}
        shipped = LOW["hash"].run(traffic.keys, traffic.lengths, traffic.groups, group_count)
        for high, strategy in HIGH_OF_PAIRS.items():
            held = strategy.run(shipped, group_count)
            yield accuracy(traffic, high, exact, partial(top_of_sketches, held), held.nbytes)
        states = pa.concat_arrays([count_batch(traffic, COUNTING[COUNTERS], batch)[0] for batch in traffic.batches])
        (summaries,) = Counters().combine(traffic.every_group(), group_count, (states,))
        yield accuracy(traffic, COUNTERS, exact, partial(top_of_counters, summaries), summaries.nbytes)


def groups_asked(traffic: Traffic) -> Sequence[int]:
    """Return groups with packets, evenly from the largest to the smallest."""
    sizes = np.bincount(traffic.groups, minlength=traffic.group_count)
    order = np.argsort(-sizes, kind="stable")[: int((sizes > 0).sum())]
    places = np.unique(np.linspace(0, len(order) - 1, MAX_GROUPS).astype(np.int64))
    found: list[int] = order[places].tolist()
    return found


def exact_top(traffic: Traffic, group: int) -> Sequence[int]:
    rows = traffic.groups == group
    keys, places = np.unique(traffic.keys[rows], return_inverse=True)
    weights = np.bincount(places, traffic.lengths[rows])
    found: list[int] = keys[np.lexsort((keys, -weights))][:TOP].tolist()
    return found


def top_of_sketches(held: Held, group: int) -> Sequence[int]:
    """Return no keys where the sketch can't separate them and its search gives up."""
    try:
        found: list[int] = held.top(group, TOP).keys.tolist()
    except UsageError:
        return []
    return found


def top_of_counters(summaries: pa.Array, group: int) -> Sequence[int]:
    found: list[int] = counters.top(summaries[group : group + 1], TOP, pa.int64()).items.to_pylist()
    return found


def accuracy(traffic: Traffic, high: str, exact: Mapping[int, Sequence[int]], tops: Tops, nbytes: int) -> Accuracy:
    distances: list[int | None] = []
    for group, wanted in exact.items():
        found = list(tops(group))
        distances += [abs(found.index(key) - place) if key in found else None for place, key in enumerate(wanted)]
    known = [each for each in distances if each is not None]
    return Accuracy(
        traffic=traffic.kind,
        groups=traffic.group_count,
        distinct=traffic.distinct,
        high=high,
        correct=known.count(0) / len(distances),
        off_by_one=known.count(1) / len(distances),
        off_by_more=sum(each > 1 for each in known) / len(distances),
        missed=distances.count(None) / len(distances),
        bytes_per_group=nbytes / traffic.group_count,
        bytes_per_packet=nbytes / traffic.rows,
    )
