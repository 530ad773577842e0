"""Rates of the models, against the paper's numbers and against a table that is really hashed into."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.phantoms.model import crowded_rates
from benchmarks.phantoms.rates import low_rate, rough
from headrace.planner.phantoms.collisions import (
    Numbers,
    at_least_one,
    clustered_rates,
    log_missed,
    precise,
    precise_slope,
)
from tests.planner.phantoms.simulation import Places, evictions

GROUPS = st.floats(1, 1e6)
BUCKETS = st.integers(1, 1_000_000)
MIN_TERMS = 10
"""At less than one group per bucket five deviations above the mean are two or three groups, and cut off too much."""


def precise_by_terms(groups: npt.ArrayLike, buckets: npt.ArrayLike, deviations: float = 5.0) -> Numbers:
    """Add up the terms, up to a number of standard deviations above the mean number of groups in a bucket [GS 4.4].

    This also shows how good the paper's cut-off is.
    """
    found, places = np.broadcast_arrays(at_least_one(groups), at_least_one(buckets))
    mean = found / places
    last = np.ceil(mean + deviations * np.sqrt(mean * (1.0 - 1.0 / places)))
    last = np.minimum(found, np.maximum(last, MIN_TERMS))
    k = np.arange(1, int(last.max()) + 1, dtype=np.float64).reshape(-1, *(1,) * found.ndim)
    with np.errstate(divide="ignore"):
        steps = np.log(np.maximum(found - k + 1.0, 0.0) / k) - np.log(np.maximum(places - 1.0, 1e-12))
    likelihood = np.exp(found * log_missed(places) + np.cumsum(steps, axis=0))
    terms = np.where(k <= last, likelihood * (k - 1.0), 0.0)
    # All groups are in the only bucket: one term, of which the logarithm of what is left over says nothing.
    return np.where(places > 1.0, terms.sum(axis=0) / mean, 1.0 - 1.0 / found)


def test_rates_the_paper_states() -> None:
    assert precise(1000, 1000) == pytest.approx(0.37, abs=0.005)  # [GS 4.4]: one entry per group
    assert rough(3000, 1000) == pytest.approx(2 / 3)
    assert low_rate(500, 1000) == pytest.approx(0.0267 + 0.354 / 2)


def test_the_rate_hardly_depends_on_more_than_groups_per_bucket() -> None:
    # Table 1 of the paper: less than 1.5 % between 300 and 3000 buckets.
    buckets = np.linspace(300, 3000, 28)
    for load in (0.25, 0.5, 1, 2, 4, 8, 16, 32):
        rates = precise(load * buckets, buckets)
        assert rates.max() / rates.min() < 1.015


def test_the_line_of_low_rates_is_off_by_a_twentieth_on_average() -> None:
    load = np.linspace(0.1, 1.1, 200)
    rates = precise(load * 1000, 1000)
    assert rates.max() < 0.4
    assert np.mean(np.abs(low_rate(load * 1000, 1000) / rates - 1)) < 0.06


def test_the_rough_model_is_too_low_and_gets_close_where_groups_are_many() -> None:
    load = np.array([0.5, 1, 2, 4, 8, 16])
    gap = precise(load * 500, 500) - rough(load * 500, 500)
    assert (gap > 0).all()
    assert gap[-1] < 1e-6


@given(st.integers(1, 20_000), st.integers(1, 5_000))
def test_the_sum_of_the_paper_is_the_closed_form(groups: int, buckets: int) -> None:
    every = precise_by_terms(groups, buckets, deviations=12.0)
    assert every == pytest.approx(float(precise(groups, buckets)), rel=1e-6, abs=1e-9)
    assert precise_by_terms(groups, buckets) == pytest.approx(every, rel=2e-3, abs=1e-9)


def test_models_take_arrays_that_broadcast() -> None:
    groups, buckets = np.array([[10.0], [1000.0]]), np.array([5.0, 50.0, 500.0])
    for model in (rough, precise, precise_by_terms, low_rate, precise_slope, crowded_rates):
        found = model(groups, buckets)
        assert found.shape == (2, 3)
        assert found[1, 2] == pytest.approx(float(model(1000.0, 500.0)))


@given(GROUPS, BUCKETS, st.floats(1, 100))
def test_rates_grow_with_groups_and_fall_with_buckets_and_flows(groups: float, buckets: int, flow: float) -> None:
    for model in (rough, precise, low_rate):
        here = float(model(groups, buckets))
        assert here >= 0
        assert model(groups * 1.5, buckets) >= here - 1e-9
        assert model(groups, buckets + 1 + buckets // 2) <= here + 1e-9
        assert clustered_rates(here, flow) == pytest.approx(here / flow)
    assert precise(groups, buckets) <= 1


@given(st.floats(2, 1e5), st.floats(1.5, 1e5))
def test_the_slope_is_that_of_the_rate(groups: float, buckets: float) -> None:
    step = buckets * 1e-4
    difference = (precise(groups, buckets + step) - precise(groups, buckets - step)) / (2 * step)
    assert precise_slope(groups, buckets) == pytest.approx(float(difference), rel=1e-3, abs=1e-8 / step)


def hashed_rate(groups: int, buckets: int, flow_length: int, rng: np.random.Generator) -> float:
    """Over several hash functions, as one alone is lucky or not; once the table is full, as the first groups to come
    push nobody out.
    """
    counted, flows, warm, tables = 0, 20_000, 10 * groups, 8
    for _ in range(tables):
        records: Places = np.repeat(rng.integers(0, groups, warm + flows), flow_length)
        counted += int((evictions(records, buckets, rng)[1] >= warm * flow_length).sum())
    return counted / (tables * flows * flow_length)


@settings(max_examples=20)
@given(st.integers(500, 3000), st.floats(0.3, 4.0), st.sampled_from([1, 1, 3, 10]), st.integers(0, 2**32))
def test_a_real_table_collides_as_often_as_the_model_says(groups: int, load: float, flow: int, seed: int) -> None:
    buckets = round(groups / load)
    measured = hashed_rate(groups, buckets, flow, np.random.default_rng(seed))
    expected = float(clustered_rates(precise(groups, buckets), flow))
    # The number of empty buckets varies by about the root of the buckets, over 8 tables; less than 5 % but for few
    # groups in many buckets.
    doubt = 5 * np.sqrt(0.1 * buckets / 8) / (groups * expected * flow)
    assert measured == pytest.approx(expected, rel=max(0.05, doubt))


@pytest.mark.parametrize("groups", [552, 1846, 2117, 2837])
def test_the_papers_relations_collide_as_the_model_says(groups: int) -> None:
    rng = np.random.default_rng(groups)
    for load in (0.5, 1, 2, 4):
        buckets = round(groups / load)
        assert hashed_rate(groups, buckets, 1, rng) == pytest.approx(float(precise(groups, buckets)), rel=0.05)
