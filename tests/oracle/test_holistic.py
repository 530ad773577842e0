"""Holistic aggregates in random company: windows x predicates x groupings, any plan, any batches. Few values, so that
sketches are exact; buckets are within their error.
"""

from __future__ import annotations

import math
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from headrace.engine.answers import answer
from headrace.model.expressions import Aggregate
from headrace.model.query import Query
from headrace.sql import parse_query
from tests.oracle.plans import plans
from tests.oracle.tables import Row, tables
from tests.oracle.test_kernel import CATALOG, MAX_EMPTY, data_of, from_kernel, from_reference

CALLS = [
    "approx_median({n})",
    "percentile_approx({n}, 0.9)",
    "percentile_approx({n}, 0, 1000)",
    "percentile({n}, 0.25)",
    "percentile(DISTINCT {n}, 0.7)",
    "median({n})",
    "percentile_relative({n}, 0.5)",
    "quantiles({n}, 3)",
    "approx_count_distinct({v})",
    "approx_count_distinct({v}, 0.01)",
    "heavy_hitters({v}, 0.3)",
    "heavy_hitters({v}, i, 0.2)",
    "top_k({v}, 2)",
    "min_by({v}, {n})",
    "max_by({v}, {v})",
    "bool_and(b)",
    "bool_or(i > 0)",
    "median(DISTINCT {n})",
    "count(DISTINCT {v})",
]
NUMBERS, COLUMNS = ("i", "x", "y", "d"), ("i", "x", "s", "u", "d", "b", "t")
WHERE = ["", "WHERE i > 0", "WHERE i <= 1 AND s = 'a'", "WHERE x < 1.0 OR b"]
FILTERS = ["", " FILTER (WHERE i < 2)"]
GROUPS = [(), ("s",), ("b", "i")]
WINDOWS = ["[RANGE 3]", "[RANGE 5 SLIDE 2]", "[RANGE 2 SLIDE 5]"]
ROUNDING, RELATIVE = 1e-9, 0.01 + 1e-9


@st.composite
def queries(draw: st.DrawFn) -> str:
    calls = [
        draw(st.sampled_from(CALLS)).format(n=draw(st.sampled_from(NUMBERS)), v=draw(st.sampled_from(COLUMNS)))
        + draw(st.sampled_from(FILTERS))
        for _ in range(draw(st.integers(1, 3)))
    ]
    groups = draw(st.sampled_from(GROUPS))
    outputs = [*groups, *(f"{call} AS a{place}" for place, call in enumerate(calls))]
    grouped = f" GROUP BY {', '.join(groups)}" if groups else ""
    return (
        f"SELECT {', '.join(outputs)} FROM r {draw(st.sampled_from(WINDOWS))} {draw(st.sampled_from(WHERE))}{grouped}"
    )


def same(function: str, ours: Any, theirs: Any) -> bool:
    if isinstance(ours, float) and isinstance(theirs, float):
        if math.isnan(ours) or math.isnan(theirs) or math.isinf(ours) or math.isinf(theirs):
            return str(ours) == str(theirs)
        error = {"percentile_relative": RELATIVE, "median": ROUNDING, "percentile": ROUNDING}.get(function, 0.0)
        return abs(ours - theirs) <= error * abs(theirs)
    if isinstance(ours, tuple) and isinstance(theirs, tuple):
        return len(ours) == len(theirs) and all(map(same, [function] * len(ours), ours, theirs))
    return bool(ours == theirs)


def check(query: Query, ours: list[tuple[Any, ...]], theirs: list[tuple[Any, ...]]) -> None:
    assert len(ours) == len(theirs)
    for our_row, their_row in zip(ours, theirs, strict=True):
        for place, output in enumerate(query.outputs):
            tree = output.expression
            function = tree.function if isinstance(tree, Aggregate) else ""
            assert same(function, our_row[place], their_row[place]), (output.name, our_row, their_row)


@settings(max_examples=150, suppress_health_check=[HealthCheck.too_slow], deadline=None)
@given(st.lists(queries(), min_size=1, max_size=4), tables("s"), st.data())
def test_sketches_of_few_values_say_what_the_reference_says(
    texts: list[str], table: list[Row], choices: st.DataObject
) -> None:
    asked = {f"q{place}": parse_query(text, CATALOG) for place, text in enumerate(texts)}
    data = data_of(table)
    plan = choices.draw(plans(data, asked))
    batch_rows = choices.draw(st.sampled_from([1, 3, 100]))
    answers = answer(data, asked, plan, batch_rows, MAX_EMPTY)
    for name, query in asked.items():
        theirs, errors, _ = from_reference(query, table)
        check(query, from_kernel(answers.closed[name], query), theirs)
        assert answers.closed[name].errors == errors
