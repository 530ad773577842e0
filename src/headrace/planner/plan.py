"""A plan: the tree of nodes, which of them are shipped, and which shipped node answers each leaf."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from headrace.aggregates.partials import Partial
from headrace.planner.leaves import Ask, Demand, Leaf, make_leaf
from headrace.planner.nodes import Node
from headrace.predicates import Predicate

STREAM = -1
"""The parent of nodes that are computed from the rows themselves."""


@dataclass(frozen=True, slots=True)
class PlannedNode:
    """A node in its place: computed from `parent`, an earlier node of the plan or STREAM."""

    node: Node
    parent: int
    rows: float
    cost_ns: float


@dataclass(frozen=True, slots=True)
class Answer:
    """A leaf, and the shipped node whose rows, where the leaf's predicate holds, its windows are combined from."""

    leaf: Leaf
    place: int
    cost_ns: float


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
        """Of coding the rows, of the tree, and of closing windows."""
        tree, closing = (sum(each.cost_ns for each in parts) for parts in (self.nodes, self.answers))
        return self.coding_ns + tree + closing

    @cached_property
    def _children(self) -> Mapping[int, list[int]]:
        found: dict[int, list[int]] = {}
        for place, each in enumerate(self.nodes):
            found.setdefault(each.parent, []).append(place)
        return found

    def children(self, place: int) -> Sequence[int]:
        return self._children.get(place, [])

    def path(self, place: int) -> Iterator[int]:
        """From a node up to the stream."""
        while place != STREAM:
            yield place
            place = self.nodes[place].parent


@dataclass(frozen=True, slots=True)
class Route:
    """Where some partials of a query come from: the shipped node `place`, in the cells where the predicate holds."""

    place: int
    predicate: Predicate
    partials: frozenset[Partial]


def route(plan: Plan, demand: Demand) -> tuple[Route, ...] | None:
    """The shipped nodes that answer a query, planned for or not; None if the plan does not tell its answer.

    A shipped node must have the query's own group-by: a coarser one would have to be gathered from several reducers.
    """
    missing, routes = demand.partials, []
    for place in by_rows(plan, demand):
        found = missing & plan.nodes[place].node.partials
        if found and plan.nodes[place].node.covers(wanted(demand, found)):
            routes.append(Route(place, demand.predicate, found))
            missing -= found
        if not missing:
            return tuple(routes)
    return None


def by_rows(plan: Plan, demand: Demand) -> list[int]:
    """The shipped nodes of the query's group-by, smallest first."""
    places = [place for place in plan.shipped if plan.nodes[place].node.groups == demand.groups]
    return sorted(places, key=lambda place: (plan.nodes[place].rows, place))


def wanted(demand: Demand, partials: Iterable[Partial]) -> Node:
    """What a query needs of one node, as a leaf."""
    return make_leaf(demand.predicate, demand.groups, [Ask("", demand.window, frozenset(partials))]).node
