"""The example of one edge runs, and sends far less than it reads."""

from __future__ import annotations

import re
import runpy
from pathlib import Path

import pytest

EXAMPLE = Path(__file__).parents[2] / "examples" / "edge" / "one_edge.py"


def test_the_example_runs(capsys: pytest.CaptureFixture[str]) -> None:
    runpy.run_path(str(EXAMPLE))
    found = re.findall(r"(\d+) partials of ([\d,]+) rows", capsys.readouterr().out)
    rows = sum(int(rows.replace(",", "")) for _, rows in found)
    partials = sum(int(partials) for partials, _ in found)
    assert rows == 10_000
    assert 50 <= partials <= 200, "ten slices of five symbols, in few frames"
