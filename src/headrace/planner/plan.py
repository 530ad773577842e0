"""A plan: the tree of nodes, which of them are shipped, and which shipped node answers each leaf."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from headrace.aggregates.partials import Partial
from headrace.model.stable_names import stored
from headrace.planner.demand import Ask, Demand, Leaf, make_leaf
from headrace.planner.lattice import Node, contains_boundaries
from headrace.windows import compose, paired_boundaries

STREAM = -1
"""The parent of nodes that are computed from the rows themselves."""


@stored("PlannedNode", "node", "parent", "rows", "cost_ns", "compressed")
@dataclass(frozen=True, slots=True)
class PlannedNode:
    """A node in its place: computed from `parent`, an earlier node of the plan or STREAM.

    Before rows of the stream are folded into the partials in `compressed`, equal ones are put together.
    """

    node: Node
    parent: int
    rows: float
    cost_ns: float
    compressed: frozenset[Partial] = frozenset()


@stored("Answer", "leaf", "place", "cost_ns")
@dataclass(frozen=True, slots=True)
class Answer:
    """A leaf, and the shipped node whose rows, where the leaf's predicate holds, its windows are combined from."""

    leaf: Leaf
    place: int
    cost_ns: float


@stored("Plan", "nodes", "answers", "demands", "coding_ns", "alone_ns")
@dataclass(frozen=True)
class Plan:
    """`nodes` are parents first; every node that answers a leaf is shipped, and no other.

    Costs are per task and batch. `alone_ns` is what each query would cost by itself.
    """

    nodes: tuple[PlannedNode, ...]
    answers: tuple[Answer, ...]
    demands: Mapping[str, Demand]
    coding_ns: float
    alone_ns: Mapping[str, float]

    @cached_property
    def shipped(self) -> frozenset[int]:
        return frozenset(answer.place for answer in self.answers)

    @cached_property
    def cost_ns(self) -> float:
        """What it costs to code the rows, to compute the tree, and to close windows."""
        tree, closing = (sum(part.cost_ns for part in parts) for parts in (self.nodes, self.answers))
        return self.coding_ns + tree + closing

    @cached_property
    def _children(self) -> Mapping[int, list[int]]:
        children: dict[int, list[int]] = {}
        for place, planned in enumerate(self.nodes):
            children.setdefault(planned.parent, []).append(place)
        return children

    @cached_property
    def routes(self) -> Mapping[Demand, tuple[Route, ...]]:
        """The routes of all queries that were planned for."""
        routes: dict[str, list[Route]] = {}
        for answer in self.answers:
            for ask in answer.leaf.asks:
                routes.setdefault(ask.query, []).append(Route(answer.place, answer.leaf.node, ask.partials))
        return {self.demands[name]: tuple(parts) for name, parts in routes.items()}

    def children(self, place: int) -> Sequence[int]:
        return self._children.get(place, [])

    def path(self, place: int) -> Iterator[int]:
        """From a node up to the stream."""
        while place != STREAM:
            yield place
            place = self.nodes[place].parent


@dataclass(frozen=True, slots=True)
class Route:
    """Where some partials of a query come from: `leaf` is computed from the rows of the shipped node at `place`."""

    place: int
    leaf: Node
    partials: frozenset[Partial]


def route(plan: Plan, demand: Demand) -> tuple[Route, ...] | None:
    """Return the shipped nodes that answer a query, planned for or not; None if the plan can't answer it.

    A shipped node must have the query's own group-by: a coarser one would have to be gathered from several reducers.
    Its slices may be others than the query's: then the windows are complete that no slice crosses.
    """
    return plan.routes[demand] if demand in plan.routes else find_route(plan, demand)


def find_route(plan: Plan, demand: Demand) -> tuple[Route, ...] | None:
    missing, routes = demand.partials, []
    for place in by_fitness(plan, demand):
        node = plan.nodes[place].node
        leaf = wanted_node(demand, missing & node.partials)
        if not contains_boundaries(node.boundaries, leaf.boundaries):
            leaf = replace(leaf, boundaries=node.boundaries)
        if leaf.partials and node.covers(leaf):
            routes.append(Route(place, leaf, leaf.partials))
            missing -= leaf.partials
        if not missing:
            return tuple(routes)
    return None


def by_fitness(plan: Plan, demand: Demand) -> list[int]:
    """The shipped nodes of the query's group-by: first those that have its boundaries, and of these the smallest."""
    boundaries = compose([paired_boundaries(demand.window)])

    def fitness(place: int) -> tuple[bool, float, int]:
        planned = plan.nodes[place]
        return not contains_boundaries(planned.node.boundaries, boundaries), planned.rows, place

    return sorted((place for place in plan.shipped if plan.nodes[place].node.groups == demand.groups), key=fitness)


def wanted_node(demand: Demand, partials: Iterable[Partial]) -> Node:
    """What a query needs of one node, as a leaf."""
    return make_leaf(demand.predicate, demand.groups, [Ask("", demand.window, frozenset(partials))]).node
