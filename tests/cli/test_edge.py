"""`headrace edge`: the file of an agent, its runs, signals, and what it shows."""

from __future__ import annotations

import array
import fcntl
import io
import json
import os
import signal
import socket
import subprocess
import sys
import termios
import time
from collections.abc import Callable
from pathlib import Path
from typing import IO, Any

import pyarrow.parquet as pq
import pytest
from rich.console import Console

from headrace.cli.agent_file import build_agent, read_agent_file
from headrace.cli.commands.edge import Rate, line_of, short_size
from headrace.cli.live import LINE_S, NewLines
from headrace.edge.agent import Agent
from headrace.edge.agent_progress import AgentProgress, Mode
from headrace.edge.socket_sources import Connections, Datagrams
from headrace.model.errors import UsageError
from headrace.wire.exchange import DirectoryExchange
from headrace.wire.frames import Frame, RowCounts, from_bytes
from headrace.wire.orders import Orders
from tests.cli.command_line import TOKEN, CommandLine, write_token
from tests.edge.agents import Running

AGENT = """\
edge = "north"
schema = "schema.sql"
stream = "Trades"
state = "state"
memory = "2 MB"
{more}
[source]
{source}
[ship]
to = "up"
every = "100 ms"
poll = "100 ms"
{ship}
"""
FILES = 'kind = "files"\npath = "data"'
PATIENCE_S = 60


@pytest.fixture
def folder(tmp_path: Path, trades: Path) -> Path:
    (tmp_path / "data").symlink_to(trades / "Trades")
    (tmp_path / "schema.sql").write_text((trades / "schema.sql").read_text())
    DirectoryExchange(tmp_path / "up").publish(Orders("Trades"))
    return tmp_path


def written(folder: Path, source: str = FILES, more: str = "", ship: str = "") -> Path:
    path = folder / "agent.toml"
    path.write_text(AGENT.format(source=source, more=more, ship=ship))
    return path


def frames(folder: Path) -> list[Frame]:
    return [from_bytes(path.read_bytes()) for path in DirectoryExchange(folder / "up").waiting()]


def rows_of(folder: Path) -> int:
    return sum(table.num_rows for frame in frames(folder) for table in frame.tables)


# Runs


def test_bounded_sends_all_and_says_that_it_ended(headrace: CommandLine, folder: Path) -> None:
    outcome = headrace("edge", written(folder), "--bounded")
    assert outcome.status == 0, outcome.err
    assert "2,000 rows" in outcome.err
    assert "rows as they are" in outcome.err
    assert outcome.out == ""
    assert rows_of(folder) == 2_000
    assert [frame.header.ended for frame in frames(folder)][-1]


def test_once_reads_only_what_is_new(headrace: CommandLine, folder: Path) -> None:
    for _ in range(2):
        outcome = headrace("edge", written(folder), "--once", "--quiet")
        assert (outcome.status, outcome.err) == (0, "")
    assert rows_of(folder) == 2_000
    assert not any(frame.header.ended for frame in frames(folder))


