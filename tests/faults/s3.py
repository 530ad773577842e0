"""A real S3 server (versitygw), and a proxy before it that is slow, fails, hangs, or loses answers.

python -m tests.faults.s3 UPSTREAM ADDRESS CONTROL: the proxy as a process, perhaps in a network namespace of its own.
Its faults are set through the Unix socket CONTROL, which any namespace reaches: see `ProxyControl`.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field
from http.client import HTTPConnection, HTTPException
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from tests.faults.requirements import require

BUCKET = "headrace"
CREDENTIALS = {"AWS_ACCESS_KEY_ID": "headrace", "AWS_SECRET_ACCESS_KEY": "a-secret-of-the-tests"}
START_S = 60
HANG_S = 300
"""Longer than any client waits."""
SERVERS_OWN = ".sgwtmp"
"""The folder of a bucket where the server writes objects before they are whole."""
Address = tuple[str, int]


# The server


def find_server() -> str | None:
    folder = Path(os.environ.get("GOPATH", Path.home() / "go")) / "bin"
    return shutil.which("versitygw") or shutil.which("versitygw", path=str(folder))


def require_server() -> str:
    """Return the program, or skip the test."""
    program = find_server()
    require("s3", None if program else "versitygw is not installed: scripts/test-tools")
    assert program is not None
    return program


def start_server(folder: Path, port: int, prefix: Sequence[str] = ()) -> subprocess.Popen[bytes]:
    """Start a server on loopback over a folder, with one bucket. The prefix is a command that runs another."""
    program = require_server()
    (folder / BUCKET).mkdir(parents=True)
    environment = {**os.environ, "ROOT_ACCESS_KEY": CREDENTIALS["AWS_ACCESS_KEY_ID"]}
    environment["ROOT_SECRET_KEY"] = CREDENTIALS["AWS_SECRET_ACCESS_KEY"]
    command = [*prefix, program, "--port", f"127.0.0.1:{port}", "--quiet", "posix", str(folder)]
    return subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


@contextmanager
def s3_server(folder: Path) -> Iterator[str]:
    """Run a server over a folder; yield its address."""
    with closing(socket.create_server(("127.0.0.1", 0))) as free:
        port = free.getsockname()[1]
    with start_server(folder, port) as server:
        try:
            wait_for_port(port, lambda: server.poll() is None)
            yield f"http://127.0.0.1:{port}"
        finally:
            server.terminate()


def wait_for_port(port: int, is_alive: Callable[[], bool] = lambda: True) -> None:
    until = time.monotonic() + START_S
    while time.monotonic() < until and is_alive():
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
            return
        except OSError:
            time.sleep(0.05)
    raise AssertionError("the S3 server did not start")


def client_environment(address: str) -> dict[str, str]:
    """Return the variables by which clients find the server."""
    return {**CREDENTIALS, "AWS_ENDPOINT_URL": address, "AWS_REGION": "us-east-1", "AWS_ALLOW_HTTP": "true"}


def use_server(address: str, setenv: Callable[[str, str], None]) -> None:
    """Let clients of this process, and of those that it starts, find the server."""
    for name, value in client_environment(address).items():
        setenv(name, value)


# The proxy


@dataclass
class Faults:
    """What a proxy does to requests, and how often it did.

    `refuse` answers 503, `lose` forwards a request and drops the answer, `hang` never answers: these count the next
    requests. The others are in force until they are changed; 0 turns them off.
    """

    delay_s: float = 0.0
    lose: int = 0
    refuse: int = 0
    hang: int = 0
    refuse_every: int = 0
    """Refuse each request whose number is a multiple."""
    lose_puts_every: int = 0
    """Lose the answers of puts that succeeded, whose number among the puts is a multiple."""
    requests: int = 0
    puts: int = 0
    counts: dict[str, int] = field(default_factory=lambda: {"refuse": 0, "lose": 0, "hang": 0})
    lock: threading.Lock = field(default_factory=threading.Lock, repr=False)

    def take(self, method: str) -> str | None:
        """Return the fault of the next request, if it has one."""
        with self.lock:
            self.requests += 1
            self.puts += method == "PUT"
            fault = self.choose(method)
            if fault is not None:
                self.counts[fault] += 1
            return fault

    def choose(self, method: str) -> str | None:
        for name in ("refuse", "lose", "hang"):
            waiting = getattr(self, name)
            if waiting:
                setattr(self, name, waiting - 1)
                return name
        if self.refuse_every and self.requests % self.refuse_every == 0:
            return "refuse"
        if self.lose_puts_every and method == "PUT" and self.puts % self.lose_puts_every == 0:
            return "lose"
        return None

    def change(self, values: Mapping[str, float]) -> None:
        with self.lock:
            for name, value in values.items():
                assert name in ("delay_s", "lose", "refuse", "hang", "refuse_every", "lose_puts_every"), name
                setattr(self, name, value)

    def describe(self) -> dict[str, object]:
        with self.lock:
            return {name: value for name, value in vars(self).items() if name != "lock"}


def make_proxy(upstream: Address, faults: Faults, address: Address) -> ThreadingHTTPServer:
    """Return a proxy that listens at the address and does not serve yet."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def forward(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            fault = faults.take(self.command)
            time.sleep(faults.delay_s)
            if fault == "refuse":
                self.answer(503, [], b"")
                return
            if fault == "hang":
                self.hang()
                return
            with closing(HTTPConnection(*upstream, timeout=30)) as server:
                # The signature is over the Host that the client wrote.
                server.putrequest(self.command, self.path, skip_host=True, skip_accept_encoding=True)
                for name, value in self.headers.items():
                    server.putheader(name, value)
                server.endheaders(body)
                try:
                    response = server.getresponse()
                    data = response.read()
                except HTTPException:
                    fault = "lose"
            if fault == "lose":
                self.close_connection = True
                return
            self.answer(response.status, response.getheaders(), data)

        def hang(self) -> None:
            """Wait until the client gives up."""
            self.close_connection = True
            self.connection.settimeout(HANG_S)
            with suppress(OSError):
                self.connection.recv(1)

        def answer(self, status: int, headers: list[tuple[str, str]], data: bytes) -> None:
            self.send_response(status)
            length = len(data)
            for name, value in headers:
                if name.lower() == "content-length" and self.command == "HEAD":
                    length = int(value)
                elif name.lower() not in ("content-length", "transfer-encoding", "connection", "date", "server"):
                    self.send_header(name, value)
            self.send_header("Content-Length", str(length))
            self.end_headers()
            self.wfile.write(data)

        do_GET = do_PUT = do_HEAD = do_DELETE = do_POST = forward  # noqa: N815 - names of the base class

        def log_message(self, format: str, *args: object) -> None:
            """Log nothing."""

    class Server(ThreadingHTTPServer):
        daemon_threads = True

        def handle_error(self, request: object, client_address: object) -> None:
            """Log nothing: clients that were killed close their connections."""

    return Server(address, Handler)


