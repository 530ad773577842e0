"""Frames and orders over HTTP: what arrives is what was sent, and what is not wanted is refused in few words."""

from __future__ import annotations

import http.client
import json
import socket
from collections.abc import Callable, Iterator
from contextlib import closing
from http.client import HTTPMessage
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pytest

from headrace.model.errors import DataError, UsageError
from headrace.model.time import SECOND_US
from headrace.wire import exchange as exchanges
from headrace.wire import http_server as receiving
from headrace.wire.exchange import DirectoryExchange, InboxFullError
from headrace.wire.frames import Frame, Header, Member, to_bytes
from headrace.wire.http_client import FRAME_TYPE, HttpExchange, UnreachableError
from headrace.wire.http_server import Inlet, Server, serve
from headrace.wire.orders import Orders
from headrace.wire.tokens import tokens_of
from tests.edge.test_relay import ORDERS, sent

TOKEN, SOUTH = "secret-of-the-north", "secret-of-the-south"
FRAME = Frame(Header("north", 1, 1, "Trades", None))
Started = Callable[..., Server]


def inlets_of(inbox: DirectoryExchange, other: DirectoryExchange) -> list[Inlet]:
    return [Inlet("Trades", inbox, SECOND_US), Inlet("two words/é", other, SECOND_US)]


@pytest.fixture
def inbox(tmp_path: Path) -> DirectoryExchange:
    return DirectoryExchange(tmp_path / "trades")


@pytest.fixture
def started(inbox: DirectoryExchange, tmp_path: Path) -> Iterator[Started]:
    servers: list[Server] = []

    def start(token: str | None = None, **options: Any) -> Server:
        inlets = inlets_of(inbox, DirectoryExchange(tmp_path / "other"))
        tokens = None if token is None else tokens_of([("north", token), ("south", SOUTH)], "a test")
        servers.append(serve(inlets, "127.0.0.1:0", tokens, **options))
        servers[-1].start()
        return servers[-1]

    yield start
    for server in servers:
        server.stop()


def client(server: Server, token: str | None = None, stream: str = "Trades") -> HttpExchange:
    return HttpExchange(f"http://{server.address}", token, stream)


def asked(
    server: Server, method: str, path: str, body: bytes | None = None, **headers: str
) -> tuple[int, HTTPMessage, bytes]:
    with closing(http.client.HTTPConnection(server.address, timeout=10)) as connection:
        connection.request(method, path, body, {name.replace("_", "-"): value for name, value in headers.items()})
        response = connection.getresponse()
        return response.status, response.headers, response.read()


def posted(server: Server, body: bytes, path: str = "/frames/Trades", **headers: str) -> tuple[int, str]:
    status, _, data = asked(server, "POST", path, body, **{"Content_Type": FRAME_TYPE, **headers})
    return status, str(json.loads(data).get("error", ""))


# Both ends together


def test_frames_go_up(started: Started, inbox: DirectoryExchange) -> None:
    server = started()
    with closing(client(server)) as exchange:
        for frame in sent()[0]:
            exchange.put(frame.header, to_bytes(frame))
        exchange.put(sent()[0][0].header, to_bytes(sent()[0][0]))
    assert [path.read_bytes() for path in inbox.waiting()] == [to_bytes(frame) for frame in sent()[0]]


def test_orders_come_down(started: Started, inbox: DirectoryExchange) -> None:
    with closing(client(started())) as exchange:
        assert exchange.orders() is None
        inbox.publish(ORDERS)
        found = exchange.orders()
        assert found is not None
        assert found.plan_id == ORDERS.plan_id
        assert exchange.orders() is found, "it was not sent again"
        inbox.publish(Orders("Trades"))
        assert exchange.orders() == Orders("Trades")


def test_tables_come_down(started: Started, inbox: DirectoryExchange) -> None:
    table = pa.table({"sym": ["a", "b"]})
    sink = pa.BufferOutputStream()
    with pa.ipc.new_file(sink, table.schema) as writer:
        writer.write_table(table)
    data = bytes(sink.getvalue())
    name = inbox.keep_table(data)
    with closing(client(started())) as exchange:
        assert exchange.table_bytes(name) == data
        with pytest.raises(DataError, match="no such table"):
            exchange.table_bytes("0" * 32)


