"""Partials of many batches and plans, and what a query gets of them [DESIGN 6].

A partial stands for rows that no other partial of the same plan and node holds. So what a query gets from a plan are
the partials on its routes there, and over all plans their sum; which of its windows are complete, closing decides.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, tzinfo

import numpy as np

from headrace.kernel.computing import compute
from headrace.kernel.partials import NodePartials, combine
from headrace.kernel.sources import NodeRows
from headrace.model.schema import UserFunction
from headrace.model.windows import Interval
from headrace.planner.leaves import Demand
from headrace.planner.plan import Plan, Route, route


@dataclass(eq=False, slots=True)
class OfPlan:
    """What the batches read under one plan left: partials by the place of their node, and the spans of event times."""

    plan: Plan
    parts: dict[int, list[NodePartials]] = field(default_factory=dict)
    counted: list[Interval] = field(default_factory=list)
    sources: dict[int, NodeRows] = field(default_factory=dict)
    computed: dict[Route, NodePartials] = field(default_factory=dict)


@dataclass(frozen=True, eq=False)
class Gathered:
    """A query's partials, and the spans of event times in which rows were counted that it has no part of."""

    parts: Sequence[NodePartials]
    missed: Sequence[Interval]


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
        parts: list[NodePartials] = []
        missed: list[Interval] = []
        for kept in self.plans.values():
            routes = route(kept.plan, demand)
            if routes is None:
                missed += kept.counted
                continue
            found = [self.leaf_rows(kept, each) for each in routes if each.place in kept.parts]
            parts += found if demand in kept.plan.routes else [narrowed(part, kept.counted) for part in found]
        return Gathered(parts, missed)

    def leaf_rows(self, kept: OfPlan, way: Route) -> NodePartials:
        """What lies on a route, computed once for all queries that take it."""
        if way not in kept.computed:
            if way.place not in kept.sources:
                kept.sources[way.place] = NodeRows(combine(kept.parts[way.place]), self.functions, self.zone)
            source = kept.sources[way.place]
            whole = source.parent if way.leaf == source.parent.node else compute(way.leaf, source)
            states = {partial: whole.states[partial] for partial in way.partials}
            kept.computed[way] = replace(whole, states=states)
        return kept.computed[way]

    @property
    def rows(self) -> int:
        return sum(part.rows for kept in self.plans.values() for parts in kept.parts.values() for part in parts)


def narrowed(part: NodePartials, counted: Sequence[Interval]) -> NodePartials:
    """Slices that do not fit a query end where no row was counted any more: so they cross fewer of its windows."""
    starts_us = np.maximum(part.starts_us, min(span.start_us for span in counted))
    ends_us = np.minimum(part.ends_us, max(span.end_us for span in counted))
    return replace(part, starts_us=starts_us, ends_us=ends_us)