def parse_address(text: str) -> Address:
    host, _, port = text.removeprefix("http://").partition(":")
    return host, int(port)


@contextmanager
def proxy(address: str) -> Iterator[tuple[str, Faults]]:
    """Run a proxy before a server, in this process; yield its address and its faults."""
    faults = Faults()
    with make_proxy(parse_address(address), faults, ("127.0.0.1", 0)) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}", faults
        finally:
            server.shutdown()
            thread.join()


# The proxy as a process


class ProxyControl:
    """The faults of a proxy in another process, perhaps in another network namespace."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def change(self, **values: float) -> Faults:
        """Set some faults; return all, and the counts so far."""
        with closing(socket.socket(socket.AF_UNIX)) as connection:
            connection.settimeout(START_S)
            connection.connect(str(self.path))
            with connection.makefile("rw") as stream:
                stream.write(json.dumps(values) + "\n")
                stream.flush()
                return Faults(**json.loads(stream.readline()))

    def read(self) -> Faults:
        return self.change()

    def reset(self) -> None:
        """Let the proxy do nothing but forward. Its counts stay."""
        self.change(delay_s=0.0, lose=0, refuse=0, hang=0, refuse_every=0, lose_puts_every=0)

    def is_ready(self) -> bool:
        try:
            self.read()
        except OSError:
            return False
        return True


def serve_control(path: Path, faults: Faults) -> None:
    """Answer those that set faults, for as long as the process lives."""
    with closing(socket.socket(socket.AF_UNIX)) as server:
        server.bind(str(path))
        server.listen()
        while True:
            connection, _ = server.accept()
            with closing(connection), connection.makefile("rw") as stream, suppress(OSError):
                faults.change(json.loads(stream.readline() or "{}"))
                stream.write(json.dumps(faults.describe()) + "\n")
                stream.flush()


def run_proxy(upstream: str, address: str, control: str) -> None:
    """Serve until SIGTERM. The control answers once the server behind the proxy does."""
    faults = Faults()
    signal.signal(signal.SIGTERM, lambda *_: os._exit(0))
    wait_for_port(parse_address(upstream)[1])
    with make_proxy(parse_address(upstream), faults, parse_address(address)) as server:
        threading.Thread(target=serve_control, args=(Path(control), faults), daemon=True).start()
        server.serve_forever()


if __name__ == "__main__":
    run_proxy(*sys.argv[1:])
