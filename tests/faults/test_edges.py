"""Edges, a relay and a network that does its worst: what arrives is what the reference says, or the loss is reported.

Frames are lost, come twice, late or damaged, their acknowledgements are lost, clocks jump, spools are full, and the
relay is killed at any write and any deletion. All of it follows from a seed.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from random import Random
from typing import Any
from unittest.mock import patch

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from headrace.edge import sender as sending
from headrace.edge.agent import Agent
from headrace.edge.agent_progress import Mode, Pace
from headrace.edge.file_source import FileSource
from headrace.edge.relay import Relay
from headrace.edge.relay_plans import Plans
from headrace.edge.spool import Spool
from headrace.inputs import Source
from headrace.model.errors import DataError
from headrace.storage import disk
from headrace.wire.exchange import DirectoryExchange
from headrace.wire.frames import Frame, Header, from_bytes, to_bytes
from headrace.wire.ledger import EdgeState, FrameVerdict, decide, take_frame
from headrace.wire.orders import Orders
from tests.edge.agents import QUERIES, QUICK, STREAM, Running, answers, expected, orders_for, sent_rows, write_files
from tests.engine.files import CATALOG, SCHEMA
from tests.kernel.sketches.mutations import mutated

EDGES = ("east", "north", "south")
FILES = 12
START_US = 1_700_000_000_000_000
YEAR_US = 365 * 86_400 * 1_000_000
FRAME_EACH = replace(QUICK, every_s=1e-9, patience_s=20)
SMALL_SPOOL = replace(FRAME_EACH, spool_bytes=2_000)
SEEDS = [0, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(1, 30))]


@pytest.fixture(autouse=True)
def short_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sending, "FIRST_PAUSE_S", 0.001)
    monkeypatch.setattr(sending, "LONGEST_PAUSE_S", 0.002)


class BadNetwork:
    """An exchange whose way there and back can't be relied on."""

    def __init__(self, exchange: DirectoryExchange, random: Random) -> None:
        self.exchange = exchange
        self.random = random
        self.late: list[tuple[Header, bytes]] = []
        self.garbage = 0

    def put(self, header: Header, data: bytes) -> None:
        way = self.random.randrange(8)
        if way == 0:
            raise ConnectionResetError("the request was lost")
        if way == 1:
            self.late.append((header, data))
            raise TimeoutError("it is on its way still")
        if way == 2:
            self.put_garbage(header, data)
        if way == 3 and self.late:
            self.exchange.put(*self.late.pop(self.random.randrange(len(self.late))))
        self.exchange.put(header, data)
        if way == 4:
            self.exchange.put(header, data)
        if way == 5:
            self.late.append((header, data))
        if way == 6:
            raise ConnectionResetError("the acknowledgement was lost")

    def put_garbage(self, header: Header, data: bytes) -> None:
        """Under names that a frame may have, but none of these edges has sent one by."""
        bad = mutated(data, data, self.random)
        if bad != data:
            stranger = msgspec.structs.replace(header, sequence=header.sequence + 10**6 + self.garbage)
            self.exchange.root.joinpath(stranger.file_name).write_bytes(bad)
            self.garbage += 1

    def orders(self) -> Orders | None:
        if self.random.random() < 0.3:
            raise ConnectionResetError("no answer")
        return self.exchange.orders()

    def table_bytes(self, name: str) -> bytes:
        return self.exchange.table_bytes(name)


class Killed(Exception):
    """Ends whatever runs where a kill would."""


