"""Plans follow lasting changes of the data and do not follow swings."""

from __future__ import annotations

import pytest

from benchmarks.execution import NodeRun, run_plan
from headrace.planner.construction import make_plan
from headrace.planner.cost import Constants, Cost
from headrace.planner.draft import draft
from headrace.planner.drift import Drift, observe, replan, rest, watch
from headrace.planner.plan import Plan
from headrace.planner.statistics import BatchSample, draw
from tests.planner.data import demands_of, script_of, stream_data

PAIRS = ("a, b", "a, c", "b, c")
GROUPED = script_of(*(f"SELECT {pair}, count(*) FROM S [RANGE 60] GROUP BY {pair}" for pair in PAIRS))
ROWS_HASHED = Constants(
    node_ns=0, leaf_ns=0, evaluate_ns=0, code_ns=0, slice_ns=0, key_ns=0, addition_ns=0, ship_row_ns=0, ship_byte_ns=0
)
"""What is left is the cost of slots [NFC IV]."""


@pytest.mark.parametrize("first", [1.0, 0.1, 10.0])
def test_alternating_sizes_are_not_followed(first: float) -> None:
    planned = 1_000.0
    drift, times = watch([planned, 50.0]), 0
    for batch in range(20):
        size = planned * first if batch % 2 == 0 else planned * (10 if first <= 1 else 1)
        drift = observe(drift, [size, 50.0])
        if drift.is_due:
            drift, times = rest(drift), times + 1
    assert times <= 1


@pytest.mark.parametrize("factor", [10.0, 0.1])
def test_a_lasting_change_is_followed_within_five_batches_and_once(factor: float) -> None:
    drift = watch([1_000.0, 1_000.0])
    due_after = []
    for batch in range(1, 21):
        drift = observe(drift, [1_000.0, 1_000.0 * factor])
        if drift.is_due:
            due_after.append(batch)
            drift = rest(drift)
    assert len(due_after) == 1
    assert due_after[0] <= 5


def rows_of(spread: int) -> BatchSample:
    """All rows of a batch; b and c have `spread` distinct values."""
    data = stream_data(GROUPED, rows=6_000, spread=spread)
    return draw(data, [named.query for named in GROUPED.queries], None, None)


def sizes(sample: BatchSample, runs: list[NodeRun]) -> list[float]:
    return [sample.batch_rows, *(float(len(run.counts)) for run in runs)]


def hashed(plan: Plan, sample: BatchSample) -> int:
    return sum(run.taken for run in run_plan(plan, sample))


def test_a_loop_over_batches_follows_the_data_and_hashes_fewer_rows() -> None:
    """The distinct values of b and c grow tenfold for good: a node (a, b, c) no longer pays."""
    before, after = rows_of(spread=12), rows_of(spread=120)
    plan = old_plan = make_plan(demands_of(GROUPED), Cost(before, ROWS_HASHED))
    drift: Drift = watch(sizes(before, run_plan(plan, before)))
    adopted = []
    for batch in range(1, 11):
        drift = observe(drift, sizes(after, run_plan(plan, after)))
        if drift.is_due:
            new = replan(plan, Cost(after, ROWS_HASHED))
            if draft(new).nodes != draft(plan).nodes:
                adopted.append(batch)
            plan = new
            drift = watch(sizes(after, run_plan(plan, after)))
    assert len(adopted) == 1
    assert adopted[0] <= 5
    assert hashed(plan, after) < hashed(old_plan, after)
    assert hashed(old_plan, before) < hashed(plan, before), "the old plan was right for the old data"


def test_a_plan_that_is_as_good_is_kept() -> None:
    sample = rows_of(spread=12)
    plan = make_plan(demands_of(GROUPED), Cost(sample, ROWS_HASHED))
    assert replan(plan, Cost(sample, ROWS_HASHED)) == plan
