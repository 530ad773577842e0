"""Counts and sums as plain numbers: only if no sum of some can leave 64 bits."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from headrace.aggregates.partials import Partial
from headrace.engine.answers import answer
from headrace.expressions.static_tables import Data
from headrace.kernel.states.kinds import STATES
from headrace.kernel.states.totals import (
    MAX_TOTAL,
    Addends,
    IntegerTotals,
    addends,
    concat_totals,
    sum_addends,
)
from headrace.model.expressions import ColumnRef
from headrace.model.types import BIGINT
from headrace.sql import parse_script

X = ColumnRef("S", "x", BIGINT)
COUNT, SUM = Partial("count", ()), Partial("sum", (X,))


def addends_of(partial: Partial, *values: int | None) -> Addends | None:
    return addends(partial, (pa.array(values, pa.int64()),), len(values))


def test_numbers_are_added_as_the_states_add_them() -> None:
    slots, values = np.array([0, 1, 0, 1, 1]), pa.array([3, -7, 2, 2**40, -1])
    added = addends_of(SUM, *values.to_pylist())
    assert added is not None
    totals = sum_addends({SUM: added, COUNT: Addends(None, 5)}, slots, 2)
    for partial, columns in ((SUM, (values,)), (COUNT, (None,))):
        assert totals[partial] == STATES[partial.kind].lift(slots, 2, *columns)
    twice = concat_totals([totals, totals])
    assert twice is not None
    assert twice.bound == 2 * totals.bound
    assert twice.numbers[SUM].tolist() == [5, 2**40 - 8, 5, 2**40 - 8]


def test_what_may_not_fit_is_left_to_the_states() -> None:
    assert addends_of(SUM, 2**62, 1) is None
    assert addends_of(SUM, -(2**63)) is None
    assert addends_of(SUM, 1, None) is None
    assert addends_of(COUNT, 1, None) is None
    assert addends(SUM, (pa.array([1.5]),), 1) is None
    assert addends(Partial("min", (X,)), (pa.array([1]),), 1) is None
    large = IntegerTotals({SUM: np.array([2**61])}, 2**61)
    assert concat_totals([large, large]) is not None
    assert concat_totals([large, large, large]) is None
    assert 3 * large.bound > MAX_TOTAL


def test_no_rows_add_nothing() -> None:
    added = addends_of(SUM)
    assert added is not None
    assert sum_addends({SUM: added}, np.empty(0, dtype=np.int64), 0)[SUM][0].to_pylist() == []


SCRIPT = """
CREATE STREAM S (t TIMESTAMP, g BIGINT, x BIGINT) EVENT TIME t LATENESS '5 s';
CREATE QUERY q AS SELECT g, sum(x) AS total, count(*) AS many FROM S [RANGE '20 s' SLIDE '10 s'] GROUP BY g;
"""


def test_plain_numbers_and_states_meet() -> None:
    """Whatever batches rows come in: each alone fits, two together hardly, and one has a NULL."""
    script = parse_script(SCRIPT)
    values = [2**61, 2**61, 1, None, 2**62, -(2**62), -5, 2**61]
    seconds = [1, 2, 3, 4, 11, 12, 13, 14]
    times = pa.array([second * 1_000_000 for second in seconds]).cast(pa.timestamp("us", "UTC"))
    rows = pa.table({"t": times, "g": [1, 1, 2, 2, 1, 1, 2, 1], "x": pa.array(values, pa.int64())})
    data = Data(script.catalog, script.catalog.streams[0], rows, {})
    queries = {named.name: named.query for named in script.queries}
    results = [answer(data, queries, batch_rows=size).closed["q"].table for size in (1, 2, 3, 8)]
    assert all(result == results[0] for result in results)
    assert results[0]["total"].to_pylist() == [2**62, 1, 2**62 + 2**61, -4, 2**61, -5]
    assert results[0]["many"].to_pylist() == [2, 2, 5, 3, 3, 1]
