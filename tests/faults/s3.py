"""A real S3 server on loopback (versitygw), and a proxy before it that is slow, fails, or loses answers."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from http.client import HTTPConnection, HTTPException
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from tests.faults.requirements import require

BUCKET = "headrace"
CREDENTIALS = {"AWS_ACCESS_KEY_ID": "headrace", "AWS_SECRET_ACCESS_KEY": "a-secret-of-the-tests"}
START_S = 30


def find_server() -> str | None:
    folder = Path(os.environ.get("GOPATH", Path.home() / "go")) / "bin"
    return shutil.which("versitygw") or shutil.which("versitygw", path=str(folder))


@contextmanager
def s3_server(folder: Path) -> Iterator[str]:
    """Run a server over a folder, with one bucket; yield its address."""
    program = find_server()
    require("s3", None if program else "versitygw is not installed: scripts/test-tools")
    assert program is not None
    (folder / BUCKET).mkdir(parents=True)
    with closing(socket.create_server(("127.0.0.1", 0))) as free:
        port = free.getsockname()[1]
    environment = {**os.environ, "ROOT_ACCESS_KEY": CREDENTIALS["AWS_ACCESS_KEY_ID"]}
    environment["ROOT_SECRET_KEY"] = CREDENTIALS["AWS_SECRET_ACCESS_KEY"]
    command = [program, "--port", f"127.0.0.1:{port}", "--quiet", "posix", str(folder)]
    with subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as server:
        try:
            wait_for_port(port, server)
            yield f"http://127.0.0.1:{port}"
        finally:
            server.terminate()


def wait_for_port(port: int, server: subprocess.Popen[bytes]) -> None:
    until = time.monotonic() + START_S
    while time.monotonic() < until and server.poll() is None:
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
            return
        except OSError:
            time.sleep(0.05)
    raise AssertionError("the S3 server did not start")


def use_server(address: str, setenv: Callable[[str, str], None]) -> None:
    """Let clients of this process, and of those that it starts, find the server."""
    for name, value in {
        **CREDENTIALS,
        "AWS_ENDPOINT_URL": address,
        "AWS_REGION": "us-east-1",
        "AWS_ALLOW_HTTP": "true",
    }.items():
        setenv(name, value)


class Faults:
    """What a proxy does to the next requests: `lose` forwards them and drops the answer, `refuse` answers 503."""

    def __init__(self) -> None:
        self.delay_s = 0.0
        self.lose = 0
        self.refuse = 0
        self.requests = 0
        self.lock = threading.Lock()

    def take(self) -> str | None:
        with self.lock:
            self.requests += 1
            if self.refuse:
                self.refuse -= 1
                return "refuse"
            if self.lose:
                self.lose -= 1
                return "lose"
        return None


@contextmanager
def proxy(address: str) -> Iterator[tuple[str, Faults]]:
    """Run a proxy before a server; yield its address and its faults."""
    host, _, port = address.removeprefix("http://").partition(":")
    faults = Faults()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def forward(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            fault = faults.take()
            time.sleep(faults.delay_s)
            if fault == "refuse":
                self.answer(503, [], b"")
                return
            with closing(HTTPConnection(host, int(port), timeout=30)) as upstream:
                # The signature is over the Host that the client wrote.
                upstream.putrequest(self.command, self.path, skip_host=True, skip_accept_encoding=True)
                for name, value in self.headers.items():
                    upstream.putheader(name, value)
                upstream.endheaders(body)
                try:
                    response = upstream.getresponse()
                    data = response.read()
                except HTTPException:
                    fault = "lose"
            if fault == "lose":
                self.close_connection = True
                return
            self.answer(response.status, response.getheaders(), data)

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

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        server.daemon_threads = True
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}", faults
        finally:
            server.shutdown()
            thread.join()
