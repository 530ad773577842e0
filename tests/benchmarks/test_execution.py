"""Trees that are run: every row is counted once, in every node on its way."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.execution import memberships, run_plan, windows_combined
from benchmarks.planner import random_instance
from headrace.model.windows import Window
from headrace.planner.construction import make_plan


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 1_000_000))
def test_a_node_stands_for_the_rows_that_it_keeps(seed: int) -> None:
    instance = random_instance(seed, 6, rows=400)
    plan = make_plan(instance.demands, instance.cost)
    sample = instance.cost.sample
    runs = run_plan(plan, sample)
    for each, run in zip(plan.nodes, runs, strict=True):
        assert run.counts.sum() == sample.mask_kept(each.node.keep).sum()
        assert sample.rows(each.node) == pytest.approx(len(run.counts))
    assert windows_combined(plan, runs, 10**18) >= len(instance.demands) * (min(len(run.counts) for run in runs) > 0)


@given(st.integers(1, 50), st.integers(1, 30), st.integers(0, 40), st.lists(st.integers(0, 200)), st.integers(0, 250))
def test_memberships_are_the_instances_that_hold_a_row(
    range_us: int, slide_us: int, offset_us: int, times: list[int], until_us: int
) -> None:
    window = Window(range_us, slide_us, offset_us)
    expected = sum(instance.end_us <= until_us for time_us in times for instance in window.containing(time_us))
    assert memberships(window, np.array(times, dtype=np.int64), until_us) == expected
