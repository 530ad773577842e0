"""Dividing memory among the tables of a tree: in closed form by SL and PL [GS 5], then by moving space to where a byte
saves most [GS 5.2].

The weight of a table is what its rate would be in one byte, if rates stayed on the paper's line without its
intercept: slope * groups * bytes of an entry / flow length. Queries alone share memory best by the square roots of
their weights; a table above others takes more than half [GS 5.1].

With rates on a line through zero the cost is a sum of products of powers of the spaces, so it is convex in their
logarithms and what the ascent finds is the optimum. The precise rates level off at 1, which can make a second optimum
where a table is given up; so the search may begin at several places.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import sqrt

import numpy as np

from headrace.planner.phantoms.collisions import SLOPE, Numbers, precise_slope
from headrace.planner.phantoms.costs import Prices, by_table, maintenance, records_fed
from headrace.planner.phantoms.table_tree import TableTree

Spaces = Sequence[float]
"""Bytes of each table."""
Allocation = Callable[[TableTree, int, Prices], Spaces]
MAX_ROUNDS = 120
MIN_STEP = 1e-3


def supernode_linear(tree: TableTree, memory_bytes: int, prices: Prices) -> Spaces:
    """SL: a table and those below it weigh as much as all of them [GS 5.2]."""
    return divide_by_supernodes(tree, sum_below(tree, weights(tree)), memory_bytes, prices)


def proportional_linear(tree: TableTree, memory_bytes: int, _prices: Prices) -> Spaces:
    """PL: the same rate for all tables."""
    return share_total(weights(tree), memory_bytes)


def weights(tree: TableTree) -> list[float]:
    values: list[float] = (SLOPE * tree.groups * tree.entry_bytes / tree.flow_lengths).tolist()
    return values


def sum_below(tree: TableTree, values: Sequence[float]) -> list[float]:
    """Each table's value and all below it."""
    total = list(values)
    for place in range(len(total) - 1, -1, -1):
        parent = tree.parents[place]
        if parent is not None:
            total[parent] += total[place]
    return total


def divide_by_supernodes(tree: TableTree, weight: Sequence[float], memory_bytes: int, prices: Prices) -> Spaces:
    """Supernodes at the top are like queries; each is then divided between its table and the supernodes below."""
    space = [0.0] * len(weight)
    tops = [place for place, parent in enumerate(tree.parents) if parent is None]
    give(space, tops, weight, memory_bytes)
    for place, below in enumerate(tree.children):
        if not below:
            continue
        passed = space_below(space[place], [weight[child] for child in below], tree.is_query[place], prices)
        give(space, below, weight, passed)
        space[place] -= passed
    return space


def give(space: list[float], places: Sequence[int], weight: Sequence[float], total: float) -> None:
    for place, part in zip(places, share_total([sqrt(weight[place]) for place in places], total), strict=True):
        space[place] = part


def space_below(space: float, below: Sequence[float], is_query: bool, prices: Prices) -> float:
    """How much of a supernode's space its table leaves to those below [GS 5.1, equation 21].

    With w the table's weight and s the space passed on, a record costs w / (space - s) * (burden + eviction * root^2 /
    s) where the burden is what each eviction costs at once. The paper's burden is a probe per child; a query's own
    evictions leave the edge as well. The derivative is a quadratic in s.
    """
    root = sum(sqrt(weight) for weight in below)
    burden = len(below) * prices.probe + is_query * prices.eviction
    return space * root / (root + sqrt(root * root + burden * space / prices.eviction))


def share_total(parts: Sequence[float], total: float) -> list[float]:
    unit = total / sum(parts)
    return [part * unit for part in parts]


def whole_entries(tree: TableTree, spaces: Spaces, memory_bytes: int) -> list[int]:
    """Every table gets at least one entry, and no entry more would fit into the memory."""
    if tree.min_bytes > memory_bytes:
        raise ValueError(f"{memory_bytes} bytes do not hold one entry of each of {len(tree.relations)} tables")
    widths: list[int] = tree.entry_bytes.tolist()
    # One entry each is set aside first, and only what is wanted beyond it is scaled down.
    wanted = [max(0.0, space / width - 1.0) for space, width in zip(spaces, widths, strict=True)]
    total = sum(more * width for more, width in zip(wanted, widths, strict=True))
    scale = min(1.0, (memory_bytes - tree.min_bytes) / max(total, 1e-9))
    entries = [1 + int(more * scale) for more in wanted]
    left = memory_bytes - sum(count * width for count, width in zip(entries, widths, strict=True))
    for place in sorted(range(len(widths)), key=lambda place: entries[place] - wanted[place] * scale):
        more = int(left >= widths[place])
        entries[place] += more
        left -= more * widths[place]
    narrowest = widths.index(min(widths))
    entries[narrowest] += left // widths[narrowest]
    return entries


# Moving space to where a byte saves most


def ascent(tree: TableTree, spaces: Numbers, prices: Prices, tolerance: float = 1e-7) -> Numbers:
    """Move space to where a byte saves most, for all rows of `spaces` at once, until a byte saves the same everywhere.

    Rates are about inverse to space, savings to its square: hence the root of the savings as a factor.
    """
    total = spaces.sum(axis=1, keepdims=True)
    least = tree.entry_bytes.astype(np.float64)
    spaces = np.maximum(spaces, least)
    spaces *= total / spaces.sum(axis=1, keepdims=True)
    paid = maintenance(tree, spaces / least, prices)
    power = np.full((len(spaces), 1), 0.5)
    for _ in range(MAX_ROUNDS):
        tried = spaces * np.maximum(savings(tree, spaces, prices), 1e-300) ** power
        tried = np.maximum(tried * (total / tried.sum(axis=1, keepdims=True)), least)
        tried *= total / tried.sum(axis=1, keepdims=True)
        price = maintenance(tree, tried / least, prices)
        better = price < paid
        gained = float(((paid - price) / paid)[better].max(initial=0.0))
        spaces = np.where(better[:, None], tried, spaces)
        paid = np.minimum(price, paid)
        power = np.where(better[:, None], power, power / 2)
        if gained < tolerance and (better | (power[:, 0] < MIN_STEP)).all():
            break
    return spaces


def savings(tree: TableTree, spaces: Numbers, prices: Prices) -> Numbers:
    """Return by how much one more byte of each table makes a record cheaper."""
    entries = spaces / tree.entry_bytes
    rates = by_table(tree.rates(entries))
    pairs = zip(records_fed(tree, rates), eviction_costs(tree, rates, prices), strict=True)
    saved = [arriving * burden for arriving, burden in pairs]
    slopes = precise_slope(tree.groups, entries) / tree.flow_lengths / tree.entry_bytes
    return -np.stack(saved, axis=-1) * slopes


def eviction_costs(tree: TableTree, rates: list[Numbers], prices: Prices) -> list[Numbers]:
    """Return what one eviction from each table costs at once and further down."""
    burden = [np.full_like(rates[0], is_query * prices.eviction) for is_query in tree.is_query]
    for place in range(len(rates) - 1, -1, -1):
        parent = tree.parents[place]
        if parent is not None:
            burden[parent] = burden[parent] + prices.probe + rates[place] * burden[place]
    return burden
