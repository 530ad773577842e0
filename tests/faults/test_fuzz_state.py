"""Orders, and files of an edge's state, with wrong values in them: used, or refused with an error of ours.

Checksums fit: what is read may be of another version, or written by somebody else.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from headrace.edge.agent_progress import Mode
from headrace.edge.edge_state import EdgeRecord, Reading, SourceMark, position_after
from headrace.edge.sender import Sender
from headrace.edge.spool import Spool
from headrace.edge.work import ordered_columns, work_for
from headrace.kernel import interchange
from headrace.kernel.combine import combine
from headrace.kernel.interchange import pack, unpack
from headrace.model.units import InputFile
from headrace.storage.disk import to_record
from headrace.wire.frames import Frame, Header, to_bytes
from headrace.wire.ledger import EdgeState, decide, from_json, take_frame, to_json
from headrace.wire.orders import Orders, from_text, to_text
from tests.edge.agents import (
    OTHERS,
    QUERIES,
    STREAM,
    Running,
    make_agent,
    orders_for,
    received,
    sent_rows,
    upper,
    write_files,
)
from tests.engine.files import CATALOG, SCHEMA
from tests.faults.mutations import mutated_json, mutated_text, survives
from tests.kernel.sketches.mutations import mutated

SHORT = 300
LONG = pytest.param(20_000, marks=pytest.mark.slow)
SKETCHES = {
    "sketches": "SELECT k, percentile(x, 0.5) AS p, approx_count_distinct(v) AS d, top_k(v, 3) AS h, median(v) AS m"
    " FROM r [RANGE '5 s'] GROUP BY k"
}
ROWS = pa.Table.from_pylist(sent_rows(2), schema=SCHEMA)


# Orders


def orders_texts() -> list[str]:
    return [to_text(orders_for(texts)) for texts in (QUERIES, OTHERS, SKETCHES)] + [to_text(Orders("r"))]


def follow(text: str) -> None:
    """As an agent does: what it can build it can also run."""
    orders = from_text(text)
    work = work_for(orders, CATALOG, {}, 1 << 20)
    ordered_columns(orders, STREAM)
    work.feed(ROWS)
    work.cut()


@pytest.mark.parametrize("rounds", [SHORT, LONG])
def test_orders_with_wrong_values(rounds: int) -> None:
    random, texts = Random(3), orders_texts()
    for text in texts:
        follow(text)
    refused = survives(follow, lambda _: mutated_text(random.choice(texts), random), rounds)
    assert 0.5 * rounds < refused < rounds


@pytest.mark.parametrize("rounds", [SHORT, LONG])
def test_orders_with_damaged_bytes(rounds: int) -> None:
    random, texts = Random(4), [text.encode() for text in orders_texts()]

    def damage(_: int) -> str:
        return mutated(random.choice(texts), random.choice(texts), random).decode(errors="replace")

    assert survives(follow, damage, rounds) > 0.5 * rounds


def test_an_agent_keeps_its_work_when_orders_are_bad(tmp_path: Path) -> None:
    """Orders that break when they are followed, and such as are no text at all; then good ones."""
    random, orders, told = Random(5), orders_for(QUERIES), list[str]()
    upper(tmp_path).publish(orders)
    write_files(tmp_path, 1)
    path = tmp_path / "up" / "orders.json"
    with Running(make_agent(tmp_path, Mode.LIVE, report=told.append)) as running:
        progress = running.agent.progress
        running.wait_for(lambda: progress().rows.read == 12)
        document = json.loads(to_text(orders_for(OTHERS)))
        plan = json.loads(document["plan"])
        plan["objects"] = [["Node", *each[1:-1], ["x"]] if each[0] == "Node" else each for each in plan["objects"]]
        path.write_text(json.dumps({**document, "plan": json.dumps(plan)}))
        running.wait_for(lambda: bool(told) or progress().problem is not None)
        for bad in (b"\xff\xfe", b"[]", random.randbytes(100)):
            path.write_bytes(bad)
            running.wait_for(lambda: progress().problem is not None)
            assert progress().plan == orders.plan_id
        write_files(tmp_path, 2, first=1)
        running.wait_for(lambda: progress().rows.read == 24)
        newer = orders_for(OTHERS)
        upper(tmp_path).publish(newer)
        running.wait_for(lambda: progress().plan == newer.plan_id)
    assert sum(frame.header.rows.read for frame in received(tmp_path)) == 24


# The spool


def write_spool(folder: Path) -> None:
    """Two frames, and one that was settled."""
    spool = Spool(folder, "north", "r")
    for number in (1, 2, 3):
        file = InputFile(f"/in/{number}", number, number)
        mark = SourceMark((file,), Reading(f"/in/{number + 1}", 7, 8, 100, 1, 2))
        position = position_after(spool.known.position, mark)
        header = Header("north", 5, number, "r", None, spool.known.position, position)
        record = EdgeRecord(
            incarnation=5,
            sequence=number,
            clock_us=100,
            position=position,
            watermark_us=number,
            partitions={"p": number},
            files=mark.files,
            reading=mark.reading,
        )
        spool.add(header, record, to_bytes(Frame(header)))
        if number == 1:
            spool.acknowledge()
            spool.settle(None, at_once=True)
    spool.close()


def use_spool(folder: Path) -> None:
    """As an agent does: read what is known, send all, settle, add."""
    spool = Spool(folder, "north", "r")
    try:
        known = spool.known
        incarnation = max(1_000, known.incarnation + 1)
        position_after(known.position, SourceMark(tuple(InputFile(path, 1, 1) for path in known.files), known.reading))
        if known.reading is not None:
            assert (
                min(known.reading.file.size // known.reading.unit_bytes, known.reading.unit, known.reading.piece) >= 0
            )
        sender = Sender.__new__(Sender)
        sender.spool, sender.exchange, sender.broken = spool, upper(folder), None
        sender.frames = sender.bytes = 0
        while (entry := spool.first(0)) is not None and sender.send(entry):
            pass
        if sender.broken is not None:
            raise sender.broken
        spool.settle({"/in/1"}, at_once=True)
        header = Header("north", incarnation, 1, "r", None, known.position, known.position)
        record = EdgeRecord(
            incarnation=incarnation,
            sequence=1,
            clock_us=1,
            position=known.position,
            watermark_us=known.watermark_us,
        )
        spool.add(header, record, to_bytes(Frame(header)))
    finally:
        spool.close()


def resealed(path: Path, random: Random) -> None:
    """A record with wrong values and the checksum that fits, in front of what was behind it."""
    _, text, rest = path.read_bytes().split(b"\n", 2)
    path.write_bytes(to_record(mutated_json(json.loads(text), random)) + rest)


@pytest.mark.parametrize("rounds", [SHORT // 2, pytest.param(3_000, marks=pytest.mark.slow)])
def test_state_with_wrong_values(rounds: int, tmp_path: Path) -> None:
    random = Random(6)
    write_spool(tmp_path / "whole")
    shutil.copytree(tmp_path / "whole", tmp_path / "good")
    use_spool(tmp_path / "good")

    def damaged(number: int) -> Path:
        folder = tmp_path / "bad"
        shutil.rmtree(folder, ignore_errors=True)
        shutil.copytree(tmp_path / "whole", folder)
        path = random.choice(sorted(each for each in folder.iterdir() if each.name != "lock"))
        if number % 3:
            resealed(path, random)
        else:
            path.write_bytes(mutated(path.read_bytes(), path.read_bytes(), random))
        return folder

    refused = survives(use_spool, damaged, rounds)
    assert 0.3 * rounds < refused < rounds


@pytest.mark.parametrize("rounds", [10 * SHORT, LONG])
def test_ledgers_with_wrong_values(rounds: int) -> None:
    random = Random(7)
    header = Header("north", 5, 1, "r", "plan", {}, {"files": 1}, 5, 1, 2)
    document = to_json(take_frame({"south": EdgeState({3: 4})}, header, 100))

    def use(case: Any) -> None:
        ledger = from_json(case)
        for sequence in (1, 2):
            later = Header("north", 5, sequence, "r", "plan", {"files": 1}, {"files": 2}, 6, 1, 2)
            decide(ledger, later)
            to_json(take_frame(ledger, later, 1))

    use(document)
    assert survives(use, lambda _: json.loads(json.dumps(mutated_json(document, random))), rounds) > 0.3 * rounds


# Interchange tables


def shipments() -> list[bytes]:
    found = []
    for texts in (QUERIES, SKETCHES):
        work = work_for(orders_for(texts), CATALOG, {}, 1 << 20)
        work.feed(ROWS)
        found.append(interchange.to_bytes(work.cut()))
    return found


def with_header(raw: bytes, random: Random) -> bytes:
    """The first of its streams holds nothing but a header."""
    source = pa.BufferReader(raw)
    metadata = pa.ipc.open_stream(source).read_all().schema.metadata
    header = mutated_json(json.loads(metadata[interchange.HEADER]), random)
    sink = pa.BufferOutputStream()
    schema = pa.schema([], metadata={interchange.HEADER: json.dumps(header).encode()})
    with pa.ipc.new_stream(sink, schema):
        pass
    return bytes(sink.getvalue()) + raw[source.tell() :]


def use_shipment(raw: bytes) -> None:
    assert sum(table.num_rows for table in interchange.from_bytes(raw)) >= 0


@pytest.mark.parametrize("rounds", [10 * SHORT, LONG])
def test_interchange_bytes_with_wrong_values(rounds: int) -> None:
    random, whole = Random(8), shipments()
    for raw in whole:
        use_shipment(raw)

    def damage(number: int) -> bytes:
        raw = random.choice(whole)
        return with_header(raw, random) if number % 2 else mutated(raw, random.choice(whole), random)

    refused = survives(use_shipment, damage, rounds)
    assert 0.3 * rounds < refused < rounds


def test_interchange_bytes_that_are_whole_are_read() -> None:
    plan = orders_for(QUERIES).plan
    assert plan is not None
    nodes = [plan.nodes[place].node for place in plan.shipped]
    parts = unpack("r", interchange.from_bytes(shipments()[0]), nodes)
    assert [len(table) for table in pack("r", [combine([part]) for part in parts])]
    assert all(np.all(part.ends_us > part.starts_us) for part in parts)
