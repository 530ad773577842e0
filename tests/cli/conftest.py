from __future__ import annotations

from pathlib import Path

import pytest

from headrace.datasets import generate
from tests.cli.command_line import CommandLine


@pytest.fixture
def headrace(capsys: pytest.CaptureFixture[str]) -> CommandLine:
    return CommandLine(capsys)


@pytest.fixture(scope="session")
def trades(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """2,000 trades: about six seconds."""
    folder = tmp_path_factory.mktemp("data") / "trades"
    generate("trades", 2_000, 7, folder)
    return folder
