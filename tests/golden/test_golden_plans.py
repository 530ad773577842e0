"""The papers' examples and the plans we make for them, as text. A plan that changes should change on purpose."""

from __future__ import annotations

import difflib
import shlex
from collections.abc import Callable
from pathlib import Path

import pytest

from headrace.cli.main import main
from headrace.datasets import generate

HERE = Path(__file__).parent
EXAMPLES = sorted(HERE.glob("*.sql"))
UPDATE = "pytest tests/golden tests/project/test_pages.py --update-golden"
CONSTANTS = HERE / "constants.json"
"""Fixed here, so that a new calibration changes no golden plan."""

MakeData = Callable[[str, int], Path]


@pytest.fixture(scope="session")
def make_data(tmp_path_factory: pytest.TempPathFactory) -> MakeData:
    """Each data set once."""
    folder = tmp_path_factory.mktemp("golden")

    def make(kind: str, rows: int) -> Path:
        target = folder / f"{kind}-{rows}"
        if not target.exists():
            generate(kind, rows, 7, target)
        return target

    return make


def heading(script: str, word: str) -> list[str]:
    """The words after `-- word:` at the top of a script."""
    line = next(line for line in script.splitlines() if line.startswith(f"-- {word}:"))
    return shlex.split(line.partition(":")[2])


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.stem)
def test_plan(
    example: Path, make_data: MakeData, request: pytest.FixtureRequest, capsys: pytest.CaptureFixture[str]
) -> None:
    script = example.read_text()
    kind, rows = heading(script, "data")
    data = make_data(kind, int(rows))
    options = ["--data", str(data), "--constants", str(CONSTANTS), *heading(script, "options")]
    assert main(["explain", str(example), *options]) == 0
    found, golden = capsys.readouterr().out, example.with_suffix(".txt")
    if request.config.getoption("--update-golden"):
        golden.write_text(found)
    expected = golden.read_text() if golden.exists() else ""
    changes = difflib.unified_diff(expected.splitlines(), found.splitlines(), golden.name, "found now", lineterm="")
    assert found == expected, "\n".join(["the plan has changed:", *changes, f"if it should: {UPDATE}"])


def test_every_golden_text_has_its_queries() -> None:
    assert {path.stem for path in HERE.glob("*.txt")} == {path.stem for path in EXAMPLES}
