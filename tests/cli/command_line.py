"""Runs the command line in this process, as a person would see it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from headrace.cli.main import main
from headrace.model.time import SECOND_US
from headrace.wire.exchange import DirectoryExchange
from headrace.wire.http_server import Inlet, Server, serve
from headrace.wire.tokens import tokens_of

TOKEN = "a-token-for-tests"


def serve_stream(stream: str, exchange: DirectoryExchange, token: str = TOKEN, edge: str = "north") -> Server:
    """Serve one stream on loopback, to one edge."""
    return serve([Inlet(stream, exchange, SECOND_US)], "127.0.0.1:0", tokens_of([(edge, token)], "a test"))


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
    def __init__(self, capsys: pytest.CaptureFixture[str], run: Callable[[list[str]], int] = main) -> None:
        self.capsys = capsys
        self.run = run

    def __call__(self, *arguments: object) -> Outcome:
        self.capsys.readouterr()
        status = self.run([str(argument) for argument in arguments])
        captured = self.capsys.readouterr()
        return Outcome(status, captured.out, captured.err)
