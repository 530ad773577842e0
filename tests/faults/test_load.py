"""The load suite in a tiny form, so that its command keeps working."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from tests.engine.stories import without_sync
from tests.faults.load import CASES, MAX_GROWTH, MAX_GROWTH_ON_SPARK, Point, curve, growth, main


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
        assert case["points"][-1]["files"]["slices"] > 0


def points_of(levels: npt.NDArray[np.floating[Any]]) -> list[Point]:
    """Points whose measures all follow the same line."""
    return [Point(each, each / 2, 300 * each, {"commits": 17, "slices": int(1_000 * each)}, 1.0, 0) for each in levels]


STEPS = np.arange(300)


@pytest.mark.parametrize("max_growth", [MAX_GROWTH, MAX_GROWTH_ON_SPARK])
def test_slow_steady_growth_is_found(max_growth: Mapping[str, float]) -> None:
    noise = np.random.default_rng(1).normal(0, 0.05, len(STEPS))
    for levels in (1 + STEPS / 1_000, 1 + STEPS / 1_000 + noise, 1 + STEPS // 50 * 0.05):
        found = growth(points_of(levels))
        assert all(found[measure] > share for measure, share in max_growth.items()), found


@pytest.mark.parametrize(
    "levels",
    [
        np.ones(len(STEPS)),
        1 + np.random.default_rng(1).normal(0, 0.1, len(STEPS)),
        1 + STEPS % 16 / 64,
        1 + STEPS[:97] % 16 / 8,
        np.where(STEPS % 16, 1.0, 5.0),
        2 - np.exp(-STEPS / 40),
        np.minimum(1 + STEPS / 50, 3),
        2 - STEPS / 300,
    ],
    ids=["level", "noise", "saw", "short saw", "peaks", "flattens", "is full", "shrinks"],
)
def test_noise_around_a_level_and_growth_that_flattens_are_not(levels: npt.NDArray[np.floating[Any]]) -> None:
    found = growth(points_of(levels))
    assert all(found[measure] <= share for measure, share in MAX_GROWTH.items()), found


def test_the_curve_has_a_few_lines_of_many_steps() -> None:
    lines = list(curve(points_of(1 + STEPS / 1_000), lines=12))
    assert len(lines) == 13
    assert lines[-1].split()[:4] == ["299", "1.299", "0.649", "390"]
