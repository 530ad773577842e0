"""The search for inner nodes: NFC's randomized heuristic [NFC IV, V] over dual ascent, on unions of all parts."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import combinations

import numpy as np

from headrace.planner.coverage import Coverage, Profile
from headrace.planner.lattice import MAX_CELLS, Node, union
from headrace.planner.plan import STREAM
from headrace.planner.steiner import Costs, steiner_tree

ArcCost = Callable[[Node | None, Node], float]
"""The cost of computing a node from its parent; the parent None is the stream."""


@dataclass(frozen=True)
class SharedTree:
    """Nodes, parents first; `parents[i]` is the place of node i's parent, or STREAM."""

    nodes: tuple[Node, ...]
    parents: tuple[int, ...]
    cost: float


@dataclass(frozen=True, slots=True)
class Effort:
    """How long to search: rounds, unions drawn in each, and the seed that makes it repeatable.

    Of so few leaves as `all_unions_up_to` every union is tried, once; of more, unions are drawn at random.
    """

    rounds: int = 8
    unions: int = 24
    seed: int = 0
    all_unions_up_to: int = 6


class Graph:
    """Nodes and the arcs between them, each arc's cost computed once: infinite where the parent does not cover."""

    def __init__(self, leaves: Sequence[Node], cost: ArcCost) -> None:
        self.cost = cost
        self.coverage = Coverage(leaves)
        self.nodes: list[Node] = []
        self.profiles: list[Profile] = []
        self.places: dict[Node, int] = {}
        self.known: dict[tuple[int, int], float] = {}

    def place(self, node: Node) -> int:
        place = self.places.get(node)
        if place is None:
            place = self.places[node] = len(self.nodes)
            self.nodes.append(node)
            self.profiles.append(self.coverage.profile(node))
        return place

    def covers(self, parent: int, child: int) -> bool:
        """If two nodes cover each other, the earlier is the parent, so that there are no cycles."""
        above, below = self.profiles[parent], self.profiles[child]
        if parent == child or not self.coverage.covers(above, below):
            return False
        return parent < child or not self.coverage.covers(below, above)

    def arc(self, parent: int, child: int) -> float:
        """The stream is the parent STREAM."""
        cost = self.known.get((parent, child))
        if cost is None:
            if parent == STREAM:
                cost = self.cost(None, self.nodes[child])
            elif self.covers(parent, child):
                cost = self.cost(self.nodes[parent], self.nodes[child])
            else:
                cost = np.inf
            self.known[parent, child] = cost
        return cost

    def matrix(self, places: Sequence[int]) -> Costs:
        """Row and column 0 are the stream."""
        rows = [[np.inf, *(self.arc(parent, child) for child in places)] for parent in (STREAM, *places)]
        return np.array(rows, dtype=np.float64)


def search(leaves: Sequence[Node], cost: ArcCost, effort: Effort | None = None) -> SharedTree:
    """Find a tree from the stream to all leaves, never more expensive than computing each leaf from the stream."""
    limits = effort or Effort()
    terminals = list(dict.fromkeys(leaves))
    graph = Graph(terminals, cost)
    best = find_shared_tree(terminals, len(terminals), graph)
    if len(terminals) <= limits.all_unions_up_to:
        return best_with(all_unions(terminals), best, terminals, graph)
    rng = np.random.default_rng(limits.seed)
    best = best_with(natural_unions(terminals), best, terminals, graph)
    for _ in range(limits.rounds):
        drawn = [*random_unions(terminals, limits.unions // 2, rng), *sibling_unions(best, limits.unions, rng)]
        best = best_with(drawn, best, terminals, graph)
    return best


def best_with(drawn: Sequence[Node], best: SharedTree, terminals: Sequence[Node], graph: Graph) -> SharedTree:
    """The better of a tree and the tree found over its nodes and those drawn [NFC algorithm 1]."""
    kept = [node for node in best.nodes if node not in set(terminals)]
    candidates = [*terminals, *kept, *drawn, *mix_unions(drawn, [*kept, *terminals], graph)]
    tree = find_shared_tree(list(dict.fromkeys(possible(candidates))), len(terminals), graph)
    return min(best, tree, key=lambda candidate: candidate.cost)


def possible(nodes: Iterable[Node]) -> Iterator[Node]:
    """Those whose cells can be numbered."""
    return (node for node in nodes if node.cells <= MAX_CELLS)


def all_unions(terminals: Sequence[Node]) -> list[Node]:
    sizes = range(2, len(terminals) + 1)
    return [union(members) for size in sizes for members in combinations(terminals, size)]


def random_unions(terminals: Sequence[Node], count: int, rng: np.random.Generator) -> list[Node]:
    """Unite leaves picked at random, as many as a random number says [NFC algorithm 1]."""
    drawn = []
    for _ in range(count):
        size = int(rng.integers(2, len(terminals) + 1))
        drawn.append(union([terminals[place] for place in rng.choice(len(terminals), size, replace=False)]))
    return drawn


def sibling_unions(tree: SharedTree, count: int, rng: np.random.Generator) -> list[Node]:
    """Unite pairs of nodes that are computed from the same parent: a node between them and it."""
    siblings: dict[int, list[Node]] = {}
    for node, parent in zip(tree.nodes, tree.parents, strict=True):
        siblings.setdefault(parent, []).append(node)
    pairs = [pair for members in siblings.values() for pair in combinations(members, 2)]
    places = rng.permutation(len(pairs))[:count]
    return [union(pairs[place]) for place in places]


def natural_unions(terminals: Sequence[Node]) -> list[Node]:
    """Unite all, and those with the same filter, the same group-by, or a dimension in common."""
    alike: dict[object, list[Node]] = {}
    for node in terminals:
        expressions = (dimension.expression for predicate in node.keep for dimension in predicate.dimensions)
        for trait in dict.fromkeys([None, node.keep, node.groups, *expressions]):
            alike.setdefault(trait, []).append(node)
    return list(dict.fromkeys(union(members) for members in alike.values() if len(members) > 1))


def mix_unions(drawn: Sequence[Node], others: Sequence[Node], graph: Graph) -> list[Node]:
    """NFC V: between a union and a node that covers it, the union's filter with the other's groups, and the reverse."""
    mixed = []
    for node in drawn:
        for other in others:
            if graph.covers(graph.place(other), graph.place(node)):
                mixed.append(replace(node, groups=other.groups))
                mixed.append(replace(node, keep=other.keep, dimensions=other.dimensions))
    return mixed


def find_shared_tree(nodes: Sequence[Node], terminals: int, graph: Graph) -> SharedTree:
    """The best tree found over these nodes, the first of which are the terminals."""
    matrix = graph.matrix([graph.place(node) for node in nodes])
    tree = steiner_tree(matrix, 0, list(range(1, terminals + 1)))
    order = topological(tree.parent.tolist())
    place_of = {0: STREAM} | {node: place for place, node in enumerate(order)}
    return SharedTree(
        tuple(nodes[node - 1] for node in order),
        tuple(place_of[int(tree.parent[node])] for node in order),
        tree.cost,
    )


def topological(parents: Sequence[int]) -> list[int]:
    """The nodes that have a parent, parents first."""
    depth: dict[int, int] = {0: 0}

    def depth_of(node: int) -> int:
        if node not in depth:
            depth[node] = depth_of(parents[node]) + 1
        return depth[node]

    return sorted((node for node, parent in enumerate(parents) if parent >= 0), key=lambda node: (depth_of(node), node))
