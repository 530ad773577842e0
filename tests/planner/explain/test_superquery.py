"""A query as a superquery over its slices: the paper's example, and subqueries that are queries."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.datasets import WORKLOADS
from headrace.model.windows import AnyWindow, SlicedWindow, Window, sliced_window
from headrace.planner.explain.superquery import own_slices, rewrite, subquery
from headrace.reference import Interpreter
from headrace.sql import Script, format_query, parse_query
from headrace.windows import boundaries_between, paired_boundaries
from tests.planner.data import script_of, workload_script

NOTATION = ("moments(", "values(", "quantiles(")


def rewritten(query: str, **slices: float) -> str:
    return rewrite(script_of(query).queries[0].query, "q", slices)


def test_the_papers_example() -> None:
    """[HIFI Query 4]: W[18, 15] is put together from slices of 12 and 3 seconds.

    time     0           12 15          27 30          42 45
    slices   |-----------|--|-----------|--|-----------|--|
    windows           [-----------------)                     [12, 30)
                                     [-----------------)      [27, 45)
    """
    assert rewritten("SELECT count(*) AS n FROM S [RANGE '18 s' SLIDE '15 s']").splitlines() == [
        "-- 480 slices an hour for this query alone",
        "WITH q_slices AS (",
        "  SELECT window_start, window_end, count(*) AS count_1",
        "  FROM S [SLICES '12 s', '3 s']",
        ")",
        "SELECT window_start, window_end, sum(count_1) AS n",
        "FROM q_slices [RANGE '18 s' SLIDE '15 s']",
    ]


@pytest.mark.parametrize(
    ("select", "inner", "outer"),
    [
        ("count(a) AS x", "count(a) AS count_1", "sum(count_1) AS x"),
        ("sum(a) AS x", "sum(a) AS sum_1", "sum(sum_1) AS x"),
        ("min(a) AS x", "min(a) AS min_1", "min(min_1) AS x"),
        ("avg(a) AS x", "sum(a) AS sum_1, count(a) AS count_2", "sum(sum_1) / sum(count_2) AS x"),
        ("100 / avg(a) AS x", "count(a) AS count_2", "100 / (sum(sum_1) / sum(count_2)) AS x"),
        ("avg(a) + sum(a) AS x", "sum(a) AS sum_1, count(a) AS count_2", "sum(sum_1) / sum(count_2) + sum(sum_1)"),
        ("sum(a) FILTER (WHERE b > 1) AS x", "sum(a) FILTER (WHERE b > 1) AS sum_1", "sum(sum_1) AS x"),
        ("count(DISTINCT a) AS x", "values(a) AS values_1", "count(DISTINCT combine(values_1)) AS x"),
        ("stddev(a) AS x", "moments(a) AS moments_1", "stddev_samp(combine(moments_1)) AS x"),
        (
            "percentile_approx(a, 0.9) AS x",
            "quantiles(a) AS quantiles_1",
            "percentile_approx(combine(quantiles_1), 0.9) AS x",
        ),
        ("sum(a) AS sum_1", "sum(a) AS sum_1_", "sum(sum_1_) AS sum_1"),
    ],
)
def test_aggregates_are_combined_from_partials(select: str, inner: str, outer: str) -> None:
    subquery_text, _, superquery_text = rewritten(f"SELECT {select} FROM S [RANGE 18 SLIDE 15]").partition("\n)\n")
    assert inner in " ".join(subquery_text.split())
    assert outer in " ".join(superquery_text.split())


def test_filters_stay_inside_and_results_outside() -> None:
    query = """SELECT a % 3 AS k, max(b) AS m FROM S [RANGE 18 SLIDE 15] WHERE c > 3 GROUP BY a % 3
               HAVING a % 3 > 1 AND count(*) > 2 ORDER BY m DESC LIMIT 3"""
    inner, _, outer = rewritten(query).partition("\n)\n")
    assert "WHERE c > 3" in inner
    assert "GROUP BY a % 3" in inner
    assert "HAVING" not in inner
    assert outer.splitlines()[1:] == [
        "FROM q_slices [RANGE '18 s' SLIDE '15 s']",
        "GROUP BY k",
        "HAVING sum(count_2) > 2 AND k > 1",
        "ORDER BY max(max_1) DESC",
        "LIMIT 3",
    ]


def test_remarks() -> None:
    assert "-- in the plan 960 in n1: with the boundaries" in rewritten(
        "SELECT sum(a) FROM S [RANGE 18 SLIDE 15]", n1=960
    )
    assert "in the plan" not in rewritten("SELECT sum(a) FROM S [RANGE 18 SLIDE 15]", n1=480)
    assert "-- slices inside no window are not kept" in rewritten("SELECT sum(a) FROM S [RANGE 5 SLIDE 15]")


windows = st.one_of(
    st.builds(Window, st.integers(1, 60), st.integers(1, 40), st.integers(0, 50)),
    st.builds(
        lambda slices, offset: sliced_window(tuple(slices), offset),
        st.lists(st.integers(1, 9), min_size=1, max_size=4),
        st.integers(0, 50),
    ),
)


@given(windows)
def test_slices_are_cut_at_the_windows_own_boundaries(window: AnyWindow) -> None:
    """Offsets included: slices begin at `offset` and repeat."""
    slices, own = own_slices(window), paired_boundaries(window)
    ends = {interval.end_us for interval in slices.ending_between(0, 3 * own.period_us)}
    assert ends == set(boundaries_between([own], 0, 3 * own.period_us).tolist())
    assert isinstance(window, SlicedWindow) or len(slices.slices_us) <= 2


times = st.lists(st.tuples(st.integers(0, 200), st.integers(0, 2), st.integers(-9, 9)), min_size=1, max_size=30)


@settings(max_examples=50, deadline=None)
@given(windows, times)
def test_windows_are_what_their_slices_are_together(window: AnyWindow, rows: list[tuple[int, int, int]]) -> None:
    """The reference answers query and subquery; slices inside a window, combined, are the window's result."""
    script = script_of("SELECT a, count(*) AS n, sum(b) AS s, min(b) AS m FROM S [RANGE 1] GROUP BY a")
    query = replace(script.queries[0].query, window=window)
    interpreter = Interpreter(script.catalog.streams[0], {}, ())
    interpreter.register("whole", query)
    interpreter.register("slices", subquery(query))
    fed = [{"t": time_us, "a": a, "b": b, "c": None, "d": None} for time_us, a, b in sorted(rows)]
    results: list[Any] = [*interpreter.batch(fed).results, *interpreter.end().results]
    whole, slices = (
        [row for each in results if each.query == name for row in each.rows] for name in ("whole", "slices")
    )
    assert whole or isinstance(window, Window), "only a hopping window may miss every row"
    for start, end, group, *found in whole:
        inside = [row[3:] for row in slices if row[2] == group and start <= row[0] and row[1] <= end]
        counts, sums, minima = zip(*inside, strict=True)
        assert found == [sum(counts), sum(sums), min(minima)]


@settings(max_examples=100, deadline=None)
@given(st.sampled_from(sorted(WORKLOADS.keys() - {"holistic"})), st.integers(0, 1_000), st.data())
def test_subqueries_of_the_workloads_are_queries(workload: str, seed: int, data: st.DataObject) -> None:
    """But for those of sketches, whose partials are notation only."""
    script: Script = workload_script(workload, 4, seed)
    query = data.draw(st.sampled_from(script.queries)).query
    inner = subquery(query)
    assert parse_query(format_query(inner), script.catalog) == inner
    text = rewrite(query, "q")
    body = text[text.index("(\n") + 1 : text.index("\n)\n")]
    assert parse_query(body, script.catalog) == inner


@pytest.mark.parametrize("select", ["stddev(d)", "count(DISTINCT a)", "percentile_approx(d, 0.5)"])
def test_what_is_only_notation_is_marked_by_its_name(select: str) -> None:
    script = script_of(f"SELECT {select} FROM S [RANGE 10]")
    assert any(word in format_query(subquery(script.queries[0].query)) for word in NOTATION)