def test_streams_have_any_name(started: Started, tmp_path: Path) -> None:
    header = Header("north", 1, 1, "two words/é", None)
    with closing(client(started(), stream="TWO words/é")) as exchange:
        exchange.put(header, to_bytes(Frame(header)))
    assert len(list(DirectoryExchange(tmp_path / "other").waiting())) == 1
    with closing(client(started(), stream="Quotes")) as exchange, pytest.raises(DataError, match="no such stream"):
        exchange.put(header, to_bytes(Frame(header)))


def test_a_token_opens_the_door(started: Started) -> None:
    server = started(TOKEN)
    with closing(client(server, TOKEN)) as exchange:
        exchange.put(FRAME.header, to_bytes(FRAME))
        assert exchange.orders() is None
    for token in (None, "another", TOKEN + "x", TOKEN[:-1]):
        with closing(client(server, token)) as exchange:
            with pytest.raises(UsageError, match="another token"):
                exchange.put(FRAME.header, to_bytes(FRAME))
            with pytest.raises(UsageError, match="another token"):
                exchange.orders()


def test_an_edge_speaks_for_itself_only(started: Started, inbox: DirectoryExchange) -> None:
    server = started(TOKEN)
    forged = Header("south", 1, 1, "Trades", None)
    assert posted(server, to_bytes(Frame(forged)), Authorization=f"Bearer {TOKEN}") == (
        403,
        "the token is of the edge 'north', the frame is of another",
    )
    assert not list(inbox.waiting())
    assert posted(server, to_bytes(Frame(forged)), Authorization=f"Bearer {SOUTH}") == (200, "")


def test_orders_are_for_the_edges_of_a_stream(started: Started, inbox: DirectoryExchange) -> None:
    inbox.publish(ORDERS)
    inbox.admit(["south"])
    server, name = started(TOKEN), inbox.keep_table(b"a table")
    for path in ("/orders/Trades", f"/tables/Trades/{name}"):
        assert asked(server, "GET", path, Authorization=f"Bearer {TOKEN}")[0] == 403
        assert asked(server, "GET", path, Authorization=f"Bearer {SOUTH}")[0] == 200


NOW_US = 1_700_000_000 * SECOND_US


@pytest.mark.parametrize(
    "ahead",
    [
        {"incarnation": NOW_US + SECOND_US + 1},
        {"incarnation": 2**62 - 1},
        {"watermark_us": 2**62},
        {"lowest_us": 0, "highest_us": NOW_US + SECOND_US + 1},
        {"members": {"far": Member(None, NOW_US + SECOND_US + 1, None)}},
        {"members": {"far": Member(None, None, 2**62)}},
    ],
)
def test_times_that_have_not_come_are_refused(
    started: Started, inbox: DirectoryExchange, ahead: dict[str, Any]
) -> None:
    now_us = NOW_US
    server = started(clock=lambda: now_us)
    header = msgspec.structs.replace(Header("south", NOW_US, 1, "Trades", None, ended=True), **ahead)
    status, error = posted(server, to_bytes(Frame(header)))
    assert (status, "ahead of the clock here; SKEW of the stream allows 1 s" in error) == (403, True)
    assert not list(inbox.waiting())
    now_us = 2**62
    assert posted(server, to_bytes(Frame(header))) == (200, ""), "an edge with such a clock waits, and loses nothing"


def test_a_clock_may_be_ahead_by_the_skew(started: Started) -> None:
    latest_us = NOW_US + SECOND_US
    header = Header("south", latest_us, 1, "Trades", None, watermark_us=latest_us, lowest_us=0, highest_us=latest_us)
    assert posted(started(clock=lambda: NOW_US), to_bytes(Frame(header))) == (200, "")


def test_a_full_inbox_says_so(started: Started, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exchanges, "MAX_WAITING", 0)
    server = started()
    with closing(client(server)) as exchange, pytest.raises(InboxFullError, match="no room"):
        exchange.put(FRAME.header, to_bytes(FRAME))
    status, headers, _ = asked(server, "POST", "/frames/Trades", to_bytes(FRAME), Content_Type=FRAME_TYPE)
    assert (status, int(headers["Retry-After"])) == (503, receiving.RETRY_S)


