"""Chosen configurations against the best there are, and against the paper's instances."""

from __future__ import annotations

import random
import time
from dataclasses import replace

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from benchmarks.phantoms.choice import greedy_by_rates, greedy_by_space
from benchmarks.phantoms.exhaustive import best_configuration
from benchmarks.phantoms.model import bytes_of, cost
from headrace.planner.phantoms.choice import choose
from headrace.planner.phantoms.configuration import Configuration
from headrace.planner.phantoms.costs import Prices
from headrace.planner.phantoms.relations import feeding_graph
from headrace.planner.phantoms.table_tree import Sizes
from tests.planner.phantoms.instances import (
    PAPER_QUERIES,
    PAPER_UNITS,
    Instance,
    instances,
    paper_sizes,
    relation,
)


def chosen(instance: Instance) -> Configuration:
    sizes = instance.sizes
    return choose(
        instance.queries,
        sizes.groups,
        instance.memory_bytes,
        sizes.flow_length,
        attribute_bytes=sizes.attribute_bytes,
        aggregate_bytes=sizes.aggregate_bytes,
    )


@given(instances("ABCD", 5, longest_flow=20.0))
def test_a_configuration_is_a_tree_over_the_feeding_graph_that_holds_every_query(instance: Instance) -> None:
    graph = feeding_graph(instance.queries)
    narrowest = min(instance.sizes.entry_bytes(each) for each in graph.relations)
    for found in (
        chosen(instance),
        greedy_by_rates(instance.queries, instance.sizes, instance.memory_bytes),
        greedy_by_space(instance.queries, instance.sizes, instance.memory_bytes),
    ):
        relations = [table.attributes for table in found.tables]
        assert len(relations) == len(set(relations))
        assert {table.attributes for table in found.tables if table.is_query} == set(instance.queries)
        assert {found.tables[place].attributes for place in found.phantoms} <= set(graph.phantoms)
        assert all(found.children(place) for place in found.phantoms)
        used = bytes_of(found, instance.sizes)
        widest = max(instance.sizes.entry_bytes(each) for each in relations)
        assert instance.memory_bytes - max(narrowest, widest) < used <= instance.memory_bytes


@given(instances("ABCD", 4, longest_flow=20.0), st.sampled_from([0.5, 1.0, 2.0]))
def test_it_costs_no_more_than_either_greedy_way_or_queries_alone(instance: Instance, per_group: float) -> None:
    paid = cost(chosen(instance), instance.sizes).maintenance
    ways = [
        greedy_by_rates(instance.queries, instance.sizes, instance.memory_bytes),
        greedy_by_space(instance.queries, instance.sizes, instance.memory_bytes),
    ]
    assert all(paid <= cost(way, instance.sizes).maintenance * (1 + 1e-9) for way in ways)
    alone = {query: instance.sizes.groups[query] for query in instance.queries}
    known = replace(instance.sizes, groups=alone)
    bare = greedy_by_rates(instance.queries, known, instance.memory_bytes)
    assert paid <= cost(bare, instance.sizes).maintenance * (1 + 1e-9)
    other = greedy_by_space(instance.queries, instance.sizes, instance.memory_bytes, entries_per_group=per_group)
    assert paid <= cost(other, instance.sizes).maintenance * 1.1


@settings(max_examples=40, suppress_health_check=[HealthCheck.too_slow])
@given(instances("ABC", 3))
def test_near_the_best_of_all_configurations(instance: Instance) -> None:
    least = cost(best_configuration(instance.queries, instance.sizes, instance.memory_bytes), instance.sizes)
    greedy = cost(greedy_by_rates(instance.queries, instance.sizes, instance.memory_bytes), instance.sizes)
    by_space = cost(greedy_by_space(instance.queries, instance.sizes, instance.memory_bytes), instance.sizes)
    best = cost(chosen(instance), instance.sizes)
    assert greedy.maintenance <= least.maintenance * 1.5
    # With little memory GC is above GS in about one of a hundred instances, by up to 6 %: hence `choose` asks both.
    assert greedy.maintenance <= by_space.maintenance * 1.1
    assert best.maintenance <= by_space.maintenance
    assert best.maintenance <= least.maintenance * 1.2


