"""Partials of many batches and plans, and what a query gets of them (docs/architecture.md).

A partial stands for rows that no other partial of the same plan and node holds. So what a query gets from a plan are
the partials on its routes there, and over all plans their sum; which of its windows are complete, closing decides.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, tzinfo

import numpy as np

from headrace.kernel.close.instances import Foreign
from headrace.kernel.close.windows import Part
from headrace.kernel.combine import NodePartials, concatenate, gather_parts
from headrace.kernel.level1.fold import compute
from headrace.kernel.level1.rows import NodeRows
from headrace.model.schema import UserFunction
from headrace.model.windows import Interval
from headrace.planner.demand import Demand
from headrace.planner.lattice import Node
from headrace.planner.plan import Plan, route


@dataclass(eq=False, slots=True)
class OfPlan:
    """What the batches read under one plan left: partials by the place of their node, and the spans of event times."""

    plan: Plan
    parts: dict[int, list[NodePartials]] = field(default_factory=dict)
    counted: list[Interval] = field(default_factory=list)
    sources: dict[int, NodeRows] = field(default_factory=dict)
    computed: dict[tuple[int, Node], NodePartials] = field(default_factory=dict)


@dataclass(frozen=True, eq=False)
class Gathered:
    """What a query gets, and the spans of event times in which rows were counted that it has no part of, or only in
    slices that end elsewhere than its own.
    """

    parts: Sequence[Part]
    missed: Sequence[Interval]
    foreign: Sequence[Foreign]


class Retained:
    """Partials of batches, in memory."""

    def __init__(self, functions: Iterable[UserFunction] = (), zone: tzinfo = UTC) -> None:
        self.functions = tuple(functions)
        self.zone = zone
        self.plans: dict[int, OfPlan] = {}

    def add(self, plan: Plan, shipped: Mapping[int, NodePartials], counted: Interval | None = None) -> None:
        """Partials that one batch left, or some of them, and the span of the event times behind them."""
        kept = self.plans.setdefault(id(plan), OfPlan(plan))
        kept.sources.clear()
        kept.computed.clear()
        for place, partials in shipped.items():
            kept.parts.setdefault(place, []).append(partials)
        if counted is not None:
            kept.counted.append(counted)

    def gather(self, demand: Demand) -> Gathered:
        parts: list[Part] = []
        missed: list[Interval] = []
        foreign: list[Foreign] = []
        for kept in self.plans.values():
            routes = route(kept.plan, demand)
            if routes is None:
                missed += kept.counted
                continue
            fits = demand in kept.plan.routes
            for leaf_route in routes:
                place, leaf = leaf_route.place, leaf_route.leaf
                if not fits and kept.counted:
                    foreign.append(Foreign(leaf.boundaries, hull(kept.counted)))
                if place in kept.parts:
                    rows = self.leaf_rows(kept, place, leaf)
                    parts.append(Part(rows if fits else narrow_slices(rows, hull(kept.counted)), leaf_route.partials))
        return Gathered(parts, missed, foreign)

    def leaf_rows(self, kept: OfPlan, place: int, leaf: Node) -> NodePartials:
        """A leaf from its shipped node, computed once for all queries that ask for it.

        If it has groups and differs in its slices alone, it is taken as it is: closing combines slices anyway, and to
        find and order the groups costs more. Without groups there is little to combine before.
        """
        if place not in kept.sources:
            parts = kept.parts[place]
            whole = gather_parts(parts) if parts[0].groups else concatenate(parts)
            kept.sources[place] = NodeRows(whole, self.functions, self.zone)
        source = kept.sources[place]
        shipped = source.parent.node
        if leaf == shipped or (leaf.groups and leaf.keep == shipped.keep and not shipped.dimensions):
            return source.parent
        if (place, leaf) not in kept.computed:
            kept.computed[place, leaf] = compute(leaf, source)
        return kept.computed[place, leaf]

    @property
    def rows(self) -> int:
        return sum(part.rows for kept in self.plans.values() for parts in kept.parts.values() for part in parts)


def hull(spans: Sequence[Interval]) -> Interval:
    return Interval(min(span.start_us for span in spans), max(span.end_us for span in spans))


def narrow_slices(part: NodePartials, counted: Interval) -> NodePartials:
    """Slices that do not fit a query end where no row was counted any more: so they cross fewer of its windows."""
    starts_us = np.maximum(part.starts_us, counted.start_us)
    ends_us = np.minimum(part.ends_us, counted.end_us)
    return replace(part, starts_us=starts_us, ends_us=ends_us)