@contextmanager
def killed_after(operations: int) -> Iterator[None]:
    """At the n-th write, which is left half done, or deletion."""
    left = operations
    write_whole, unlink = disk.write_whole, Path.unlink

    def write(path: Path, data: bytes, **how: bool) -> None:
        if is_over():
            path.write_bytes(data[: len(data) // 2])
            raise Killed
        write_whole(path, data, **how)

    def delete(path: Path, missing_ok: bool = False) -> None:
        if is_over():
            raise Killed
        unlink(path, missing_ok)

    def is_over() -> bool:
        nonlocal left
        left -= 1
        return left == 0

    with patch.object(disk, "write_whole", write), patch.object(Path, "unlink", delete), suppress(Killed):
        yield


class System:
    """Three edges over files, their relay, and a root that takes what the ledger lets it take."""

    def __init__(self, root: Path, seed: int, pace: Pace = FRAME_EACH) -> None:
        self.root = root
        self.random = Random(seed)
        self.pace = pace
        self.inbox = DirectoryExchange(root / "inbox")
        self.above = DirectoryExchange(root / "above")
        self.networks = [BadNetwork(self.inbox, Random(f"{seed} {edge}")) for edge in EDGES]
        self.orders = orders_for(QUERIES)
        self.inbox.publish(self.orders)
        assert self.orders.plan is not None
        self.plans = Plans(root / "plans")
        self.plans.keep(self.orders.plan)
        self.written = 0

    def clock(self) -> Callable[[], int]:
        """Wrong by years, in either direction."""
        now_us = START_US + self.random.randrange(-20 * YEAR_US, 20 * YEAR_US)
        return lambda: now_us

    def write(self, count: int) -> None:
        """So many files more, each to some edge."""
        for number in range(self.written, self.written + count):
            write_files(self.root / self.random.choice(EDGES), number + 1, first=number)
        self.written += count

    def run_edges(self) -> None:
        for edge, network in zip(EDGES, self.networks, strict=True):
            (self.root / edge / "input").mkdir(parents=True, exist_ok=True)
            agent = self.agent(edge, lambda network=network: network)  # type: ignore[misc]
            agent.run()
            assert not agent.spool.waiting

    def agent(self, edge: str, connect: Callable[[], Any]) -> Agent:
        spool = Spool(self.root / edge / "state", edge, "r")
        source = Source(str(self.root / edge / "input"))
        files = FileSource(source, STREAM, spool.known.files, spool.known.reading, print, unit_bytes=1)
        return Agent(CATALOG, STREAM, spool, files, connect, mode=Mode.ONCE, pace=self.pace, clock=self.clock())

    def relay(self) -> Relay:
        spool = Spool(self.root / "relay", "west", "r")
        args = ("west", STREAM, EDGES, self.inbox, spool, self.plans)
        return Relay(*args, clock=self.clock(), idle_us=STREAM.idle_us)

    def run_relay(self) -> Relay:
        """Killed now and then; what it has is sent up, and some of that twice."""
        for _ in range(self.random.randrange(4)):
            relay = self.relay()
            with killed_after(self.random.randrange(1, 12)):
                relay.step()
                self.send_up(relay)
                relay.spool.settle(None, at_once=True)
            relay.spool.close()
        relay = self.relay()
        relay.step()
        self.send_up(relay)
        relay.spool.settle(None, at_once=True)
        relay.spool.close()
        return relay

    def send_up(self, relay: Relay) -> None:
        while (entry := relay.spool.first(0)) is not None:
            frame = entry.frame()
            for _ in range(self.random.randint(1, 2)):
                self.above.put(from_bytes(frame).header, frame)
            relay.spool.acknowledge()

    def arrived(self) -> list[Frame]:
        ledger: dict[str, EdgeState] = {}
        found = []
        for path in self.above.waiting():
            data = path.read_bytes()
            frame = from_bytes(data)
            verdict, reason = decide(ledger, frame.header)
            assert verdict is FrameVerdict.TAKE, f"{path.name}: {reason}"
            ledger = take_frame(ledger, frame.header, len(data))
            found.append(frame)
        return found


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("pace", [FRAME_EACH, SMALL_SPOOL], ids=["spool", "full spool"])
def test_results_are_those_of_the_reference(seed: int, pace: Pace, tmp_path: Path) -> None:
    system = System(tmp_path, seed, pace)
    while system.written < FILES:
        system.write(system.random.randint(2, 6))
        system.run_edges()
        system.run_relay()
    for network in system.networks:
        for header, data in network.late:
            system.inbox.put(header, data)
    system.run_relay()
    frames = system.arrived()
    assert sum(frame.header.rows.read for frame in frames) == 12 * system.written
    assert answers(frames, [system.orders.plan], QUERIES) == expected(system.written, QUERIES)
    refused = list((tmp_path / "inbox" / "refused").glob("[!.]*.reason"))
    waiting = [path.name for path in system.inbox.waiting()]
    garbage = sum(network.garbage for network in system.networks)
    assert len(refused) + len(waiting) >= garbage * 0.5, "what could be no frame is kept, with the reason"
    assert all(int(name.split("~")[2].partition(".")[0]) > 10**6 for name in waiting)


@pytest.mark.parametrize("seed", SEEDS)
def test_a_frame_that_is_gone_is_reported(seed: int, tmp_path: Path) -> None:
    """It was acknowledged, and somebody deleted or damaged it: those after it wait, and the relay says why."""
    system = System(tmp_path, seed)
    for network in system.networks:
        network.random = Random(0)
        network.random.randrange = lambda *_: 7  # type: ignore[method-assign]
    system.write(FILES)
    system.run_edges()
    by_edge = {edge: sorted((tmp_path / "inbox").glob(f"{edge}~*.frame")) for edge in EDGES}
    edge = max(by_edge, key=lambda each: len(by_edge[each]))
    place = system.random.randrange(len(by_edge[edge]) - 1)
    lost = by_edge[edge][place]
    if seed % 2:
        lost.unlink()
    else:
        data = lost.read_bytes()
        lost.write_bytes(data[:-1] + bytes([data[-1] ^ 1]))
    rows = {path: from_bytes(path.read_bytes()).header.rows.read for path in by_edge[edge] if path != lost}
    relay = system.run_relay()
    after = by_edge[edge][place + 1 :]
    assert set(relay.intake.parked) == {path.name for path in after}
    reason = relay.intake.parked[after[0].name]
    assert "before it is missing" in reason or "was left" in reason
    kept = sum(rows[path] for path in after)
    assert sum(frame.header.rows.read for frame in system.arrived()) <= 12 * FILES - kept
    assert len(list((tmp_path / "inbox" / "refused").glob("[!.]*.reason"))) == (not seed % 2)


@pytest.mark.parametrize("seed", [0, 1])
def test_an_edge_that_nobody_answers_reports_what_waits(seed: int, tmp_path: Path) -> None:
    """Its spool fills, and it says so; once somebody answers, nothing is missing."""
    system = System(tmp_path, seed, replace(SMALL_SPOOL, patience_s=0.2))
    (tmp_path / "north" / "input").mkdir(parents=True)
    write_files(tmp_path / "north", FILES)
    system.written = FILES

    class Silent(BadNetwork):
        def put(self, header: Header, data: bytes) -> None:
            raise ConnectionRefusedError("nobody is there")

        def orders(self) -> Orders | None:
            return self.exchange.orders()

    agent = system.agent("north", lambda: Silent(system.inbox, system.random))
    with pytest.raises(DataError, match="the spool is full") as problem:
        agent.run()
    assert "nobody is there" in (problem.value.detail or "")
    progress = agent.progress()
    assert progress.frames_waiting > 0
    assert progress.bytes_waiting >= 2_000
    assert progress.problem == "nobody is there"
    system.run_edges()
    system.run_relay()
    assert answers(system.arrived(), [system.orders.plan], QUERIES) == expected(FILES, QUERIES)


@pytest.mark.parametrize("clock_us", [0, 30 * YEAR_US])
def test_rows_that_a_wrong_clock_rejects_are_counted(clock_us: int, tmp_path: Path) -> None:
    """A clock a year behind makes every row one of the future; one far ahead rejects none."""
    inbox = DirectoryExchange(tmp_path / "inbox")
    inbox.publish(Orders("r", wants_rows=True))
    (tmp_path / "input").mkdir()
    rows = pa.Table.from_pylist([{**row, "t": row["t"] + timedelta(days=365)} for row in sent_rows(3)], schema=SCHEMA)
    pq.write_table(rows, tmp_path / "input" / "rows.parquet")
    spool = Spool(tmp_path / "state", "north", "r")
    source = FileSource(Source(str(tmp_path / "input")), STREAM, {}, None, print)
    args = (CATALOG, STREAM, spool, source, lambda: inbox)
    with Running(Agent(*args, mode=Mode.LIVE, pace=QUICK, clock=lambda: clock_us)) as running:
        running.wait_for(lambda: running.agent.progress().rows.read == 36)
        running.wait_for(lambda: bool(list(inbox.waiting())))
    headers = [from_bytes(path.read_bytes()).header for path in inbox.waiting()]
    assert sum(header.rows.read for header in headers) == 36
    taken_rows = sum(frame.num_rows for path in inbox.waiting() for frame in from_bytes(path.read_bytes()).tables)
    assert taken_rows + sum(header.rows.future for header in headers) == 36
    assert taken_rows == (36 if clock_us else 0)


def test_a_frame_is_written_whole_or_not_at_all(tmp_path: Path) -> None:
    """The kill of these stories is one: a half-written file is left, and never read."""
    path = tmp_path / "frame"
    with killed_after(1):
        disk.write_file(path, to_bytes(Frame(Header("north", 1, 1, "r", None))))
    assert not path.exists()
    assert [name.startswith(disk.TEMPORARY) for name in os.listdir(tmp_path)] == [True]
