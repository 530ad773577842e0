"""The engine on the papers' workloads, from files to files: every row of every window as DuckDB has it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from headrace.datasets import generate, workload
from headrace.sql import parse_script

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

WORKLOADS = ["otf-windows", "otf-predicates", "otf-regular", "otf-low", "grouped"]


def compare(spark: SparkSession, root: Path, name: str, rows: int, queries: int) -> int:
    from benchmarks.otf import answers_of, check, engine_over, run_bounded
    from benchmarks.peers import file_peers
    from headrace.spark.single_query import files_in

    generate("netflow" if name == "grouped" else "trades", rows, 1, root / "data")
    files = files_in(root / "data")
    asked = {each.name: each.query for each in parse_script(workload(name, queries, 7)).queries}
    found = run_bounded(engine_over(spark, files, asked), root / "state", lambda run: answers_of(run, asked))
    assert found.rows == rows
    with file_peers(spark, files) as peers:
        return check(found.answers, asked, {"duckdb": peers["duckdb"]}, root, lambda *_: None)


@pytest.mark.parametrize("name", WORKLOADS)
def test_few_queries(spark: SparkSession, tmp_path: Path, name: str) -> None:
    assert compare(spark, tmp_path, name, 60_000, 16) > 0


@pytest.mark.slow
@pytest.mark.parametrize("name", WORKLOADS)
def test_all_queries(spark: SparkSession, tmp_path: Path, name: str) -> None:
    """2 million rows, 256 queries."""
    checked = compare(spark, tmp_path, name, 2_000_000, 128 if name == "grouped" else 256)
    print(f"{name}: {checked:,} rows equal")
    assert checked > 1_000
