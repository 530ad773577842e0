"""Closing: groups numbered in the order of results, and rows put into the windows that hold them."""

from __future__ import annotations

import gc
from collections import defaultdict

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from headrace.engine.answers import answer, plan_for
from headrace.expressions.static_tables import Data
from headrace.kernel.close import windows as closing
from headrace.kernel.close.instances import ResultLimits, concat_ranges, fill_empty
from headrace.kernel.close.leaf_rows import KNOWN_RANKINGS, KNOWN_ROWS, numbered_groups, rank_values
from headrace.kernel.close.loops import HeldRows, count_groups
from headrace.kernel.close.windows import close, group_slots, window_totals
from headrace.kernel.failures import failures_of
from headrace.kernel.level1.reader import Reader, ReadResult
from headrace.model.errors import QueryFailure
from headrace.model.query import Order
from headrace.model.windows import Interval
from headrace.planner.demand import demand
from headrace.sql import parse_script

NAN = float("nan")
SCRIPT = """
CREATE STREAM S (t TIMESTAMP, g DOUBLE, x BIGINT) EVENT TIME t LATENESS '5 s';
CREATE QUERY q AS SELECT g, sum(x) AS total FROM S [RANGE '20 s' SLIDE '10 s'] GROUP BY g {rest};
"""


def results(rest: str) -> list[tuple[int, float | None, int | None]]:
    script = parse_script(SCRIPT.format(rest=rest))
    seconds, groups, values = zip(
        (1, 2.0, 5), (2, None, 3), (3, -0.0, 1), (4, NAN, 7), (5, 0.0, 1), (12, 2.0, 3), (13, 1.0, None), strict=True
    )
    rows = pa.table(
        {
            "t": pa.array([second * 1_000_000 for second in seconds], pa.timestamp("us", tz="UTC")),
            "g": pa.array(groups, pa.float64()),
            "x": pa.array(values, pa.int64()),
        }
    )
    data = Data(script.catalog, script.catalog.streams[0], rows, {})
    table = answer(data, {"q": script.queries[0].query}).closed["q"].table
    ends = [int(end.timestamp()) for end in table["window_end"].to_pylist()]
    return list(zip(ends, table["g"].to_pylist(), table["total"].to_pylist(), strict=True))


# rows     1  2  3  4  5          12 13
# window  [------------- 10)
#         [------------------------------- 20)
#                         [10 ------------------- 30)
FIRST = [(10, None, 3), (10, 0.0, 2), (10, 2.0, 5), (10, NAN, 7)]
SECOND = [(20, None, 3), (20, 0.0, 2), (20, 1.0, None), (20, 2.0, 8), (20, NAN, 7)]
THIRD = [(30, 1.0, None), (30, 2.0, 3)]


@pytest.mark.parametrize(
    ("rest", "expected"),
    [
        ("", FIRST + SECOND + THIRD),
        ("LIMIT 2", FIRST[:2] + SECOND[:2] + THIRD[:2]),
        ("HAVING sum(x) > 4", FIRST[2:] + SECOND[3:]),
        ("ORDER BY g DESC LIMIT 1", [(10, NAN, 7), (20, NAN, 7), (30, 2.0, 3)]),
        ("ORDER BY total DESC NULLS FIRST LIMIT 1", [(10, NAN, 7), (20, 1.0, None), (30, 1.0, None)]),
        ("ORDER BY count(*) LIMIT 2", [FIRST[0], FIRST[2], SECOND[0], SECOND[2], *THIRD]),
    ],
    ids=["groups in order", "limit", "having", "order by", "nulls", "ties by group"],
)
def test_rows_in_order(rest: str, expected: list[tuple[int, float | None, int | None]]) -> None:
    assert repr(results(rest)) == repr(expected)


def test_numbers_of_groups_keep_their_order_beyond_64_bits() -> None:
    rng = np.random.default_rng(1)
    columns = [rng.permutation(8_192) for _ in range(5)]
    columns = [np.concatenate([column, column[:100]]) for column in columns]
    numbers, first_rows = numbered_groups([pa.array(column) for column in columns])
    assert list(first_rows) == list(np.lexsort([column[:8_192] for column in columns[::-1]]))
    assert list(first_rows[numbers]) == [*range(8_192), *range(100)]


