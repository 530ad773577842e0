"""Covering by bits says what covering by parts says."""

from __future__ import annotations

from itertools import product

from hypothesis import given
from hypothesis import strategies as st

from headrace.planner.coverage import Coverage
from headrace.planner.lattice import union
from headrace.planner.search import Graph, mix_unions
from tests.planner.test_lattice import node, queries


@given(st.lists(queries, min_size=2, max_size=5), st.data())
def test_bits_and_parts_agree(texts: list[str], data: st.DataObject) -> None:
    leaves = [node(query) for query in texts]
    subsets = st.lists(st.sampled_from(leaves), min_size=1, max_size=4)
    unions = [union(members) for members in data.draw(st.lists(subsets, max_size=4))]
    graph = Graph(leaves, lambda parent, child: 1.0)
    nodes = list(dict.fromkeys([*leaves, *unions, *mix_unions(unions, [*leaves, *unions], graph)]))
    coverage = Coverage(leaves)
    profiles = {each: coverage.profile(each) for each in nodes}
    for parent, child in product(nodes, nodes):
        assert coverage.covers(profiles[parent], profiles[child]) == parent.covers(child)
