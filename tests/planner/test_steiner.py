"""Trees on small graphs, compared with the best of all node sets."""

from __future__ import annotations

from itertools import chain, combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.planner.steiner import Costs, best_tree, dual_ascent, steiner_tree


def graph(size: int, seed: int) -> Costs:
    """A random acyclic graph in which node 0 reaches every other."""
    rng = np.random.default_rng(seed)
    cost = rng.integers(1, 20, (size, size)).astype(np.float64)
    cost[np.tril_indices(size)] = np.inf
    missing = rng.random((size, size)) < 0.3
    missing[0] = False
    cost[missing] = np.inf
    return cost


def optimum(cost: Costs, terminals: list[int]) -> float:
    others = [node for node in range(1, len(cost)) if node not in terminals]
    subsets = chain.from_iterable(combinations(others, count) for count in range(len(others) + 1))
    return min(best_tree(cost, 0, np.isin(np.arange(len(cost)), [0, *terminals, *subset])).cost for subset in subsets)


@given(st.integers(3, 9), st.integers(0, 10_000), st.data())
def test_trees_are_near_the_optimum_and_span_the_terminals(size: int, seed: int, data: st.DataObject) -> None:
    cost = graph(size, seed)
    terminals = sorted(data.draw(st.sets(st.integers(1, size - 1), min_size=1)))
    tree = steiner_tree(cost, 0, terminals)
    best = optimum(cost, terminals)
    assert dual_ascent(cost, 0, terminals).paid - 1e-9 <= best <= tree.cost + 1e-9
    assert tree.cost <= best * 1.5 + 1e-9
    for terminal in terminals:
        node, steps = terminal, 0
        while node != 0:
            node, steps = int(tree.parent[node]), steps + 1
            assert node >= 0
            assert steps <= size


@given(st.integers(3, 9), st.integers(0, 10_000))
def test_arcs_that_are_paid_lead_to_every_terminal(size: int, seed: int) -> None:
    cost = graph(size, seed)
    arcs = dual_ascent(cost, 0, list(range(1, size))).saturated
    reached = {0}
    while True:
        more = {int(v) for u in reached for v in np.flatnonzero(arcs[u])} - reached
        if not more:
            break
        reached |= more
    assert reached == set(range(size))
    assert not (arcs & ~np.isfinite(cost)).any()


def test_a_terminal_out_of_reach_is_an_error() -> None:
    with pytest.raises(ValueError, match="does not cover"):
        steiner_tree(np.full((2, 2), np.inf), 0, [1])


def test_a_shared_node_is_taken_in_only_if_it_pays() -> None:
    # 0 -> 1 (cost 10), 1 -> 2, 3, 4 (1 each), 0 -> 2, 3, 4 directly
    cost = np.full((5, 5), np.inf)
    cost[0, 1:] = [10, 5, 5, 5]
    cost[1, 2:] = 1
    assert steiner_tree(cost, 0, [2, 3, 4]).cost == 13
    assert steiner_tree(cost, 0, [2, 3]).cost == 10
