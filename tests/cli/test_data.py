"""`headrace data` and `headrace workload`."""

from __future__ import annotations

from pathlib import Path

import pyarrow.parquet as pq
import pytest

from headrace.datasets import KINDS, WORKLOADS
from tests.cli.command_line import CommandLine


@pytest.mark.parametrize("kind", KINDS)
def test_data_can_be_parsed_and_read(headrace: CommandLine, tmp_path: Path, kind: str) -> None:
    outcome = headrace("data", kind, "--rows", 500, "--seed", 3, "--out", tmp_path / "d")
    assert outcome.status == 0, outcome.err
    assert "500 rows" in outcome.err
    assert headrace("parse", tmp_path / "d" / "schema.sql").status == 0
    streams = [folder for folder in (tmp_path / "d").iterdir() if folder.is_dir()]
    assert 500 in [sum(pq.read_metadata(file).num_rows for file in folder.glob("*.parquet")) for folder in streams]


def test_a_folder_in_use_is_refused_and_left_alone(headrace: CommandLine, tmp_path: Path) -> None:
    (tmp_path / "precious.txt").write_text("keep")
    outcome = headrace("data", "trades", "--rows", 10, "--out", tmp_path)
    assert outcome.status == 1
    assert [path.name for path in tmp_path.iterdir()] == ["precious.txt"]


def test_a_folder_that_can_not_be_made_is_told(headrace: CommandLine, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    outcome = headrace("data", "trades", "--rows", 10, "--out", tmp_path / "file" / "below")
    assert outcome.status == 1
    assert f"error[file]: can't write {tmp_path / 'file' / 'below'}" in outcome.err


@pytest.mark.parametrize("name", WORKLOADS)
def test_every_query_of_every_workload_is_accepted(headrace: CommandLine, tmp_path: Path, name: str) -> None:
    script = headrace("workload", name, "--seed", 7)
    assert script.status == 0
    path = tmp_path / "script.sql"
    path.write_text(script.out)
    parsed = headrace("parse", path)
    assert parsed.status == 0, parsed.err
    assert f"queries: {script.out.count('CREATE QUERY')} (" in parsed.err


def test_low_sharing_queries_are_all_different(headrace: CommandLine, tmp_path: Path) -> None:
    path = tmp_path / "script.sql"
    path.write_text(headrace("workload", "otf-low", "--queries", 256, "--seed", 7).out)
    assert "queries: 256 (256 different)" in headrace("parse", path).err


def test_unknown_names_are_usage_errors(headrace: CommandLine, tmp_path: Path) -> None:
    assert headrace("data", "weather", "--out", tmp_path / "x").status == 2
    assert headrace("workload", "nonsense").status == 2
    assert headrace("workload", "otf-regular", "--queries", 15).status == 1
