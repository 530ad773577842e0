"""When to plan again: node sizes are watched, smoothed over batches, and compared with those the plan was made for.

Sizes that swing from batch to batch average out; a lasting change is followed after a few batches. A new plan is taken
only if it is clearly cheaper, so plans do not flap.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from headrace.planner.construction import make_plan
from headrace.planner.cost import Cost
from headrace.planner.draft import draft, price_plan
from headrace.planner.plan import Plan
from headrace.planner.search import Effort

WEIGHT = 0.4
"""How much the newest batch counts in the smoothed sizes."""
FACTOR = 3.0
"""A node that is this many times larger or smaller than planned has drifted."""
BATCHES_IN_A_ROW = 2
"""How many consecutive batches must have drifted before a new plan is made."""
GAIN = 0.1
"""The part of the present cost that a new plan must save."""


@dataclass(frozen=True, slots=True)
class Drift:
    """Sizes as logarithms, as planned and as they are of late; for how many batches the two have been apart."""

    expected: tuple[float, ...]
    smoothed: tuple[float, ...]
    batches: int = 0

    @property
    def is_due(self) -> bool:
        return self.batches >= BATCHES_IN_A_ROW


def watch(rows: Sequence[float]) -> Drift:
    """Begin to watch sizes: the rows of a batch and of each node that the plan expects."""
    sizes = logarithms(rows)
    return Drift(sizes, sizes)


def observe(drift: Drift, rows: Sequence[float]) -> Drift:
    """One batch more, with the sizes it had."""
    pairs = zip(drift.smoothed, logarithms(rows), strict=True)
    smoothed = tuple(old + WEIGHT * (new - old) for old, new in pairs)
    apart = max(abs(now - then) for now, then in zip(smoothed, drift.expected, strict=True))
    return replace(drift, smoothed=smoothed, batches=drift.batches + 1 if apart > math.log(FACTOR) else 0)


def rest(drift: Drift) -> Drift:
    """After a plan was remade, or kept on purpose: what is now is what is expected."""
    return Drift(drift.smoothed, drift.smoothed)


def replan(plan: Plan, cost: Cost, effort: Effort | None = None) -> Plan:
    """A new plan for the same queries on new data, or the present one if that is about as cheap there."""
    present = price_plan(draft(plan), plan.demands, cost)
    new = make_plan(plan.demands, cost, effort)
    return new if new.cost_ns < (1 - GAIN) * present.cost_ns else present


def logarithms(rows: Sequence[float]) -> tuple[float, ...]:
    return tuple(math.log(max(1.0, count)) for count in rows)
