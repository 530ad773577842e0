"""The first aggregate on the page about aggregates of users works in SQL."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import headrace

PAGE = Path(__file__).parents[2] / "docs" / "aggregates-user.md"


def test_the_first_aggregate_of_the_page() -> None:
    first, *_ = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
    known: dict[str, Any] = {"__name__": "page"}
    exec(first, known)  # noqa: S102 - the page is ours
    rows = pa.table({"t": pa.array([0, 1, 2], pa.timestamp("us", "UTC")), "x": [1.0, 4.0, 16.0]})
    query = "SELECT geometric_mean(x) AS mean FROM stream [RANGE 60]"
    found = headrace.aggregate(rows, {"q": query}, functions=[known["geometric_mean"]])["q"]
    assert found["mean"][0].as_py() == pytest.approx(4.0)
