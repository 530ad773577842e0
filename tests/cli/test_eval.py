"""`headrace eval`."""

from __future__ import annotations

import csv
import json
import os
import subprocess
import sys
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.csv as pa_csv
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


def test_mistakes_are_reported_without_a_stack_trace(
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
        ("eval", queries, "--data", tmp_path / "nowhere"): f"there is no file or folder {tmp_path / 'nowhere'}",
        ("eval", queries, "--data", queries): f"the name of {queries} does not say its format",
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


def test_a_folder_without_rows_is_reported_once(
    headrace: CommandLine, trades: Path, queries: Path, tmp_path: Path
) -> None:
    """And what else is wrong with the script, but not that each query reads a stream that nobody declared."""
    empty = tmp_path / "none"
    empty.mkdir()
    outcome = headrace("eval", queries, "--data", empty)
    assert outcome.status == 1
    assert outcome.err.startswith(f"error[no-data]: {empty} has no files of 'Trades'\n")
    assert outcome.err.count("error[") == 1
    queries.write_text(f"CREATE STREAM Trades (Time TIMESTAMP EVENT TIME Time;\n{QUERIES}")
    broken = headrace("eval", queries, "--data", empty).err
    assert broken.count("error[") == 2
    assert "queries.sql:1:" in broken
    queries.write_text(f"{(trades / 'schema.sql').read_text()}\nSELECT count(*) FROM Trade [RANGE 1];")
    assert "no stream or table 'Trade'" in headrace("eval", queries, "--data", trades).err


FLOWS = pa.table(
    {
        "at": pa.array([0, 30_000_000, 61_000_000], pa.timestamp("us", "UTC")),
        "src": ["10.0.0.7", "10.0.0.8", "10.0.0.7"],
        "bytes": [100, 1_234_567_890, 7],
        "share": [0.1234567890123456, 2.0, 1_000_000.25],
    }
)
TOTALS = "SELECT src, sum(bytes) AS bytes, max(share) AS share FROM flows [RANGE '1 min'] GROUP BY src"


def write_flows(folder: Path, file_format: str) -> Path:
    """The same rows as one file of each format, times with a zone."""
    path = folder / f"flows.{file_format}"
    if file_format == "parquet":
        pq.write_table(FLOWS, path)
    elif file_format == "csv":
        pa_csv.write_csv(FLOWS, path)
    else:
        rows = [{**row, "at": row["at"].isoformat()} for row in FLOWS.to_pylist()]
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


@pytest.mark.parametrize("file_format", ["parquet", "csv", "json", "jsonl"])
def test_a_file_of_ones_own_needs_no_declaration(headrace: CommandLine, tmp_path: Path, file_format: str) -> None:
    """As SQL on the command line, over a file, a folder of files, and a folder that has a folder of the stream."""
    path = write_flows(tmp_path, file_format)
    folder = tmp_path / "data" / "Flows"
    folder.mkdir(parents=True)
    write_flows(folder, file_format)
    expected = [
        {"window_start": "1970-01-01T00:00:00+00:00", "src": "10.0.0.7", "bytes": 100, "share": 0.1234567890123456},
        {"window_start": "1970-01-01T00:00:00+00:00", "src": "10.0.0.8", "bytes": 1_234_567_890, "share": 2.0},
        {"window_start": "1970-01-01T00:01:00+00:00", "src": "10.0.0.7", "bytes": 7, "share": 1_000_000.25},
    ]
    for data in (path, folder, tmp_path / "data"):
        outcome = headrace("eval", TOTALS, "--data", data, "--format", "json")
        assert outcome.status == 0, outcome.err
        rows = [json.loads(line) for line in outcome.out.splitlines()]
        assert [{key: row[key] for key in expected[0]} for row in rows] == expected
    header, first, *_ = headrace("eval", TOTALS, "--data", path, "--format", "csv").out.splitlines()
    assert header == '"window_start","window_end","src","bytes","share"'
    assert first.endswith('"10.0.0.7",100,0.1234567890123456')


def test_printed_numbers_are_never_cut(headrace: CommandLine, tmp_path: Path) -> None:
    many = ", ".join(f"sum(bytes) AS a_long_name_of_a_column_{number}" for number in range(20))
    outcome = headrace("eval", f"SELECT {many} FROM flows [RANGE '1 min']", "--data", write_flows(tmp_path, "csv"))
    assert outcome.status == 0, outcome.err
    assert "…" not in outcome.out
    assert outcome.out.count("1,234,567,990") == 20


def test_options_of_csv(headrace: CommandLine, tmp_path: Path) -> None:
    """As a job has them; a line with another number of fields is left out and counted."""
    path = tmp_path / "flows.txt"
    path.write_text("2026-01-01 09:00:00;5\n2026-01-01 09:00:10;-\nend of file\n")
    query = "SELECT sum(f1) AS total, count(*) AS n FROM flows [RANGE '1 min']"
    options = [each for one in ("delimiter=;", "header=false", "null_value=-") for each in ("--option", one)]
    outcome = headrace("eval", query, "--data", path, "--input-format", "csv", *options, "--format", "csv")
    assert outcome.status == 0, outcome.err
    assert outcome.out.splitlines()[1] == "2026-01-01 09:00:00.000000,2026-01-01 09:01:00.000000,5,2"
    assert "flows: 1 rows could not be read and were left out; the first: 1 fields instead of 2" in outcome.err


def test_the_event_time_can_be_named(headrace: CommandLine, tmp_path: Path) -> None:
    path = tmp_path / "two.csv"
    path.write_text("first,last,n\n2026-01-01T09:00:00Z,2026-01-02T09:00:00Z,1\n")
    query = "SELECT sum(n) AS n FROM two [RANGE '1 min']"
    outcome = headrace("eval", query, "--data", path, "--event-time", "last", "--format", "json")
    assert json.loads(outcome.out)["window_start"] == "2026-01-02T09:00:00+00:00"
    several = headrace("eval", query, "--data", path).err
    assert "error[event-time]: 'two' has several TIMESTAMP columns" in several
    assert "--event-time" in several
    assert "must be a TIMESTAMP column" in headrace("eval", query, "--data", path, "--event-time", "n").err


def test_tables_beside_the_stream_are_declared_too(headrace: CommandLine, tmp_path: Path) -> None:
    write_flows(tmp_path, "parquet")
    (tmp_path / "hosts.csv").write_text("ip,name\n10.0.0.7,north\n10.0.0.8,south\n")
    query = "SELECT name, count(*) AS n FROM flows [RANGE '1 hour'] JOIN hosts ON src = ip GROUP BY name"
    outcome = headrace("eval", query, "--data", tmp_path, "--format", "csv")
    assert outcome.status == 0, outcome.err
    assert [line.rpartition(":00.000000Z,")[2] for line in outcome.out.splitlines()[1:]] == ['"north",2', '"south",1']
    alone = headrace("eval", query, "--data", tmp_path / "flows.parquet").err
    assert "no stream or table 'hosts'" in alone


def test_what_can_not_be_inferred_or_printed_is_reported(
    headrace: CommandLine, trades: Path, queries: Path, tmp_path: Path
) -> None:
    flows = write_flows(tmp_path, "csv")
    array = tmp_path / "array.json"
    array.write_text('[{"at": "2026-01-01T09:00:00Z"}]\n')
    listed = tmp_path / "listed.json"
    listed.write_text('{"at": "2026-01-01T09:00:00Z", "tags": ["a"]}\n')
    mixed = tmp_path / "mixed"
    mixed.mkdir()
    for file_format in ("csv", "parquet"):
        write_flows(mixed, file_format)
    query = "SELECT count(*) AS n FROM stream [RANGE '1 min']"
    cases = {
        ("eval", query, "--data", array): "must hold one JSON object per line",
        ("eval", "SELECT max(tags) FROM s [RANGE 1]", "--data", listed): "it is of type list<item: string>",
        ("eval", query, "--data", mixed): "has files of several formats: csv, parquet",
        ("eval", "SELECT sum(byte) FROM s [RANGE 1]", "--data", flows): "did you mean 'bytes'?",
        ("eval", queries, "--data", trades, "--format", "csv"): "csv on standard output is for one query, not 2",
        ("eval", query, "--data", flows, "--option", "limit=3"): "have no option 'limit'",
    }
    for arguments, expected in cases.items():
        outcome = headrace(*arguments)
        assert outcome.status == 1, arguments
        assert expected in outcome.err, arguments
    wrong = (
        ("eval", query, "--data", flows, "--format", "parquet"),
        ("eval", query, "--data", flows, "--format", "table", "--out", tmp_path / "out"),
        ("eval", query, "--data", flows, "--option", "header"),
        ("eval", queries, "--data", trades, "--event-time", "Time"),
    )
    assert [headrace(*arguments).status for arguments in wrong] == [2, 2, 2, 2]


@pytest.mark.parametrize("file_format", ["parquet", "csv", "json"])
def test_results_that_can_not_be_written_are_reported(
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
