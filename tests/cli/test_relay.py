"""`headrace relay`: as one would start it, with edges that send to it over HTTP or into its inbox."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from random import Random

import msgspec
import pytest

from headrace.cli.relay_file import read_relay_file
from headrace.model.errors import UsageError
from headrace.wire.exchange import DirectoryExchange
from headrace.wire.frames import Frame, Header, from_bytes, to_bytes
from headrace.wire.http_client import HttpExchange
from headrace.wire.ledger import EdgeState, FrameVerdict, decide, take_frame
from headrace.wire.orders import Orders
from tests.cli.command_line import TOKEN, CommandLine, serve_stream, write_token
from tests.edge.test_relay import ORDERS, OTHER_PLAN, ROWS, Edge, check_all_arrived, sent

SCHEMA = "CREATE STREAM Trades (t TIMESTAMP, sym STRING, price DOUBLE, size BIGINT) EVENT TIME t IDLE '60 s';"
KEYS = """\
relay = "west"
schema = "schema.sql"
streams = "trades"
edges = ["east", "north", "south"]
inbox = "inbox"
state = "state"
"""
SHIP = '[ship]\nto = "above"\nevery = "20 ms"\npoll = "20 ms"\n'


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "schema.sql").write_text(SCHEMA)
    written(tmp_path)
    DirectoryExchange(tmp_path / "above" / "Trades").publish(ORDERS)
    return tmp_path


def written(folder: Path, more: str = "", ship: str = SHIP) -> Path:
    path = folder / "relay.toml"
    path.write_text(KEYS + more + ship)
    return path


def arrived(above: DirectoryExchange) -> list[Frame]:
    """What a root would take, in order."""
    ledger: dict[str, EdgeState] = {}
    found = []
    for path in above.waiting():
        frame = from_bytes(path.read_bytes())
        assert decide(ledger, frame.header).verdict is FrameVerdict.TAKE
        ledger = take_frame(ledger, frame.header, 1)
        found.append(frame)
    return found


def put(inbox: DirectoryExchange, *frames: Frame) -> None:
    for frame in frames:
        inbox.put(frame.header, to_bytes(frame))


def test_what_is_there_is_combined_and_sent(headrace: CommandLine, folder: Path) -> None:
    inbox, above = DirectoryExchange(folder / "inbox" / "Trades"), DirectoryExchange(folder / "above" / "Trades")
    put(inbox, *(frame for each in sent() for frame in each[:2]))
    assert headrace("relay", folder / "relay.toml", "--once").status == 0
    assert len(arrived(above)) == 1
    put(inbox, *(frame for each in sent() for frame in reversed(each)))
    outcome = headrace("relay", folder / "relay.toml", "--once")
    assert (outcome.status, outcome.out) == (0, "")
    assert "Trades: 18 frames taken, 1 frame sent" in outcome.err
    check_all_arrived(arrived(above))
    assert not list(inbox.waiting())
    orders = inbox.orders()
    assert orders is not None
    assert orders.plan_id == ORDERS.plan_id, "edges find them here"


def test_over_http_above_and_with_a_token(headrace: CommandLine, folder: Path) -> None:
    write_token(folder / "token")
    above = DirectoryExchange(folder / "above" / "Trades")
    server = serve_stream("Trades", above, edge="west")
    server.start()
    path = written(folder, ship=f'[ship]\nto = "http://{server.address}"\ntoken_file = "token"\n')
    put(DirectoryExchange(folder / "inbox" / "Trades"), *(frame for each in sent() for frame in each))
    outcome = headrace("relay", path, "--once", "--quiet")
    server.stop()
    assert (outcome.status, outcome.err) == (0, "")
    check_all_arrived(arrived(above))


def test_frames_that_can_not_be_used_are_counted(headrace: CommandLine, folder: Path) -> None:
    inbox = DirectoryExchange(folder / "inbox" / "Trades")
    stranger = sent()[0][0]
    north = Edge("north", ROWS)
    put(inbox, north.cut(5, OTHER_PLAN))
    (inbox.root / f"zz{stranger.header.file_name}").write_bytes(to_bytes(stranger))
    outcome = headrace("relay", folder / "relay.toml", "--once")
    assert outcome.status == 0
    assert "1 parked, 1 refused" in outcome.err
    DirectoryExchange(folder / "above" / "Trades").publish(Orders("Trades", OTHER_PLAN))
    assert "1 frame sent" in headrace("relay", folder / "relay.toml", "--once").err


def test_what_could_not_be_sent_is_told_and_waits(
    headrace: CommandLine, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("headrace.cli.commands.relay.PATIENCE_S", 0.1)
    put(DirectoryExchange(folder / "inbox" / "Trades"), *(frame for each in sent() for frame in each))
    headrace("relay", folder / "relay.toml", "--once")
    above = DirectoryExchange(folder / "above" / "Trades")
    (frame,) = above.waiting()
    frame.unlink()
    DirectoryExchange(folder / "inbox" / "Trades").put(*spare())
    with socket.create_server(("127.0.0.1", 0)) as closed:
        port = closed.getsockname()[1]
    outcome = headrace("relay", written(folder, ship=f'[ship]\nto = "http://127.0.0.1:{port}"\n'), "--once", "--quiet")
    assert outcome.status == 1
    assert "1 frame could not be sent" in outcome.err
    assert "does not answer" in outcome.err
    assert headrace("relay", written(folder), "--once").status == 0
    assert len(list(above.waiting())) == 1


def spare() -> tuple[Header, bytes]:
    """An edge that had ended starts anew, with nothing to say."""
    last = sent()[0][-1].header
    header = msgspec.structs.replace(last, incarnation=last.incarnation + 1, sequence=1, begins=last.position)
    return header, to_bytes(Frame(header))


# A process of its own


@contextmanager
def running(folder: Path) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """A relay, and where it listens."""
    command = [sys.executable, "-W", "error", "-m", "headrace", "relay", str(folder / "relay.toml")]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env={**os.environ, "COLUMNS": "200"}) as process:
        try:
            assert process.stderr is not None
            line = process.stderr.readline()
            assert line.startswith("listening at "), line + process.stderr.read()
            yield process, f"http://{line.split()[-1]}"
        finally:
            process.kill()
            assert process.stderr is not None
            print(process.stderr.read())


def test_a_relay_that_is_killed_goes_on_where_it_was(folder: Path) -> None:
    written(folder, 'listen = "127.0.0.1:0"\n')
    inbox, above = DirectoryExchange(folder / "inbox" / "Trades"), DirectoryExchange(folder / "above" / "Trades")
    random = Random(3)
    frames = [frame for each in sent() for frame in each]
    early, late = frames[::2], frames + random.choices(frames, k=5)
    random.shuffle(late)
    for part, stop in ((early, signal.SIGKILL), (late, signal.SIGTERM)):
        with running(folder) as (process, url):
            with closing(HttpExchange(url, None, "Trades")) as exchange:
                for frame in part:
                    exchange.put(frame.header, to_bytes(frame))
                orders = exchange.orders()
                while stop is signal.SIGTERM and (orders is None or list(inbox.waiting())):
                    orders = exchange.orders()
            process.send_signal(stop)
            assert process.wait(60) == (0 if stop is signal.SIGTERM else -signal.SIGKILL)
    assert orders is not None
    assert orders.plan_id == ORDERS.plan_id
    check_all_arrived(arrived(above))


# The file


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('relay = "west"', 'relay = "../west"', "'relay' is"),
        ('relay = "west"', 'relay = "north"', "one of its own edges"),
        ('relay = "west"\n', "", "'relay' is missing"),
        ('streams = "trades"', 'streams = "trade"', "declares no stream"),
        ('"east", "north"', '"north", "north"', "different names"),
        ('"east", "north", "south"', "", "'edges' is"),
        ('"east", "north"', '"a b", "north"', "'edges' is"),
        ('inbox = "inbox"', 'inboxes = "inbox"', "no key 'inboxes'"),
        ("schema.sql", "none.sql", "no such file"),
        ('every = "20 ms"', 'every = "soon"', "'every' is"),
        ("[ship]", 'token_file = "none"\n[ship]', "no such file"),
        ("[ship]", 'token_file = "empty"\n[ship]', "no token in it"),
        ("[ship]", 'idle = "0 s"\n[ship]', "'idle' is"),
    ],
)
def test_a_file_that_can_not_be_right_is_refused(folder: Path, old: str, new: str, message: str) -> None:
    path = folder / "relay.toml"
    (folder / "empty").write_text("\n")
    assert path.read_text().count(old) == 1
    path.write_text(path.read_text().replace(old, new))
    with pytest.raises(UsageError, match=message):
        read_relay_file(path)


def test_a_file_is_read_in_full(folder: Path) -> None:
    write_token(folder / "mine", f"edge north {TOKEN}\nedge east the-token-of-the-east\n")
    write_token(folder / "theirs", "their-own-token-above")
    ship = '[ship]\nto = "https://root"\ntoken_file = "theirs"\nallow_plain = true\nevery = "2 s"\npoll = "1 min"\n'
    told = read_relay_file(
        written(folder, 'listen = "[::1]:0"\ntoken_file = "mine"\nhosts = "west.example"\nidle = "5 s"\n', ship)
    )
    assert (told.relay, [stream.name for stream in told.streams]) == ("west", ["Trades"])
    assert (told.inbox, told.state, told.destination.to) == (folder / "inbox", folder / "state", "https://root")
    assert told.tokens is not None
    assert [told.tokens.find_edge(token) for token in (TOKEN, "the-token-of-the-east")] == ["north", "east"]
    assert told.hosts == ("west.example",)
    assert (told.destination.token, told.destination.allow_plain) == ("their-own-token-above", True)
    assert (told.listen, told.idle_us, told.every_s, told.poll_s) == ("[::1]:0", 5_000_000, 2.0, 60.0)
    assert told.destination_of(told.streams[0]) == told.destination


def test_a_relay_that_others_reach_wants_a_token(headrace: CommandLine, folder: Path) -> None:
    outcome = headrace("relay", written(folder, 'listen = "0.0.0.0:0"\n'), "--once")
    assert outcome.status == 1
    assert "without a token" in outcome.err


def test_only_who_listens_needs_a_web_server(
    headrace: CommandLine, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "uvicorn", None)
    for module in ("http_limits", "http_server"):
        monkeypatch.delitem(sys.modules, f"headrace.wire.{module}", raising=False)
    assert headrace("relay", written(folder), "--once").status == 0
    outcome = headrace("relay", written(folder, 'listen = "127.0.0.1:0"\n'), "--once")
    assert outcome.status == 1
    assert "This needs uvicorn, which is not installed: pip install 'headrace[service]'." in outcome.err


def test_one_relay_at_a_time(headrace: CommandLine, folder: Path) -> None:
    written(folder, 'listen = "127.0.0.1:0"\n')
    with running(folder):
        outcome = headrace("relay", folder / "relay.toml", "--once")
    assert outcome.status == 1
    assert "state-in-use" in outcome.err