def test_ranks() -> None:
    values = pa.array([3, None, 1, 3, 2])
    tree = parse_script(SCRIPT.format(rest="")).queries[0].query.group_by[0]
    assert list(rank_values(values)[0]) == [3, 0, 1, 3, 2]
    assert list(rank_values(values, Order(tree, descending=True))[0]) == [1, 0, 3, 1, 2]
    assert list(rank_values(values, Order(tree, nulls_first=False))[0]) == [2, 3, 0, 2, 1]


def test_each_row_is_in_a_slot_of_every_window_that_holds_it() -> None:
    rng = np.random.default_rng(1)
    groups, slices = np.sort(rng.integers([0, 0], [30, 6], (200, 2)).view("i8,i8"), axis=0).view(np.int64).T.copy()
    first_window, held_by = np.array([0, 0, 1, 1, 3, 4]), np.array([1, 3, 0, 2, 2, 1])
    held = HeldRows(groups, slices, first_window, held_by)
    counts = np.zeros(5, dtype=np.int64)
    count_groups(held, counts)
    slots, group_of_slot = group_slots(held, counts)
    numbers = np.stack([rng.integers(-9, 9, 200), np.ones(200, dtype=np.int64)])
    same_groups, totals = window_totals(held, counts, numbers)
    rows = np.repeat(np.arange(200), held_by[slices])
    assert list(same_groups) == list(group_of_slot)
    assert [list(np.bincount(slots, own[rows])) for own in numbers] == [list(own) for own in totals]
    expected: dict[int, set[int]] = defaultdict(set)
    pairs = [
        (first_window[each] + nth, group)
        for each, group in zip(slices, groups, strict=True)
        for nth in range(held_by[each])
    ]
    for window, group in pairs:
        expected[window].add(group)
    in_order = [(window, group) for window in sorted(expected) for group in sorted(expected[window])]
    assert [len(expected[window]) for window in range(5)] == list(counts)
    assert [group for _, group in in_order] == list(group_of_slot)
    assert [in_order.index(pair) for pair in pairs] == list(slots)


def test_gaps_are_filled_up_to_a_number() -> None:
    assert list(concat_ranges(np.array([5, 1, 9]), np.array([2, 0, 3]))) == [5, 6, 9, 10, 11]
    for most, expected, left_out in ((9, [1, 2, 3, 4, 5, 6], 0), (2, [1, 2, 3, 4, 6], 1), (0, [1, 2, 6], 3)):
        instances, more = fill_empty(np.array([1, 2, 6]), ResultLimits(most))
        assert (list(instances), more) == (expected, left_out)


COUNTS = parse_script(
    """
    CREATE STREAM S (t TIMESTAMP) EVENT TIME t LATENESS '5 s';
    CREATE QUERY q AS SELECT count(*) AS n FROM S [RANGE '11 ms' SLIDE '3 ms'];
    """
)


@settings(max_examples=300, deadline=None)
@given(
    st.lists(st.integers(0, 80).map(lambda time: time * 1_000), min_size=1, max_size=8),
    st.lists(st.integers(0, 80).map(lambda time: time * 1_000), max_size=2),
    st.sampled_from([0, 3, 1_000]),
)
@example([13_000, 22_000, 39_000], [13_000], 1_000)
def test_a_window_has_its_own_rows_whichever_others_are_shown(
    times_us: list[int], missed: list[int], max_empty: int
) -> None:
    rows = pa.table({"t": pa.array(times_us, pa.timestamp("us", tz="UTC"))})
    data, query = Data(COUNTS.catalog, COUNTS.catalog.streams[0], rows, {}), COUNTS.queries[0].query
    run = ReadResult()
    Reader(data, {"q": query}, plan_for(data, {"q": query})).take_batch(run, rows)
    spans = [Interval(time_us, time_us + 1) for time_us in missed]
    table = close(query, run.retained.gather(demand(query)).parts, spans, max_empty=max_empty).table
    bounds = zip(*(table[name].cast(pa.int64()).to_pylist() for name in ("window_start", "window_end")), strict=True)
    for (start_us, end_us), count in zip(bounds, table["n"].to_pylist(), strict=True):
        assert count == sum(start_us <= time_us < end_us for time_us in times_us)
        assert not any(start_us <= time_us < end_us for time_us in missed)


