"""Making a plan: leaves and shapes, the search for inner nodes, then one choice of which nodes to keep, which to ship
and where to fan out.

The last choice is a Steiner problem of its own. Beside each node u that might be computed stands "u, shipped"; the
terminals are the answers. A leaf is answered from a node that was shipped with its cells (fan-out at close), or is
computed, shipped and closed by itself (fan-out in the task). A node that pays for nothing is not taken, so the plan is
never more expensive than one without sharing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace

import numpy as np

from headrace.model.expressions import Expression
from headrace.planner.cost import Cost
from headrace.planner.demand import (
    Demand,
    Leaf,
    Shape,
    leaves_of,
    shapes_of,
    split_by_partial,
    split_by_window,
)
from headrace.planner.draft import Draft, price_plan
from headrace.planner.lattice import Node, union
from headrace.planner.plan import STREAM, Plan
from headrace.planner.search import Effort, Graph, possible, search, topological
from headrace.planner.steiner import Costs, Tree, improve
from headrace.predicates import Predicate

Split = Callable[[Leaf], tuple[Leaf, ...]]


def make_plan(demands: Mapping[str, Demand], cost: Cost, effort: Effort | None = None) -> Plan:
    """The cheapest plan found. Equal queries, samples and seeds give equal plans."""
    leaves = leaves_of(demands)
    cost = replace(cost, sharers=Counter(leaf.node.keep for leaf in leaves))
    ways = dict.fromkeys([leaves, split(leaves, split_by_partial), split(leaves, split_by_window)])
    drafts = [draft_of(way, cost, effort) for way in ways]
    return price_plan(min(drafts, key=lambda draft: draft.cost_ns), demands, cost)


def split(leaves: Iterable[Leaf], how: Split) -> tuple[Leaf, ...]:
    return tuple(part for leaf in leaves for part in how(leaf))


def draft_of(leaves: Sequence[Leaf], cost: Cost, effort: Effort | None) -> Draft:
    shapes = shapes_of(leaves)
    tree = search([shape.node for shape in shapes], cost.arc, effort)
    graph = Graph([leaf.node for leaf in leaves], cost.arc)
    parts = (part for shape in shapes for part in parts_of(shape, cost))
    candidates = [*tree.nodes, *parts, *covering(leaves, graph), *by_groups(shapes)]
    return choose_draft(leaves, list(dict.fromkeys(possible(candidates))), graph, cost)


def by_groups(shapes: Iterable[Shape]) -> list[Node]:
    """All shapes of a group-by as one node: the search looks at what it costs to compute nodes, not to ship them."""
    nodes: dict[frozenset[Expression], list[Node]] = {}
    for shape in shapes:
        nodes.setdefault(shape.node.groups, []).append(shape.node)
    return [union(members) for members in nodes.values() if len(members) > 1]


def parts_of(shape: Shape, cost: Cost) -> list[Node]:
    """Halves of a shape, and halves of those: by the pace of their windows, and by how many rows their filters pass."""

    def pace(leaf: Leaf) -> float:
        return sum(part.pace for part in leaf.node.boundaries)

    def selectivity(leaf: Leaf) -> float:
        return cost.sample.selectivity(leaf.node.keep)

    nodes = []
    for order in (pace, selectivity):
        for half in halves(sorted(shape.leaves, key=order)):
            nodes += [union([leaf.node for leaf in part]) for part in (half, *halves(half)) if len(part) > 1]
    return nodes


def halves(leaves: Sequence[Leaf]) -> tuple[Sequence[Leaf], ...]:
    middle = len(leaves) // 2
    return (leaves[:middle], leaves[middle:]) if middle else ()


def covering(leaves: Sequence[Leaf], graph: Graph) -> list[Node]:
    """Return the leaves that others could be computed from.

    One without groups can't separate the rows of other predicates.
    """
    same_rows: dict[frozenset[Predicate], list[int]] = {}
    for leaf in leaves:
        same_rows.setdefault(leaf.node.keep, []).append(graph.place(leaf.node))
    everything = [place for places in same_rows.values() for place in places]
    nodes = []
    for leaf in leaves:
        others = everything if leaf.node.groups else same_rows[leaf.node.keep]
        if any(graph.covers(graph.place(leaf.node), other) for other in others):
            nodes.append(leaf.node)
    return nodes


def choose_draft(leaves: Sequence[Leaf], candidates: Sequence[Node], graph: Graph, cost: Cost) -> Draft:
    """Places in the matrix: the stream, the candidates, the candidates shipped, the answers."""
    count, first_answer = len(candidates), 1 + 2 * len(candidates)
    matrix = np.full((first_answer + len(leaves),) * 2, np.inf)
    matrix[: count + 1, : count + 1] = graph.matrix([graph.place(node) for node in candidates])
    for place, node in enumerate(candidates, start=1):
        matrix[place, place + count] = cost.ship(node)
    for answer, leaf in enumerate(leaves, start=first_answer):
        answer_arcs(matrix[:, answer], leaf, candidates, graph, cost)
    terminals = range(first_answer, len(matrix))
    starts = np.zeros(len(matrix), dtype=np.bool_), np.arange(len(matrix)) <= count
    best = min((improve(matrix, 0, terminals, start) for start in starts), key=lambda tree: tree.cost)
    return read_draft(best, leaves, candidates)


def answer_arcs(arcs: Costs, leaf: Leaf, candidates: Sequence[Node], graph: Graph, cost: Cost) -> None:
    """The cost of answering the leaf from the stream, from each candidate and from each that is shipped."""
    leaf_place = graph.place(leaf.node)
    by_itself = cost.ship(leaf.node) + cost.close(leaf.node, leaf)
    arcs[0] = graph.arc(STREAM, leaf_place) + by_itself
    for place, node in enumerate(candidates, start=1):
        other = graph.place(node)
        if other == leaf_place:
            arcs[place] = by_itself
        elif graph.covers(other, leaf_place):
            arcs[place] = graph.arc(other, leaf_place) + by_itself
            if node.groups == leaf.node.groups:
                arcs[place + len(candidates)] = cost.close(node, leaf)


def read_draft(tree: Tree, leaves: Sequence[Leaf], candidates: Sequence[Node]) -> Draft:
    """From a tree over the places of the matrix to the nodes to compute and to ship."""
    count, first_answer = len(candidates), 1 + 2 * len(candidates)
    parents = tree.parent.tolist()
    computed = [place for place in topological(parents) if place <= count]
    new_place = {0: STREAM} | {place: new for new, place in enumerate(computed)}
    nodes = {candidates[place - 1]: new for new, place in enumerate(computed)}
    above = [new_place[parents[place]] for place in computed]
    answers = []
    for place, leaf in enumerate(leaves, start=first_answer):
        source = parents[place]
        if source > count:
            answers.append((leaf, new_place[source - count]))
            continue
        if leaf.node not in nodes:
            nodes[leaf.node] = len(nodes)
            above.append(new_place[source])
        answers.append((leaf, nodes[leaf.node]))
    return Draft(tuple(nodes), tuple(above), tuple(answers), tree.cost)
