"""Runs the command line in this process, as a person would see it."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from headrace.service.main import main


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
