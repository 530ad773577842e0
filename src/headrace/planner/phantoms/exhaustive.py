"""The best division of memory (ES) and the best configuration (EPES), to measure the quick ways by [GS 5.2, 6].

With rates on a line through zero the cost is a sum of products of powers of the spaces, so it is convex in their
logarithms and what the ascent below finds is the optimum. The precise rates level off at 1, which can make a second
optimum where a table is given up; so the search begins at several places, and is tested against a grid.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import chain, combinations, product

import numpy as np

from headrace.planner.phantoms.allocation import ALLOCATIONS, whole_entries
from headrace.planner.phantoms.collisions import Numbers, precise_slope
from headrace.planner.phantoms.configuration import Configuration
from headrace.planner.phantoms.costs import Prices, by_table, fed, maintenance
from headrace.planner.phantoms.layout import Layout, layout
from headrace.planner.phantoms.relations import Relation, feeding_graph, in_order, nearest
from headrace.planner.phantoms.sizes import Sizes

MOST_ROUNDS = 120
SMALLEST_STEP = 1e-3
MOST_TREES = 20_000


def best_entries(layout: Layout, memory_bytes: int, prices: Prices) -> list[int]:
    """ES: the cheapest of the closed forms and of what is found from each; so none of those is cheaper."""
    starts = np.array([allocate(layout, memory_bytes, prices) for allocate in ALLOCATIONS.values()])
    spaces = np.concatenate([starts, ascent(layout, np.concatenate([starts, starved(layout, starts)]), prices)])
    entries = np.array([whole_entries(layout, space, memory_bytes) for space in spaces.tolist()])
    best = int(maintenance(layout, entries, prices).argmin())
    return [int(count) for count in entries[best]]


def starved(layout: Layout, starts: Numbers) -> Numbers:
    """The first start with each table above others left almost nothing."""
    inner = [place for place, below in enumerate(layout.children) if below]
    found = np.repeat(starts[:1], len(inner), axis=0)
    found[np.arange(len(inner)), inner] *= 1e-3
    found *= starts[0].sum() / found.sum(axis=1, keepdims=True)
    return found


def ascent(layout: Layout, spaces: Numbers, prices: Prices, tolerance: float = 1e-7) -> Numbers:
    """Space moves to where a byte saves most, for all rows of `spaces` at once, until a byte saves the same
    everywhere. Rates are about inverse to space, savings to its square: hence the root of the savings as a factor.
    """
    total = spaces.sum(axis=1, keepdims=True)
    least = layout.entry_bytes.astype(np.float64)
    spaces = np.maximum(spaces, least)
    spaces *= total / spaces.sum(axis=1, keepdims=True)
    paid = maintenance(layout, spaces / least, prices)
    power = np.full((len(spaces), 1), 0.5)
    for _ in range(MOST_ROUNDS):
        tried = spaces * np.maximum(savings(layout, spaces, prices), 1e-300) ** power
        tried = np.maximum(tried * (total / tried.sum(axis=1, keepdims=True)), least)
        tried *= total / tried.sum(axis=1, keepdims=True)
        price = maintenance(layout, tried / least, prices)
        better = price < paid
        gained = float(((paid - price) / paid)[better].max(initial=0.0))
        spaces = np.where(better[:, None], tried, spaces)
        paid = np.minimum(price, paid)
        power = np.where(better[:, None], power, power / 2)
        if gained < tolerance and (better | (power[:, 0] < SMALLEST_STEP)).all():
            break
    return spaces


def savings(layout: Layout, spaces: Numbers, prices: Prices) -> Numbers:
    """By how much one more byte of each table makes a record cheaper."""
    entries = spaces / layout.entry_bytes
    rates = by_table(layout.rates(entries))
    arriving = fed(layout, rates)
    burden = evicting(layout, rates, prices)
    saved = [each * weight for each, weight in zip(arriving, burden, strict=True)]
    slopes = precise_slope(layout.groups, entries) / layout.flow_lengths / layout.entry_bytes
    return -np.stack(saved, axis=-1) * slopes


def evicting(layout: Layout, rates: list[Numbers], prices: Prices) -> list[Numbers]:
    """What one eviction from each table costs at once and further down."""
    burden = [np.full_like(rates[0], asked * prices.eviction) for asked in layout.is_query]
    for place in range(len(rates) - 1, -1, -1):
        parent = layout.parents[place]
        if parent is not None:
            burden[parent] = burden[parent] + prices.probe + rates[place] * burden[place]
    return burden


def best_on_grid(layout: Layout, memory_bytes: int, prices: Prices, steps: int = 100) -> float:
    """The least cost where every table's space is a whole number of steps, by trying all: for up to 4 tables."""
    count = len(layout.relations)
    cuts = np.array(list(combinations(range(1, steps), count - 1)), dtype=np.float64)
    ends = np.pad(cuts, ((0, 0), (0, 1)), constant_values=steps)
    shares = np.diff(ends, axis=1, prepend=0.0) / steps
    return float(maintenance(layout, shares * memory_bytes / layout.entry_bytes, prices).min())


def best_configuration(
    queries: Iterable[Iterable[str]],
    sizes: Sizes,
    memory_bytes: int,
    prices: Prices | None = None,
    most_phantoms: int | None = None,
) -> Configuration:
    """EPES: every tree over the feeding graph, each with its best division of memory. For small instances."""
    prices = prices or Prices()
    best: tuple[float, Configuration] | None = None
    for number, tree in enumerate(all_layouts(queries, sizes, most_phantoms)):
        if number >= MOST_TREES:
            raise ValueError(f"there are more than {MOST_TREES} trees")
        if tree.least_bytes > memory_bytes:
            continue
        entries = best_entries(tree, memory_bytes, prices)
        paid = float(maintenance(tree, entries, prices))
        if best is None or paid < best[0]:
            best = paid, tree.sized(entries)
    if best is None:
        raise ValueError(f"{memory_bytes} bytes do not hold one entry for every query")
    return best[1]


def all_layouts(queries: Iterable[Iterable[str]], sizes: Sizes, most_phantoms: int | None = None) -> Iterator[Layout]:
    """Every set of phantoms, and every way to feed the tables from the nearest above: what is further up lets no fewer
    records through. A phantom may feed a single table. The paper rules that out [GS 2.6], but two small tables in a row
    evict less than a large one where rates are low, by the model and by experiment.
    """
    graph = feeding_graph(queries, sizes.groups.keys())
    most = len(graph.phantoms) if most_phantoms is None else min(most_phantoms, len(graph.phantoms))
    for phantoms in chain.from_iterable(combinations(graph.phantoms, count) for count in range(most + 1)):
        relations = in_order([*graph.queries, *phantoms])
        for parents in product(*(parent_places(place, relations) for place in range(len(relations)))):
            tree = layout(relations, parents, [relation in graph.queries for relation in relations], sizes)
            if not tree.has_idle_phantom:
                yield tree


def parent_places(place: int, relations: tuple[Relation, ...]) -> list[int | None]:
    closest = nearest([other for other in relations if relations[place] < other])
    return [relations.index(other) for other in closest] or [None]
