"""The best division of memory (ES) and the best configuration (EPES), to measure the quick ways by [GS 5.2, 6]."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from itertools import chain, combinations, product
from math import sqrt
from types import MappingProxyType

import numpy as np

from headrace.planner.phantoms.allocation import (
    Allocation,
    Spaces,
    ascent,
    divide_by_supernodes,
    proportional_linear,
    share_total,
    sum_below,
    supernode_linear,
    weights,
    whole_entries,
)
from headrace.planner.phantoms.collisions import Numbers
from headrace.planner.phantoms.configuration import Configuration
from headrace.planner.phantoms.costs import Prices, maintenance
from headrace.planner.phantoms.relations import Relation, feeding_graph, in_order
from headrace.planner.phantoms.table_tree import Sizes, TableTree, with_sizes

MAX_CONFIGURATIONS = 20_000


def supernode_root(tree: TableTree, memory_bytes: int, prices: Prices) -> Spaces:
    """SR: the root of a supernode's weight is the sum of the roots of its tables' [GS 5.2]."""
    roots = sum_below(tree, [sqrt(weight) for weight in weights(tree)])
    return divide_by_supernodes(tree, [root * root for root in roots], memory_bytes, prices)


def proportional_root(tree: TableTree, memory_bytes: int, _prices: Prices) -> Spaces:
    """PR: as if all were queries."""
    return share_total([sqrt(weight) for weight in weights(tree)], memory_bytes)


ALLOCATIONS: Mapping[str, Allocation] = MappingProxyType(
    {"SL": supernode_linear, "SR": supernode_root, "PL": proportional_linear, "PR": proportional_root}
)


def best_entries(tree: TableTree, memory_bytes: int, prices: Prices) -> list[int]:
    """Return the cheapest of the closed forms and of what the ascent finds from each (ES)."""
    starts = np.array([allocate(tree, memory_bytes, prices) for allocate in ALLOCATIONS.values()])
    spaces = np.concatenate([starts, ascent(tree, np.concatenate([starts, starve_tables(tree, starts)]), prices)])
    entries = np.array([whole_entries(tree, space, memory_bytes) for space in spaces.tolist()])
    best = int(maintenance(tree, entries, prices).argmin())
    return [int(count) for count in entries[best]]


def starve_tables(tree: TableTree, starts: Numbers) -> Numbers:
    """Return the first start with each table above others left almost nothing."""
    inner = [place for place, below in enumerate(tree.children) if below]
    found = np.repeat(starts[:1], len(inner), axis=0)
    found[np.arange(len(inner)), inner] *= 1e-3
    found *= starts[0].sum() / found.sum(axis=1, keepdims=True)
    return found


def best_configuration(
    queries: Iterable[Iterable[str]],
    sizes: Sizes,
    memory_bytes: int,
    prices: Prices | None = None,
    most_phantoms: int | None = None,
) -> Configuration:
    """Try every tree over the feeding graph, each with its best division of memory (EPES). For small instances."""
    prices = prices or Prices()
    best: tuple[float, Configuration] | None = None
    for number, tree in enumerate(all_trees(queries, sizes, most_phantoms)):
        if number >= MAX_CONFIGURATIONS:
            raise ValueError(f"there are more than {MAX_CONFIGURATIONS} trees")
        if tree.min_bytes > memory_bytes:
            continue
        entries = best_entries(tree, memory_bytes, prices)
        paid = float(maintenance(tree, entries, prices))
        if best is None or paid < best[0]:
            best = paid, tree.with_entries(entries)
    if best is None:
        raise ValueError(f"{memory_bytes} bytes do not hold one entry for every query")
    return best[1]


def all_trees(queries: Iterable[Iterable[str]], sizes: Sizes, most_phantoms: int | None = None) -> Iterator[TableTree]:
    """Return every set of phantoms, and every way to feed the tables from the nearest above.

    What is further up lets no fewer records through. A phantom may feed a single table. The paper rules that out
    [GS 2.6], but two small tables in a row evict less than a large one where rates are low, by the model and by
    experiment.
    """
    graph = feeding_graph(queries, sizes.groups.keys())
    most = len(graph.phantoms) if most_phantoms is None else min(most_phantoms, len(graph.phantoms))
    for phantoms in chain.from_iterable(combinations(graph.phantoms, count) for count in range(most + 1)):
        relations = in_order([*graph.queries, *phantoms])
        for parents in product(*(parent_places(place, relations) for place in range(len(relations)))):
            tree = with_sizes(relations, parents, [relation in graph.queries for relation in relations], sizes)
            if not has_idle_phantom(tree):
                yield tree


def has_idle_phantom(tree: TableTree) -> bool:
    """Return whether a phantom feeds nothing."""
    return any(not is_query and not below for is_query, below in zip(tree.is_query, tree.children, strict=True))


def nearest(relations: Collection[Relation]) -> tuple[Relation, ...]:
    """Return those that contain none of the others."""
    return tuple(relation for relation in relations if not any(other < relation for other in relations))


def parent_places(place: int, relations: tuple[Relation, ...]) -> list[int | None]:
    closest = nearest([other for other in relations if relations[place] < other])
    return [relations.index(other) for other in closest] or [None]
