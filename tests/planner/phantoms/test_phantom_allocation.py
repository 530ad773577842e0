"""Dividing memory: whole entries, the paper's optima, and the best division against a grid."""

from __future__ import annotations

from itertools import combinations, islice

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from benchmarks.phantoms.exhaustive import ALLOCATIONS, all_trees, best_entries
from headrace.planner.phantoms.allocation import supernode_linear, whole_entries
from headrace.planner.phantoms.collisions import SLOPE
from headrace.planner.phantoms.costs import Prices, maintenance
from headrace.planner.phantoms.relations import feeding_graph
from headrace.planner.phantoms.table_tree import Sizes, TableTree, build_tree
from tests.planner.phantoms.instances import PAPER_UNITS, Instance, instances, paper_sizes, relation

PRICES = Prices()


def some_tree(instance: Instance, data: st.DataObject) -> TableTree:
    """One of the first trees over the instance's feeding graph, as large as its memory holds."""
    trees = [
        tree
        for tree in islice(all_trees(instance.queries, instance.sizes), 40)
        if tree.min_bytes <= instance.memory_bytes
    ]
    assume(trees)
    return data.draw(st.sampled_from(trees))


@given(instances("ABCD", 4, longest_flow=9.0), st.data())
def test_memory_is_used_up_and_never_more(instance: Instance, data: st.DataObject) -> None:
    tree = some_tree(instance, data)
    for allocate in ALLOCATIONS.values():
        spaces = allocate(tree, instance.memory_bytes, PRICES)
        assert sum(spaces) == pytest.approx(instance.memory_bytes)
        entries = whole_entries(tree, spaces, instance.memory_bytes)
        left = instance.memory_bytes - int(np.array(entries) @ tree.entry_bytes)
        assert min(entries) >= 1
        assert 0 <= left < tree.entry_bytes.min()


@given(st.lists(st.floats(0, 1e6), min_size=3, max_size=3), st.integers(72, 10_000))
def test_every_table_gets_an_entry_whatever_is_asked(spaces: list[float], memory_bytes: int) -> None:
    tree = build_tree(feeding_graph(["A", "BC", "CD"]), [], paper_sizes())
    entries = whole_entries(tree, spaces, memory_bytes)
    left = memory_bytes - int(np.array(entries) @ tree.entry_bytes)
    assert min(entries) >= 1
    assert 0 <= left < 8


def test_too_little_memory_is_an_error() -> None:
    tree = build_tree(feeding_graph(["A", "B"]), [], paper_sizes())
    with pytest.raises(ValueError, match="do not hold one entry"):
        whole_entries(tree, [8.0, 7.0], 15)


def test_queries_alone_share_by_the_root_of_their_groups() -> None:
    sizes = Sizes({relation("A"): 100, relation("B"): 400}, attribute_bytes=4, aggregate_bytes=4)
    tree = build_tree(feeding_graph(["A", "B"]), [], sizes)
    assert supernode_linear(tree, 3000, PRICES) == pytest.approx([1000, 2000])


def test_one_phantom_over_all_queries_takes_what_the_paper_says() -> None:
    sizes = paper_sizes()
    tree = build_tree(feeding_graph(["A", "B", "C", "D"]), [relation("ABCD")], sizes)
    # Equation 21 has one unit of space per entry: here an entry of each table has its own bytes.
    memory, root = 160_000, 4 * np.sqrt(SLOPE * 552 * 8)
    below = memory * root / (root + np.sqrt(root**2 + 4 * memory / 50))
    found = supernode_linear(tree, memory, PRICES)
    assert found[0] == pytest.approx(memory - below)
    assert found[0] > memory / 2
    assert found[1:] == pytest.approx([below / 4] * 4)


def line_cost(tree: TableTree, spaces: np.ndarray[tuple[int, ...], np.dtype[np.float64]]) -> float:
    rates = SLOPE * tree.groups * tree.entry_bytes / spaces
    return float(1 + rates[0] * (len(spaces) - 1) + 50 * rates[0] * rates[1:].sum())


