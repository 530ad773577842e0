"""The HTTP end of directories of frames: edges send frames to it, and ask it for their orders.

POST /frames/<stream>             a frame; 200 when it is on the disk
GET  /orders/<stream>             what is asked for now; 204 if nobody said anything yet
GET  /tables/<stream>/<digest>    a static table
GET  /health                      whether anybody is there

Nothing that a client says is part of a path of the file system: streams are looked up, digests are hexadecimal.
"""

from __future__ import annotations

import asyncio
import logging
import math
import re
import socket
import threading
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Collection, Iterable, Iterator
from contextlib import contextmanager
from typing import NamedTuple

import uvicorn
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from headrace.model.errors import UsageError
from headrace.storage.disk import DamagedError, StateWriteError, digest
from headrace.wire.exchange import DirectoryExchange, InboxFullError
from headrace.wire.frames import MAX_BYTES, FrameError, StrangerError, from_bytes
from headrace.wire.http_client import FRAME_TYPE, is_loopback, parse_address
from headrace.wire.http_limits import Connection, Door, HttpLimits
from headrace.wire.ledger import check_times
from headrace.wire.tokens import Tokens

LOG = logging.getLogger(__name__)
MAX_UNPACKED = 2
"""Frames that are unpacked at the same time: each may take many times its size."""
RETRY_S = 2
DRAIN_S = 5.0
MAX_DRAIN_BYTES = 1 << 20
"""Of a body that is not wanted: so much is read, that the client may read the answer."""
PIECE_BYTES = 1 << 16
STOP_S = 5
MINUTE_S = 60.0
MAX_ADDRESSES = 10_000
TABLE = re.compile(r"[0-9a-f]{32}")
HOST = re.compile(r"(?P<name>\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9_.-]+)(:[0-9]{1,5})?")


class Inlet(NamedTuple):
    """Where the frames of a stream go, and how far their times may be ahead of the clock."""

    stream: str
    exchange: DirectoryExchange
    skew_us: int


def clock_us() -> int:
    return time.time_ns() // 1_000


# The server


class Server(uvicorn.Server):
    """Answers in a thread of its own between `start` and `stop`."""

    def __init__(self, config: uvicorn.Config, listener: socket.socket) -> None:
        super().__init__(config)
        self.listener = listener
        host, port = listener.getsockname()[:2]
        self.address = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
        """Host and port: the one it got, if it was to choose."""
        self.is_ready = threading.Event()
        self.thread = threading.Thread(target=self.run, args=([listener],), name="receiving", daemon=True)

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self.is_ready.set()

    def start(self) -> None:
        self.thread.start()
        self.is_ready.wait(STOP_S)

    def stop(self) -> None:
        if self.thread.is_alive():
            self.should_exit = True
            self.thread.join()
        self.listener.close()


def serve(
    inlets: Iterable[Inlet],
    address: str,
    tokens: Tokens | None,
    *,
    hosts: Collection[str] = (),
    limits: HttpLimits | None = None,
    most_bytes: int = MAX_BYTES,
    clock: Callable[[], int] = clock_us,
) -> Server:
    """Return a server at host:port, with a directory for each stream. Only this machine may come without a token.

    `hosts` are names that clients know it by, besides localhost, addresses and the host of `address`.
    """
    host, port = split_address(address)
    if tokens is None and not is_loopback(host):
        problem = f"without a token frames are taken from this machine only, not at {address}"
        raise UsageError("token", problem, hint="name a file with a token in it, or listen at 127.0.0.1")
    for name in hosts:
        if ":" in name or not HOST.fullmatch(name):
            raise UsageError(
                "listen", f"'{name}' is no name of a host", hint="write it without a port: root.example.org"
            )
    door = Door(limits or HttpLimits())
    receiver = Receiver(inlets, tokens, {host, *hosts}, door, most_bytes, clock)
    try:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        listener = socket.create_server((host, port), family=family, backlog=128)
    except OSError as problem:
        raise UsageError("listen", f"can't listen at {address}: {problem.strerror or problem}") from None
    return Server(config_of(receiver.application(), door), listener)


def split_address(address: str) -> tuple[str, int]:
    host, colon, port = address.rpartition(":")
    if not colon or not port.isascii() or not port.isdigit() or int(port) >= 1 << 16:
        raise UsageError("listen", f"'{address}' is no address", hint="write host:port, such as 127.0.0.1:8760")
    return host.removeprefix("[").removesuffix("]"), int(port)


