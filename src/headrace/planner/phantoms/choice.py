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
    proportional_linear,
    supernode_linear,
    whole_entries,
)
from headrace.planner.phantoms.ascent import ascent
from headrace.planner.phantoms.configuration import Configuration
from headrace.planner.phantoms.costs import Prices, maintenance
from headrace.planner.phantoms.layout import Layout, layout_of
from headrace.planner.phantoms.peak import repair
from headrace.planner.phantoms.relations import FeedingGraph, Relation, feeding_graph
from headrace.planner.phantoms.sizes import WORD_BYTES, Sizes

DEFAULT_PRICES = Prices()
GOOD_ENOUGH = 1e-3
"""Of the cost, saved by a round of moving space: sizes drift by more while the next would be computed."""


def choose(
    queries: Iterable[Iterable[str]],
    groups: Mapping[Relation, float],
    memory_bytes: int,
    flow_length: float | Mapping[Relation, float] = 1.0,
    *,
    attribute_bytes: int | Mapping[str, int] = WORD_BYTES,
    aggregate_bytes: int | Mapping[Relation, int] = WORD_BYTES,
    prices: Prices = DEFAULT_PRICES,
    end_of_epoch_limit: float | None = None,
) -> Configuration:
    """A configuration for sizes observed at run time, in milliseconds. Only phantoms with known groups are thought of.

    Where memory is so short that rates are far off the line which GC divides it by, GS may find the cheaper tree, so
    both are asked; then space moves to where a byte saves most.
    """
    sizes = Sizes(groups, flow_length, attribute_bytes, aggregate_bytes)
    graph = feeding_graph(queries, groups.keys())
    found = [by_rates(graph, sizes, memory_bytes, prices), by_space(graph, sizes, memory_bytes, prices)]
    best = refine_plan(min(found, key=lambda plan: plan.paid), memory_bytes, prices)
    configuration = best.layout.with_entries(best.entries)
    if end_of_epoch_limit is None:
        return configuration
    return repair(configuration, sizes, end_of_epoch_limit, prices)


class Chosen(NamedTuple):
    layout: Layout
    entries: list[int]
    paid: float
    """Per record [GS equation 7]."""


def by_rates(
    graph: FeedingGraph,
    sizes: Sizes,
    memory_bytes: int,
    prices: Prices,
    allocate: Allocation = supernode_linear,
) -> Chosen:
    """From the queries alone, the phantom that saves most joins, as long as one saves anything. Other than in the
    paper one may leave again, when those that came after it have taken over what it fed.
    """

    def try_layout(tree: Layout) -> Chosen:
        return divide_memory(tree, allocate(tree, memory_bytes, prices), memory_bytes, prices)

    chosen = frozenset[Relation]()
    best = try_layout(layout_of(graph, chosen, sizes))
    while True:
        sets = [chosen ^ {phantom} for phantom in graph.phantoms]
        trees = [layout_of(graph, phantoms, sizes) for phantoms in sets]
        plans = [try_layout(tree) for tree in trees if tree.least_bytes <= memory_bytes]
        found = min(plans, key=lambda plan: plan.paid, default=best)
        if not found.paid < best.paid:
            return best
        best, chosen = found, found.layout.phantoms


def by_space(
    graph: FeedingGraph, sizes: Sizes, memory_bytes: int, prices: Prices, entries_per_group: float = 1.0
) -> Chosen:
    """Add the phantom that saves most per byte, as long as one saves anything and fits. Each table takes
    `entries_per_group` entries per group; the memory that is left is divided by groups, as in PL.
    """

    def try_phantoms(phantoms: frozenset[Relation]) -> tuple[Layout, float, float]:
        tree = layout_of(graph, phantoms, sizes)
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


def divide_memory(tree: Layout, spaces: Spaces, memory_bytes: int, prices: Prices) -> Chosen:
    entries = whole_entries(tree, spaces, memory_bytes)
    return Chosen(tree, entries, float(maintenance(tree, entries, prices)))


def refine_plan(plan: Chosen, memory_bytes: int, prices: Prices) -> Chosen:
    start = np.array([plan.entries], dtype=np.float64) * plan.layout.entry_bytes
    better = divide_memory(
        plan.layout, ascent(plan.layout, start, prices, GOOD_ENOUGH)[0].tolist(), memory_bytes, prices
    )
    return min(better, plan, key=lambda each: each.paid)