def test_frames_that_can_not_be_sent_are_told(
    headrace: CommandLine, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as full:
        full.setattr("headrace.wire.exchange.MAX_WAITING", 0)
        outcome = headrace("edge", written(folder, ship='patience = "2 s"'), "--once")
    assert outcome.status == 1
    assert "could not be sent, and wait in the spool" in outcome.err
    assert "that nobody has taken" in outcome.err
    assert headrace("edge", written(folder), "--once").status == 0
    assert rows_of(folder) == 2_000


def test_once_and_bounded_exclude_each_other(headrace: CommandLine, folder: Path) -> None:
    assert headrace("edge", written(folder), "--once", "--bounded").status == 2
    socket_file = written(folder, 'kind = "udp"\naddress = "127.0.0.1:0"')
    outcome = headrace("edge", socket_file, "--once")
    assert outcome.status == 1
    assert "has no end" in outcome.err


def test_the_help_teaches(headrace: CommandLine) -> None:
    outcome = headrace("edge", "--help")
    assert outcome.status == 0
    for word in ("orders", "[source]", "[ship]", "--bounded"):
        assert word in outcome.out


# As a process of its own


def started(path: Path, **more: Any) -> subprocess.Popen[bytes]:
    return subprocess.Popen([sys.executable, "-m", "headrace", "edge", str(path)], stderr=subprocess.PIPE, **more)


def wait_for(condition: Callable[[], bool]) -> None:
    until_s = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < until_s
        time.sleep(0.01)


def waiting_in(pipe: IO[bytes] | None) -> int:
    assert pipe is not None
    found = array.array("i", [0])
    fcntl.ioctl(pipe, termios.FIONREAD, found)
    return found[0]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_cuts_a_last_frame(number: signal.Signals, folder: Path) -> None:
    """Standard input: what came before the signal and is in no frame yet goes into the last one."""
    path = written(folder, 'kind = "stdin"', ship='heartbeat = "1 s"')
    path.write_text(path.read_text().replace('every = "100 ms"', 'every = "1 hour"'))
    child = started(path, stdin=subprocess.PIPE)
    assert child.stdin is not None
    table = pq.read_table(next((folder / "data").glob("*.parquet"))).slice(0, 100)
    wait_for(lambda: any((folder / "up").glob("*.frame")))
    for row in table.to_pylist():
        child.stdin.write(json.dumps({**row, "Time": row["Time"].isoformat()}).encode() + b"\n")
    child.stdin.flush()
    wait_for(lambda: waiting_in(child.stdin) == 0)
    child.send_signal(number)
    _, told = child.communicate(timeout=PATIENCE_S)
    assert child.returncode == 0, told
    assert b"stopping after a last frame" in told
    assert rows_of(folder) == 100
    assert not frames(folder)[-1].header.ended


def test_the_gap_of_a_socket_is_told(folder: Path) -> None:
    path = written(folder, 'kind = "tcp"\naddress = "127.0.0.1:0"')
    for start in range(2):
        told: list[str] = []
        agent = build_agent(read_agent_file(path), Mode.LIVE, told.append)
        with Running(agent) as running:
            with socket.create_connection(address_of(agent)) as client:
                client.sendall(b'{"Time": "2004-12-01T17:00:00Z", "Symbol": "A", "Price": 1.5, "Vol": 3}\nno row\n')
            running.wait_for(lambda agent=agent: agent.progress().rows == RowCounts(read=2, bad=1))  # type: ignore[misc]
        assert told[start:] == ["bad input: not a JSON object, such as no row"]
    assert "the gap" in told[0]
    assert {frame.header.begins for frame in frames(folder)} == {None}
    assert rows_of(folder) == 2


def test_a_state_is_of_one_kind_of_source(headrace: CommandLine, folder: Path) -> None:
    assert headrace("edge", written(folder), "--once").status == 0
    with pytest.raises(UsageError, match="another kind of source"):
        build_agent(read_agent_file(written(folder, 'kind = "tcp"\naddress = "127.0.0.1:0"')), Mode.LIVE, print)


def address_of(agent: Agent) -> tuple[str, int]:
    assert isinstance(agent.source, Connections | Datagrams)
    return agent.source.address


# The file


@pytest.mark.parametrize(
    ("source", "more", "ship", "told"),
    [
        (FILES, "memory_limit = 3", "", "there is no key 'memory_limit'"),
        (FILES, 'functions = "none.py"', "", "there is no such file"),
        ('kind = "kafka"', "", "", "'kind' is 'kafka', not files or udp or tcp or stdin"),
        ('path = "data"', "", "", "'kind' is missing"),
        ('kind = "files"', "", "", "'path' is missing"),
        ('kind = "files"\npath = "data"\nencoding = "json"', "", "", "there is no key 'encoding'"),
        ('kind = "files"\npath = "data"\nformat = "xml"', "", "", "'xml' is not a format"),
        ('kind = "tcp"\naddress = "127.0.0.1"', "", "", "not an address such as"),
        ('kind = "tcp"\naddress = "127.0.0.1:70000"', "", "", "not an address such as"),
        ('kind = "udp"', "", "", "'address' is missing"),
        ('kind = "stdin"\nencoding = "csv"', "", "", "'encoding' is 'csv', not json or arrow"),
        (FILES, "", 'heartbeat = "soon"', "not a duration"),
        (FILES, "", 'spool_bytes = "much"', "not a size such as '4 MB'"),
        (FILES, "", "spool_bytes = true", "not a size such as '4 MB'"),
        (
            FILES,
            "",
            'spool_bytes = "4 MiB"',
            "a whole number of KB, MB, GB (of 1,024 each), or of bytes without a unit",
        ),
        (FILES, "", 'allow_plain = "yes"', "not true or false"),
        (FILES, "", 'token_file = "none"', "there is no such file"),
    ],
)
def test_mistakes_in_the_file_are_told(
    headrace: CommandLine, folder: Path, source: str, more: str, ship: str, told: str
) -> None:
    outcome = headrace("edge", written(folder, source, more, ship), "--once")
    assert outcome.status == 1
    assert told in outcome.err


@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        ('edge = "a/b"', "a name of letters"),
        ('memory = "0.5 MB"', "a whole number of KB, MB, GB"),
        ('memory = "999999 GB"', "MB of this machine"),
        ('path = "none"', "none, and there is no such directory"),
        ('path = "schema.sql"', "schema.sql, and there is no such directory"),
        ('stream = "Tradez"', "declares no stream 'Tradez'"),
        ('schema = "none.sql"', "there is no such file"),
    ],
)
def test_wrong_names_are_told(headrace: CommandLine, folder: Path, wrong: str, told: str) -> None:
    path = written(folder)
    key = wrong.partition(" ")[0]
    lines = [wrong if line.startswith(f"{key} ") else line for line in path.read_text().splitlines()]
    path.write_text("\n".join(lines))
    outcome = headrace("edge", path, "--once")
    assert outcome.status == 1
    assert told in outcome.err


