"""Files with tokens: the same rules for jobs, agents and relays."""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path

import pytest

from headrace.cli.agent_file import read_agent_file
from headrace.cli.job_file import read_job
from headrace.cli.relay_file import read_relay_file
from headrace.model.errors import UsageError
from headrace.wire.tokens import Tokens, digest_of, read_tokens, tokens_of
from tests.cli.command_line import TOKEN, write_token

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
def test_a_listener_refuses_a_token_that_is_none(token: str) -> None:
    with pytest.raises(UsageError, match="token"):
        tokens_of([("north", token)], "a test")
    assert Tokens({digest_of(token): "north"}).find_edge(token) is None


# A line for each edge

LINES = """
edge north the-token-of-the-north
  edge south   the-token-of-the-south

edge north the-next-one-of-the-north
"""


def read_lines(folder: Path, text: str, *edges: str) -> Tokens:
    write_token(folder / "token", text)
    return read_tokens(folder / "token", edges)


def test_each_edge_has_its_token(tmp_path: Path) -> None:
    tokens = read_lines(tmp_path, LINES, "north", "south")
    assert tokens.find_edge("the-token-of-the-north") == tokens.find_edge("the-next-one-of-the-north") == "north"
    assert tokens.find_edge("the-token-of-the-south") == "south"
    assert tokens.find_edge("the-token-of-the-sout") is None


def test_one_token_will_do_for_one_edge(tmp_path: Path) -> None:
    assert read_lines(tmp_path, f"{TOKEN}\n", "north").find_edge(TOKEN) == "north"
    with pytest.raises(UsageError, match="one token for 2 edges") as refused:
        read_lines(tmp_path, f"{TOKEN}\n", "north", "south")
    assert refused.value.hint == "write a line for each: edge north TOKEN"


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("user south the-token-of-the-south", "line 2: this is not 'edge NAME TOKEN'"),
        ("the-token-of-the-south", "line 2: this is not"),
        ("edge south", "line 2: this is not"),
        ("edge south the token of the south", "line 2: this is not"),
        ("edge suoth the-token-of-the-south", "line 2: there is no edge 'suoth'"),
        ("edge south too-short", "line 2: a token has at least 16 bytes"),
        ("edge south the-token-of-the-north", "'north' and 'south' have the same token"),
    ],
)
def test_a_line_that_is_none_is_named(tmp_path: Path, line: str, message: str) -> None:
    with pytest.raises(UsageError, match=message) as refused:
        read_lines(tmp_path, f"edge north the-token-of-the-north\n{line}\n", "north", "south")
    assert "the-token" not in str(refused.value), "a secret is not shown"


def test_a_job_has_the_edges_of_all_its_streams(tmp_path: Path) -> None:
    (tmp_path / "schema.sql").write_text(SCHEMA)
    (tmp_path / "queries.sql").write_text("")
    (tmp_path / "job.toml").write_text(f'{JOB}[streams.Quotes]\nedges = ["north", "south"]\n')
    write_token(tmp_path / "token", LINES)
    tokens = read_job(tmp_path / "job.toml").tokens
    assert tokens is not None
    assert tokens.find_edge("the-token-of-the-south") == "south"
