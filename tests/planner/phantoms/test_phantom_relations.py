"""Feeding graphs, and the trees over them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.planner.phantoms.configuration import Configuration
from headrace.planner.phantoms.relations import feeding_graph, is_union, unions
from headrace.planner.phantoms.table_tree import build_tree
from tests.planner.phantoms.instances import Instance, instances, paper_sizes, relation

NAMES = st.sets(st.sets(st.sampled_from("ABCDE"), min_size=1).map(frozenset), min_size=1, max_size=5)


def names(relations: tuple[frozenset[str], ...]) -> list[str]:
    return ["".join(sorted(each)) for each in relations]


def test_the_graph_of_the_paper() -> None:
    # Figure 4: the queries AB, BC, BD and CD.
    graph = feeding_graph(["AB", "BC", "BD", "CD"])
    assert names(graph.phantoms) == ["ABCD", "ABC", "ABD", "BCD"]


def test_only_known_relations_are_phantoms() -> None:
    graph = feeding_graph(["A", "B", "C"], [relation("AB"), relation("ABD"), relation("A")])
    assert names(graph.phantoms) == ["AB"]


def test_a_query_may_feed_another() -> None:
    graph = feeding_graph(["AB", "A"])
    assert graph.phantoms == ()
    tree = build_tree(graph, [], paper_sizes())
    assert tree.parents == (None, 0)


@pytest.mark.parametrize("queries", [[], ["A", ""]])
def test_queries_group_by_something(queries: list[str]) -> None:
    with pytest.raises(ValueError, match="at least one attribute"):
        feeding_graph(queries)


@given(NAMES)
def test_all_unions_are_found_and_nothing_else(queries: set[frozenset[str]]) -> None:
    graph = feeding_graph(queries)
    everything = frozenset[str]().union(*queries)
    assert set(graph.relations) == unions(queries)
    assert everything in graph.relations
    assert all(is_union(phantom, queries) for phantom in graph.phantoms)
    order = {each: place for place, each in enumerate(graph.relations)}
    assert all(order[parent] < order[child] for parent in order for child in order if parent > child)


@given(instances("ABCD", 4), st.data())
def test_a_tree_that_holds_every_query(instance: Instance, data: st.DataObject) -> None:
    graph = feeding_graph(instance.queries)
    picked = data.draw(st.sets(st.sampled_from(graph.phantoms))) if graph.phantoms else set()
    tree = build_tree(graph, picked, instance.sizes)
    assert isinstance(tree.with_entries([1] * len(tree.relations)), Configuration)
    assert set(tree.relations) == graph.queries | picked
    assert tree.phantoms == picked
    for place, parent in enumerate(tree.parents):
        larger = [other for other in tree.relations if tree.relations[place] < other]
        assert (parent is None) == (not larger)
        if parent is not None:
            assert tree.groups[parent] == min(instance.sizes.groups_of(other) for other in larger)
