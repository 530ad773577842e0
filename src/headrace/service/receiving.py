"""The HTTP end of directories of frames: edges send frames to it, and ask it for their orders.

POST /frames/<stream>             a frame; 200 when it is on the disk
GET  /orders/<stream>             what is asked for now; 204 if nobody said anything yet
GET  /tables/<stream>/<digest>    a static table
GET  /health                      whether anybody is there

Nothing that a client says is part of a path of the file system: streams are looked up, digests are hexadecimal.
"""

from __future__ import annotations

import io
import json
import logging
import re
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from socketserver import TCPServer
from typing import Any, NamedTuple
from urllib.parse import unquote

from headrace.edge import exchange as exchanges
from headrace.edge.exchange import DirectoryExchange
from headrace.edge.frames import MOST_BYTES, FrameError, StrangerError, from_bytes
from headrace.edge.http_exchange import FRAME_TYPE, is_loopback
from headrace.edge.ledger import check_times
from headrace.model.errors import UsageError
from headrace.service.tokens import Tokens
from headrace.spark.disk import DamagedError, digest
from headrace.spark.disk import FullError as DiskError

LOG = logging.getLogger(__name__)
MOST_CONNECTIONS = 256
MOST_OPENED = 2
"""Frames that are unpacked at the same time: each may take many times its size."""
IDLE_S = 30.0
REQUEST_S = 300.0
"""Whoever has not said a whole request by then goes."""
RETRY_S = 2
PIECE_BYTES = 1 << 16
MOST_DRAINED = 1 << 20
"""Of a body that is not wanted: so much is read, that the client may read the answer."""
LENGTH, TABLE = re.compile(r"[0-9]{1,18}"), re.compile(r"[0-9a-f]{32}")
BUSY = (
    b"HTTP/1.1 503 Service Unavailable\r\nRetry-After: %d\r\nContent-Length: 0\r\nConnection: close\r\n\r\n" % RETRY_S
)


class Inlet(NamedTuple):
    """Where the frames of a stream go, and how far their times may be ahead of the clock."""

    stream: str
    exchange: DirectoryExchange
    skew_us: int


def clock_us() -> int:
    return time.time_ns() // 1_000


class Server:
    """Answers in threads of its own between `start` and `stop`."""

    def __init__(self, listening: Listening) -> None:
        self.listening = listening
        self.thread = threading.Thread(target=listening.serve_forever, args=(0.1,), name="receiving", daemon=True)

    @property
    def address(self) -> str:
        """Host and port: the one it got, if it was to choose."""
        host, port = self.listening.server_address[:2]
        return f"[{host!s}]:{port}" if ":" in str(host) else f"{host!s}:{port}"

    def start(self) -> None:
        self.thread.start()

    def stop(self) -> None:
        if self.thread.is_alive():
            self.listening.shutdown()
            self.thread.join()
        self.listening.server_close()


def serve(
    inlets: Iterable[Inlet],
    address: str,
    tokens: Tokens | None,
    *,
    most_bytes: int = MOST_BYTES,
    clock: Callable[[], int] = clock_us,
) -> Server:
    """A server at host:port, with a directory for each stream. Only this machine may come without a token."""
    host, port = split_address(address)
    if tokens is None and not is_loopback(host):
        problem = f"without a token frames are taken from this machine only, not at {address}"
        raise UsageError("token", problem, hint="name a file with a token in it, or listen at 127.0.0.1")
    named = {inlet.stream.lower(): inlet for inlet in inlets}
    try:
        return Server(Listening(host, port, named, tokens, most_bytes, clock))
    except OSError as problem:
        raise UsageError("listen", f"can't listen at {address}: {problem.strerror or problem}") from None


def split_address(address: str) -> tuple[str, int]:
    host, colon, port = address.rpartition(":")
    if not colon or not port.isascii() or not port.isdigit() or int(port) >= 1 << 16:
        raise UsageError("listen", f"'{address}' is no address", hint="write host:port, such as 127.0.0.1:8760")
    return host.removeprefix("[").removesuffix("]"), int(port)


