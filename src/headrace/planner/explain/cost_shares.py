"""Which part of a plan's cost each query bears."""

from __future__ import annotations

from collections.abc import Mapping

from headrace.planner.cost import overlap
from headrace.planner.demand import Ask
from headrace.planner.plan import Plan

Served = Mapping[int, tuple[str, ...]]
"""For each place the queries that are answered from the node there or from one below it."""


def serves(plan: Plan) -> Served:
    found: dict[int, dict[str, None]] = {place: {} for place in range(len(plan.nodes))}
    for answer in plan.answers:
        names = dict.fromkeys(ask.query for ask in answer.leaf.asks)
        for place in plan.path(answer.place):
            found[place] |= names
    order = {name: position for position, name in enumerate(plan.demands)}
    return {place: tuple(sorted(names, key=order.__getitem__)) for place, names in found.items()}


def fair_shares(plan: Plan) -> Mapping[str, float]:
    """A node in equal parts to the queries it serves, closing by how often each query combines a row, and coding of
    rows in proportion to what each would cost alone. The shares add up to the cost of the plan.
    """
    whole = sum(plan.alone_ns.values())
    shares = {name: plan.coding_ns * each / whole if whole else 0.0 for name, each in plan.alone_ns.items()}
    for place, names in serves(plan).items():
        for name in names:
            shares[name] += plan.nodes[place].cost_ns / len(names)
    for answer in plan.answers:
        weights = [closing_weight(ask) for ask in answer.leaf.asks]
        for ask, weight in zip(answer.leaf.asks, weights, strict=True):
            shares[ask.query] += answer.cost_ns * weight / sum(weights)
    return shares


def closing_weight(ask: Ask) -> float:
    return overlap(ask.window) * (1 + sum(partial.traits.combine for partial in ask.partials))
