"""The upper side over HTTP, as an edge or a relay sees it."""

from __future__ import annotations

import ipaddress
import json
import ssl
import threading
import weakref
from collections.abc import Mapping
from dataclasses import dataclass
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from urllib.parse import quote, urlsplit

from headrace.model.errors import DataError, UsageError
from headrace.storage.disk import digest
from headrace.wire.exchange import InboxFullError
from headrace.wire.frames import Header
from headrace.wire.orders import Orders, from_text

FRAME_TYPE = "application/vnd.headrace.frame"
MAX_REPLY_BYTES = 256 << 20
MAX_REASON = 1_000
"""Characters that are kept of what the other side says when it refuses something."""


class UnreachableError(DataError):
    """Nobody answered. It may be better later."""


@dataclass(frozen=True, slots=True)
class Reply:
    status: int
    tag: str | None
    data: bytes

    @property
    def reason(self) -> str:
        """The reason for a refusal, in the words of the other side."""
        try:
            return str(json.loads(self.data)["error"])[:MAX_REASON]
        except (ValueError, KeyError, TypeError):
            return f"status {self.status}"


class HttpExchange:
    """One connection, kept as long as the other side keeps it, and this one is used; threads take turns."""

    def __init__(
        self, url: str, token: str | None, stream: str, timeout_s: float = 10, *, allow_plain: bool = False
    ) -> None:
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname or parts.query or parts.fragment:
            raise UsageError("url", f"'{url}' is no address of a relay or root", hint="such as https://root:8760")
        if token is not None and parts.scheme == "http" and not allow_plain and not is_loopback(parts.hostname):
            problem = f"a token would go to {parts.hostname} for everybody to read"
            raise UsageError("plain-token", problem, hint="use https, or allow_plain in a network that you trust")
        if token is not None and not (token.isascii() and token.isprintable() and token.strip() == token != ""):
            raise UsageError("token", "a token is a line of printable ASCII")
        self.place = f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}"
        self.prefix = parts.path.rstrip("/")
        self.stream = quote(stream, safe="")
        self.headers = {} if token is None else {"Authorization": f"Bearer {token}"}
        self.connection = (
            HTTPSConnection(parts.hostname, parts.port, timeout=timeout_s, context=ssl.create_default_context())
            if parts.scheme == "https"
            else HTTPConnection(parts.hostname, parts.port, timeout=timeout_s)
        )
        weakref.finalize(self, self.connection.close)
        self.turn = threading.Lock()
        self.known: tuple[str, Orders] | None = None

    def put(self, header: Header, data: bytes) -> None:
        self.request("POST", f"/frames/{self.stream}", data, {"Content-Type": FRAME_TYPE})

    def orders(self) -> Orders | None:
        tags = {} if self.known is None else {"If-None-Match": self.known[0]}
        reply = self.request("GET", f"/orders/{self.stream}", None, tags)
        if reply.status == 204:
            return None
        if reply.status == 304 and self.known is not None:
            return self.known[1]
        orders = from_text(reply.data.decode(errors="replace"))
        self.known = None if reply.tag is None else (reply.tag, orders)
        return orders

    def table_bytes(self, name: str) -> bytes:
        data = self.request("GET", f"/tables/{self.stream}/{quote(name, safe='')}", None, {}).data
        if digest(data) != name:
            raise DataError("table", f"{self.place} gave another table than {name}")
        return data

    def close(self) -> None:
        self.connection.close()

    def request(self, method: str, path: str, body: bytes | None, headers: Mapping[str, str]) -> Reply:
        """Return a reply that is good; what is not is raised."""
        with self.turn:
            reply = self.send_request(method, self.prefix + path, body, {**self.headers, **headers})
        if reply.status in (200, 204, 304):
            return reply
        if reply.status == 503:
            raise InboxFullError("frames-waiting", f"{self.place} has no room for frames now", detail=reply.reason)
        if reply.status in (401, 429):
            raise UsageError("token", f"{self.place} wants another token", hint="is it the one in its token_file?")
        raise DataError("refused", f"{self.place} refused {method} {path}: {reply.reason}")

    def send_request(self, method: str, path: str, body: bytes | None, headers: Mapping[str, str]) -> Reply:
        """Once more over a new connection, if the other side had closed the one that was kept."""
        was_open = self.connection.sock is not None
        try:
            return self.exchange(method, path, body, headers)
        except (HTTPException, OSError) as problem:
            self.connection.close()
            if was_open and not isinstance(problem, TimeoutError):
                return self.send_request(method, path, body, headers)
            raise self.unreachable(problem) from None

    def exchange(self, method: str, path: str, body: bytes | None, headers: Mapping[str, str]) -> Reply:
        self.connection.request(method, path, body, dict(headers))
        with self.connection.getresponse() as response:
            data = response.read(MAX_REPLY_BYTES + 1)
            if len(data) > MAX_REPLY_BYTES:
                self.connection.close()
                raise DataError("answer", f"{self.place} gave more than {MAX_REPLY_BYTES:,} bytes")
            return Reply(response.status, response.getheader("ETag"), data)

    def unreachable(self, problem: Exception) -> UnreachableError:
        detail = getattr(problem, "strerror", None) or str(problem) or type(problem).__name__
        hint = "start what is above first"
        return UnreachableError("unreachable", f"{self.place} does not answer", detail=detail, hint=hint)


def is_loopback(host: str) -> bool:
    """Return whether nobody but this machine is there. Other names may change what they stand for."""
    address = parse_address(host)
    return host == "localhost" or (address is not None and address.is_loopback)


def parse_address(host: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        return ipaddress.ip_address(host)
    except ValueError:
        return None
