"""Frames that can't go up as they are: damaged in the spool, or refused above. Neither happens in silence."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import msgspec
import pytest

from headrace.edge.agent import Agent
from headrace.edge.agent_progress import Mode
from headrace.edge.file_source import FileSource
from headrace.edge.spool import Spool
from headrace.inputs import Source
from headrace.storage.disk import DamagedError
from headrace.wire.frames import Header, read_header
from headrace.wire.http_client import HttpExchange
from headrace.wire.http_server import Inlet, serve
from headrace.wire.ledger import EdgeState, FrameVerdict, decide, take_frame
from headrace.wire.orders import Orders
from tests.edge.agents import (
    EDGE,
    QUICK,
    STREAM,
    Running,
    barred,
    in_any_order,
    make_agent,
    received,
    rows_in,
    sent_rows,
    upper,
    write_files,
)
from tests.engine.files import CATALOG

EACH = replace(QUICK, every_s=1e-9)
"""Every piece is a frame."""


def spooled(root: Path) -> list[Path]:
    return sorted((root / "state").glob("*.spooled"))


def with_damage(root: Path) -> Path:
    """Two files are sent, the frames of three more wait, and the third of these is damaged."""
    upper(root).publish(Orders("r"))
    write_files(root, 2)
    make_agent(root, pace=EACH).run()
    write_files(root, 5, first=2)
    agent = make_agent(root, pace=replace(EACH, patience_s=0.1))
    agent.following.has_polled.wait()
    with barred(root):
        agent.run()
    path = spooled(root)[2]
    data = bytearray(path.read_bytes())
    data[-30] ^= 1
    path.write_bytes(data)
    return path


def test_an_agent_stops_at_a_damaged_frame_and_goes_on_as_it_is_told(tmp_path: Path) -> None:
    path = with_damage(tmp_path)
    for _ in range(2):
        with pytest.raises(DamagedError, match=path.name) as problem:
            make_agent(tmp_path, pace=EACH).run()
        assert "delete this file and all .spooled files after it" in (problem.value.hint or "")
    assert len(rows_in(received(tmp_path))) == 24 + 2 * 4, "what was spooled before it went up"
    for each in spooled(tmp_path):
        if each.name >= path.name:
            each.unlink()
    make_agent(tmp_path, pace=EACH).run()
    assert in_any_order(rows_in(received(tmp_path))) == in_any_order(sent_rows(5))


def test_an_empty_state_in_its_place_is_held_back_above(tmp_path: Path) -> None:
    """Its files would be read from the beginning, and their rows counted twice."""
    with_damage(tmp_path)
    with pytest.raises(DamagedError):
        make_agent(tmp_path, pace=EACH).run()
    ledger: dict[str, EdgeState] = {}
    for frame in received(tmp_path):
        ledger = take_frame(ledger, frame.header, 0)
    shutil.rmtree(tmp_path / "state")
    for path in upper(tmp_path).waiting():
        path.unlink()
    make_agent(tmp_path, pace=EACH).run()
    headers = [read_header(path.read_bytes()) for path in upper(tmp_path).waiting()]
    assert {decide(ledger, header).verdict for header in headers} == {FrameVerdict.WAIT}
    renamed = msgspec.structs.replace(headers[0], edge="north-2")
    assert decide(ledger, renamed).verdict is FrameVerdict.TAKE


class Counting(HttpExchange):
    tries = 0

    def put(self, header: Header, data: bytes) -> None:
        self.tries += 1
        super().put(header, data)


def test_a_frame_that_is_refused_is_told_once(tmp_path: Path) -> None:
    upper(tmp_path).publish(Orders("r"))
    write_files(tmp_path, 1)
    server = serve([Inlet("r", upper(tmp_path), STREAM.skew_us)], "127.0.0.1:0", None, most_bytes=10)
    server.start()
    told: list[str] = []
    spool = Spool(tmp_path / "state", EDGE, "r")
    source = FileSource(Source(str(tmp_path / "input")), STREAM, {}, None, told.append)
    connections = [Counting(f"http://{server.address}", None, "r") for _ in range(2)]
    giving = iter(connections)
    pace = replace(QUICK, patience_s=0.01)
    try:
        agent = Agent(
            CATALOG, STREAM, spool, source, lambda: next(giving), mode=Mode.LIVE, pace=pace, report=told.append
        )
        with Running(agent) as running:
            running.wait_for(lambda: max(each.tries for each in connections) >= 3)
    finally:
        server.stop()
    (line,) = told
    assert spooled(tmp_path)[0].name in line
    assert "a frame has at most 10 bytes" in line
    assert agent.progress().frames_waiting > 0
