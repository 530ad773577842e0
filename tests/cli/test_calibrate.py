"""`headrace calibrate`."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path

from headrace.planner.cost import Constants
from tests.cli.command_line import CommandLine


def test_calibrate(headrace: CommandLine, tmp_path: Path) -> None:
    outcome = headrace("calibrate", "--rows", 10_000, "--out", tmp_path / "constants.json")
    assert outcome.status == 0, outcome.err
    found = json.loads((tmp_path / "constants.json").read_text())
    assert set(found) == set(asdict(Constants()))
    assert all(value >= 0 for value in found.values())
    assert Constants(**found).node_ns > 0


def test_a_file_that_cannot_be_written_is_reported(headrace: CommandLine, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    outcome = headrace("calibrate", "--rows", 10_000, "--out", tmp_path / "file" / "constants.json")
    assert outcome.status == 1
    assert "can't write" in outcome.err
