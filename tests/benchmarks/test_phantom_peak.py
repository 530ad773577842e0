"""Limits on the end of an epoch."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.phantoms.choice import greedy_by_rates
from benchmarks.phantoms.model import bytes_of, cost
from benchmarks.phantoms.peak import repair, shift, shrink
from headrace.planner.phantoms.choice import choose
from headrace.planner.phantoms.costs import Prices
from tests.planner.phantoms.instances import PAPER_QUERIES, Instance, instances, paper_sizes

PRICES = Prices()


@given(instances("ABCD", 4), st.floats(0.05, 1.2))
def test_the_limit_is_kept_in_the_same_memory(instance: Instance, part: float) -> None:
    found = greedy_by_rates(instance.queries, instance.sizes, instance.memory_bytes)
    limit = part * cost(found, instance.sizes).end_of_epoch
    for kept in (
        repair(found, instance.sizes, limit),
        shrink(found, instance.sizes, limit, PRICES),
        shift(found, instance.sizes, limit, PRICES),
    ):
        if kept is None:
            continue
        assert cost(kept, instance.sizes).end_of_epoch <= limit
        assert bytes_of(kept, instance.sizes) <= instance.memory_bytes
        assert [(each.attributes, each.parent) for each in kept.tables] == [
            (each.attributes, each.parent) for each in found.tables
        ]
    if part >= 1:
        assert repair(found, instance.sizes, limit) == found


@pytest.mark.parametrize(("percent", "is_shifted"), [(98, True), (95, True), (80, False), (50, False)])
def test_a_small_excess_is_shifted_and_a_large_one_shrunk(percent: int, is_shifted: bool) -> None:
    """Figure 15."""
    sizes = paper_sizes()
    found = greedy_by_rates(PAPER_QUERIES[0], sizes, 400_000)
    limit = percent / 100 * cost(found, sizes).end_of_epoch
    shifted = shift(found, sizes, limit, PRICES)
    assert repair(found, sizes, limit) == (shifted if is_shifted else shrink(found, sizes, limit, PRICES))


def test_a_chosen_configuration_keeps_the_limit() -> None:
    sizes = paper_sizes()
    free = choose(PAPER_QUERIES[1], sizes.groups, 160_000)
    limit = 0.7 * cost(free, sizes).end_of_epoch
    assert cost(repair(free, sizes, limit), sizes).end_of_epoch <= limit


def test_a_limit_below_one_entry_per_table_is_an_error() -> None:
    sizes = paper_sizes()
    with pytest.raises(ValueError, match="below the limit"):
        repair(choose(PAPER_QUERIES[1], sizes.groups, 160_000), sizes, 100.0)


def test_without_phantoms_there_is_nowhere_to_shift_to() -> None:
    sizes = paper_sizes()
    found = choose(["A"], sizes.groups, 160_000)
    assert shift(found, sizes, 1000.0, PRICES) is None
    assert repair(found, sizes, 1000.0).tables[0].entries == 20
