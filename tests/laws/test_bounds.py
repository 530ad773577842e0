"""Kinds of partials that are bounded: after a thousand merges each stays within the error that its traits declare."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from numpy.typing import NDArray

from headrace.aggregates.registry import KINDS, make_aggregate
from headrace.kernel.states.kinds import STATES, lower
from headrace.model.expressions import ColumnRef, Literal
from headrace.model.types import BIGINT, DOUBLE, DataType

ROWS, PARTS = 40_000, 1_000
FRACTIONS = (0.0, 0.01, 0.25, 0.5, 0.75, 0.95, 0.99, 1.0)
Doubles = NDArray[np.float64]

RANDOM = np.random.default_rng(11)
INPUTS: dict[str, Doubles] = {
    "sorted": np.arange(ROWS, dtype=np.float64),
    "reversed": np.arange(ROWS, dtype=np.float64)[::-1].copy(),
    "random": RANDOM.normal(100.0, 15.0, ROWS),
    "constant": np.full(ROWS, 7.0),
    "heavy tail": RANDOM.pareto(1.1, ROWS) + 1.0,
    "zoom in": np.where(np.arange(ROWS) % 2 == 0, 1.0, -1.0) / (1.0 + np.arange(ROWS)),
}
MERGES: dict[str, Callable[[], list[NDArray[np.int64]]]] = {
    "at once": lambda: [np.zeros(PARTS, np.int64)],
    "pairs": lambda: [np.arange(size) // 2 for size in halves(PARTS)],
    "one after the other": lambda: [np.maximum(np.arange(size) - step, 0) for size, step in folds(PARTS)],
}
inputs = pytest.mark.parametrize("name", INPUTS)
merges = pytest.mark.parametrize("merge", MERGES)


def halves(size: int) -> list[int]:
    sizes = []
    while size > 1:
        sizes.append(size)
        size = (size + 1) // 2
    return sizes


def folds(size: int) -> list[tuple[int, int]]:
    """A tenth of the parts at a time joins the first."""
    step = size // 10
    return [(left, step) for left in range(size, 1, -step)]


def merge_parts(kind: str, values: pa.Array, merge: str) -> pa.Array:
    state = STATES[kind]
    states = state.lift(np.arange(len(values)) % PARTS, PARTS, values)
    for slots in MERGES[merge]():
        states = state.combine(slots, int(slots.max()) + 1, states)
    assert len(states[0]) == 1
    return states[0]


def answer(function: str, kind: str, states: pa.Array, item: DataType, *behind: Literal) -> Any:
    aggregate = make_aggregate(function, (ColumnRef("s", "x", item), *behind))
    return lower(aggregate, {kind: (states,)}).values[0].as_py()


def test_what_is_bounded_is_here() -> None:
    bounded = {kind for kind, traits in KINDS.items() if traits.equality == "bounded"}
    assert bounded == {"quantiles", "buckets", "distinct", "counters"}


@inputs
@merges
def test_ranks(name: str, merge: str) -> None:
    values = INPUTS[name]
    states = merge_parts("quantiles", pa.array(values), merge)
    for fraction in FRACTIONS:
        result = answer("percentile_approx", "quantiles", states, DOUBLE, Literal(fraction, DOUBLE))
        low, high = (values < result).mean(), (values <= result).mean()
        assert low - KINDS["quantiles"].error <= fraction <= high + KINDS["quantiles"].error


@inputs
@merges
def test_values(name: str, merge: str) -> None:
    values = INPUTS[name]
    states = merge_parts("buckets", pa.array(values), merge)
    ordered = np.sort(values)
    for fraction in FRACTIONS:
        result = answer("percentile_relative", "buckets", states, DOUBLE, Literal(fraction, DOUBLE))
        exact = ordered[max(int(np.ceil(fraction * ROWS)), 1) - 1]
        assert abs(result - exact) <= KINDS["buckets"].error * abs(exact) + 1e-12


@inputs
@merges
def test_distinct_values(name: str, merge: str) -> None:
    count = answer("approx_count_distinct", "distinct", merge_parts("distinct", pa.array(INPUTS[name]), merge), DOUBLE)
    exact = len(np.unique(INPUTS[name]))

    assert abs(count - exact) <= KINDS["distinct"].error * exact


@merges
@pytest.mark.parametrize("skew", [1.05, 1.3, 2.0])
def test_heavy_hitters(merge: str, skew: float) -> None:
    """No item above the share is missing, and every count is within the error of the total."""
    items = np.random.default_rng(3).zipf(skew, ROWS) % 10_000
    states = merge_parts("counters", pa.array(items), merge)
    hitters = answer("heavy_hitters", "counters", states, BIGINT, Literal(0.01, DOUBLE))

    named = {hitter["item"]: hitter for hitter in hitters}
    values, counts = np.unique(items, return_counts=True)
    for item, count in zip(values.tolist(), counts.tolist(), strict=True):
        if count >= 0.01 * ROWS:
            assert item in named
        if item in named:
            assert named[item]["lower"] <= count <= named[item]["upper"]
            assert named[item]["upper"] - named[item]["lower"] <= KINDS["counters"].error * ROWS
