"""Directed Steiner trees over a graph of nodes that cover each other.

`cost[u, v]` is the cost of computing v from u, infinite where u does not cover v. Covering is an order, so the graph
has no cycles, and for a given set of nodes the best tree is plain: each node takes its cheapest parent. What is left to
find is the set, by dual ascent [Wong 1984] and by dropping what does not pay.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Costs = npt.NDArray[np.float64]
Mask = npt.NDArray[np.bool_]
TINY = 1e-12


@dataclass(frozen=True, eq=False)
class Tree:
    """`parent[v]` is the node that v is computed from; -1 for the root and for nodes that are not in the tree."""

    parent: npt.NDArray[np.intp]
    cost: float


def steiner_tree(cost: Costs, root: int, terminals: Sequence[int]) -> Tree:
    """A low-cost tree from the root to all terminals."""
    useful = on_paths(saturated_arcs(cost, root, terminals), root, terminals)
    chosen = {root, *terminals, *np.flatnonzero(useful).tolist()}
    return improve(cost, root, set(terminals), chosen)


def saturated_arcs(cost: Costs, root: int, terminals: Sequence[int]) -> Mask:
    """Dual ascent: raise the price of reaching each terminal until arcs paid in full lead there from the root."""
    reduced = cost.copy()
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
        waiting.append(waiting.pop(0))
    return reduced <= TINY


def reaching(arcs: Mask, target: int) -> Mask:
    """The nodes from which `target` can be reached."""
    found = np.zeros(len(arcs), dtype=np.bool_)
    found[target] = True
    frontier = [target]
    while frontier:
        sources = arcs[:, frontier].any(axis=1) & ~found
        found |= sources
        frontier = np.flatnonzero(sources).tolist()
    return found


def on_paths(arcs: Mask, root: int, terminals: Iterable[int]) -> Mask:
    """The nodes on some way from the root to a terminal."""
    from_root = reaching(arcs.T, root)
    to_terminal = np.zeros(len(arcs), dtype=np.bool_)
    for terminal in terminals:
        to_terminal |= reaching(arcs, terminal)
    return from_root & to_terminal


def best_tree(cost: Costs, root: int, chosen: set[int]) -> Tree:
    """Each chosen node computed from its cheapest chosen parent."""
    members = np.array(sorted(chosen), dtype=np.intp)
    inner = cost[np.ix_(members, members)].copy()
    np.fill_diagonal(inner, np.inf)
    parent = np.full(len(cost), -1, dtype=np.intp)
    best = inner.argmin(axis=0)
    total = 0.0
    for place, node in enumerate(members.tolist()):
        if node != root:
            parent[node] = members[best[place]]
            total += float(inner[best[place], place])
    return Tree(parent, total)


def improve(cost: Costs, root: int, terminals: set[int], chosen: set[int]) -> Tree:
    """Drop nodes and take others in, one at a time, as long as the tree gets cheaper."""
    tree = best_tree(cost, root, chosen)
    while True:
        moves = [chosen - {node} for node in chosen - terminals - {root}]
        moves += [chosen | {node} for node in set(range(len(cost))) - chosen]
        candidates = [(best_tree(cost, root, move), move) for move in moves]
        better = min(candidates, key=lambda candidate: candidate[0].cost, default=None)
        if better is None or better[0].cost >= tree.cost - TINY:
            return tree
        tree, chosen = better
