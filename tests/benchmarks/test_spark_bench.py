"""The benchmarks of the engine on Spark at a small size: their keys and what must hold at any size, never times."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from benchmarks.otf import spread
from benchmarks.peers import INSTANCE, check_equal, file_peers, own_answers, read_spark, spark_peer
from benchmarks.stream import scale_steps
from headrace.datasets import generate
from headrace.model.time import SECOND_US
from headrace.spark.single_query import files_in
from headrace.sql import parse_query, parse_script
from tests.cli.command_line import CommandLine

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

OTF_KEYS = set(
    "shared_s plan_s unshared_s unshared_sampled single_s speedup price_of_one lattice_gain checked_rows stages "
    "duckdb_s polars_s duckdb_gain polars_gain level1_rows level1_share rows queries workload".split()
)
STEADY_KEYS = set(
    "rows_per_s batch_ms_p50 batch_ms_p95 add_batches rss_growth rss_mb rss_steps store_files_max stages_ms".split()
)
CATALOG = parse_script("CREATE STREAM s (t TIMESTAMP, x DOUBLE) EVENT TIME t;").catalog


@pytest.fixture(autouse=True)
def _peers_are_there() -> None:
    pytest.importorskip("duckdb")
    pytest.importorskip("polars")


def figures(path: Path) -> Mapping[str, Any]:
    found: Mapping[str, Any] = json.loads(path.read_text())
    return found


@pytest.mark.parametrize("workload", ["low", "grouped"])
def test_otf(bench: CommandLine, spark: SparkSession, tmp_path: Path, workload: str) -> None:
    small = "--workload", workload, "--rows", 20_000, "--queries", 8, "--sample", 2
    outcome = bench("otf", *small, "--json", tmp_path / "otf.json")
    assert outcome.status == 0, outcome.err
    found = figures(tmp_path / "otf.json")
    assert set(found) == OTF_KEYS
    assert (found["workload"], found["queries"], found["rows"]) == (workload, 8, 20_000)
    assert found["unshared_sampled"] == 2
    assert found["checked_rows"] > 0
    assert found["level1_share"] == found["level1_rows"] / found["rows"] > 0
    assert found["speedup"] == found["unshared_s"] / found["shared_s"]
    assert found["price_of_one"] == found["shared_s"] / found["single_s"]
    assert {"begin", "plan", "run", "commit", "finish"} <= set(found["stages"])
    assert "price_of_one" in outcome.out
    assert spark.range(1).count() == 1, "a session that was there continues"


def test_stream(bench: CommandLine, spark: SparkSession, tmp_path: Path) -> None:
    small = "--steps", 6, "--step-rows", 2_000, "--queries", 4, "--by-queries", 1, "--rate", 1_000
    outcome = bench("stream", *small, "--json", tmp_path / "stream.json")
    assert outcome.status == 0, outcome.err
    found = figures(tmp_path / "stream.json")
    assert STEADY_KEYS | {f"{key}_low" for key in STEADY_KEYS} <= set(found)
    assert (found["queries"], found["steps"], found["step_rows"]) == (4, 6, 2_000)
    assert found["add_batches"] == found["add_batches_low"] == 1
    assert set(found["rows_per_s_by_queries"]) == {"1"}
    assert found["layouts_ms_p50"] > 0
    assert found["store_files_max"] > 0
    assert "instead of 200" in outcome.err


#   slide 10 s, range 4 s, offset 3 s:  [-1, 3)  [9, 13)  [19, 23)
#   rows at                               2  5 8   9  12 13
def test_windows_with_gaps_in_spark(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "schema.sql").write_text("CREATE STREAM s (t TIMESTAMP, x DOUBLE) EVENT TIME t;")
    times = [datetime.fromtimestamp(second, UTC) for second in (2, 5, 8, 9, 12, 13)]
    (tmp_path / "s").mkdir()
    pq.write_table(pa.table({"t": times, "x": [1.0, 2, 4, 8, 16, 32]}), tmp_path / "s" / "part.parquet")
    files = files_in(tmp_path)
    query = parse_query("SELECT sum(x) AS total FROM s [RANGE '4 s' SLIDE '10 s' OFFSET '3 s']", files.catalog)
    peer = spark_peer(spark, files)
    peer.write(query, tmp_path / "out")
    found = read_spark(query, tmp_path / "out").sort_by(INSTANCE)
    assert found[INSTANCE].to_pylist() == [0, 1]
    assert found["total"].to_pylist() == [1.0, 24.0]


def test_a_difference_is_an_error(spark: SparkSession, tmp_path: Path) -> None:
    generate("trades", 2_000, 1, tmp_path / "data")
    files = files_in(tmp_path / "data")
    query = parse_query(
        "SELECT sum(Price) AS total, count(*) AS n FROM Trades [RANGE '3 s' SLIDE '2 s']", files.catalog
    )
    with file_peers(spark, files) as peers:
        answers = {}
        for name, peer in peers.items():
            peer.write(query, tmp_path / name)
            answers[name] = peer.read(query, tmp_path / name)
    one = answers["spark"]
    assert check_equal("both", query, one, answers["duckdb"]) == check_equal("both", query, one, answers["polars"]) > 0
    off = one.set_column(one.column_names.index("n"), "n", pa.array([0] * one.num_rows))
    with pytest.raises(RuntimeError, match="both differ in n"):
        check_equal("both", query, off, answers["duckdb"])


def test_own_answers_leave_out_empty_windows_and_refuse_others() -> None:
    query = parse_query("SELECT sum(x) AS total FROM s [RANGE '4 s' SLIDE '2 s']", CATALOG)
    start, end = (output.name for output in query.outputs if output.name != "total")

    def table(starts: list[int]) -> pa.Table:
        bounds = {start: starts, end: [each + 4 for each in starts]}
        columns = {name: pa.array([each * SECOND_US for each in times]) for name, times in bounds.items()}
        shown = {name: column.cast(pa.timestamp("us", "UTC")) for name, column in columns.items()}
        return pa.table({**shown, "total": pa.array([1.0, None], pa.float64())})

    assert own_answers(query, table([0, 2]))[INSTANCE].to_pylist() == [2]
    with pytest.raises(RuntimeError, match="a window is not one of"):
        own_answers(query, table([1, 3]))


def test_the_sample_is_spread_over_all_queries() -> None:
    query = parse_query("SELECT sum(x) AS total FROM s [RANGE '4 s']", CATALOG)
    queries = {f"q{place}": query for place in range(10)}
    assert list(spread(queries, 10)) == list(spread(queries, 20)) == list(queries)
    few = [list(queries).index(name) for name in spread(queries, 3)]
    assert len(few) == 3
    assert all(begin <= place < end for place, begin, end in zip(few, (0, 3, 6), (3, 6, 10), strict=True))


def test_memory_is_compared_between_the_same_parts_of_shorter_runs() -> None:
    assert (scale_steps((31, 50), 200), scale_steps((181, 200), 200)) == ((30, 50), (180, 200))
    assert (scale_steps((31, 50), 6), scale_steps((181, 200), 6)) == ((0, 1), (5, 6))


def test_help_teaches_the_figures(bench: CommandLine) -> None:
    for command, parts in {"otf": ("price_of_one", "lattice_gain"), "stream": ("rss_growth", "layouts_ms_p50")}.items():
        taught = " ".join(bench(command, "--help").out.split())
        assert all(part in taught for part in parts)
