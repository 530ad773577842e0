"""From the outline of a plan to the plan: what each part costs on the data of a sample."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from headrace.planner.cost import Cost
from headrace.planner.demand import Demand, Leaf, leaves_of
from headrace.planner.lattice import Node
from headrace.planner.plan import STREAM, Answer, Plan, PlannedNode


@dataclass(frozen=True)
class Draft:
    """A plan's outline: nodes, the place of each one's parent, and which node answers each leaf."""

    nodes: tuple[Node, ...]
    parents: tuple[int, ...]
    answers: tuple[tuple[Leaf, int], ...]
    cost_ns: float = 0.0


def draft(plan: Plan) -> Draft:
    """The outline of a plan."""
    return Draft(
        tuple(planned.node for planned in plan.nodes),
        tuple(planned.parent for planned in plan.nodes),
        tuple((answer.leaf, answer.place) for answer in plan.answers),
        plan.cost_ns,
    )


def apart(demands: Mapping[str, Demand]) -> Draft:
    """Every query from the stream by itself; what is the same is computed once."""
    leaves = [leaf for name, demand in demands.items() for leaf in leaves_of({name: demand})]
    places = {node: place for place, node in enumerate(dict.fromkeys(leaf.node for leaf in leaves))}
    return Draft(tuple(places), (STREAM,) * len(places), tuple((leaf, places[leaf.node]) for leaf in leaves))


def price_plan(
    outline: Draft, demands: Mapping[str, Demand], cost: Cost, alone: Mapping[str, float] | None = None
) -> Plan:
    """`alone` is what is known already of the cost of queries by themselves."""
    known = alone or {}
    shipped = {place for _, place in outline.answers}
    nodes = []
    for place, (node, parent) in enumerate(zip(outline.nodes, outline.parents, strict=True)):
        computing = cost.arc(None if parent == STREAM else outline.nodes[parent], node)
        shipping = cost.ship(node) if place in shipped else 0.0
        compressed = cost.compressed_partials(node) if parent == STREAM else frozenset()
        nodes.append(PlannedNode(node, parent, cost.sample.rows(node), computing + shipping, compressed))
    answers = [Answer(leaf, place, cost.close(outline.nodes[place], leaf)) for leaf, place in outline.answers]
    alone_ns = {
        name: known[name] if name in known else cost_alone(name, demand, cost) for name, demand in demands.items()
    }
    return Plan(tuple(nodes), tuple(answers), dict(demands), cost.coding(demands.values()), alone_ns)


def cost_alone(name: str, demand: Demand, cost: Cost) -> float:
    """What the query would cost if it ran by itself: then no other looks at the rows that it filters."""
    cost = replace(cost, sharers={})
    (leaf,) = leaves_of({name: demand})
    return cost.coding([demand]) + cost.arc(None, leaf.node) + cost.ship(leaf.node) + cost.close(leaf.node, leaf)