def test_nobody_there_is_told(started: Started) -> None:
    server = started()
    with closing(client(server)) as exchange:
        exchange.put(FRAME.header, to_bytes(FRAME))
        server.stop()
        exchange.close()
        with pytest.raises(UnreachableError, match="does not answer"):
            exchange.put(FRAME.header, to_bytes(FRAME))


def test_a_connection_that_was_closed_meanwhile_is_made_anew(started: Started) -> None:
    with closing(client(started())) as exchange:
        exchange.put(FRAME.header, to_bytes(FRAME))
        kept = exchange.connection.sock
        kept.shutdown(socket.SHUT_RDWR)
        exchange.put(FRAME.header, to_bytes(FRAME))
        assert exchange.connection.sock is not kept


# What the server refuses


def test_a_frame_is_looked_at_before_it_is_kept(started: Started, inbox: DirectoryExchange) -> None:
    server, good = started(), to_bytes(FRAME)
    assert posted(server, good[:-1] + b"x") == (400, "this is not a frame: its checksum does not fit")
    assert posted(server, b"")[0] == 400
    other = to_bytes(Frame(Header("north", 1, 1, "two words/é", None)))
    assert posted(server, other) == (400, "the frame is of another stream")
    assert posted(server, good, Content_Type="text/plain")[0] == 415, "a page in a browser may send this anywhere"
    assert not list(inbox.waiting())
    assert posted(server, good) == (200, "")
    assert len(list(inbox.waiting())) == 1


def test_an_edge_that_is_not_listed_is_told(started: Started, inbox: DirectoryExchange) -> None:
    inbox.admit(["east", "west"])
    server, told = started(), """there is no edge 'north' in edges = ["east", "west"]"""
    status, error = posted(server, to_bytes(FRAME))
    assert (status, error.partition(":")[0]) == (403, told)
    with closing(client(server)) as exchange, pytest.raises(DataError) as refused:
        exchange.put(FRAME.header, to_bytes(FRAME))
    assert refused.value.code == "refused"
    assert told in refused.value.message
    assert not list(inbox.waiting())
    inbox.admit(["north"])
    assert posted(server, to_bytes(FRAME)) == (200, "")


def test_a_body_has_a_limit(started: Started) -> None:
    server = started(most_bytes=1_000)
    assert posted(server, bytes(1_001)) == (413, "a frame has at most 1,000 bytes")
    assert posted(server, bytes(1_000))[0] == 400
    assert posted(server, b"", Content_Length=str(10**12))[0] == 413


def spoken(server: Server, text: bytes) -> bytes:
    """What comes back for raw bytes until the server closes the connection."""
    host, _, port = server.address.rpartition(":")
    with socket.create_connection((host, int(port)), timeout=10) as connection:
        connection.sendall(text)
        found = b""
        while data := connection.recv(1 << 16):
            found += data
        return found


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        (b"Connection: close", 411),
        (b"Transfer-Encoding: chunked", 411),
        *((b"Content-Length: " + length, 400) for length in (b"-1", b"x", b"9" * 5_000)),
    ],
)
def test_a_body_without_a_length_is_refused(started: Started, headers: bytes, status: int) -> None:
    found = spoken(started(), b"POST /frames/Trades HTTP/1.1\r\nHost: localhost\r\n%s\r\n\r\n" % headers)
    assert found.startswith(b"HTTP/1.1 %d " % status)


