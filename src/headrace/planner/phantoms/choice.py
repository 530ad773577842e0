"""Greedy choice of phantoms: with all memory divided again at each step (GC), or with a fixed space per group (GS)
[GS 3].
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

import numpy as np

from headrace.planner.phantoms.allocation import (
    Allocation,
    Spaces,
    ascent,
    proportional_linear,
    supernode_linear,
    whole_entries,
)
from headrace.planner.phantoms.configuration import Configuration
from headrace.planner.phantoms.costs import Prices, maintenance
from headrace.planner.phantoms.relations import FeedingGraph, Relation, feeding_graph
from headrace.planner.phantoms.table_tree import WORD_BYTES, Sizes, TableTree, build_tree

DEFAULT_PRICES = Prices()
GOOD_ENOUGH = 1e-3
"""A round of moving space that saves less of the cost is the last: sizes drift by more while another is computed."""


def choose(
    queries: Iterable[Iterable[str]],
    groups: Mapping[Relation, float],
    memory_bytes: int,
    flow_length: float | Mapping[Relation, float] = 1.0,
    *,
    attribute_bytes: int | Mapping[str, int] = WORD_BYTES,
    aggregate_bytes: int | Mapping[Relation, int] = WORD_BYTES,
) -> Configuration:
    """Choose a configuration for sizes observed at run time, in milliseconds.

    Only phantoms with known groups are thought of. Where memory is so short that rates are far off the line which GC
    divides it by, GS may find the cheaper tree, so both are asked; then space moves to where a byte saves most.
    """
    sizes = Sizes(groups, flow_length, attribute_bytes, aggregate_bytes)
    graph = feeding_graph(queries, groups.keys())
    prices = DEFAULT_PRICES
    greedy = [by_rates(graph, sizes, memory_bytes, prices), by_space(graph, sizes, memory_bytes, prices)]
    cheaper = min(greedy, key=lambda priced: priced.paid)
    best = min(move_space(cheaper, memory_bytes, prices), cheaper, key=lambda priced: priced.paid)
    return best.tree.with_entries(best.entries)


class PricedTree(NamedTuple):
    tree: TableTree
    entries: list[int]
    paid: float
    """Per record [GS equation 7]."""


def by_rates(
    graph: FeedingGraph,
    sizes: Sizes,
    memory_bytes: int,
    prices: Prices,
    allocate: Allocation = supernode_linear,
) -> PricedTree:
    """From the queries alone, the phantom that saves most joins, as long as one saves anything. Other than in the
    paper one may leave again, when those that came after it have taken over what it fed.
    """

    def try_tree(tree: TableTree) -> PricedTree:
        return divide_memory(tree, allocate(tree, memory_bytes, prices), memory_bytes, prices)

    chosen = frozenset[Relation]()
    best = try_tree(build_tree(graph, chosen, sizes))
    while True:
        trees = [build_tree(graph, chosen ^ {phantom}, sizes) for phantom in graph.phantoms]
        moves = [try_tree(tree) for tree in trees if tree.min_bytes <= memory_bytes]
        cheapest = min(moves, key=lambda priced: priced.paid, default=best)
        if not cheapest.paid < best.paid:
            return best
        best, chosen = cheapest, cheapest.tree.phantoms


def by_space(
    graph: FeedingGraph, sizes: Sizes, memory_bytes: int, prices: Prices, entries_per_group: float = 1.0
) -> PricedTree:
    """Add the phantom that saves most per byte, as long as one saves anything and fits. Each table takes
    `entries_per_group` entries per group; the memory that is left is divided by groups, as in PL.
    """

    def try_phantoms(phantoms: frozenset[Relation]) -> tuple[TableTree, float, float]:
        tree = build_tree(graph, phantoms, sizes)
        entries = np.maximum(1.0, entries_per_group * tree.groups)
        return tree, float(maintenance(tree, entries, prices)), float(entries @ tree.entry_bytes)

    chosen = frozenset[Relation]()
    tree, paid, used = try_phantoms(chosen)
    while True:
        waiting = [phantom for phantom in graph.phantoms if phantom not in chosen]
        moves = [(*try_phantoms(chosen | {phantom}), phantom) for phantom in waiting]
        gains = [
            ((paid - price) / (space - used), place)
            for place, (_, price, space, _) in enumerate(moves)
            if space <= memory_bytes and price < paid
        ]
        if not gains:
            return divide_memory(tree, proportional_linear(tree, memory_bytes, prices), memory_bytes, prices)
        tree, paid, used, phantom = moves[max(gains)[1]]
        chosen |= {phantom}


def divide_memory(tree: TableTree, spaces: Spaces, memory_bytes: int, prices: Prices) -> PricedTree:
    entries = whole_entries(tree, spaces, memory_bytes)
    return PricedTree(tree, entries, float(maintenance(tree, entries, prices)))


def move_space(priced: PricedTree, memory_bytes: int, prices: Prices) -> PricedTree:
    start = np.array([priced.entries], dtype=np.float64) * priced.tree.entry_bytes
    (spaces,) = ascent(priced.tree, start, prices, GOOD_ENOUGH)
    return divide_memory(priced.tree, spaces.tolist(), memory_bytes, prices)
