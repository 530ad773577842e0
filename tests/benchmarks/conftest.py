from __future__ import annotations

import pytest

from benchmarks.__main__ import main
from tests.cli.command_line import CommandLine


@pytest.fixture
def bench(capsys: pytest.CaptureFixture[str]) -> CommandLine:
    return CommandLine(capsys, main)
