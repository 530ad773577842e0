"""What users test with: a script with stops and deaths gives the answers of one that goes through."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import headrace
from headrace.testing import ABORT, STOP, FakeClock, ScriptMark, assert_same_rows, play, sort_rows, write_batch

DECLARATION = "CREATE STREAM s (t TIMESTAMP, k STRING, x DOUBLE) EVENT TIME t LATENESS '3 s' SKEW '10 s'"
QUERIES = {
    "sums": "SELECT k, sum(x) AS x, count(*) AS n FROM s [RANGE '6 s' SLIDE '2 s'] GROUP BY k",
    "peaks": "SELECT max(n) AS n FROM sums [RANGE '12 s']",
    "counts": "SELECT count(*) AS n FROM s [RANGE '5 s']",
}


def batch(number: int) -> list[dict[str, Any]]:
    return [
        {"t": (3 * number + place) * 1_000_000, "k": "abc"[place % 3], "x": (number + place) / 7} for place in range(5)
    ]


BATCHES = [batch(number) for number in range(5)]
SCRIPTS: dict[str, list[Any]] = {
    "stops": [BATCHES[0], STOP, *BATCHES[1:3], STOP, STOP, *BATCHES[3:], STOP],
    "dies": [ABORT, BATCHES[0], ABORT, BATCHES[1], *BATCHES[2:], ABORT],
    "both": [BATCHES[0], ABORT, STOP, BATCHES[1], STOP, *BATCHES[2:]],
}


@pytest.mark.parametrize("script", SCRIPTS)
def test_a_script_with_marks_has_the_answers_of_one_without(script: str) -> None:
    expected = play(DECLARATION, BATCHES, QUERIES)
    results = play(DECLARATION, SCRIPTS[script], QUERIES)
    for name in QUERIES:
        assert results[name].num_rows > 0
        assert_same_rows(results[name], expected[name])


def test_batches_in_time_are_answered_as_one_table() -> None:
    rows = pa.Table.from_pylist(
        [row for each in BATCHES for row in each],
        schema=pa.schema([("t", pa.timestamp("us", "UTC")), ("k", pa.string()), ("x", pa.float64())]),
    )
    results = play(DECLARATION, [rows.slice(0, 9), rows.slice(9)], QUERIES)
    for name, expected in headrace.aggregate(rows, QUERIES, name="s").items():
        assert_same_rows(results[name], expected)


def test_the_clock_says_which_rows_are_of_the_future() -> None:
    clock = FakeClock(datetime(1970, 1, 1, tzinfo=UTC))
    assert play(DECLARATION, BATCHES, QUERIES, clock=clock)["counts"]["n"].to_pylist() == [7, 8, 2]
    clock.advance("1 h")
    assert sum(play(DECLARATION, BATCHES, QUERIES, clock=clock)["counts"]["n"].to_pylist()) == 25


def test_open_windows_stay_open() -> None:
    assert play(DECLARATION, BATCHES[:1], QUERIES, close=False)["counts"].num_rows == 0


def test_a_mistake_is_raised() -> None:
    with pytest.raises(headrace.HeadraceError, match="no column 'y'"):
        play(DECLARATION, [], {"q": "SELECT sum(y) AS y FROM s [RANGE '1 s']"})
    with pytest.raises(headrace.HeadraceError, match="a script is of one stream, and 0 are declared"):
        play("CREATE TABLE t (k STRING)", BATCHES, {})
    assert {STOP, ABORT} == set(ScriptMark)


def test_files_appear_whole_and_in_order(tmp_path: Path) -> None:
    paths = [write_batch(tmp_path, pa.table({"x": [number]}), number) for number in range(3)]
    assert sorted(tmp_path.iterdir()) == sorted(paths, key=lambda path: path.stat().st_mtime_ns) == paths
    assert pq.read_table(paths[2])["x"].to_pylist() == [2]


def test_equality_of_rows() -> None:
    table = pa.table({"k": ["b", "a"], "x": [0.1 + 0.2, None]})
    assert_same_rows(table, [{"k": "a", "x": None}, {"k": "b", "x": 0.3}])
    assert_same_rows([(1, float("nan"))], [(1, float("nan"))])
    assert sort_rows(table)[0]["k"] == "a"
    for wrong, message in (
        ([{"k": "a", "x": None}], "2 rows instead of 1; the first that is not expected: {'k': 'b'"),
        ([{"k": "a", "x": None}, {"k": "b", "x": 0.31}], "instead of {'k': 'b', 'x': 0.31}"),
        ([*table.to_pylist(), {"k": "c", "x": 1.0}], "2 rows instead of 3; the first that is missing: {'k': 'c'"),
    ):
        with pytest.raises(AssertionError, match=message):
            assert_same_rows(table, wrong)
