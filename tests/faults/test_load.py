"""The load suite in a tiny form, so that its command keeps working."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.engine.stories import without_sync
from tests.faults.load import CASES, Point, curve, growth, main


def test_the_command_runs_every_case_and_resumes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    kept = tmp_path / "load.json"
    with without_sync():
        assert main(["--tiny", "--json", str(kept), "churn", "groups"]) == 0
        assert "churn:" in capsys.readouterr().out
        assert main(["--tiny", "--json", str(kept), "--resume"]) == 0
    assert "churn:" not in capsys.readouterr().out
    found = json.loads(kept.read_text())
    assert found.keys() == CASES.keys()
    for case in found.values():
        assert len(case["points"]) == 6
        assert case["points"][-1]["windows"] > 0
        assert case["points"][-1]["state_files"] > 0


def test_what_grows_is_found() -> None:
    level = [Point(0.1, 300, 40, 1.0, number) for number in range(30)]
    rising = [Point(0.1, 300 + 20 * number, 40, 1.0, number) for number in range(30)]
    assert growth(level) == {"memory_mb": 1.0, "state_files": 1.0, "step_s": 1.0}
    assert growth(rising)["memory_mb"] > 1.25
    assert len(list(curve(rising))) == 13