def test_gc_with_sl_is_mostly_within_a_fifth_of_the_best() -> None:
    rng, near = random.Random(11), 0
    for _ in range(15):
        groups, most = {}, 10 ** rng.uniform(2.8, 4)
        values = {name: 10 ** rng.uniform(1.5, 3) for name in "ABC"}
        for each in feeding_graph(["A", "B", "C"]).relations:
            size = 1.0
            for name in each:
                size *= values[name]
            groups[each] = most * size / (most + size)
        sizes = Sizes(groups)
        memory_bytes = int(sum(groups[relation(name)] for name in "ABC") * 16 * 10 ** rng.uniform(-0.3, 1))
        least = cost(best_configuration("ABC", sizes, memory_bytes), sizes).maintenance
        near += cost(greedy_by_rates("ABC", sizes, memory_bytes), sizes).maintenance <= 1.2 * least
    assert near >= 13


@pytest.mark.parametrize("queries", PAPER_QUERIES)
@pytest.mark.parametrize("units", PAPER_UNITS)
def test_phantoms_pay_on_the_papers_instances(queries: tuple[str, ...], units: int) -> None:
    sizes = paper_sizes()
    found = choose(queries, sizes.groups, 4 * units, attribute_bytes=4, aggregate_bytes=4)
    alone = Sizes({frozenset(query): sizes.groups[frozenset(query)] for query in queries}, 1.0, 4, 4)
    bare = cost(greedy_by_rates(queries, alone, 4 * units), sizes).maintenance
    paid = cost(found, sizes).maintenance
    assert found.phantoms
    assert paid < bare
    for per_group in (0.6, 0.8, 1.0, 1.2, 1.5, 2.0, 3.0):
        way = greedy_by_space(queries, sizes, 4 * units, entries_per_group=per_group)
        assert paid <= cost(way, sizes).maintenance


def test_the_best_of_the_papers_instances_is_not_far() -> None:
    sizes = paper_sizes()
    for units in PAPER_UNITS:
        least = best_configuration(PAPER_QUERIES[1], sizes, 4 * units)
        found = choose(PAPER_QUERIES[1], sizes.groups, 4 * units, attribute_bytes=4, aggregate_bytes=4)
        assert cost(found, sizes).maintenance <= 1.15 * cost(least, sizes).maintenance


@pytest.mark.parametrize("queries", PAPER_QUERIES)
def test_choosing_takes_milliseconds(queries: tuple[str, ...]) -> None:
    """Of processor time, the least of several runs: others may use the machine."""
    sizes, taken = paper_sizes(), []
    for _ in range(8):
        start = time.process_time()
        choose(queries, sizes.groups, 240_000, attribute_bytes=4, aggregate_bytes=4)
        taken.append(time.process_time() - start)
    assert min(taken) < 0.025


def test_a_phantom_that_does_not_pay_is_not_taken() -> None:
    # Every record is another group of AB, so the phantom passes all of them on.
    groups = {relation("A"): 10.0, relation("B"): 10.0, relation("AB"): 1e9}
    assert choose("AB", groups, 100_000).phantoms == ()


def test_equal_sizes_give_equal_configurations() -> None:
    sizes = paper_sizes()
    backwards = dict(reversed(list(sizes.groups.items())))
    assert choose("ABCD", sizes.groups, 200_000) == choose("DCBA", backwards, 200_000)


def test_memory_below_an_entry_per_query_is_an_error() -> None:
    with pytest.raises(ValueError, match="do not hold one entry"):
        choose("ABCD", paper_sizes().groups, 63)
    with pytest.raises(ValueError, match="do not hold one entry"):
        best_configuration("AB", paper_sizes(), 15, Prices(), most_phantoms=0)


def test_little_memory_leaves_no_room_for_phantoms() -> None:
    found = choose("ABCD", paper_sizes().groups, 64)
    assert [table.entries for table in found.tables] == [1, 1, 1, 1]
