"""Files with tokens: the same rules for jobs, agents and relays."""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path

import pytest

from headrace.edge.exchange import DirectoryExchange
from headrace.model.errors import UsageError
from headrace.service.agent_file import read_agent_file
from headrace.service.jobs import read_job
from headrace.service.receiving import serve
from headrace.service.relay_file import read_relay_file
from tests.service.running import TOKEN, write_token

SCHEMA = "CREATE STREAM Trades (t TIMESTAMP, sym TEXT) EVENT TIME t;"
JOB = """\
schema = "schema.sql"
queries = "queries.sql"
state = "state"
[streams.Trades]
edges = "north"
[edges]
listen = "127.0.0.1:0"
token_file = "token"
"""
AGENT = """\
edge = "north"
schema = "schema.sql"
stream = "Trades"
state = "state"
[source]
kind = "stdin"
[ship]
to = "https://root:8760"
token_file = "token"
"""
RELAY = """\
relay = "west"
schema = "schema.sql"
streams = "Trades"
edges = "north"
inbox = "inbox"
state = "state"
token_file = "token"
[ship]
to = "above"
"""
FILES: dict[str, tuple[str, Callable[[Path], object]]] = {
    "job": (JOB, read_job),
    "agent": (AGENT, read_agent_file),
    "relay": (RELAY, read_relay_file),
    "ship of a relay": (
        RELAY.replace('token_file = "token"\n', "") + 'token_file = "token"\n',
        read_relay_file,
    ),
}


@pytest.fixture(params=FILES)
def read(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[[], object]:
    """Reads a file of each kind that names the file `token`."""
    text, reader = FILES[request.param]
    (tmp_path / "schema.sql").write_text(SCHEMA)
    (tmp_path / "queries.sql").write_text("")
    (tmp_path / "file.toml").write_text(text)
    return lambda: reader(tmp_path / "file.toml")


@pytest.mark.parametrize(
    "text", ["", "\n", " \t\n", "short", "x" * 15, "two words of a token", "é" * 16, "x" * 16 + "\0"]
)
def test_what_is_no_token_is_refused(read: Callable[[], object], tmp_path: Path, text: str) -> None:
    write_token(tmp_path / "token", text)
    with pytest.raises(UsageError, match="token") as refused:
        read()
    assert refused.value.code == "token"
    assert not text.strip() or text.strip() not in str(refused.value), "a secret is not shown"


def test_a_token_is_read_without_the_space_around_it(read: Callable[[], object], tmp_path: Path) -> None:
    write_token(tmp_path / "token", f"{TOKEN}\n")
    assert TOKEN in str(read())


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o644])
def test_a_file_that_others_can_read_is_reported(
    read: Callable[[], object], tmp_path: Path, mode: int, caplog: pytest.LogCaptureFixture
) -> None:
    write_token(tmp_path / "token", TOKEN, mode)
    with caplog.at_level(logging.WARNING):
        read()
    assert [record.getMessage() for record in caplog.records] == [
        f"{tmp_path / 'token'}: other users of this machine may read it: chmod 600 makes it private"
    ]


def test_a_private_file_is_not_reported(
    read: Callable[[], object], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    write_token(tmp_path / "token", TOKEN)
    with caplog.at_level(logging.WARNING):
        read()
    assert not caplog.records


@pytest.mark.parametrize("token", ["", " ", "x" * 15])
def test_a_server_refuses_a_token_that_is_none(tmp_path: Path, token: str) -> None:
    with pytest.raises(UsageError, match="token"):
        serve({"Trades": DirectoryExchange(tmp_path)}, "127.0.0.1:0", token)