@given(st.lists(st.floats(50, 5000), min_size=2, max_size=4), st.integers(0, 1000))
def test_with_rates_on_a_line_no_division_of_two_levels_is_cheaper(groups: list[float], seed: int) -> None:
    names = "ABCD"[: len(groups)]
    known = {relation(name): count for name, count in zip(names, groups, strict=True)} | {relation(names): 6000.0}
    tree = build_tree(feeding_graph(list(names)), [relation(names)], Sizes(known))
    found = np.array(supernode_linear(tree, 400_000, PRICES))
    others = np.random.default_rng(seed).dirichlet(np.ones(len(found)), 50) * 400_000
    near = found * np.random.default_rng(seed).uniform(0.9, 1.1, (50, len(found)))
    near *= 400_000 / near.sum(axis=1, keepdims=True)
    least = min(line_cost(tree, spaces) for spaces in np.concatenate([others, near]))
    assert line_cost(tree, found) <= least * (1 + 1e-9)


@settings(max_examples=40)
@given(instances("ABCD", 4, longest_flow=5.0), st.data())
def test_no_closed_form_is_cheaper_than_the_best_division(instance: Instance, data: st.DataObject) -> None:
    tree = some_tree(instance, data)
    least = float(maintenance(tree, best_entries(tree, instance.memory_bytes, PRICES), PRICES))
    for allocate in ALLOCATIONS.values():
        entries = whole_entries(tree, allocate(tree, instance.memory_bytes, PRICES), instance.memory_bytes)
        assert least <= float(maintenance(tree, entries, PRICES))


def best_on_grid(tree: TableTree, memory_bytes: int, prices: Prices, steps: int = 100) -> float:
    """Return the least cost where every table's space is a whole number of steps, by trying all: for up to 4 tables."""
    count = len(tree.relations)
    cuts = np.array(list(combinations(range(1, steps), count - 1)), dtype=np.float64)
    ends = np.pad(cuts, ((0, 0), (0, 1)), constant_values=steps)
    shares = np.diff(ends, axis=1, prepend=0.0) / steps
    return float(maintenance(tree, shares * memory_bytes / tree.entry_bytes, prices).min())


@settings(max_examples=30)
@given(instances("ABC", 3), st.data())
def test_the_best_division_is_that_of_a_grid_of_one_percent(instance: Instance, data: st.DataObject) -> None:
    tree = some_tree(instance, data)
    assume(len(tree.relations) <= 4)
    # The grid divides single entries too.
    assume(instance.memory_bytes >= 1000 * tree.entry_bytes.max())
    least = float(maintenance(tree, best_entries(tree, instance.memory_bytes, PRICES), PRICES))
    assert least <= best_on_grid(tree, instance.memory_bytes, PRICES) * 1.01


@pytest.mark.parametrize("units", PAPER_UNITS)
def test_sl_is_near_the_best_division_of_the_papers_trees(units: int) -> None:
    """Figures 9 and 10: less than a fifth off, and better than PL, which is up to a third off."""
    off: dict[str, list[float]] = {name: [] for name in ALLOCATIONS}
    for queries, phantoms in (("AB BC BD CD", "ABCD BCD"), ("AB BC BD CD", "ABCD ABC BCD"), ("A B C D", "ABCD AB CD")):
        tree = build_tree(feeding_graph(queries.split()), [relation(name) for name in phantoms.split()], paper_sizes())
        least = float(maintenance(tree, best_entries(tree, 4 * units, PRICES), PRICES))
        for name, allocate in ALLOCATIONS.items():
            entries = whole_entries(tree, allocate(tree, 4 * units, PRICES), 4 * units)
            off[name].append(float(maintenance(tree, entries, PRICES)) / least - 1)
    mean = {name: np.mean(errors) for name, errors in off.items()}
    assert max(off["SL"]) < 0.2
    assert mean["SL"] < mean["PL"]