def test_a_source_that_is_not_there_is_told_before_there_are_orders(folder: Path) -> None:
    (folder / "up" / "orders.json").unlink()
    path = written(folder, 'kind = "files"\npath = "none"')
    with pytest.raises(UsageError, match="there is no such directory"):
        build_agent(read_agent_file(path), Mode.LIVE, print)
    assert not (folder / "state").exists()


def test_sizes_and_durations_are_read(folder: Path) -> None:
    write_token(folder / "token")
    ship = 'spool_bytes = 1000\nheartbeat = "1 min"\ntoken_file = "token"'
    found = read_agent_file(written(folder, 'kind = "tcp"\naddress = "[::1]:9000"\nidle = "2 min"', ship=ship))
    assert (found.pace.memory_bytes, found.pace.spool_bytes) == (2 << 20, 1_000)
    assert (found.pace.heartbeat_s, found.pace.every_s, found.pace.poll_s) == (60, 0.1, 0.1)
    assert found.channel == {"encoding": "json", "address": ("::1", 9000), "idle_s": 120}
    assert found.destination.token == TOKEN
    assert found.destination.to == folder / "up"


def test_a_url_is_taken_as_it_is(folder: Path) -> None:
    path = written(folder)
    path.write_text(path.read_text().replace('to = "up"', 'to = "https://root:8760"'))
    assert read_agent_file(path).destination.to == "https://root:8760"
    path.write_text(path.read_text().replace("https://root:8760", "http://"))
    with pytest.raises(UsageError, match="no address of a relay or root"):
        build_agent(read_agent_file(path), Mode.ONCE, print)


# What is shown


PROGRESS = AgentProgress(
    rows=RowCounts(read=1_234, bad=2, future=3),
    frames_sent=1,
    bytes_sent=5 << 20,
    frames_waiting=2,
    bytes_waiting=100,
    has_orders=True,
    plan="0123456789abcdef",
    watermark_us=1_000_000,
    datagrams_dropped=4,
    problem="root does not answer",
)


def test_the_line_says_all() -> None:
    assert line_of(PROGRESS, 56.0) == (
        "1,234 rows, 56 rows/s, 3 future, 2 bad, 4 datagrams dropped by the system, 1 frame sent (5.0 MB), "
        "2 spooled (100 bytes), plan 01234567, watermark 1970-01-01T00:00:01Z, root does not answer"
    )


def test_a_rate_is_of_the_last_second() -> None:
    now_s = [0.0]
    rate = Rate(lambda: now_s[0])
    assert rate(100) == 0
    now_s[0] = 2.0
    assert rate(100) == 50
    now_s[0] = 2.5
    assert rate(999) == 50


def test_lines_come_now_and_then() -> None:
    now_s = [0.0]
    console = Console(file=io.StringIO(), width=200)
    show = NewLines(console, lambda: now_s[0])
    for line, time_s in (("a", 1.0), ("b", LINE_S), ("c", LINE_S + 1), ("b", 2 * LINE_S), ("d", 3 * LINE_S)):
        now_s[0] = time_s
        show([line])
    assert isinstance(console.file, io.StringIO)
    assert console.file.getvalue() == "b\nd\n"


@pytest.mark.parametrize(
    ("count", "told"), [(0, "0 bytes"), (999, "999 bytes"), (1_024, "1.0 KB"), (3 << 30, "3.0 GB")]
)
def test_sizes_are_short(count: int, told: str) -> None:
    assert short_size(count) == told


@pytest.mark.skipif(not os.path.exists("/proc/net/udp"), reason="only Linux tells")
def test_datagrams_that_the_system_drops_are_counted(folder: Path) -> None:
    """Nobody reads, so the buffer of the socket is full sooner or later."""
    path = written(folder, 'kind = "udp"\naddress = "127.0.0.1:0"')
    agent = build_agent(read_agent_file(path), Mode.LIVE, print)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
        until_s = time.monotonic() + PATIENCE_S
        while not agent.progress().datagrams_dropped and time.monotonic() < until_s:
            for _ in range(1_000):
                sender.sendto(b"x" * 1_000 + b"\n", address_of(agent))
    assert agent.progress().datagrams_dropped > 0
    agent.stopping.set()
    agent.run()
