"""Estimates of rows per node, against counts over the whole batch."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.expressions.evaluation import Evaluation
from headrace.planner.demand import demand, leaves_of
from headrace.planner.lattice import Node, union
from headrace.planner.statistics import BatchSample, distinct_estimate, meeting_estimate
from headrace.sql import parse_script

STREAM = "CREATE STREAM S (t TIMESTAMP, a BIGINT, b BIGINT, x DOUBLE) EVENT TIME t;\n"


def sample(rows: int, batch_rows: float, seed: int = 1) -> BatchSample:
    rng = np.random.default_rng(seed)
    times = np.sort(rng.integers(0, 60_000_000, rows))
    columns = {
        ("S", "t"): pa.array(times).cast(pa.timestamp("us", tz="UTC")),
        ("S", "a"): pa.array(rng.integers(0, 10, rows)),
        ("S", "b"): pa.array(rng.zipf(1.5, rows) % 1_000),
        ("S", "x"): pa.array(rng.random(rows)),
    }
    return BatchSample(Evaluation(columns, rows), times, batch_rows)


def node(*queries: str) -> Node:
    script = parse_script(STREAM + ";".join(queries))
    leaves = leaves_of({named.name: demand(named.query) for named in script.queries})
    return union([leaf.node for leaf in leaves])


def test_a_whole_batch_is_counted_exactly() -> None:
    whole = sample(5_000, 5_000)
    assert whole.rows(node("SELECT count(*) FROM S [RANGE 60]")) == 1
    assert whole.rows(node("SELECT count(*) FROM S [RANGE 10]")) == 6
    assert whole.rows(node("SELECT a, count(*) FROM S [RANGE 60] GROUP BY a")) == 10
    assert whole.rows(node("SELECT a, count(*) FROM S [RANGE 10] GROUP BY a")) == 60
    cells = node("SELECT count(*) FROM S [RANGE 60] WHERE x > 0.2", "SELECT count(*) FROM S [RANGE 60] WHERE x > 0.7")
    assert whole.rows(cells) == 2, "rows up to 0.2 are in no query"
    assert whole.selectivity(cells.keep) == pytest.approx(0.8, abs=0.03)
    assert whole.rows(node("SELECT count(*) FROM S [RANGE 60] WHERE x > 2")) == 0


def test_a_sample_estimates_within_the_guarantee() -> None:
    small, whole = sample(2_000, 200_000, seed=3), sample(200_000, 200_000, seed=3)
    for query in (
        "SELECT b, count(*) FROM S [RANGE 60] GROUP BY b",
        "SELECT a, b, count(*) FROM S [RANGE 20] GROUP BY a, b",
    ):
        truth, estimate = whole.rows(node(query)), small.rows(node(query))
        assert max(truth / estimate, estimate / truth) <= 5, query


@given(st.lists(st.integers(1, 50), min_size=1, max_size=50), st.floats(1, 1e6))
def test_estimates_lie_between_what_was_seen_and_all_rows(counts: list[int], scale: float) -> None:
    seen = np.array(counts)
    total = seen.sum() * scale
    estimate = distinct_estimate(seen, total)
    assert len(seen) - 1e-6 <= estimate <= max(total, len(seen)) + 1e-6


@pytest.mark.parametrize("distinct", [300, 3_000, 30_000, 300_000])
def test_many_rare_values_are_not_underrated(distinct: int) -> None:
    rng = np.random.default_rng(distinct)
    rows = rng.integers(0, distinct, 500_000)
    truth = len(np.unique(rows))
    counts = np.unique_counts(rng.choice(rows, 20_000, replace=False)).counts
    assert distinct_estimate(counts, len(rows)) == pytest.approx(truth, rel=0.5)


def met(values: npt.NDArray[np.int64], places: int) -> float:
    """The share of the rows that find their own value, row by row."""
    of_value = np.random.default_rng(5).integers(0, places, values.max() + 1)
    last: dict[int, int] = {}
    found = 0
    for value in values.tolist():
        found += last.get(of_value[value]) == value
        last[of_value[value]] = value
    return found / len(values)


@pytest.mark.parametrize("distinct", [10, 1_000, 5_000, 20_000, 1_000_000])
@pytest.mark.parametrize("skew", [0.0, 1.0, 1.5])
@pytest.mark.parametrize("sampled", [2_000, 40_000])
def test_how_many_rows_find_their_like(distinct: int, skew: float, sampled: int) -> None:
    rng, rows, places = np.random.default_rng(2), 40_000, 1 << 12
    shares = (1.0 + np.arange(distinct)) ** -skew
    values = rng.choice(distinct, rows, p=shares / shares.sum())
    counts = np.unique_counts(rng.choice(values, sampled, replace=False)).counts
    assert meeting_estimate(counts, rows, places) == pytest.approx(met(values, places), abs=0.2)


def test_nobody_finds_a_like_among_no_rows() -> None:
    assert meeting_estimate(np.zeros(0, np.intp), 0.0, 8) == 0.0
    assert meeting_estimate(np.ones(1, np.intp), 1.0, 8) == 0.0
    assert sample(5, 5).repeats(node("SELECT count(*) FROM S [RANGE 60] WHERE x > 2"), 8) == 0.0


def test_rows_of_one_slice_do_not_meet_those_of_the_next() -> None:
    whole, groups = sample(5_000, 5_000), "SELECT b, count(*) FROM S [RANGE {}] GROUP BY b"
    assert whole.repeats(node(groups.format(60)), 64) < whole.repeats(node(groups.format(60)), 1_024)
    assert whole.repeats(node(groups.format(1)), 1 << 16) < whole.repeats(node(groups.format(60)), 1 << 16)
