"""Rows that come by themselves: datagrams, connections, standard input. What was taken can't be read again.

Threads take bytes in and leave them in a short queue. When nobody reads from that, they take in no more: a sender on
a connection then waits, and datagrams that find the buffer of the system full are dropped by it, and counted.
"""

from __future__ import annotations

import os
import socket
import threading
import time
from collections import deque
from collections.abc import Callable, Collection, Iterator
from contextlib import suppress
from io import BytesIO
from pathlib import Path
from typing import Any

from headrace.edge.edge_state import SourceMark
from headrace.edge.intake import Intake, Refused
from headrace.edge.socket_rows import Item, Read, batches_in, lines_in, refused_bytes, rows_in
from headrace.model.errors import DataError, UsageError
from headrace.model.schema import Stream

MAX_WAITING_BYTES = 16 << 20
"""In the queue, and an item more: that is 256 KB of lines, or a message of Arrow."""
MAX_TAKEN_BYTES = 4 << 20
ITEM_BYTES = 256
"""What an item takes beside its bytes."""
MAX_CONNECTIONS = 256
IDLE_S = 300.0
"""A connection that brings nothing for so long is closed, if nothing else is asked for."""
RECEIVE_BYTES = 8 << 20
DATAGRAM_BYTES = 1 << 16
WAKE_S = 0.2
NETFLOW = {b"\x00\x05": "NetFlow v5", b"\x00\x09": "NetFlow v9", b"\x00\x0a": "IPFIX"}
"""How datagrams begin that routers send, in place of a text."""
ENCODINGS: dict[str, Callable[[Read], Iterator[Item]]] = {"json": lines_in, "arrow": batches_in}


class Waiting:
    """A queue of bounded size. Who puts an item waits for room."""

    def __init__(self) -> None:
        self.items: deque[Item] = deque()
        self.bytes = 0
        self.changed = threading.Condition()

    def put(self, item: Item) -> None:
        with self.changed:
            self.changed.wait_for(lambda: self.bytes < MAX_WAITING_BYTES)
            self.items.append(item)
            self.bytes += size_of(item)
            self.changed.notify_all()

    def take(self, timeout_s: float) -> list[Item]:
        """Some items in their order, none if none came in time."""
        items: list[Item] = []
        taken = 0
        with self.changed:
            self.changed.wait_for(lambda: self.items, timeout_s)
            while self.items and taken < MAX_TAKEN_BYTES:
                items.append(self.items.popleft())
                taken += size_of(items[-1])
            self.bytes -= taken
            self.changed.notify_all()
        return items


def size_of(item: Item) -> int:
    return ITEM_BYTES + (len(item) if isinstance(item, bytes) else getattr(item, "nbytes", 0))


class ChannelSource:
    """Threads leave items here, and one reader takes them out as rows."""

    has_position = False
    present: Collection[str] | None = None

    def __init__(self, stream: Stream, encoding: str) -> None:
        self.stream = stream
        self.encoding = encoding
        self.waiting = Waiting()
        self.stopping = threading.Event()
        self.threads: list[threading.Thread] = []
        self.broken: OSError | None = None
        self.last: list[Item] = []

    @property
    def is_ended(self) -> bool:
        is_busy = any(thread.is_alive() for thread in self.threads)
        return not is_busy and not self.waiting.items and self.broken is None

    @property
    def datagrams_dropped(self) -> int:
        """Datagrams that the system dropped, as far as it reports them."""
        return 0

    def take(self, columns: Collection[str], timeout_s: float) -> Intake | None:
        if self.broken is not None:
            raise DataError("source", f"nothing can be received any more: {self.broken.strerror}")
        items = self.waiting.take(timeout_s)
        self.last = items or self.last
        return rows_in(items, self.stream, columns) if items else None

    def take_again(self, columns: Collection[str]) -> Intake:
        return rows_in(self.last, self.stream, columns)

    def mark(self) -> SourceMark:
        return SourceMark()

    def stop(self) -> None:
        self.stopping.set()

    # In threads

    def start(self, call: Callable[..., None], *arguments: Any) -> None:
        self.threads = [thread for thread in self.threads if thread.is_alive()]
        thread = threading.Thread(target=self.run, args=(call, *arguments), name="channel", daemon=True)
        thread.start()
        self.threads.append(thread)

    def run(self, call: Callable[..., None], *arguments: Any) -> None:
        try:
            call(*arguments)
        except OSError as problem:
            self.broken = problem

    def leave_all(self, read: Read) -> None:
        """An item waits for its room; no other is begun after the end was asked for."""
        try:
            for item in ENCODINGS[self.encoding](read):
                self.waiting.put(item)
                if self.stopping.is_set():
                    return
        except OSError:
            raise
        except Exception as problem:  # noqa: BLE001 - whatever a peer sends, other peers are still served
            self.waiting.put(Refused(f"input that can't be read: {type(problem).__name__}: {problem}"))


