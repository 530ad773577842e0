"""Which part of a plan runs where: the six plans of HIFI 5, what each sends over every link, and the cheapest.

Rows are estimated from a sample, for the rate at the lower end of each link. Two things are taken for granted: rows
come evenly, and every edge sees the same mix of groups. So a relay that combines what its edges send has the rows that
one edge would have which reads all of theirs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import cached_property

import numpy as np
import numpy.typing as npt

from headrace.model.caches import cached
from headrace.model.windows import AnyWindow, Window
from headrace.planner.demand import Demand, leaves_of
from headrace.planner.lattice import Node
from headrace.planner.placement.topology import Link, Topology
from headrace.planner.plan import Plan
from headrace.planner.statistics import BatchSample, distinct_estimate
from headrace.windows import Boundaries, boundaries_between, paired_boundaries
from headrace.windows.boundaries import DAY_US, HOUR_US, MAX_COUNTED

FOREVER = (Boundaries(1 << 60, (-(1 << 59),)),)


class PushDown(StrEnum):
    """What edges do: send rows on, send partials of slices, or send windows as partials."""

    NONE = "none"
    PARTIAL = "partial"
    FULL = "full"


@dataclass(frozen=True, slots=True)
class Way:
    """One of the six plans. Unshared, each query has its own subquery and sends for itself alone."""

    is_shared: bool
    push_down: PushDown

    @property
    def name(self) -> str:
        return f"{'shared' if self.is_shared else 'unshared'} {self.push_down}"


WAYS = tuple(Way(is_shared, push_down) for is_shared in (False, True) for push_down in PushDown)
"""In the order of HIFI table 4."""


@dataclass(frozen=True, slots=True)
class Flow:
    rows_per_hour: float
    bytes_per_hour: float


@dataclass(frozen=True, slots=True)
class Widths:
    """Bytes of a row of the stream as it is, and of a row of a node."""

    row: float
    partial: Callable[[Node], float]


@dataclass(frozen=True)
class Estimate:
    """What a plan sends over each link."""

    way: Way
    flows: Mapping[Link, Flow]

    @property
    def total(self) -> Flow:
        return sum_flows(self.flows.values())

    def at_level(self, level: int) -> Flow:
        return sum_flows(flow for link, flow in self.flows.items() if link.level == level)


def sum_flows(flows: Iterable[Flow]) -> Flow:
    parts = list(flows)
    return Flow(sum(flow.rows_per_hour for flow in parts), sum(flow.bytes_per_hour for flow in parts))


def estimates(topology: Topology, plan: Plan, sample: BatchSample, widths: Widths) -> tuple[Estimate, ...]:
    """Estimate all six plans; `plan` is what queries share."""
    spreads = Spreads(sample)
    return tuple(
        Estimate(way, {link: flow_of(way, plan, link.rows_per_s, spreads, widths) for link in topology.links})
        for way in WAYS
    )


def cheapest(candidates: Sequence[Estimate]) -> Estimate:
    """The fewest bytes over all links. Where sharing sends no less, it still computes less."""
    return min(candidates, key=lambda estimate: (estimate.total.bytes_per_hour, not estimate.way.is_shared))


def flow_of(way: Way, plan: Plan, rows_per_s: float, spreads: Spreads, widths: Widths) -> Flow:
    """Return the flow over a link when the edges below it receive `rows_per_s` rows a second."""
    if way.push_down is PushDown.NONE:
        rows = rows_per_s * 3_600 * (1 if way.is_shared else len(plan.demands))
        return Flow(rows, rows * widths.row)
    flows = []
    for sent in sent_nodes(way, plan):
        rows = spreads.of(sent.node).rows_per_hour(sent.intervals, rows_per_s)
        flows.append(Flow(rows, rows * widths.partial(sent.node)))
    return sum_flows(flows)


# What is sent: rows of nodes for intervals of time


@dataclass(frozen=True)
class IntervalRates:
    """How long intervals are, and how many of each length there are in an hour."""

    lengths_us: npt.NDArray[np.int64]
    per_hour: npt.NDArray[np.float64]


@dataclass(frozen=True)
class SentNode:
    """For each of the intervals the rows of a node in it are sent."""

    node: Node
    intervals: IntervalRates


def sent_nodes(way: Way, plan: Plan) -> list[SentNode]:
    """Return what is sent by a plan that sends partials.

    Windows are each query's own, whether their slices are shared or not.
    """
    demands = plan.demands.values()
    if way.push_down is PushDown.FULL:
        return [SentNode(leaf_node(demand), window_rates(demand.window)) for demand in demands]
    if way.is_shared:
        nodes = [plan.nodes[place].node for place in sorted(plan.shipped)]
    else:
        nodes = [leaf_node(demand) for demand in demands]
    return [SentNode(node, slice_rates(node.boundaries)) for node in nodes]


def leaf_node(demand: Demand) -> Node:
    """Return the node of a query by itself."""
    (leaf,) = leaves_of({"": demand})
    return leaf.node


@cached
def slice_rates(parts: tuple[Boundaries, ...]) -> IntervalRates:
    """Over some days from the epoch on, or less if there are very many."""
    per_us = sum(part.pace for part in parts)
    span_us = min(max(DAY_US, *(2 * part.period_us for part in parts)), int(MAX_COUNTED / per_us))
    ends_us = boundaries_between(parts, -1, span_us)
    lengths_us, counts = np.unique(np.diff(ends_us), return_counts=True)
    return IntervalRates(lengths_us, counts * (HOUR_US / (ends_us[-1] - ends_us[0])))


def window_rates(window: AnyWindow) -> IntervalRates:
    if isinstance(window, Window):
        return IntervalRates(np.array([window.range_us]), np.array([HOUR_US / window.slide_us]))
    return slice_rates((paired_boundaries(window),))


# How many rows a node has


class Spreads:
    """The spreads of nodes, from one sample; nodes that differ in slices or partials have the same."""

    def __init__(self, sample: BatchSample) -> None:
        self.sample = sample
        self.known: dict[Node, Spread] = {}

    def of(self, node: Node) -> Spread:
        timeless = replace(node, boundaries=FOREVER, partials=frozenset())
        if timeless not in self.known:
            self.known[timeless] = Spread(self.sample.triple_counts(timeless), self.sample.selectivity(node.keep))
        return self.known[timeless]


@dataclass(frozen=True, eq=False)
class Spread:
    """How often each cell and group of a node occurs in a sample, and the share of all rows that the node keeps."""

    counts: npt.NDArray[np.intp]
    share: float

    @cached_property
    def histogram(self) -> tuple[npt.NDArray[np.intp], npt.NDArray[np.intp]]:
        """Numbers of times, and how many cells and groups occur so often."""
        times, often = np.unique_counts(self.counts)
        return times, often

    def rows_per_hour(self, intervals: IntervalRates, rows_per_s: float) -> float:
        lengths_us = intervals.lengths_us.tolist()
        rows = [self.distinct(rows_per_s * self.share * length_us / 1e6) for length_us in lengths_us]
        return float(intervals.per_hour @ np.array(rows))

    def distinct(self, rows: float) -> float:
        """Estimate the cells and groups among `rows` rows: for fewer than the sample has, those of a part of it."""
        drawn = int(self.counts.sum())
        if not drawn:
            return 0.0
        if rows > drawn:
            return distinct_estimate(self.counts, rows)
        times, often = self.histogram
        return float(often @ (1.0 - (1.0 - rows / drawn) ** times))
