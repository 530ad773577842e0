"""Three edges, a relay and a root on Spark, each a process of its own, against the reference on all their rows."""

from __future__ import annotations

import random
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from headrace.model.errors import HeadraceError
from headrace.model.query import Output, Query
from headrace.reference import Interpreter
from headrace.sql import parse_query, parse_script
from headrace.storage.directory import open_directory
from headrace.storage.records import Commit
from headrace.wire.ledger import from_json
from tests.engine.stories import Windows, read_results
from tests.engine.test_steps import compare
from tests.oracle.test_kernel import weights

SCHEMA = """CREATE STREAM Flows (t TIMESTAMP, src STRING, dst STRING, port BIGINT, size BIGINT)
EVENT TIME t LATENESS '1 s' IDLE '1 h';"""
CATALOG = parse_script(SCHEMA).catalog
ARROW = pa.schema(
    [("t", pa.timestamp("us", "UTC")), ("src", pa.string()), ("dst", pa.string())]
    + [(name, pa.int64()) for name in ("port", "size")]
)
EDGES = ("east", "north", "west")
FILES, ROWS, SECONDS = 16, 25, 3
PREDICATES = ("", "port < 1024", "port >= 1024 AND size > 500", "size <= 500")
GROUPS = ("", "src", "dst", "port")
WINDOWS = ("[RANGE '6 s']", "[RANGE '12 s' SLIDE '6 s']", "[RANGE '9 s' SLIDE '3 s']")
AGENT = """
edge = "{edge}"
schema = "../schema.sql"
stream = "Flows"
state = "state"
memory = 65536
[source]
kind = "files"
path = "input"
[ship]
to = "{to}"
every = "100 ms"
poll = "100 ms"
heartbeat = "200 ms"
"""
RELAY = """
relay = "relay"
schema = "../schema.sql"
streams = ["Flows"]
edges = ["east", "north", "west"]
inbox = "inbox"
state = "state"
listen = "{address}"
[ship]
to = "http://{above}"
every = "100 ms"
poll = "100 ms"
"""
JOB = """
schema = "../schema.sql"
queries = "queries.sql"
state = "state"
master = "local[2]"
[streams.Flows]
edges = ["relay"]
[edges]
listen = "{address}"
[[sinks]]
kind = "parquet"
path = "results"
"""


def text_of(where: str, group: str, window: str) -> str:
    columns = f"{group}, " if group else ""
    rest = (f" WHERE {where}" if where else "") + (f" GROUP BY {group}" if group else "")
    return f"SELECT {columns}count(*) AS n, sum(size) AS total, max(port) AS top FROM Flows {window}{rest}"


TEXTS = {f"q{number}": text_of(*each) for number, each in enumerate(product(PREDICATES, GROUPS, WINDOWS))}
TEXTS |= {
    f"d{number}": f"SELECT count(DISTINCT dst) AS d, avg(size) AS a FROM Flows [RANGE '{6 + 3 * number} s' SLIDE '3 s']"
    for number in range(15)
}
LATER = "SELECT src, count(*) AS n FROM Flows [RANGE '6 s'] WHERE port < 1024 GROUP BY src"
DROPPED = "q5"


def rows_of(edge: str, number: int) -> list[dict[str, Any]]:
    chance = random.Random(f"{edge} {number}")
    times_us = sorted(chance.randrange(number * SECONDS * 10**6, (number + 1) * SECONDS * 10**6) for _ in range(ROWS))
    return [
        {
            "t": time_us,
            "src": f"10.0.0.{chance.randrange(12)}",
            "dst": f"192.168.0.{chance.randrange(5)}",
            "port": chance.choice((22, 80, 443, 5000, 8080)),
            "size": chance.randrange(40, 1500),
        }
        for time_us in times_us
    ]


def reference(queries: dict[str, Query]) -> dict[str, Windows]:
    interpreter = Interpreter(CATALOG.streams[0])
    for name, query in queries.items():
        extra = tuple(Output(f"w{place}", tree) for place, tree in weights(query).items())
        interpreter.register(name, replace(query, outputs=(*query.outputs, *extra)))
    rows = [row for edge in EDGES for number in range(FILES) for row in rows_of(edge, number)]
    found: dict[str, Windows] = {name: {} for name in queries}
    for step in (interpreter.batch(rows), interpreter.end()):
        for result in step.results:
            for row in result.rows:
                found[result.query].setdefault((result.window.start_us, result.window.end_us), []).append(row)
    return found


