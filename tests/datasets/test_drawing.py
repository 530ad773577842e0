from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from headrace.datasets.arrivals import Arrivals
from headrace.datasets.random_values import SLOTS, Weighted, format_addresses, generator, hosts, partition, sample

seeds = st.integers(0, 1 << 32)


@given(st.lists(st.floats(1e-6, 1e6), min_size=1, max_size=200))
def test_weighted_gives_each_outcome_its_share(weights: list[float]) -> None:
    slots = np.bincount(Weighted.by(weights).slots, minlength=len(weights))
    assert slots.sum() == SLOTS
    assert slots.min() >= 1
    assert np.abs(slots / SLOTS - np.array(weights) / sum(weights)).max() < 2e-6 * (1 + len(weights))


@given(seeds, st.integers(1, 500), st.integers(0, 5_000))
def test_partition_adds_up(seed: int, parts: int, extra: int) -> None:
    sizes = partition(generator(seed), parts + extra, parts)
    assert (len(sizes), sizes.sum()) == (parts, parts + extra)
    assert sizes.min() >= 1


@given(seeds, st.integers(1, 300), st.data())
def test_sample_has_no_repeats(seed: int, population: int, data: st.DataObject) -> None:
    size = data.draw(st.integers(0, population))
    drawn = sample(generator(seed), population, size)
    assert len(set(drawn.tolist())) == len(drawn) == size
    assert all(0 <= number < population for number in drawn)


def test_hosts_are_different_addresses() -> None:
    addresses = format_addresses(hosts(generator(1), 30_000)).to_pylist()
    assert len(set(addresses)) == 30_000
    for address in addresses:
        first, *_, last = (int(quarter) for quarter in address.split("."))
        assert 11 <= first <= 126
        assert 1 <= last <= 254


@given(seeds, st.integers(1, 100_000_000), st.integers(1, 3_000), st.data())
def test_arrivals_ascend_within_the_span_and_can_be_cut_anywhere(
    seed: int, span_us: int, rows: int, data: st.DataObject
) -> None:
    arrivals = Arrivals.over(1_000, span_us, rows, generator(seed))
    times = arrivals.times_us(0, rows, generator(seed, 1))
    assert np.all(np.diff(times) >= 0)
    assert 1_000 <= times[0] <= times[-1] < 1_000 + span_us
    cut = data.draw(st.integers(0, rows))
    rng = generator(seed, 1)
    assert np.array_equal(np.concatenate([arrivals.times_us(0, cut, rng), arrivals.times_us(cut, rows, rng)]), times)
