"""`headrace eval`."""

from __future__ import annotations

import csv
import json
import os
import subprocess
import sys
from pathlib import Path

import duckdb
import pyarrow.parquet as pq
import pytest

from tests.cli.command_line import CommandLine

QUERIES = """
CREATE QUERY totals AS SELECT count(*) AS n, sum(Vol) AS volume FROM Trades [RANGE '2 s'];
CREATE QUERY top AS SELECT Symbol, count(*) AS n FROM Trades [RANGE '2 s'] GROUP BY Symbol ORDER BY n DESC LIMIT 2;
"""


@pytest.fixture
def queries(tmp_path: Path) -> Path:
    path = tmp_path / "queries.sql"
    path.write_text(QUERIES)
    return path


def test_results_equal_duckdb_over_the_same_files(
    headrace: CommandLine, trades: Path, queries: Path, tmp_path: Path
) -> None:
    outcome = headrace("eval", queries, "--data", trades, "--out", tmp_path / "out", "--query", "totals")
    assert outcome.status == 0, outcome.err
    rows = pq.read_table(tmp_path / "out" / "totals.parquet").to_pylist()
    expected = duckdb.execute(
        "SELECT time_bucket(INTERVAL 2 SECOND, Time), count(*), sum(Vol) FROM read_parquet(?) GROUP BY 1 ORDER BY 1",
        [str(trades / "Trades" / "*.parquet")],
    ).fetchall()
    assert [(row["window_start"], row["n"], row["volume"]) for row in rows] == expected
    assert sum(row["n"] for row in rows) == 2_000


def test_files_in_all_formats_hold_the_same(headrace: CommandLine, trades: Path, queries: Path, tmp_path: Path) -> None:
    for file_format in ("parquet", "csv", "json"):
        assert (
            headrace("eval", queries, "--data", trades, "--out", tmp_path / "out", "--format", file_format).status == 0
        )
    parquet = pq.read_table(tmp_path / "out" / "top.parquet").column("n").to_pylist()
    with (tmp_path / "out" / "top.csv").open() as file:
        assert [int(row["n"]) for row in csv.DictReader(file)] == parquet
    lines = (tmp_path / "out" / "top.json").read_text().splitlines()
    assert [json.loads(line)["n"] for line in lines] == parquet


def test_printed_tables_are_cut_and_say_so(headrace: CommandLine, trades: Path, queries: Path) -> None:
    outcome = headrace("eval", queries, "--data", trades, "--rows", 1)
    assert outcome.status == 0
    assert "volume" in outcome.out
    assert "more rows" in outcome.out
    assert "queries: 2" in outcome.err


def test_mistakes_are_told_without_a_stack_trace(
    headrace: CommandLine, trades: Path, queries: Path, tmp_path: Path
) -> None:
    (tmp_path / "none").mkdir()
    broken = tmp_path / "broken"
    broken.mkdir()
    (broken / "Trades").mkdir()
    (broken / "Trades" / "part.parquet").write_text("not parquet")
    (broken / "schema.sql").write_text((trades / "schema.sql").read_text())
    empty = tmp_path / "empty.sql"
    empty.write_text("-- nothing\n")
    percentile = tmp_path / "percentile.sql"
    percentile.write_text("SELECT quantile_sketch(Vol) FROM Trades [RANGE 60]")
    cases = {
        ("eval", queries, "--data", tmp_path / "nowhere"): f"the data folder {tmp_path / 'nowhere'} does not exist",
        ("eval", queries, "--data", queries): f"the data folder {queries} is not a folder",
        ("eval", queries, "--data", broken): "part.parquet: is damaged",
        ("eval", empty, "--data", trades): "no query",
        ("eval", queries, "--data", trades, "--query", "other"): "no query 'other'",
        ("eval", percentile, "--data", trades, "--engine", "reference"): "quantile_sketch can't be computed here",
    }
    for arguments, expected in cases.items():
        outcome = headrace(*arguments)
        assert outcome.status == 1, arguments
        assert expected in outcome.err, arguments
        assert "Traceback" not in outcome.err


def test_a_folder_without_declarations_is_told_once(
    headrace: CommandLine, trades: Path, queries: Path, tmp_path: Path
) -> None:
    """And what else is wrong with the script, but not that each query reads a stream that nobody declared."""
    (tmp_path / "none").mkdir()
    schema = tmp_path / "none" / "schema.sql"
    for told in ("does not exist", "declares no stream"):
        outcome = headrace("eval", queries, "--data", tmp_path / "none")
        assert outcome.status == 1
        assert outcome.err.startswith(f"error[no-stream]: the script declares no stream, and {schema} {told}\n")
        assert outcome.err.count("error[") == 1
        schema.write_text("CREATE TABLE Close (Symbol STRING, CP DOUBLE);")
    queries.write_text(f"CREATE STREAM Trades (Time TIMESTAMP EVENT TIME Time;\n{QUERIES}")
    broken = headrace("eval", queries, "--data", tmp_path / "none").err
    assert broken.count("error[") == 2
    assert "queries.sql:1:" in broken
    queries.write_text(f"{(trades / 'schema.sql').read_text()}\nSELECT count(*) FROM Trade [RANGE 1];")
    assert "no stream or table 'Trade'" in headrace("eval", queries, "--data", trades).err


@pytest.mark.parametrize("file_format", ["parquet", "csv", "json"])
def test_results_that_can_not_be_written_are_told(
    headrace: CommandLine, trades: Path, queries: Path, tmp_path: Path, file_format: str
) -> None:
    taken = tmp_path / "out" / f"totals.{file_format}"
    taken.mkdir(parents=True)
    for out, told in ((queries, queries), (queries / "below", queries / "below"), (tmp_path / "out", taken)):
        outcome = headrace("eval", queries, "--data", trades, "--out", out, "--format", file_format)
        assert outcome.status == 1
        assert f"error[file]: can't write {told}: " in outcome.err


def test_errors_of_rows_are_counted_per_query(headrace: CommandLine, trades: Path, tmp_path: Path) -> None:
    script = tmp_path / "errors.sql"
    script.write_text("CREATE QUERY e AS SELECT sum(Vol / 0) FROM Trades [RANGE 60]")
    assert "e: 2,000 values could not be computed" in headrace("eval", script, "--data", trades).err


def test_only_the_first_run_compiles_and_says_so(trades: Path, queries: Path, tmp_path: Path) -> None:
    """In fresh processes, with a fresh cache that outlives the first of them."""
    command = [sys.executable, "-m", "headrace", "eval", str(queries), "--data", str(trades)]
    environment = os.environ | {"NUMBA_CACHE_DIR": str(tmp_path / "cache")}
    runs = [subprocess.run(command, env=environment, capture_output=True, text=True, check=True) for _ in range(2)]
    assert [run.stderr.count("compiling loops") for run in runs] == [1, 0]
    assert runs[0].stdout == runs[1].stdout
