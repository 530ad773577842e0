"""Many nodes shown as one: the leaves of one kind under one parent."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import chain

from headrace.planner.explain.description import NodeDescription, PlanDescription

FEW_NODES = 2
"""Up to this many nodes of a kind are shown one by one."""


@dataclass(frozen=True)
class NodeFold:
    """Nodes with one parent, and what is computed from them."""

    nodes: tuple[NodeDescription, ...]
    children: tuple[NodeFold, ...] = ()

    @property
    def label(self) -> str:
        first, last = self.nodes[0]["id"], self.nodes[-1]["id"]
        return first if len(self.nodes) == 1 else f"{first} ... {last}"

    @property
    def queries(self) -> list[str]:
        return list(dict.fromkeys(name for node in self.nodes for name in node["queries"]))

    @property
    def rows(self) -> float:
        return sum(node["rows"] for node in self.nodes)

    @property
    def cost_ns(self) -> float:
        return sum(node["cost_ns"] for node in self.nodes)

    @property
    def share(self) -> float:
        return sum(node["share"] for node in self.nodes)


def folds(description: PlanDescription) -> tuple[NodeFold, ...]:
    """The tree of a plan, from what is computed from the stream on."""
    below: dict[str | None, list[NodeDescription]] = {}
    for node in description["nodes"]:
        below.setdefault(node["parent"], []).append(node)

    def under(parent: str | None) -> tuple[NodeFold, ...]:
        return fold_siblings([NodeFold((node,), under(node["id"])) for node in below.get(parent, [])])

    return under(None)


def fold_siblings(siblings: Sequence[NodeFold]) -> tuple[NodeFold, ...]:
    kinds: dict[object, list[NodeFold]] = {}
    for fold in siblings:
        kinds.setdefault(kind_of(fold), []).append(fold)
    merged = ([merge_siblings(alike)] if len(alike) > FEW_NODES else alike for alike in kinds.values())
    return tuple(chain.from_iterable(merged))


def kind_of(fold: NodeFold) -> object:
    """Leaves that differ in their filter and slices only are of one kind; an inner node is one by itself."""
    node = fold.nodes[0]
    if fold.children or node["dimensions"]:
        return node["id"]
    return tuple(node["groups"]), tuple(node["partials"])


def merge_siblings(siblings: Iterable[NodeFold]) -> NodeFold:
    parts = list(siblings)
    nodes = tuple(node for fold in parts for node in fold.nodes)
    return NodeFold(nodes, fold_siblings([child for fold in parts for child in fold.children]))
