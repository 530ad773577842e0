"""The best of all trees, for a few leaves: what the search is measured against."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from itertools import combinations

import numpy as np

from headrace.planner.lattice import Node, union
from headrace.planner.plan import STREAM
from headrace.planner.search import ArcCost, Graph


def optimum(leaves: Sequence[Node], cost: ArcCost) -> float:
    """The least cost of a tree whose inner nodes are unions of leaves, with two or more children, or leaves themselves.

    Sets of leaves are bit masks. `below(u, set)` is the least cost of all that serves `set` below u: the child that
    serves the lowest leaf of the set is tried in all ways, and the rest is the same problem again.
    """
    graph = Graph(leaves, cost)
    sets = [members for size in range(2, len(leaves) + 1) for members in combinations(range(len(leaves)), size)]
    unions = dict.fromkeys(union([leaves[place] for place in members]) for members in sets)
    nodes = [graph.place(node) for node in dict.fromkeys([*leaves, *unions])] + [STREAM]

    @cache
    def serve(place: int, members: int) -> float:
        """One child of node `place` that serves all `members`: one of them, or a union."""
        costs = []
        for child, node in enumerate(nodes[:-1]):
            arc = graph.arc(nodes[place], node)
            if child < len(leaves) and members >> child & 1:
                costs.append(arc + below(child, members ^ (1 << child), False) if np.isfinite(arc) else np.inf)
            elif child >= len(leaves) and members.bit_count() > 1 and np.isfinite(arc):
                costs.append(arc + below(child, members, True))
        return min(costs)

    @cache
    def below(place: int, members: int, at_least_two: bool) -> float:
        if members == 0:
            return 0.0
        lowest = members & -members
        rest, best = members ^ lowest, float("inf")
        part = rest
        while True:
            chosen = lowest | part
            if not (at_least_two and chosen == members):
                first = serve(place, chosen)
                if first < best:
                    best = min(best, first + below(place, members ^ chosen, False))
            if part == 0:
                return best
            part = (part - 1) & rest

    return float(below(len(nodes) - 1, (1 << len(leaves)) - 1, False))
