"""The search for inner nodes: NFC's randomized heuristic [NFC IV, V] over dual ascent, on unions of all parts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import combinations

import numpy as np

from headrace.planner.nodes import Node, union
from headrace.planner.steiner import best_tree, steiner_tree

ArcCost = Callable[[Node | None, Node], float]
"""The cost of computing a node from its parent; the parent None is the stream."""

ALL_UNIONS_UP_TO = 6
"""With so few leaves every union is tried; beyond, unions are drawn at random."""


@dataclass(frozen=True)
class SharedTree:
    """Nodes, parents first; `parents[i]` is the place of node i's parent, -1 for the stream."""

    nodes: tuple[Node, ...]
    parents: tuple[int, ...]
    cost: float


@dataclass(frozen=True, slots=True)
class Effort:
    """How long to search: rounds, unions drawn in each, and the seed that makes it repeatable."""

    rounds: int = 6
    unions: int = 24
    seed: int = 0


class ArcTable:
    """Arc costs, each computed once: infinite where the parent does not cover the child."""

    def __init__(self, cost: ArcCost) -> None:
        self.cost = cost
        self.known: dict[tuple[Node | None, Node], float] = {}

    def arc(self, parent: Node | None, child: Node) -> float:
        found = self.known.get((parent, child))
        if found is None:
            covers = parent is None or (parent != child and parent.covers(child))
            found = self.known[parent, child] = self.cost(parent, child) if covers else np.inf
        return found

    def matrix(self, nodes: Sequence[Node]) -> np.ndarray[tuple[int, ...], np.dtype[np.float64]]:
        """Place 0 is the stream."""
        places: list[Node | None] = [None, *nodes]
        rows = [[np.inf, *(self.arc(parent, child) for child in nodes)] for parent in places]
        return np.array(rows, dtype=np.float64)


def search(leaves: Sequence[Node], cost: ArcCost, effort: Effort | None = None) -> SharedTree:
    """A tree from the stream to all leaves, never dearer than computing each leaf from the stream."""
    chosen_effort = effort or Effort()
    rng = np.random.default_rng(chosen_effort.seed)
    arcs = ArcTable(cost)
    terminals = list(dict.fromkeys(leaves))
    kept: list[Node] = []
    best = unshared(terminals, arcs)
    for _ in range(chosen_effort.rounds if len(terminals) > 1 else 0):
        drawn = draw_unions(terminals, chosen_effort.unions, rng)
        candidates = list(dict.fromkeys([*kept, *drawn, *mixed(drawn, kept + terminals)]))
        nodes = [*terminals, *(node for node in candidates if node not in set(terminals))]
        tree = shared(nodes, len(terminals), arcs)
        if tree.cost < best.cost:
            best = tree
        kept = [node for node in best.nodes if node not in set(terminals)]
        if len(terminals) <= ALL_UNIONS_UP_TO:
            break
    return best


def draw_unions(terminals: Sequence[Node], count: int, rng: np.random.Generator) -> list[Node]:
    if len(terminals) <= ALL_UNIONS_UP_TO:
        sizes = range(2, len(terminals) + 1)
        return [union(members) for size in sizes for members in combinations(terminals, size)]
    drawn = []
    for _ in range(count):
        size = int(rng.integers(2, len(terminals) + 1))
        drawn.append(union([terminals[place] for place in rng.choice(len(terminals), size, replace=False)]))
    return drawn


def mixed(drawn: Sequence[Node], others: Sequence[Node]) -> list[Node]:
    """NFC V: between a union and a node that covers it, the union's filter with the other's groups, and the reverse."""
    found = []
    for node in drawn:
        for other in others:
            if other != node and other.covers(node):
                found.append(replace(node, groups=other.groups))
                found.append(replace(node, keep=other.keep, dimensions=other.dimensions))
    return found


def unshared(terminals: Sequence[Node], arcs: ArcTable) -> SharedTree:
    costs = [arcs.arc(None, node) for node in terminals]
    return SharedTree(tuple(terminals), (-1,) * len(terminals), float(sum(costs)))


def shared(nodes: Sequence[Node], terminals: int, arcs: ArcTable) -> SharedTree:
    matrix = arcs.matrix(nodes)
    found = steiner_tree(matrix, 0, list(range(1, terminals + 1)))
    members = {0} | {place for place in range(1, len(matrix)) if found.parent[place] >= 0}
    tree = best_tree(matrix, 0, members)
    order = topological(tree.parent.tolist(), members)
    place_of = {0: -1} | {node: place for place, node in enumerate(order)}
    return SharedTree(
        tuple(nodes[node - 1] for node in order),
        tuple(place_of[int(tree.parent[node])] for node in order),
        tree.cost,
    )


def topological(parent: Sequence[int], members: set[int]) -> list[int]:
    """The members but the root, parents first."""
    depth: dict[int, int] = {0: 0}

    def depth_of(node: int) -> int:
        if node not in depth:
            depth[node] = depth_of(parent[node]) + 1
        return depth[node]

    return sorted(members - {0}, key=lambda node: (depth_of(node), node))
