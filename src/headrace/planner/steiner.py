"""Directed Steiner trees over a graph of nodes that cover each other.

`cost[u, v]` is the cost of computing v from u, infinite where u does not cover v. Covering is an order, so the graph
has no cycles, and for a given set of nodes the best tree is plain: each node takes its cheapest parent. What is left to
find is the set, by dual ascent [Wong 1984] and by dropping what does not pay.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from headrace.model.arrays import Mask

Costs = npt.NDArray[np.float64]
TINY = 1e-12
"""Differences below this part of the most expensive arc are only rounding."""


@dataclass(frozen=True, eq=False)
class Tree:
    """`parent[v]` is the node that v is computed from; -1 for the root and for nodes that are not in the tree."""

    parent: npt.NDArray[np.intp]
    cost: float


def steiner_tree(cost: Costs, root: int, terminals: Sequence[int]) -> Tree:
    """A low-cost tree from the root to all terminals: the best of those reached from the nodes on arcs paid in full,
    from none, and from all.
    """
    useful = on_paths(dual_ascent(cost, root, terminals).saturated, root, terminals)
    starts = useful, np.zeros_like(useful), np.ones_like(useful)
    return min((improve(cost, root, terminals, start) for start in starts), key=lambda tree: tree.cost)


class Ascent(NamedTuple):
    """The arcs paid in full, and what was paid: no tree costs less."""

    saturated: Mask
    paid: float


def dual_ascent(cost: Costs, root: int, terminals: Sequence[int]) -> Ascent:
    """Raise the price of reaching each terminal until arcs paid in full lead there from the root [Wong 1984]."""
    unit, paid = largest(cost), 0.0
    reduced = cost / unit
    np.fill_diagonal(reduced, np.inf)
    waiting = list(terminals)
    while waiting:
        terminal = waiting[0]
        cut = reaching(reduced <= TINY, terminal)
        if cut[root]:
            waiting.pop(0)
            continue
        entering = np.ix_(~cut, cut)
        raised = reduced[entering]
        step = raised.min(initial=np.inf)
        if not np.isfinite(step):
            raise ValueError("the root does not cover every terminal")
        reduced[entering] = raised - step
        paid += step
        waiting.append(waiting.pop(0))
    return Ascent(reduced <= TINY, paid * unit)


def largest(cost: Costs) -> float:
    return float(cost.max(initial=0.0, where=np.isfinite(cost))) or 1.0


def reaching(arcs: Mask, target: int) -> Mask:
    """The nodes from which `target` can be reached."""
    reached = np.zeros(len(arcs), dtype=np.bool_)
    reached[target] = True
    frontier = [target]
    while frontier:
        sources = arcs[:, frontier].any(axis=1) & ~reached
        reached |= sources
        frontier = np.flatnonzero(sources).tolist()
    return reached


def on_paths(arcs: Mask, root: int, terminals: Iterable[int]) -> Mask:
    """The nodes on some way from the root to a terminal."""
    from_root = reaching(arcs.T, root)
    to_terminal = np.zeros(len(arcs), dtype=np.bool_)
    for terminal in terminals:
        to_terminal |= reaching(arcs, terminal)
    return from_root & to_terminal


def best_tree(cost: Costs, root: int, chosen: Mask) -> Tree:
    """Each chosen node computed from its cheapest chosen parent."""
    members = np.flatnonzero(chosen)
    inner = cost[np.ix_(members, members)]
    best = inner.argmin(axis=0)
    parent = np.full(len(cost), -1, dtype=np.intp)
    parent[members] = members[best]
    parent[root] = -1
    paid = inner[best, np.arange(len(members))]
    return Tree(parent, float(paid[members != root].sum()))


def improve(cost: Costs, root: int, terminals: Sequence[int], chosen: Mask) -> Tree:
    """Drop nodes and take others in, one at a time, as long as the tree gets cheaper."""
    needed = np.zeros(len(cost), dtype=np.bool_)
    needed[[root, *terminals]] = True
    arcs = cost.copy()
    np.fill_diagonal(arcs, np.inf)
    sources = np.flatnonzero(np.isfinite(arcs).any(axis=1))
    chosen = chosen | needed
    least = TINY * len(arcs) * largest(arcs)
    while True:
        gain = gains(arcs[sources], sources, root, chosen)
        gain[needed] = -np.inf
        best = int(gain.argmax())
        if not gain[best] > least:
            return best_tree(arcs, root, chosen)
        chosen[best] = not chosen[best]


def gains(arcs: Costs, sources: npt.NDArray[np.intp], root: int, chosen: Mask) -> Costs:
    """How much cheaper the tree gets when one node joins or leaves the chosen ones, for every node.

    `arcs` are those from `sources`, the nodes that cover some other.
    """
    places = np.arange(len(chosen))
    parents = np.where(chosen[sources, None], arcs, np.inf)
    first = parents.argmin(axis=0)
    paid = parents[first, places]
    children = chosen.copy()
    children[root] = False
    saved, extra = np.zeros(len(chosen)), np.zeros(len(chosen))
    saved[sources] = np.maximum(paid[children] - arcs[:, children], 0.0).sum(axis=1)
    parents[first, places] = np.inf
    second = parents.min(axis=0)
    np.add.at(extra, sources[first[children]], second[children] - paid[children])
    leaving = np.where(children, paid, 0.0) - extra
    return np.where(chosen, leaving, saved - paid)
