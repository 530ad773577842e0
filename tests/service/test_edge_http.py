"""An edge that sends its frames over HTTP, to the real end of it."""

from __future__ import annotations

from pathlib import Path

import pytest

from headrace.service.receiving import serve
from headrace.sql import format_stream
from tests.edge.agents import (
    QUERIES,
    STREAM,
    answers,
    expected,
    orders_for,
    received,
    upper,
    write_files,
)
from tests.service.running import CommandLine

AGENT = """\
edge = "north"
schema = "schema.sql"
stream = "r"
state = "state"
[source]
kind = "files"
path = "input"
[ship]
to = "http://{address}"
token_file = "token"
every = "10 ms"
patience = "{patience}"
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "schema.sql").write_text(f"{format_stream(STREAM)};")
    (tmp_path / "token").write_text("secret\n")
    write_files(tmp_path, 20)
    return tmp_path


def test_frames_go_up_and_orders_come_down(headrace: CommandLine, folder: Path) -> None:
    orders = orders_for(QUERIES)
    upper(folder).publish(orders)
    server = serve({"r": upper(folder)}, "127.0.0.1:0", "secret")
    server.start()
    try:
        (folder / "agent.toml").write_text(AGENT.format(address=server.address, patience="60 s"))
        outcome = headrace("edge", folder / "agent.toml", "--bounded")
        assert outcome.status == 0, outcome.err
    finally:
        server.stop()
    frames = received(folder)
    assert answers(frames, [orders.plan], QUERIES) == expected(20, QUERIES)
    assert frames[-1].header.ended


def test_a_wrong_token_is_told(headrace: CommandLine, folder: Path) -> None:
    server = serve({"r": upper(folder)}, "127.0.0.1:0", "another")
    server.start()
    try:
        (folder / "agent.toml").write_text(AGENT.format(address=server.address, patience="300 ms"))
        outcome = headrace("edge", folder / "agent.toml", "--once")
    finally:
        server.stop()
    assert outcome.status == 1
    assert "wants another token" in outcome.err
