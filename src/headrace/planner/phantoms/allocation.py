"""Dividing memory among the tables of a tree in closed form: SL, SR, PL and PR [GS 5].

The weight of a table is what its rate would be in one byte, if rates stayed on the paper's line without its
intercept: slope * groups * bytes of an entry / flow length. Queries alone share memory best by the square roots of
their weights; a table above others takes more than half [GS 5.1].
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import sqrt
from types import MappingProxyType

from headrace.planner.phantoms.collisions import SLOPE
from headrace.planner.phantoms.costs import Prices
from headrace.planner.phantoms.layout import Layout

Spaces = Sequence[float]
"""Bytes of each table."""
Allocation = Callable[[Layout, int, Prices], Spaces]


def supernode_linear(layout: Layout, memory_bytes: int, prices: Prices) -> Spaces:
    """SL: a table and those below it weigh as much as all of them [GS 5.2]."""
    return divide_by_supernodes(layout, sum_below(layout, weights(layout)), memory_bytes, prices)


def supernode_root(layout: Layout, memory_bytes: int, prices: Prices) -> Spaces:
    """SR: the root of a supernode's weight is the sum of the roots of its tables' [GS 5.2]."""
    roots = sum_below(layout, [sqrt(weight) for weight in weights(layout)])
    return divide_by_supernodes(layout, [root * root for root in roots], memory_bytes, prices)


def proportional_linear(layout: Layout, memory_bytes: int, _prices: Prices) -> Spaces:
    """PL: the same rate for all tables."""
    return share_total(weights(layout), memory_bytes)


def proportional_root(layout: Layout, memory_bytes: int, _prices: Prices) -> Spaces:
    """PR: as if all were queries."""
    return share_total([sqrt(weight) for weight in weights(layout)], memory_bytes)


ALLOCATIONS: Mapping[str, Allocation] = MappingProxyType(
    {"SL": supernode_linear, "SR": supernode_root, "PL": proportional_linear, "PR": proportional_root}
)


def weights(layout: Layout) -> list[float]:
    each: list[float] = (SLOPE * layout.groups * layout.entry_bytes / layout.flow_lengths).tolist()
    return each


def sum_below(layout: Layout, values: Sequence[float]) -> list[float]:
    """Each table's value and all below it."""
    total = list(values)
    for place in range(len(total) - 1, -1, -1):
        parent = layout.parents[place]
        if parent is not None:
            total[parent] += total[place]
    return total


def divide_by_supernodes(layout: Layout, weight: Sequence[float], memory_bytes: int, prices: Prices) -> Spaces:
    """Supernodes at the top are like queries; each is then divided between its table and the supernodes below."""
    space = [0.0] * len(weight)
    tops = [place for place, parent in enumerate(layout.parents) if parent is None]
    give(space, tops, weight, memory_bytes)
    for place, below in enumerate(layout.children):
        if not below:
            continue
        passed = space_below(space[place], [weight[child] for child in below], layout.is_query[place], prices)
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


def whole_entries(layout: Layout, spaces: Spaces, memory_bytes: int) -> list[int]:
    """Every table gets at least one entry, and no entry more would fit into the memory."""
    if layout.least_bytes > memory_bytes:
        raise ValueError(f"{memory_bytes} bytes do not hold one entry of each of {len(layout.relations)} tables")
    size: list[int] = layout.entry_bytes.tolist()
    # One entry each is set aside first, and only what is wanted beyond it is scaled down.
    wanted = [max(0.0, space / each - 1.0) for space, each in zip(spaces, size, strict=True)]
    total = sum(more * each for more, each in zip(wanted, size, strict=True))
    scale = min(1.0, (memory_bytes - layout.least_bytes) / max(total, 1e-9))
    entries = [1 + int(more * scale) for more in wanted]
    left = memory_bytes - sum(count * each for count, each in zip(entries, size, strict=True))
    for place in sorted(range(len(size)), key=lambda place: entries[place] - wanted[place] * scale):
        more = int(left >= size[place])
        entries[place] += more
        left -= more * size[place]
    narrowest = size.index(min(size))
    entries[narrowest] += left // size[narrowest]
    return entries