def config_of(application: Starlette, door: Door) -> uvicorn.Config:
    """What clients say about themselves (X-Forwarded-For) is not believed, and what is no request is not logged."""
    return uvicorn.Config(
        application,
        http=type("OwnConnection", (Connection,), {"door": door}),
        loop="asyncio",
        ws="none",
        lifespan="off",
        log_config=None,
        log_level="error",
        access_log=False,
        proxy_headers=False,
        server_header=False,
        headers=[("Server", "headrace")],
        timeout_keep_alive=math.ceil(door.limits.idle_s),
        timeout_graceful_shutdown=STOP_S,
    )


# What it answers


class Receiver:
    """The application. All but the work on files is done in the thread of the server."""

    def __init__(
        self,
        inlets: Iterable[Inlet],
        tokens: Tokens | None,
        hosts: Iterable[str],
        door: Door,
        most_bytes: int,
        clock: Callable[[], int],
    ) -> None:
        self.inlets = {inlet.stream.lower(): inlet for inlet in inlets}
        self.tokens = tokens
        self.hosts = {"localhost", *(host.lower() for host in hosts)}
        self.door = door
        self.most_bytes = most_bytes
        self.clock = clock
        self.bodies: Counter[str] = Counter()
        self.wrong_tokens: Counter[str] = Counter()
        self.wrong_since_s = time.monotonic()
        self.unpacking = asyncio.Semaphore(MAX_UNPACKED)
        self.turns: dict[str | None, asyncio.Semaphore] = {}

    def application(self) -> Starlette:
        routes = [
            Route("/frames/{stream:path}", self.take_frame, methods=["POST"]),
            Route("/orders/{stream:path}", self.give_orders),
            Route("/tables/{stream:path}/{name}", self.give_table),
            Route("/health", self.give_health),
        ]
        handlers = {HTTPException: self.refuse, ClientDisconnect: self.give_up}
        application = Starlette(routes=routes, exception_handlers=handlers)
        application.router.redirect_slashes = False
        return application

    async def take_frame(self, request: Request) -> Response:
        edge = self.check_client(request)
        inlet = self.inlet_of(request, edge)
        if "Transfer-Encoding" in request.headers or "Content-Length" not in request.headers:
            raise HTTPException(411, "say how many bytes come: Content-Length")
        if request.headers.get("Content-Type") != FRAME_TYPE:
            raise HTTPException(415, f"a frame is {FRAME_TYPE}")
        size = int(request.headers["Content-Length"])
        if size > self.most_bytes:
            raise HTTPException(413, f"a frame has at most {self.most_bytes:,} bytes")
        with self.body_of(edge or address_of(request), size):
            data = await self.read_body(request)
            async with self.turns.setdefault(edge, asyncio.Semaphore(1 if edge else MAX_UNPACKED)), self.unpacking:
                await asyncio.to_thread(self.keep_frame, inlet, edge, data)
        return JSONResponse({})

    def keep_frame(self, inlet: Inlet, edge: str | None, data: bytes) -> None:
        """Look at a frame in full, and write it to the disk."""
        try:
            header = from_bytes(data, self.most_bytes).header
        except FrameError as problem:
            raise HTTPException(400, problem.message) from None
        if self.inlets.get(header.stream.lower()) is not inlet:
            raise HTTPException(400, "the frame is of another stream")
        if edge not in (None, header.edge):
            raise HTTPException(403, f"the token is of the edge '{edge}', the frame is of another")
        try:
            check_times(header, self.clock(), inlet.skew_us)
            inlet.exchange.put(header, data)
        except FrameError as problem:
            raise HTTPException(403, problem.message) from None
        except (InboxFullError, StateWriteError):
            raise unavailable("there is no room for frames now") from None

    async def give_orders(self, request: Request) -> Response:
        inlet = self.inlet_of(request, self.check_client(request))
        text = await asyncio.to_thread(inlet.exchange.orders_text)
        if text is None:
            return Response(status_code=204)
        data = text.encode()
        tag = f'"{digest(data)}"'
        if request.headers.get("If-None-Match") == tag:
            return Response(status_code=304, headers={"ETag": tag})
        return in_pieces(data, "application/json", {"ETag": tag})

    async def give_table(self, request: Request) -> Response:
        inlet, name = self.inlet_of(request, self.check_client(request)), request.path_params["name"]
        if not TABLE.fullmatch(name):
            raise HTTPException(404, "there is no such table")
        try:
            data = await asyncio.to_thread(inlet.exchange.table_bytes, name)
        except DamagedError:
            raise HTTPException(404, "there is no such table") from None
        return in_pieces(data, "application/vnd.apache.arrow.file", {})

    async def give_health(self, request: Request) -> Response:
        self.check_host(request)
        return JSONResponse({"status": "ok"})

    # Who asks

    def check_client(self, request: Request) -> str | None:
        """Return the edge whose token the client shows; None where no token is asked for."""
        self.check_host(request)
        edge = None
        if self.tokens is not None:
            kind, _, token = request.headers.get("Authorization", "").partition(" ")
            edge = self.tokens.find_edge(token) if kind == "Bearer" else None
            if edge is None:
                raise self.wrong_token(address_of(request))
        self.door.admit(request.state.connection, edge)
        return edge

    def check_host(self, request: Request) -> None:
        """Refuse names of others: a page in a browser can let its own name stand for the address of this machine."""
        match = HOST.fullmatch(request.headers.get("Host", ""))
        name = match["name"].lower().strip("[]") if match else ""
        if name not in self.hosts and parse_address(name) is None:
            raise HTTPException(421, "the Host is no name of this listener: add it to 'hosts' in its file")

    def wrong_token(self, address: str) -> HTTPException:
        """A right token is taken all the same: others may come from the same address."""
        now_s = time.monotonic()
        if now_s - self.wrong_since_s >= MINUTE_S or len(self.wrong_tokens) > MAX_ADDRESSES:
            self.wrong_tokens.clear()
            self.wrong_since_s = now_s
        self.wrong_tokens[address] += 1
        excess = self.wrong_tokens[address] - self.door.limits.max_wrong_tokens
        if excess == 1:
            LOG.warning("more than %d wrong tokens came from %s within a minute", excess - 1, address)
        if excess > 0:
            headers = {"Retry-After": str(int(MINUTE_S)), "Connection": "close"}
            return HTTPException(429, "too many wrong tokens", headers)
        problem = "the token is missing, or not the right one"
        return HTTPException(401, problem, {"WWW-Authenticate": "Bearer"})

    def inlet_of(self, request: Request, edge: str | None) -> Inlet:
        """Return the inlet of a stream that the edge has to do with."""
        inlet = self.inlets.get(request.path_params["stream"].lower())
        if inlet is None:
            raise HTTPException(404, "there is no such stream")
        edges = inlet.exchange.edges()
        if edge is not None and edges is not None and edge not in edges:
            raise HTTPException(403, StrangerError(edge, edges).message)
        return inlet

    # Bodies and refusals

    @contextmanager
    def body_of(self, sender: str, size: int) -> Iterator[None]:
        """Keep room for a body: there is so much for all, and a share of it for each sender."""
        limits = self.door.limits
        if self.bodies.total() + size > limits.max_body_bytes or (
            self.bodies[sender] + size > limits.max_body_bytes_of_edge
        ):
            raise unavailable("too many frames are on their way")
        self.bodies[sender] += size
        try:
            yield
        finally:
            self.bodies[sender] -= size
            self.bodies += Counter()

    async def read_body(self, request: Request) -> bytes:
        pieces, stream = [], request.stream()
        try:
            while piece := await asyncio.wait_for(anext(stream), self.door.limits.idle_s):
                pieces.append(piece)
        except TimeoutError:
            raise HTTPException(408, "the frame did not come", {"Connection": "close"}) from None
        return b"".join(pieces)

    async def refuse(self, request: Request, problem: Exception) -> Response:
        assert isinstance(problem, HTTPException)
        headers = dict(problem.headers or {})
        if "Connection" not in headers and not await was_drained(request):
            headers["Connection"] = "close"
        return JSONResponse({"error": problem.detail}, problem.status_code, headers)

    async def give_up(self, request: Request, problem: Exception) -> Response:
        """The client has left: nobody reads this."""
        return Response(status_code=400)


async def was_drained(request: Request) -> bool:
    """Whether the rest of a body was read, so that the next request can follow it."""
    headers = request.headers
    if int(headers.get("Content-Length", 0)) > MAX_DRAIN_BYTES or "Expect" in headers or "Transfer-Encoding" in headers:
        return False
    try:
        async with asyncio.timeout(DRAIN_S):
            async for _ in request.stream():
                pass
    except (TimeoutError, ClientDisconnect):
        return False
    except RuntimeError:
        pass  # it had been read in full
    return True


def unavailable(problem: str) -> HTTPException:
    return HTTPException(503, problem, {"Retry-After": str(RETRY_S)})


def in_pieces(data: bytes, kind: str, headers: dict[str, str]) -> Response:
    """So that who reads slowly is waited for, and not for ever."""

    async def pieces() -> AsyncIterator[bytes]:
        for begin in range(0, len(data), PIECE_BYTES):
            yield data[begin : begin + PIECE_BYTES]

    return StreamingResponse(pieces(), headers={**headers, "Content-Length": str(len(data))}, media_type=kind)


def address_of(request: Request) -> str:
    return "" if request.client is None else request.client.host
