"""Runs the command line in this process, as a person would see it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pytest

from headrace.service.main import main

TOKEN = "a-token-for-tests"


def write_token(path: Path, text: str = f"{TOKEN}\n", mode: int = 0o600) -> None:
    """Write a token file that only its owner can read."""
    path.write_text(text)
    path.chmod(mode)


@dataclass(frozen=True, slots=True)
class Outcome:
    status: int
    out: str
    err: str


class CommandLine:
    def __init__(self, capsys: pytest.CaptureFixture[str]) -> None:
        self.capsys = capsys

    def __call__(self, *arguments: object) -> Outcome:
        self.capsys.readouterr()
        status = main([str(argument) for argument in arguments])
        captured = self.capsys.readouterr()
        return Outcome(status, captured.out, captured.err)
