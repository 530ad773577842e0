"""Making a plan: leaves and shapes, the search for inner nodes, then one choice of which nodes to keep, which to ship
and where to fan out.

The last choice is a Steiner problem of its own. Beside each node u that might be computed stands "u, shipped"; the
terminals are the answers. A leaf is answered from a node that was shipped with its cells (fan-out at close), or is
computed, shipped and closed by itself (fan-out in the task). A node that pays for nothing is not taken, so the plan is
never dearer than one without sharing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

import numpy as np

from headrace.planner.cost import Cost
from headrace.planner.leaves import (
    Demand,
    Leaf,
    Shape,
    leaves_of,
    shapes_of,
    split_by_partial,
    split_by_window,
)
from headrace.planner.nodes import Node, union
from headrace.planner.plan import STREAM, Answer, Plan, PlannedNode
from headrace.planner.search import Effort, Graph, search, topological
from headrace.planner.steiner import Costs, improve

Split = Callable[[Leaf], tuple[Leaf, ...]]


def make_plan(demands: Mapping[str, Demand], cost: Cost, effort: Effort | None = None) -> Plan:
    """The cheapest plan found. Equal queries, samples and seeds give equal plans."""
    leaves = leaves_of(demands)
    ways = dict.fromkeys([leaves, split(leaves, split_by_partial), split(leaves, split_by_window)])
    coding = cost.coding(demands.values())
    alone = sum(cost_alone(name, asked, cost) for name, asked in demands.items())
    plans = [plan_of(way, cost, coding, alone, effort) for way in ways]
    return min(plans, key=lambda plan: plan.cost_ns)


def split(leaves: Iterable[Leaf], how: Split) -> tuple[Leaf, ...]:
    return tuple(part for leaf in leaves for part in how(leaf))


def cost_alone(name: str, asked: Demand, cost: Cost) -> float:
    """What the query would cost if it ran by itself."""
    (leaf,) = leaves_of({name: asked})
    return cost.coding([asked]) + cost.arc(None, leaf.node) + cost.ship(leaf.node) + cost.close(leaf.node, leaf)


def plan_of(leaves: Sequence[Leaf], cost: Cost, coding_ns: float, alone_ns: float, effort: Effort | None) -> Plan:
    shapes = shapes_of(leaves)
    tree = search([shape.node for shape in shapes], cost.arc, effort)
    graph = Graph([leaf.node for leaf in leaves], cost.arc)
    candidates = [*tree.nodes, *(part for shape in shapes for part in parts_of(shape, cost)), *covering(leaves, graph)]
    return chosen_plan(leaves, list(dict.fromkeys(candidates)), graph, cost, coding_ns, alone_ns)


def parts_of(shape: Shape, cost: Cost) -> list[Node]:
    """Halves of a shape, and halves of those: by the pace of their windows, and by how many rows their filters pass."""

    def pace(leaf: Leaf) -> float:
        return sum(len(part.residues_us) / part.period_us for part in leaf.node.boundaries)

    def selectivity(leaf: Leaf) -> float:
        return cost.sample.selectivity(leaf.node.keep)

    found = []
    for order in (pace, selectivity):
        for part in halves(sorted(shape.leaves, key=order)):
            found += [union([leaf.node for leaf in each]) for each in (part, *halves(part)) if len(each) > 1]
    return found


def halves(leaves: Sequence[Leaf]) -> tuple[Sequence[Leaf], ...]:
    middle = len(leaves) // 2
    return (leaves[:middle], leaves[middle:]) if middle else ()


def covering(leaves: Sequence[Leaf], graph: Graph) -> list[Node]:
    """Leaves that others could be computed from."""
    places = [graph.place(leaf.node) for leaf in leaves]
    return [graph.nodes[place] for place in places if any(graph.covers(place, other) for other in places)]


def chosen_plan(
    leaves: Sequence[Leaf], candidates: Sequence[Node], graph: Graph, cost: Cost, coding_ns: float, alone_ns: float
) -> Plan:
    """Places in the matrix: the stream, the candidates, the candidates shipped, the answers."""
    count, first_answer = len(candidates), 1 + 2 * len(candidates)
    matrix = np.full((first_answer + len(leaves),) * 2, np.inf)
    matrix[: count + 1, : count + 1] = graph.matrix([graph.place(node) for node in candidates])
    for place, node in enumerate(candidates, start=1):
        matrix[place, place + count] = cost.ship(node)
    for answer, leaf in enumerate(leaves, start=first_answer):
        answer_arcs(matrix[:, answer], leaf, candidates, graph, cost)
    terminals = range(first_answer, len(matrix))
    nothing = np.zeros(len(matrix), dtype=np.bool_)
    all_computed = np.arange(len(matrix)) <= count
    trees = [improve(matrix, 0, terminals, start) for start in (nothing, all_computed)]
    best = min(trees, key=lambda tree: tree.cost)
    return read_plan(best.parent.tolist(), matrix, leaves, candidates, cost, coding_ns, alone_ns)


def answer_arcs(arcs: Costs, leaf: Leaf, candidates: Sequence[Node], graph: Graph, cost: Cost) -> None:
    """The cost of answering the leaf from the stream, from each candidate and from each that is shipped."""
    own = graph.place(leaf.node)
    by_itself = cost.ship(leaf.node) + cost.close(leaf.node, leaf)
    arcs[0] = graph.arc(STREAM, own) + by_itself
    for place, node in enumerate(candidates, start=1):
        other = graph.place(node)
        if other != own and not graph.covers(other, own):
            continue
        arcs[place] = by_itself + (graph.arc(other, own) if other != own else 0.0)
        if node.groups == leaf.node.groups:
            arcs[place + len(candidates)] = cost.close(node, leaf)


def read_plan(
    parents: Sequence[int],
    matrix: Costs,
    leaves: Sequence[Leaf],
    candidates: Sequence[Node],
    cost: Cost,
    coding_ns: float,
    alone_ns: float,
) -> Plan:
    """From a tree over the places of the matrix to a plan."""
    count, first_answer = len(candidates), 1 + 2 * len(candidates)
    nodes: list[PlannedNode] = []
    planned: dict[int, int] = {0: STREAM}
    shipping: dict[int, float] = {}

    def add(node: Node, parent: int, cost_ns: float) -> int:
        nodes.append(PlannedNode(node, parent, cost.sample.rows(node), cost_ns))
        return len(nodes) - 1

    for place in topological(parents):
        if place <= count:
            planned[place] = add(candidates[place - 1], planned[parents[place]], matrix[parents[place], place])
        elif place < first_answer:
            planned[place] = planned[place - count]
            shipping[planned[place]] = matrix[place - count, place]
    answers = []
    for place, leaf in enumerate(leaves, start=first_answer):
        parent = parents[place]
        shipped = planned[parent]
        close = cost.close(nodes[shipped].node, leaf) if parent > count else cost.close(leaf.node, leaf)
        if parent <= count:
            computed = 0.0 if shipped != STREAM and nodes[shipped].node == leaf.node else None
            shipped = shipped if computed is not None else add(leaf.node, shipped, matrix[parent, place] - close)
            if computed is not None:
                shipping[shipped] = cost.ship(leaf.node)
        answers.append(Answer(leaf, shipped, close))
    whole = [
        PlannedNode(each.node, each.parent, each.rows, each.cost_ns + shipping.get(place, 0.0))
        for place, each in enumerate(nodes)
    ]
    return Plan(tuple(whole), tuple(answers), coding_ns, alone_ns)
