"""Event times at and beyond the limits: each row is counted in a window or rejected with a reason, whatever way in."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import headrace
from headrace.model.time import MAX_TIMESTAMP_US, MIN_TIMESTAMP_US, format_timestamp
from headrace.reference import Interpreter
from headrace.sql import parse_query, parse_script
from tests.faults.input_runs import FileRun

DECLARATION = "CREATE STREAM s (t TIMESTAMP, v BIGINT) EVENT TIME t;"
QUERIES = {
    "short": "SELECT count(*) AS n FROM s [RANGE '1 s']",
    "long": "SELECT count(*) AS n FROM s [RANGE '36500 days' SLIDE '36500 days' OFFSET '7 days']",
    "groups": "SELECT v % 2 AS g, count(*) AS n FROM s [RANGE '10 days' SLIDE '10 days'] GROUP BY v % 2",
}
YEAR_294000_US = 9_215_726_400_000_000_000
INSIDE = [MIN_TIMESTAMP_US, -1, 0, 1_700_000_000_000_000, MAX_TIMESTAMP_US]
OUTSIDE = [
    -(2**63),
    -(2**63) + 1,
    -(2**62),
    MIN_TIMESTAMP_US - 1,
    MAX_TIMESTAMP_US + 1,
    2**62,
    YEAR_294000_US,
    2**63 - 2,
    2**63 - 1,
]
REASON = "column t is outside the years 1 to 9999"


def table_of(times_us: list[int]) -> pa.Table:
    times = pa.array(times_us, pa.int64()).cast(pa.timestamp("us", "UTC"))
    return pa.table({"t": times, "v": pa.array(range(len(times_us)), pa.int64())})


def in_windows(rows: list[dict[str, int]]) -> int:
    return sum(row["n"] for row in rows)


@pytest.mark.parametrize("outside", OUTSIDE)
def test_in_a_bounded_run(tmp_path: Path, outside: int) -> None:
    run = FileRun.of(tmp_path, DECLARATION, QUERIES)
    pq.write_table(table_of([*INSIDE, outside]), tmp_path / "input" / "part.parquet")
    totals = run.to_the_end().totals
    assert (totals.rows, totals.bad, totals.dropped, totals.late) == (len(INSIDE) + 1, 1, 0, 0)
    for query in QUERIES:
        assert in_windows(run.results(query)) == len(INSIDE), query
    assert [row["rejected_reason"] for row in run.rejected()] == [REASON]


def test_in_frames() -> None:
    table = table_of([*INSIDE, *OUTSIDE])
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", headrace.RowErrorWarning)
        found = headrace.aggregate(table, QUERIES, name="s")
    for query in QUERIES:
        assert sum(found[query]["n"].to_pylist()) == len(INSIDE), query
    message = f"s: {len(OUTSIDE)} rows have a value that could not be read and were left out"
    assert [str(each.message) for each in caught] == [message]


@pytest.mark.parametrize("file_format", ["csv", "json"])
def test_in_texts(tmp_path: Path, file_format: str) -> None:
    run = FileRun.of(tmp_path, DECLARATION, QUERIES, file_format)
    texts = [*map(format_timestamp, INSIDE), "0000-12-31T23:59:59Z", "10000-01-01T00:00:00Z", "294000-01-01T00:00:00Z"]
    lines = (
        ["t,v", *(f"{text},{place}" for place, text in enumerate(texts))]
        if file_format == "csv"
        else [f'{{"t": "{text}", "v": {place}}}' for place, text in enumerate(texts)]
    )
    (tmp_path / "input" / "part").write_text("\n".join(lines) + "\n")
    totals = run.to_the_end().totals
    assert (totals.rows, totals.bad) == (len(texts), 3)
    assert in_windows(run.results("short")) == len(INSIDE)


def test_in_the_reference() -> None:
    catalog = parse_script(DECLARATION).catalog
    interpreter = Interpreter(catalog.streams[0])
    for name, sql in QUERIES.items():
        interpreter.register(name, parse_query(sql, catalog))
    step = interpreter.batch([{"t": time, "v": place} for place, time in enumerate([*INSIDE, *OUTSIDE])])
    assert (step.counts.rows, step.counts.bad) == (len(INSIDE) + len(OUTSIDE), len(OUTSIDE))
    assert {each.reason for each in step.rejected} == {REASON}
    answered = [result for each in (step, interpreter.end()) for result in each.results]
    for name in QUERIES:
        counts: list[Any] = [row[-1] for result in answered if result.query == name for row in result.rows]
        assert sum(counts) == len(INSIDE)


@pytest.mark.parametrize("text", [b"t,v\r1970-01-01,1\r", b"t,v\r1970-01-01,1\r1970-01-02,2"])
def test_lines_that_end_with_a_carriage_return_alone(tmp_path: Path, text: bytes) -> None:
    run = FileRun.of(tmp_path, DECLARATION, QUERIES, "csv")
    (tmp_path / "input" / "part.csv").write_bytes(text)
    (tmp_path / "input" / "whole.csv").write_bytes(b"t,v\r\n1970-01-01,1\r\n")
    commit = run.to_the_end()
    (left_out,) = commit.quarantined
    assert left_out.path.endswith("part.csv")
    assert left_out.reason == "its header has a carriage return without a newline: each line must end with a newline"
    assert commit.totals.rows == in_windows(run.results("short")) == 1