class Listening(ThreadingHTTPServer):
    """Connections beyond the limit are told to come again."""

    daemon_threads = True
    block_on_close = False
    request_queue_size = 128

    def __init__(
        self,
        host: str,
        port: int,
        streams: Mapping[str, Inlet],
        tokens: Tokens | None,
        most_bytes: int,
        clock: Callable[[], int],
    ) -> None:
        self.address_family = socket.AF_INET6 if ":" in host else socket.AF_INET
        self.streams = streams
        self.tokens = tokens
        self.clock = clock
        self.most_bytes = most_bytes
        self.connections = threading.Semaphore(MOST_CONNECTIONS)
        self.opening = threading.Semaphore(MOST_OPENED)
        super().__init__((host, port), Handler)

    def server_bind(self) -> None:
        """Without asking the network for the name of this machine, as HTTPServer does."""
        TCPServer.server_bind(self)

    def process_request(self, request: Any, client_address: Any) -> None:
        if self.connections.acquire(blocking=False):
            super().process_request(request, client_address)
            return
        request.setblocking(False)
        with suppress(OSError):
            request.sendall(BUSY)
        self.shutdown_request(request)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        try:
            super().process_request_thread(request, client_address)
        finally:
            self.connections.release()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A connection that broke is no error: the client sends again."""
        if not isinstance(sys.exception(), OSError):
            LOG.exception("a request failed")


class Patient(io.RawIOBase):
    """What a client sends, waited for until some time and no longer."""

    def __init__(self, connection: socket.socket) -> None:
        self.connection = connection
        self.until_s = 0.0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        left_s = self.until_s - time.monotonic()
        if left_s <= 0:
            raise TimeoutError
        self.connection.settimeout(min(IDLE_S, left_s))
        return self.connection.recv_into(buffer)


class Refused(Exception):
    """An answer other than the one that was asked for."""

    def __init__(self, status: HTTPStatus, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.message = message


class Handler(BaseHTTPRequestHandler):
    """One connection, and its requests one after the other."""

    protocol_version = "HTTP/1.1"
    server: Listening

    def setup(self) -> None:
        super().setup()
        self.rfile.close()
        self.patient = Patient(self.connection)
        self.rfile = io.BufferedReader(self.patient, PIECE_BYTES)

    def handle_one_request(self) -> None:
        self.patient.until_s = time.monotonic() + REQUEST_S
        self.unread = 0
        super().handle_one_request()

    def handle_expect_100(self) -> bool:
        """Told to go on only when the body is wanted."""
        return True

    def version_string(self) -> str:
        return "headrace"

    def log_message(self, format: str, *args: Any) -> None:
        """Nothing: who sent what is in the frames."""

    # Requests

    def do_POST(self) -> None:
        self.handled({"frames": self.take_frame})

    def do_GET(self) -> None:
        self.handled({"orders": self.give_orders, "tables": self.give_table, "health": self.give_health})

    def handled(self, calls: Mapping[str, Callable[..., None]]) -> None:
        try:
            self.unread = self.length()
            self.close_connection |= self.command == "GET" and self.unread > 0
            first, *rest = (unquote(part) for part in self.path.partition("?")[0].strip("/").split("/"))
            if first not in calls or len(rest) != ARGUMENTS[first]:
                raise Refused(HTTPStatus.NOT_FOUND, "there is nothing here")
            self.edge = None if first == "health" else self.checked_edge()
            calls[first](*rest)
        except Refused as refused:
            self.drain()
            self.tell(refused.status, refused.message)

    def length(self) -> int:
        text = self.headers.get("Content-Length", "0" if self.command == "GET" else "")
        if not LENGTH.fullmatch(text) or "Transfer-Encoding" in self.headers:
            self.close_connection = True
            raise Refused(HTTPStatus.LENGTH_REQUIRED, "say how many bytes come: Content-Length")
        return int(text)

    def checked_edge(self) -> str | None:
        """The edge whose token the client shows; None if none is asked for."""
        if self.server.tokens is None:
            return None
        kind, _, token = self.headers.get("Authorization", "").partition(" ")
        edge = self.server.tokens.find_edge(token) if kind == "Bearer" else None
        if edge is None:
            raise Refused(HTTPStatus.UNAUTHORIZED, "the token is missing, or not the right one")
        return edge

    def inlet_of(self, stream: str) -> Inlet:
        """Of a stream that the edge has to do with."""
        found = self.server.streams.get(stream.lower())
        if found is None:
            raise Refused(HTTPStatus.NOT_FOUND, "there is no such stream")
        edges = found.exchange.edges()
        if self.edge is not None and edges is not None and self.edge not in edges:
            raise Refused(HTTPStatus.FORBIDDEN, StrangerError(self.edge, edges).message)
        return found

    def take_frame(self, stream: str) -> None:
        inlet = self.inlet_of(stream)
        if self.headers.get("Content-Type") != FRAME_TYPE:
            raise Refused(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, f"a frame is {FRAME_TYPE}")
        if self.unread > self.server.most_bytes:
            raise Refused(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, f"a frame has at most {self.server.most_bytes:,} bytes")
        data = self.body()
        try:
            with self.server.opening:
                header = from_bytes(data, self.server.most_bytes).header
        except FrameError as problem:
            raise Refused(HTTPStatus.BAD_REQUEST, problem.message) from None
        if self.server.streams.get(header.stream.lower()) is not inlet:
            raise Refused(HTTPStatus.BAD_REQUEST, "the frame is of another stream")
        if self.edge not in (None, header.edge):
            raise Refused(HTTPStatus.FORBIDDEN, f"the token is of the edge '{self.edge}', the frame is of another")
        try:
            check_times(header, self.server.clock(), inlet.skew_us)
            inlet.exchange.put(header, data)
        except FrameError as problem:
            raise Refused(HTTPStatus.FORBIDDEN, problem.message) from None
        except (exchanges.FullError, DiskError):
            raise Refused(HTTPStatus.SERVICE_UNAVAILABLE, "there is no room for frames now") from None
        self.answer(HTTPStatus.OK, b"{}")

    def give_orders(self, stream: str) -> None:
        text = self.inlet_of(stream).exchange.orders_text()
        if text is None:
            self.answer(HTTPStatus.NO_CONTENT, b"")
            return
        data = text.encode()
        tag = f'"{digest(data)}"'
        if self.headers.get("If-None-Match") == tag:
            self.answer(HTTPStatus.NOT_MODIFIED, b"", ETag=tag)
        else:
            self.answer(HTTPStatus.OK, data, ETag=tag)

    def give_table(self, stream: str, name: str) -> None:
        exchange = self.inlet_of(stream).exchange
        if not TABLE.fullmatch(name):
            raise Refused(HTTPStatus.NOT_FOUND, "there is no such table")
        try:
            data = exchange.table_bytes(name)
        except DamagedError:
            raise Refused(HTTPStatus.NOT_FOUND, "there is no such table") from None
        self.answer(HTTPStatus.OK, data, "application/vnd.apache.arrow.file")

    def give_health(self) -> None:
        self.answer(HTTPStatus.OK, b'{"status": "ok"}')

    # Bodies and answers

    def body(self) -> bytes:
        if self.headers.get("Expect", "").lower() == "100-continue":
            self.send_response_only(HTTPStatus.CONTINUE)
            self.end_headers()
        data = self.rfile.read(self.unread)
        if len(data) < self.unread:
            raise ConnectionError("the client left")
        self.unread = 0
        return data

    def drain(self) -> None:
        if self.unread > MOST_DRAINED or self.headers.get("Expect"):
            self.close_connection = True
            return
        while self.unread and (data := self.rfile.read(min(self.unread, PIECE_BYTES))):
            self.unread -= len(data)

    def tell(self, status: HTTPStatus, message: str) -> None:
        extra = {"Retry-After": str(RETRY_S)} if status is HTTPStatus.SERVICE_UNAVAILABLE else {}
        self.answer(status, json.dumps({"error": message}).encode(), **extra)

    def answer(self, status: HTTPStatus, data: bytes, kind: str = "application/json", **extra: str) -> None:
        self.connection.settimeout(IDLE_S)
        self.send_response(status)
        has_body = status not in (HTTPStatus.NO_CONTENT, HTTPStatus.NOT_MODIFIED)
        length = {"Content-Type": kind, "Content-Length": str(len(data))} if has_body else {}
        closing = {"Connection": "close"} if self.close_connection else {}
        for name, value in (length | closing | extra).items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(data)

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:
        """For requests that are none; what they said is not repeated."""
        self.close_connection = True
        status = HTTPStatus(code)
        self.tell(status, status.phrase.lower())


ARGUMENTS: Mapping[str, int] = {"frames": 1, "orders": 1, "tables": 2, "health": 0}
"""What follows the first part of a path."""
