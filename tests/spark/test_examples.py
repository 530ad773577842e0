"""The examples run, and the page shows what they hold."""

from __future__ import annotations

import re
import runpy
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from headrace.datasets import generate

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("name", ["engine.py", "streaming_frame.py"])
def test_an_example_runs(name: str, spark: SparkSession, capsys: pytest.CaptureFixture[str]) -> None:
    assert spark is not None
    runpy.run_path(str(ROOT / "examples" / name))
    assert "window_start" in capsys.readouterr().out


def test_the_page_of_sinks_runs(spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    generate("trades", 2_000, 7, tmp_path)
    (block,) = re.findall(r"^```py\n(.*?)^```", (ROOT / "docs" / "sinks.md").read_text(), re.MULTILINE | re.DOTALL)
    known: dict[str, object] = {"spark": spark, "root": tmp_path}
    exec(compile(block, "sinks.md", "exec"), known)  # noqa: S102 - the page's own example
    assert "window_start" in capsys.readouterr().out


def test_the_page_shows_the_example() -> None:
    (shown,) = re.findall(r"^```py\n(.*?)^```", (ROOT / "docs" / "python.md").read_text(), re.MULTILINE | re.DOTALL)
    assert shown.strip() in (ROOT / "examples" / "engine.py").read_text()
