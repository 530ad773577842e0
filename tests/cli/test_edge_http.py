"""An edge that sends its frames over HTTP, to the real end of it."""

from __future__ import annotations

from pathlib import Path

import pytest

from headrace.sql import format_stream
from tests.cli.command_line import CommandLine, serve_stream, write_token
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
    write_token(tmp_path / "token")
    write_files(tmp_path, 20)
    return tmp_path


def test_frames_go_up_and_orders_come_down(headrace: CommandLine, folder: Path) -> None:
    orders = orders_for(QUERIES)
    upper(folder).publish(orders)
    server = serve_stream("r", upper(folder))
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
    server = serve_stream("r", upper(folder), "another-token-than-that")
    server.start()
    try:
        (folder / "agent.toml").write_text(AGENT.format(address=server.address, patience="300 ms"))
        outcome = headrace("edge", folder / "agent.toml", "--once")
    finally:
        server.stop()
    assert outcome.status == 1
    assert "wants another token" in outcome.err
    assert "hint: is it the one in its token_file?" in outcome.err
    assert "start what is above" not in outcome.err


def test_nobody_above_is_told(headrace: CommandLine, folder: Path) -> None:
    server = serve_stream("r", upper(folder))
    address = server.address
    server.stop()
    (folder / "agent.toml").write_text(AGENT.format(address=address, patience="300 ms"))
    outcome = headrace("edge", folder / "agent.toml", "--once")
    assert outcome.status == 1
    assert "does not answer" in outcome.err
    assert "hint: start what is above first" in outcome.err


def test_an_edge_that_is_not_listed_reads_nothing(headrace: CommandLine, folder: Path) -> None:
    upper(folder).publish(orders_for(QUERIES))
    upper(folder).admit(["south"])
    server = serve_stream("r", upper(folder))
    server.start()
    try:
        (folder / "agent.toml").write_text(AGENT.format(address=server.address, patience="300 ms"))
        outcome = headrace("edge", folder / "agent.toml", "--bounded", "--quiet")
        assert outcome.status == 1
        assert """there is no edge 'north' in edges = ["south"]: add it""" in outcome.err
        assert "there are no orders for this edge" in outcome.err
        assert not received(folder)
        upper(folder).admit(["north", "south"])
        assert headrace("edge", folder / "agent.toml", "--bounded", "--quiet").status == 0
    finally:
        server.stop()
    assert answers(received(folder), [orders_for(QUERIES).plan], QUERIES) == expected(20, QUERIES)
