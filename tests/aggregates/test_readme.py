"""The aggregate that the README shows: short, and it works in SQL."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import headrace

README = Path(__file__).parents[2] / "README.md"
MOST_LINES = 15


def test_the_aggregate_of_the_readme() -> None:
    (block,) = re.findall(r"```python\n(.*?)```", README.read_text(), re.DOTALL)
    assert len(block.splitlines()) <= MOST_LINES
    known: dict[str, Any] = {"__name__": "readme"}
    exec(block, known)  # noqa: S102 - the page is ours
    rows = pa.table({"t": pa.array([0, 1, 2], pa.timestamp("us", "UTC")), "x": [1.0, 4.0, 16.0]})
    query = "SELECT geometric_mean(x) AS mean FROM stream [RANGE 60]"
    result = headrace.aggregate(rows, {"q": query}, functions=[known["GeometricMean"]])["q"]
    assert result["mean"][0].as_py() == pytest.approx(4.0)
