"""Connections of the HTTP end: how many there are, and how long each may take.

A connection is a stranger's until a right token came over it. Strangers have few connections, and where one more comes
the oldest goes: who opens many of them and says nothing shuts nobody out.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, NamedTuple

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

LENGTH_LINE = re.compile(rb"^(?:content-length|transfer-encoding):.*", re.IGNORECASE | re.MULTILINE)
FOLDED_LINE = re.compile(rb"^[ \t]", re.MULTILINE)
"""A line that continues the one before it: a value may extend there."""


@dataclass(frozen=True, slots=True)
class HttpLimits:
    """How many connections there may be, of whom, and how long a request may take."""

    max_connections: int = 512
    max_strangers: int = 128
    max_strangers_of_address: int = 32
    max_connections_of_edge: int = 64
    head_s: float = 10.0
    """For the lines before a body."""
    idle_s: float = 30.0
    """Between two pieces of a body, and between two requests."""
    request_s: float = 300.0
    """For a request and its answer."""
    max_body_bytes: int = 512 << 20
    """Of all bodies that are on their way."""
    max_body_bytes_of_edge: int = 128 << 20
    max_wrong_tokens: int = 20
    """Of an address, in a minute."""


class Group(NamedTuple):
    """Strangers from one address, or connections of one edge; of no name where no token is asked for."""

    is_known: bool
    name: str | None


class Door:
    """Knows all connections, those of a group in the order in which they came."""

    def __init__(self, limits: HttpLimits) -> None:
        self.limits = limits
        self.groups: dict[Group, dict[Connection, None]] = {}

    def enter(self, connection: Connection) -> None:
        """Let a stranger in. The oldest one of its address goes if it has too many, or that of the largest crowd."""
        limits, crowd = self.limits, self.join(connection, Group(False, connection.address))
        crowds = [members for group, members in self.groups.items() if not group.is_known]
        if len(crowd) > limits.max_strangers_of_address:
            next(iter(crowd)).drop()
        elif count(crowds) > limits.max_strangers or count(self.groups.values()) > limits.max_connections:
            largest = max(crowds, key=len)
            next(iter(largest)).drop()

    def admit(self, connection: Connection, edge: str | None) -> None:
        """Note that a connection is an edge's. The oldest one of the edge goes if it has too many."""
        if connection.group == Group(True, edge):
            return
        self.leave(connection)
        members = self.join(connection, Group(True, edge))
        if len(members) > (self.limits.max_connections if edge is None else self.limits.max_connections_of_edge):
            next(iter(members)).drop()

    def join(self, connection: Connection, group: Group) -> dict[Connection, None]:
        connection.group = group
        members = self.groups.setdefault(group, {})
        members[connection] = None
        return members

    def leave(self, connection: Connection) -> None:
        if connection.group is not None:
            members = self.groups[connection.group]
            del members[connection]
            if not members:
                del self.groups[connection.group]
        connection.group = None


def count(groups: Iterable[dict[Connection, None]]) -> int:
    return sum(map(len, groups))


class RequestParser(h11.Connection):
    """Refuses requests whose length is given twice, even if both lengths are equal: h11 merges those."""

    def next_event(self) -> h11.Event | type[h11.NEED_DATA] | type[h11.PAUSED]:
        is_head = self.their_state is h11.IDLE
        before = self.trailing_data[0] if is_head else b""
        event = super().next_event()
        if isinstance(event, h11.Request):
            head = before[: len(before) - len(self.trailing_data[0])]
            if not has_one_length(head):
                raise h11.RemoteProtocolError("the length of the body is given twice, or over several lines")
        return event


def has_one_length(head: bytes) -> bool:
    """Whether at most one line of a request's head says how long its body is, and gives one value."""
    lines = LENGTH_LINE.findall(head)
    return len(lines) < 2 and not any(b"," in line for line in lines) and not FOLDED_LINE.search(head)


class Connection(H11Protocol):
    """One connection, which is dropped when a request takes too long."""

    door: Door
    address = ""
    group: Group | None = None
    timer: asyncio.TimerHandle | None = None
    phase: object = None

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self.conn = RequestParser(h11.SERVER)

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self.address = self.client[0] if self.client else ""
        self.app_state = {"connection": self}
        self.watch("head")
        self.door.enter(self)

    def connection_lost(self, exc: Exception | None) -> None:
        self.stop_watching()
        self.door.leave(self)
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if not self.transport.is_closing():
            self.watch("head" if self.conn.their_state is h11.IDLE else "rest")

    def on_response_complete(self) -> None:
        if self.conn.their_state is h11.SEND_BODY:
            self.transport.close()  # the rest of the body would be read, and nobody wants it
        super().on_response_complete()
        if self.conn.their_state is h11.IDLE:
            self.stop_watching()
        else:
            self.watch("rest")

    def watch(self, part: str) -> None:
        """Give this part of this request its time, which more bytes of it do not prolong."""
        if self.phase != (part, self.cycle):
            self.stop_watching()
            limits = self.door.limits
            self.timer = self.loop.call_later(limits.head_s if part == "head" else limits.request_s, self.drop)
            self.phase = part, self.cycle

    def stop_watching(self) -> None:
        if self.timer is not None:
            self.timer.cancel()
        self.timer, self.phase = None, None

    def drop(self) -> None:
        self.door.leave(self)
        self.transport.abort()