class Site:
    """Folders, files and processes of the hierarchy."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.processes: dict[str, subprocess.Popen[str]] = {}
        above, below = free_address(), free_address()
        (root / "schema.sql").write_text(SCHEMA)
        for name in (*EDGES, "relay", "root"):
            (root / name).mkdir()
        for edge in EDGES:
            (root / edge / "input").mkdir()
            to = "out" if edge == "west" else f"http://{below}"
            (root / edge / "edge.toml").write_text(AGENT.format(edge=edge, to=to))
        (root / "relay" / "relay.toml").write_text(RELAY.format(address=below, above=above))
        (root / "root" / "job.toml").write_text(JOB.format(address=above))
        texts = (f"CREATE QUERY {name} AS {sql};" for name, sql in TEXTS.items())
        (root / "root" / "queries.sql").write_text("\n".join(texts))

    def write(self, edge: str, numbers: range) -> None:
        for number in numbers:
            path = self.root / edge / "input" / f".{number:04}.parquet"
            pq.write_table(pa.Table.from_pylist(rows_of(edge, number), schema=ARROW), path)
            path.rename(path.with_name(path.name.removeprefix(".")))

    def start(self, name: str, *arguments: str) -> subprocess.Popen[str]:
        command = [sys.executable, "-m", "headrace", *arguments]
        with (self.root / f"{name}.log").open("a") as log:
            self.processes[name] = subprocess.Popen(command, stdout=log, stderr=log, text=True, cwd=self.root)
        return self.processes[name]

    def start_edge(self, edge: str, *options: str) -> None:
        self.start(edge, "edge", f"{edge}/edge.toml", *options)

    def command(self, *arguments: str) -> None:
        subprocess.run([sys.executable, "-m", "headrace", *arguments], cwd=self.root, check=True, timeout=120)

    def stop(self) -> None:
        for process in self.processes.values():
            if process.poll() is None:
                process.kill()
                process.wait()

    def commit(self) -> Commit | None:
        try:
            return open_directory(self.root / "root" / "state" / "Flows").last_commit()
        except (HeadraceError, OSError):
            return None

    def wait_for(self, condition: Callable[[Commit], bool], what: str) -> None:
        until_s = time.monotonic() + 180
        while (commit := self.commit()) is None or not condition(commit):
            for name, process in self.processes.items():
                assert process.poll() in (None, 0, -9), f"{name}: {(self.root / f'{name}.log').read_text()[-3000:]}"
            assert time.monotonic() < until_s, f"waited for {what}: {self.logs()}"
            time.sleep(0.1)

    def logs(self) -> str:
        return "\n".join(f"{path.name}: {path.read_text()[-1500:]}" for path in sorted(self.root.glob("*.log")))


def free_address() -> str:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return f"127.0.0.1:{found.getsockname()[1]}"


@contextmanager
def bad_network(site: Site) -> Iterator[None]:
    """Between the western edge and the relay: frames wait, change their order and come twice. Orders come through."""
    out, inbox = site.root / "west" / "out", site.root / "relay" / "inbox" / "Flows"
    chance, stopping, known = random.Random(4), threading.Event(), dict[str, bytes]()

    def carry() -> None:
        while not stopping.wait(0.05):
            if not (inbox.exists() and out.exists()):
                continue
            if (inbox / "orders.json").exists():
                shutil.copytree(inbox / "tables", out / "tables", dirs_exist_ok=True)
                shutil.copy(inbox / "orders.json", out / ".orders")
                (out / ".orders").rename(out / "orders.json")
            frames = list(out.glob("[!.]*.frame"))
            for path in frames:
                known[path.name] = path.read_bytes()
            again = [name for name in known if chance.random() < 0.02]
            names = [path.name for path in frames if chance.random() < 0.5] + again
            chance.shuffle(names)
            for name in names:
                (inbox / f".{name}.coming").write_bytes(known[name])
                (inbox / f".{name}.coming").rename(inbox / name)
                (out / name).unlink(missing_ok=True)

    thread = threading.Thread(target=carry)
    thread.start()
    try:
        yield
    finally:
        stopping.set()
        thread.join()


@pytest.mark.jvm
def test_three_edges_a_relay_and_a_root(tmp_path: Path) -> None:
    site = Site(tmp_path)
    queries = {name: parse_query(sql, CATALOG) for name, sql in TEXTS.items()} | {"later": parse_query(LATER, CATALOG)}
    expected = reference(queries)
    try:
        site.start("root", "run", "root/job.toml", "--bounded")
        site.start("relay", "relay", "relay/relay.toml")
        with bad_network(site):
            for edge in EDGES:
                site.write(edge, range(6))
                site.start_edge(edge)
            site.wait_for(lambda commit: commit.totals.rows == 3 * 6 * ROWS, "the first files")
            site.processes["north"].kill()
            site.processes["north"].wait()
            site.write("north", range(6, 9))
            site.start_edge("north")
            site.command("queries", "add", "root/job.toml", "later", LATER, "--wait", "60")
            site.command("queries", "drop", "root/job.toml", DROPPED, "--wait", "60")
            site.wait_for(lambda commit: has_plan(commit, commit.plan), "the new plan at all edges")
            for edge in EDGES:
                site.write(edge, range(9 if edge == "north" else 6, FILES))
            for edge in EDGES:
                site.processes[edge].send_signal(signal.SIGTERM)
                site.processes[edge].wait(timeout=60)
                site.start_edge(edge, "--bounded")
            assert site.processes["root"].wait(timeout=180) == 0, site.logs()
        last = site.commit()
    finally:
        site.stop()
    assert last is not None
    assert last.ended
    assert last.totals.rows == len(EDGES) * FILES * ROWS
    for name, query in queries.items():
        ours = read_results(tmp_path / "root" / "results" / name, query)
        compare(query, ours, expected[name])
        if name == "later":
            assert ours.keys() >= {each for each in expected[name] if each[0] >= 9 * SECONDS * 10**6}
        elif name != DROPPED:
            assert ours.keys() == expected[name].keys(), name


def has_plan(commit: Commit, plan: str | None) -> bool:
    members = [member for state in from_json(commit.edges).values() for member in state.members.values()]
    return len(members) == len(EDGES) and all(member.plan == plan for member in members)
