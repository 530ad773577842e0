"""Attacks on the HTTP end: an edge with a token is answered all the same, and what an attacker holds is bounded."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from pathlib import Path
from threading import Event
from typing import Any

import h11
import pytest

from headrace.model.errors import UsageError
from headrace.model.time import SECOND_US
from headrace.wire import exchange as exchanges
from headrace.wire import http_server as receiving
from headrace.wire.exchange import DirectoryExchange, InboxFullError
from headrace.wire.frames import Frame, Header, from_bytes, to_bytes
from headrace.wire.http_client import FRAME_TYPE, HttpExchange
from headrace.wire.http_limits import HttpLimits, RequestParser
from headrace.wire.http_server import Inlet, Server, serve
from headrace.wire.tokens import tokens_of

TOKENS = {"north": "the-token-of-the-north", "south": "the-token-of-the-south"}
HEAD = b"POST /frames/Trades HTTP/1.1\r\nHost: localhost\r\nContent-Type: %s\r\n" % FRAME_TYPE.encode()
KEYS = {edge: b"Authorization: Bearer %s\r\n" % token.encode() for edge, token in TOKENS.items()}
ORDERS = b"GET /orders/Trades HTTP/1.1\r\nHost: localhost\r\n"
PAUSE = Event()
Start = Callable[..., Server]


@pytest.fixture
def inbox(tmp_path: Path) -> DirectoryExchange:
    found = DirectoryExchange(tmp_path)
    found.admit(TOKENS)
    return found


@pytest.fixture
def start(inbox: DirectoryExchange) -> Iterator[Start]:
    with ExitStack() as stack:

        def started(*, has_tokens: bool = True, **options: Any) -> Server:
            tokens = tokens_of(TOKENS.items(), "a test") if has_tokens else None
            server = serve([Inlet("Trades", inbox, SECOND_US)], "127.0.0.1:0", tokens, **options)
            stack.callback(server.stop)
            server.start()
            return server

        yield started


@pytest.fixture
def attacker() -> Iterator[Callable[..., socket.socket]]:
    """Opens connections and says something on each; all are closed at the end."""
    with ExitStack() as stack:

        def opened(server: Server, text: bytes = b"", source: str = "127.0.0.1") -> socket.socket:
            host, _, port = server.address.rpartition(":")
            found = socket.create_connection((host, int(port)), timeout=30, source_address=(source, 0))
            stack.enter_context(found)
            found.sendall(text)
            return found

        yield opened


Open = Callable[..., socket.socket]


def heard(connection: socket.socket) -> bytes:
    """All that comes until the server closes the connection."""
    found = b""
    try:
        while data := connection.recv(1 << 16):
            found += data
    except ConnectionResetError:
        pass
    return found


def status(connection: socket.socket) -> int:
    """Of the next answer; 0 if there is none."""
    try:
        return int([*connection.recv(1 << 16).split(), b"", b"0"][1])
    except ConnectionResetError:
        return 0


def put(server: Server, edge: str, sequence: int = 1) -> None:
    header = Header(edge, 1, sequence, "Trades", None)
    with closing(HttpExchange(f"http://{server.address}", TOKENS[edge], "Trades")) as exchange:
        exchange.put(header, to_bytes(Frame(header)))


# Connections that say little


def test_many_that_say_nothing_shut_nobody_out(start: Start, attacker: Open) -> None:
    server = start()
    silent = [attacker(server, b"GET /orders/Tra" if number % 2 else b"") for number in range(300)]
    put(server, "north")
    health = attacker(server, b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n")
    assert status(health) == 200
    assert heard(silent[0]) == b"", "the oldest one went"


def test_one_address_does_not_take_the_room_of_another(start: Start, attacker: Open) -> None:
    server = start(limits=HttpLimits(max_strangers=8, max_strangers_of_address=6))
    other = attacker(server, ORDERS + KEYS["north"], source="127.0.0.2")
    for _ in range(20):
        attacker(server, b"GET")
    other.sendall(b"\r\n")
    assert status(other) == 204


@pytest.mark.parametrize("begun", [b"", b"G", ORDERS, ORDERS + KEYS["north"]])
def test_a_head_has_its_time(start: Start, attacker: Open, begun: bytes) -> None:
    server = start(limits=HttpLimits(head_s=0.2))
    assert heard(attacker(server, begun)) == b""


def test_the_second_head_has_its_time_too(start: Start, attacker: Open) -> None:
    connection = attacker(start(limits=HttpLimits(head_s=0.5)), ORDERS + KEYS["north"] + b"\r\n")
    assert status(connection) == 204
    connection.sendall(b"GET /orders")
    assert heard(connection) == b""


def test_more_bytes_do_not_prolong_a_head(start: Start, attacker: Open) -> None:
    connection = attacker(start(limits=HttpLimits(head_s=0.3)), ORDERS)
    connection.settimeout(0.02)
    for _ in range(500):
        try:
            connection.sendall(b"x")
            if not connection.recv(1):
                break
        except TimeoutError:
            continue
        except OSError:
            break
    else:
        pytest.fail("the connection stayed open for as long as it sent bytes")


def test_connections_have_a_limit(start: Start, attacker: Open) -> None:
    server = start(limits=HttpLimits(max_connections=2, max_connections_of_edge=1))
    kept = {edge: attacker(server, ORDERS + KEYS[edge] + b"\r\n") for edge in TOKENS}
    assert [status(each) for each in kept.values()] == [204, 204]
    assert heard(attacker(server)) == b""
    for each, key in zip(kept.values(), KEYS.values(), strict=True):
        each.sendall(ORDERS + key + b"\r\n")
        assert status(each) == 204, "who is known stays"


def test_an_edge_has_its_share_of_connections(start: Start, attacker: Open) -> None:
    server = start(limits=HttpLimits(max_connections_of_edge=2))
    south = attacker(server, ORDERS + KEYS["south"] + b"\r\n")
    assert status(south) == 204
    north = []
    for _ in range(3):
        north.append(attacker(server, ORDERS + KEYS["north"] + b"\r\n"))
        assert status(north[-1]) == 204
    assert heard(north[0]) == b"", "its oldest one went"
    south.sendall(ORDERS + KEYS["south"] + b"\r\n")
    assert status(south) == 204


# Bodies


def test_a_body_without_a_token_is_not_waited_for(start: Start, attacker: Open) -> None:
    answer = heard(attacker(start(), HEAD + b"Content-Length: 60000000\r\n\r\nabc"))
    assert answer.startswith(b"HTTP/1.1 401 ")


@pytest.mark.parametrize("limits", [HttpLimits(idle_s=0.2), HttpLimits(request_s=0.2)])
def test_a_body_has_its_time(start: Start, attacker: Open, limits: HttpLimits) -> None:
    connection = attacker(start(limits=limits), HEAD + KEYS["north"] + b"Content-Length: 100\r\n\r\nabc")
    assert b" 200 " not in heard(connection)


def test_bodies_on_their_way_have_a_budget(start: Start, attacker: Open) -> None:
    limits = HttpLimits(max_body_bytes=4_000_000, max_body_bytes_of_edge=3_000_000)
    server = start(limits=limits)
    begun = HEAD + b"Content-Length: 1000000\r\n%s\r\nabc"
    held = [attacker(server, begun % KEYS["north"]) for _ in range(3)]
    refused = attacker(server, begun % KEYS["north"])
    assert status(refused) == 503
    put(server, "south")
    with pytest.raises(InboxFullError):
        put(server, "north")
    for each in held:
        each.close()
    wait_until(lambda: is_taken(server, "north"))


def test_what_is_not_read_is_not_kept(start: Start, attacker: Open, inbox: DirectoryExchange) -> None:
    """Who asks for a large table and does not read it is dropped."""
    name = inbox.keep_table(bytes(32 << 20))
    server = start(limits=HttpLimits(request_s=0.5))
    connection = attacker(server, b"GET /tables/Trades/%s HTTP/1.1\r\nHost: localhost\r\n" % name.encode())
    connection.sendall(KEYS["north"] + b"\r\n")
    assert status(connection) in (0, 200), "on a busy machine it is dropped before the first byte"
    wait_until(lambda: not server.server_state.connections)


def wait_until(is_so: Callable[[], bool]) -> None:
    """Ask again and again, for half a minute."""
    for _ in range(3_000):
        if is_so():
            return
        PAUSE.wait(0.01)
    pytest.fail("it never came to be so")


def is_taken(server: Server, edge: str) -> bool:
    try:
        put(server, edge)
    except InboxFullError:
        return False
    return True


def test_frames_of_one_edge_do_not_take_the_room_of_another(
    start: Start, inbox: DirectoryExchange, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(exchanges, "MAX_WAITING", 40)
    server = start()
    for number in range(40):
        (inbox.root / Header("north", 1, number + 1, "Trades", None).file_name).write_bytes(b"")
    with pytest.raises(InboxFullError):
        put(server, "north", 41)
    put(server, "south")


def test_frames_that_take_long_to_unpack_hold_up_their_own_edge_only(
    start: Start, attacker: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    gate = Event()

    def wait_for_north(data: bytes, most_bytes: int) -> Frame:
        frame = from_bytes(data, most_bytes)
        assert frame.header.edge != "north" or gate.wait(30)
        return frame

    monkeypatch.setattr(receiving, "from_bytes", wait_for_north)
    server, slow = start(), []
    for sequence in range(1, 5):
        frame = to_bytes(Frame(Header("north", 1, sequence, "Trades", None)))
        slow.append(attacker(server, HEAD + KEYS["north"] + b"Content-Length: %d\r\n\r\n" % len(frame) + frame))
    put(server, "south")
    gate.set()
    assert [status(each) for each in slow] == [200] * 4


def test_requests_may_follow_one_another_at_once(start: Start, attacker: Open) -> None:
    ask, frame = ORDERS + KEYS["north"] + b"\r\n", to_bytes(Frame(Header("north", 1, 1, "Trades", None)))
    connection = attacker(start(), ask + ask + HEAD + KEYS["north"] + b"Content-Length: %d\r\n" % len(frame))
    connection.sendall(b"Connection: close\r\n\r\n" + frame[:9])
    assert status(connection) == 204
    connection.sendall(frame[9:])
    answers = heard(connection)
    assert b"HTTP/1.1 200 " in answers


# Words with two meanings


@pytest.mark.parametrize(
    "lengths",
    [
        b"Content-Length: 5\r\nContent-Length: 6\r\n",
        b"Content-Length: 5, 6\r\n",
        b"Content-Length: 5\r\nContent-Length: 5\r\n",
        b"Content-Length: 5\r\nX-Between: 1\r\ncontent-length: 5\r\n",
        b"Content-Length: 5, 5\r\n",
        b"Content-Length: 5,5\r\n",
        b"Content-Length: 5\r\n , 5\r\n",
        b"Content-Length: 5\nContent-Length: 5\n",
        b"Content-Length: +5\r\n",
        b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n",
        b"Transfer-Encoding: chunked\r\n",
        b"Transfer-Encoding: chunked, identity\r\n",
        b"Content-Length: 5\r\n Transfer-Encoding: chunked\r\n",
    ],
)
def test_a_length_has_one_meaning(start: Start, attacker: Open, lengths: bytes) -> None:
    """Another server in front, which sees another length, would take the rest for a request of somebody else."""
    smuggled = ORDERS + KEYS["north"] + b"\r\n"
    answer = heard(attacker(start(), HEAD + KEYS["north"] + lengths + b"\r\n0\r\n\r\n" + smuggled))
    assert answer.startswith((b"HTTP/1.1 400 ", b"HTTP/1.1 411 ", b"HTTP/1.1 501 "))
    assert answer.count(b"HTTP/1.1 ") == 1


TWO_LENGTHS = b"Content-Length: 0\r\nContent-Length: 0\r\n\r\n"


@pytest.mark.parametrize("lengths", [TWO_LENGTHS, b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"])
@pytest.mark.parametrize("is_pipelined", [False, True])
def test_later_requests_have_one_length_too(start: Start, attacker: Open, lengths: bytes, is_pipelined: bool) -> None:
    first, second = ORDERS + KEYS["north"] + b"\r\n", ORDERS + KEYS["north"] + lengths
    connection = attacker(start(), first + (second + first) * is_pipelined)
    answers = b""
    if not is_pipelined:
        assert status(connection) == 204
        connection.sendall(second + first)
        answers = b"HTTP/1.1 204 "
    answers += heard(connection)
    assert answers.startswith(b"HTTP/1.1 204 ")
    assert answers.count(b"HTTP/1.1 400 ") == 1
    assert answers.count(b"HTTP/1.1 ") == 2


@pytest.mark.parametrize("piece_bytes", [1, 7, 1 << 16])
def test_two_lengths_are_found_however_the_bytes_arrive(piece_bytes: int) -> None:
    """Only heads are looked at: a body may hold the same words."""
    body = b"\r\n" + TWO_LENGTHS
    good = HEAD + b"Content-Length: %d\r\n\r\n" % len(body) + body
    events: list[h11.Event] = []
    with pytest.raises(h11.RemoteProtocolError, match="length"):
        parse(good + HEAD + TWO_LENGTHS, piece_bytes, events)
    assert sum(isinstance(event, h11.Request) for event in events) == 1
    assert b"".join(event.data for event in events if isinstance(event, h11.Data)) == body


def parse(text: bytes, piece_bytes: int, events: list[h11.Event]) -> None:
    """Requests that follow one another, each of them answered."""
    parser = RequestParser(h11.SERVER)
    for begin in range(0, len(text), piece_bytes):
        parser.receive_data(text[begin : begin + piece_bytes])
        while not isinstance(event := parser.next_event(), type):
            events.append(event)
            if parser.their_state is h11.DONE:
                parser.send(h11.Response(status_code=204, headers=[]))
                parser.send(h11.EndOfMessage())
                parser.start_next_cycle()


@pytest.mark.parametrize(
    "host", ["evil.example", "evil.example:80", "localhost.evil.example", "127.0.0.1.evil.example", "", "@"]
)
@pytest.mark.parametrize("path", ["/health", "/orders/Trades"])
def test_a_page_that_takes_this_address_for_its_own_is_refused(
    start: Start, attacker: Open, path: str, host: str
) -> None:
    server = start(has_tokens=False)
    connection = attacker(server, f"GET {path} HTTP/1.1\r\nHost: {host}\r\n\r\n".encode())
    assert status(connection) == 421


@pytest.mark.parametrize(
    "host", ["localhost", "LOCALHOST:8760", "127.0.0.1", "[::1]:8760", "10.1.2.3:80", "Root.example"]
)
def test_own_names_are_known(start: Start, attacker: Open, host: str) -> None:
    server = start(has_tokens=False, hosts=["root.example"])
    assert status(attacker(server, f"GET /health HTTP/1.1\r\nHost: {host}\r\n\r\n".encode())) == 200


# Guesses


def test_wrong_tokens_are_slowed_down(start: Start, attacker: Open) -> None:
    server = start(limits=HttpLimits(max_wrong_tokens=5))
    answers = [
        heard(
            attacker(server, ORDERS + b"Connection: close\r\nX-Forwarded-For: 10.0.0.%d\r\n" % number + key + b"\r\n")
        )
        for number, key in enumerate([b"", *[b"Authorization: Bearer %032d\r\n" % guess for guess in range(7)]])
    ]
    assert [int(answer.split()[1]) for answer in answers] == [401] * 5 + [429] * 3
    assert status(attacker(server, ORDERS + b"\r\n", source="127.0.0.2")) == 401, "another address"
    put(server, "north")


def test_an_edge_with_a_wrong_token_hears_the_same_for_ever(start: Start) -> None:
    server = start(limits=HttpLimits(max_wrong_tokens=1))
    with closing(HttpExchange(f"http://{server.address}", "a-token-of-nobody", "Trades")) as exchange:
        for _ in range(3):
            with pytest.raises(UsageError, match="wants another token"):
                exchange.orders()