class StandardInput(ChannelSource):
    """Ends when its writer does."""

    def __init__(self, stream: Stream, encoding: str, descriptor: int = 0) -> None:
        super().__init__(stream, encoding)
        self.start(self.leave_all, lambda count: os.read(descriptor, count))


class Datagrams(ChannelSource):
    """UDP: each datagram holds JSON lines, or an Arrow stream."""

    def __init__(self, stream: Stream, encoding: str, address: tuple[str, int]) -> None:
        super().__init__(stream, encoding)
        self.socket = bind_socket(address, socket.SOCK_DGRAM)
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, RECEIVE_BYTES)
        self.address: tuple[str, int] = self.socket.getsockname()[:2]
        self.inode = os.fstat(self.socket.fileno()).st_ino
        self.dropped = 0
        self.start(self.receive)

    @property
    def datagrams_dropped(self) -> int:
        self.dropped = max(self.dropped, dropped_datagrams(self.inode))
        return self.dropped

    def receive(self) -> None:
        with self.socket:
            while not self.stopping.is_set():
                with suppress(TimeoutError):
                    self.leave(self.socket.recv(DATAGRAM_BYTES))
            self.dropped = self.datagrams_dropped

    def leave(self, datagram: bytes) -> None:
        protocol = NETFLOW.get(datagram[:2]) if self.encoding == "json" else None
        if protocol is None:
            self.leave_all(BytesIO(datagram).read)
        else:
            self.waiting.put(refused_bytes(f"binary datagram: is this {protocol}?", datagram))


def dropped_datagrams(inode: int, tables: tuple[str, ...] = ("/proc/net/udp", "/proc/net/udp6")) -> int:
    """Return the count that Linux shows in the last column of the line of a socket."""
    for table in tables:
        with suppress(OSError):
            for line in Path(table).read_text().splitlines()[1:]:
                fields = line.split()
                if fields[9] == str(inode):
                    return int(fields[-1])
    return 0


class Connections(ChannelSource):
    """TCP: each connection brings JSON lines, or an Arrow stream. Those that bring nothing for `idle_s` are closed."""

    def __init__(self, stream: Stream, encoding: str, address: tuple[str, int], idle_s: float = IDLE_S) -> None:
        super().__init__(stream, encoding)
        self.idle_s = idle_s
        self.socket = bind_socket(address, socket.SOCK_STREAM)
        self.socket.listen()
        self.address: tuple[str, int] = self.socket.getsockname()[:2]
        self.start(self.accept)

    def accept(self) -> None:
        with self.socket:
            while not self.stopping.is_set():
                try:
                    connection, _ = self.socket.accept()
                except TimeoutError:
                    continue
                except OSError as problem:
                    self.waiting.put(Refused(f"a connection that could not be taken: {problem}"))
                    self.stopping.wait(WAKE_S)
                    continue
                self.admit(connection)

    def admit(self, connection: socket.socket) -> None:
        """Serve it, or close it if there are too many: there is room again when another one ends."""
        others = sum(thread.is_alive() for thread in self.threads) - 1
        if others >= MAX_CONNECTIONS:
            connection.close()
            self.waiting.put(Refused(f"one connection more than {MAX_CONNECTIONS}"))
            return
        try:
            self.start(self.serve, connection)
        except RuntimeError as problem:
            connection.close()
            self.waiting.put(Refused(f"a connection that could not be taken: {problem}"))

    def serve(self, connection: socket.socket) -> None:
        connection.settimeout(min(WAKE_S, self.idle_s))
        with connection:
            try:
                self.leave_all(lambda count: self.receive(connection, count))
            except OSError as problem:
                self.waiting.put(Refused(f"a connection that broke: {problem}"))

    def receive(self, connection: socket.socket, count: int) -> bytes:
        until_s = time.monotonic() + self.idle_s
        while not self.stopping.is_set():
            with suppress(TimeoutError):
                return connection.recv(count)
            if time.monotonic() >= until_s:
                self.waiting.put(Refused(f"a connection that brought nothing for {self.idle_s:g} s: closed", rows=0))
                return b""
        return b""


def bind_socket(address: tuple[str, int], kind: socket.SocketKind) -> socket.socket:
    host, port = address
    try:
        family, *_, place = socket.getaddrinfo(host, port, type=kind)[0]
        listener = socket.socket(family, kind)
        try:
            if kind is socket.SOCK_STREAM:
                listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listener.bind(place)
        except BaseException:
            listener.close()
            raise
    except OSError as problem:
        raise UsageError("address", f"can't listen on {host}:{port}: {problem.strerror}") from None
    listener.settimeout(WAKE_S)
    return listener
