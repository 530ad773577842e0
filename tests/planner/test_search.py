"""The search against the best of all trees on small instances; never dearer than unshared."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks.planner import optimum
from headrace.aggregates.partials import Partial
from headrace.model.expressions import ColumnRef
from headrace.model.types import BIGINT
from headrace.planner.lattice import EVERYTHING, Node
from headrace.planner.search import ArcCost, Effort, search
from headrace.windows import Boundaries

ROWS = 100_000
ATTRIBUTES = [ColumnRef("S", name, BIGINT) for name in "abcde"]


def instance(seed: int, leaves: int) -> tuple[list[Node], ArcCost]:
    """Random group-bys over attributes of random size; the cost of an arc is the parent's rows [NFC IV]."""
    rng = np.random.default_rng(seed)
    sizes = {attribute: float(10 ** rng.uniform(0.5, 3)) for attribute in ATTRIBUTES}
    nodes: list[Node] = []
    while len(nodes) < leaves:
        chosen = frozenset(attribute for attribute in ATTRIBUTES if rng.random() < 0.45)
        node = Node((Boundaries(60, (0,)),), (), frozenset((EVERYTHING,)), chosen, frozenset((Partial("count", ()),)))
        if chosen and node not in nodes:
            nodes.append(node)

    def cost(parent: Node | None, child: Node) -> float:
        if parent is None:
            return float(ROWS)
        product = float(np.prod([sizes[attribute] for attribute in parent.groups if isinstance(attribute, ColumnRef)]))
        return float(product * (1 - np.exp(-ROWS / product)))

    return nodes, cost


@pytest.mark.parametrize("seed", range(12))
def test_small_trees_are_near_the_optimum(seed: int) -> None:
    leaves, cost = instance(seed, 3 + seed % 4)
    best = optimum(leaves, cost)
    found = search(leaves, cost)
    assert best - 1e-6 <= found.cost <= 1.3 * best
    assert found.cost <= ROWS * len(leaves)


def test_the_tree_serves_every_leaf_from_nodes_that_cover_it() -> None:
    leaves, cost = instance(3, 12)
    found = search(leaves, cost, Effort(rounds=3))
    assert set(leaves) <= set(found.nodes)
    total = 0.0
    for node, parent in zip(found.nodes, found.parents, strict=True):
        above = found.nodes[parent] if parent >= 0 else None
        assert above is None or above.covers(node)
        total += cost(above, node)
    assert total == pytest.approx(found.cost)


def test_the_same_seed_gives_the_same_tree() -> None:
    leaves, cost = instance(5, 14)
    assert search(leaves, cost, Effort(seed=4)) == search(leaves, cost, Effort(seed=4))


def test_one_leaf_is_its_own_tree() -> None:
    leaves, cost = instance(1, 1)
    assert search(leaves, cost).parents == (-1,)