def test_who_asks_first_is_told_before_the_body(started: Started) -> None:
    head = b"POST /frames/Trades HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9\r\nExpect: 100-continue\r\n"
    head += b"Content-Type: %s\r\n" % FRAME_TYPE.encode()
    found = spoken(started(TOKEN), head + b"\r\n")
    assert found.startswith(b"HTTP/1.1 401 ")
    found = spoken(started(), head + b"Connection: close\r\n\r\nno frame.")
    assert found.startswith(b"HTTP/1.1 100 ")
    assert b"HTTP/1.1 400 " in found


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "/", 404),
        ("GET", "/frames/Trades", 405),
        ("POST", "/orders/Trades", 405),
        ("GET", "/orders", 404),
        ("GET", "/orders/Trades/more", 404),
        ("GET", "/orders/..%2Ftrades", 404),
        ("GET", "/tables/Trades/..%2F..%2Forders.json", 404),
        ("GET", "/tables/Trades/../orders.json", 404),
        ("GET", f"/tables/Trades/{'0' * 32}", 404),
        ("GET", "/health", 200),
        ("PUT", "/frames/Trades", 405),
        ("OPTIONS", "/frames/Trades", 405),
    ],
)
def test_there_is_nothing_but_what_there_is(
    started: Started, inbox: DirectoryExchange, method: str, path: str, status: int
) -> None:
    inbox.publish(ORDERS)
    found, headers, data = asked(started(), method, path, b"" if method == "POST" else None)
    assert found == status
    assert headers["Server"] == "headrace"
    assert len(data) < 100
    assert set(json.loads(data)) == {"status" if status == 200 else "error"}


def test_health_needs_no_token(started: Started) -> None:
    server = started(TOKEN)
    assert asked(server, "GET", "/health")[0] == 200
    assert asked(server, "GET", "/orders/Trades")[0] == 401
    assert asked(server, "GET", "/orders/Trades", Authorization=f"Bearer {TOKEN}")[0] == 204
    assert asked(server, "GET", "/orders/Trades", Authorization=f"Basic {TOKEN}")[0] == 401


def test_what_is_no_request_is_answered_shortly(started: Started) -> None:
    found = spoken(started(), b"<script>\x00 / nonsense\r\n\r\n")
    assert found.startswith(b"HTTP/1.1 400 ")
    assert b"script" not in found


# What is refused before anything is said


@pytest.mark.parametrize("address", ["0.0.0.0:0", "192.0.2.1:0", "[::]:0", ":0", "example.org:0"])
def test_only_this_machine_comes_without_a_token(inbox: DirectoryExchange, address: str) -> None:
    with pytest.raises(UsageError, match="without a token") as refused:
        serve([Inlet("Trades", inbox, 0)], address, None)
    assert refused.value.code == "token"


@pytest.mark.parametrize("address", ["127.0.0.1", "127.0.0.1:", "127.0.0.1:65536", "127.0.0.1:-1", "127.0.0.1:x", ""])
def test_an_address_has_a_host_and_a_port(inbox: DirectoryExchange, address: str) -> None:
    with pytest.raises(UsageError, match="is no address"):
        serve([Inlet("Trades", inbox, 0)], address, None)


@pytest.mark.parametrize("name", ["", "root:8760", "http://root", "two words"])
def test_a_host_is_a_name(inbox: DirectoryExchange, name: str) -> None:
    with pytest.raises(UsageError, match="is no name of a host"):
        serve([Inlet("Trades", inbox, 0)], "127.0.0.1:0", None, hosts=[name])


def test_an_address_in_use_is_told(started: Started, inbox: DirectoryExchange) -> None:
    with pytest.raises(UsageError, match="can't listen"):
        serve([Inlet("Trades", inbox, 0)], started().address, None)


def test_a_token_does_not_travel_in_the_open() -> None:
    with pytest.raises(UsageError, match="for everybody to read"):
        HttpExchange("http://example.org:8760", TOKEN, "Trades")
    for url, options in (
        ("http://example.org:8760", {"allow_plain": True}),
        ("https://example.org", {}),
        ("http://[::1]:8760", {}),
    ):
        HttpExchange(url, TOKEN, "Trades", **options).close()


@pytest.mark.parametrize("url", ["example.org", "ftp://example.org", "http://", "http://example.org/?a=1", "http:/x"])
def test_a_url_is_one_of_a_server(url: str) -> None:
    with pytest.raises(UsageError, match="no address"):
        HttpExchange(url, None, "Trades")


@pytest.mark.parametrize("token", ["", "two\nlines", " before", "é"])
def test_a_token_is_a_line(token: str) -> None:
    with pytest.raises(UsageError, match="printable"):
        HttpExchange("https://example.org", token, "Trades")