MANY = parse_script(
    """
    CREATE STREAM S (t TIMESTAMP, g BIGINT, x DOUBLE) EVENT TIME t LATENESS '5 s';
    CREATE QUERY plain AS SELECT count(*) AS n, min(x) AS low FROM S [RANGE '11 ms' SLIDE '3 ms'];
    CREATE QUERY hopping AS SELECT count(*) AS n FROM S [RANGE '2 ms' SLIDE '7 ms'] HAVING count(*) <> 1;
    CREATE QUERY totals AS SELECT g, count(*) AS n, sum(g) AS s FROM S [RANGE '11 ms' SLIDE '3 ms'] GROUP BY g;
    CREATE QUERY states AS SELECT g, avg(x) AS a, count(DISTINCT x) AS d FROM S [RANGE '40 ms' SLIDE '3 ms'] GROUP BY g;
    CREATE QUERY best AS SELECT g, sum(g) AS s FROM S [RANGE '40 ms' SLIDE '3 ms'] GROUP BY g
        ORDER BY sum(g) DESC LIMIT 2;
    CREATE QUERY fine AS SELECT count(*) AS n FROM S [RANGE '1 us'];
    """
)
MANY_QUERIES = {each.name: each.query for each in MANY.queries}


def many_data() -> Data:
    rng = np.random.default_rng(3)
    times = np.sort(rng.integers(0, 300_000, 400))
    rows = pa.table(
        {
            "t": pa.array(times, pa.timestamp("us", tz="UTC")),
            "g": pa.array(rng.integers(0, 9, 400)),
            "x": pa.array(rng.integers(0, 5, 400) / 4),
        }
    )
    return Data(MANY.catalog, MANY.catalog.streams[0], rows, {})


@pytest.mark.parametrize("missed", [(), (Interval(100_000, 120_000),)], ids=["complete", "with a hole"])
@pytest.mark.parametrize("name", MANY_QUERIES)
def test_many_windows_are_closed_piece_by_piece(
    name: str, missed: tuple[Interval, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    data, query, run = many_data(), MANY_QUERIES[name], ReadResult()
    Reader(data, {name: query}, plan_for(data, {name: query})).take_batch(run, data.rows)
    parts = run.retained.gather(demand(query)).parts
    expected = close(query, parts, missed)
    assert expected.table.num_rows > 10
    for entries in (1, 7, 50):
        monkeypatch.setattr(closing, "PIECE_ENTRIES", entries)
        found = close(query, parts, missed)
        assert found.table.equals(expected.table)
        assert [order.to_pylist() for order in found.orders] == [order.to_pylist() for order in expected.orders]
        counts = [(each.windows, each.errors, each.left_out, each.last_end_us) for each in (found, expected)]
        assert counts[0] == counts[1]


@pytest.mark.parametrize("name", MANY_QUERIES)
def test_a_query_with_too_many_rows_is_named(name: str) -> None:
    data, query, run = many_data(), MANY_QUERIES[name], ReadResult()
    Reader(data, {name: query}, plan_for(data, {name: query})).take_batch(run, data.rows)
    parts = run.retained.gather(demand(query)).parts
    expected = close(query, parts)
    count = expected.table.num_rows
    assert close(query, parts, max_rows=max(count, expected.windows)).table.num_rows == count
    with pytest.raises(QueryFailure, match="result rows in one step") as caught, failures_of(name):
        close(query, parts, max_rows=count - 1)
    assert caught.value.queries == (name,)


def test_empty_windows_are_not_answered_where_they_would_be_far_more_than_the_rows() -> None:
    """Whether they are depends on the query alone, not on the rows or the step."""
    data = many_data()
    closed = answer(data, MANY_QUERIES).closed
    times = np.unique(data.rows["t"].cast(pa.int64()).to_numpy())
    assert closed["fine"].table.num_rows == closed["fine"].windows == len(times)
    assert closed["fine"].left_out == times[-1] - times[0] + 1 - len(times)
    assert closed["plain"].left_out == 0


def test_no_rows_give_an_empty_table() -> None:
    closed = close(parse_script(SCRIPT.format(rest="")).queries[0].query, [])
    assert closed.table.num_rows == closed.windows == 0
    assert closed.table.schema.names == ["window_start", "window_end", "g", "total"]


def test_nothing_is_kept_of_leaves_that_are_gone() -> None:
    KNOWN_ROWS.clear()
    KNOWN_RANKINGS.clear()
    results("")
    gc.collect()
    assert not KNOWN_ROWS
    assert not KNOWN_RANKINGS
