"""A directory as the place where frames go up and orders come down."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path

import pyarrow as pa
import pytest

from headrace.model.errors import DataError
from headrace.planner.codec import encode
from headrace.storage.disk import TEMPORARY, write_aside
from headrace.wire import exchange as exchanges
from headrace.wire.exchange import ABANDONED_S, DirectoryExchange, InboxFullError
from headrace.wire.frames import MAX_LISTED, Frame, Header, StrangerError, read_header, to_bytes
from headrace.wire.orders import Orders, from_text, to_text
from tests.edge.test_relay import ORDERS, QUERIES


def sent(exchange: DirectoryExchange, edge: str, incarnation: int, sequence: int) -> Header:
    header = Header(edge, incarnation, sequence, "Trades", None)
    exchange.put(header, to_bytes(Frame(header)))
    return header


def test_frames_wait_in_the_order_in_which_each_edge_sent_them(tmp_path: Path) -> None:
    exchange = DirectoryExchange(tmp_path)
    south, third, first, second = (
        sent(exchange, *key) for key in (("south", 1, 1), ("north", 9, 1), ("north", 7, 1), ("north", 7, 2))
    )
    assert [read_header(path.read_bytes()) for path in exchange.waiting()] == [first, second, third, south]
    sent(exchange, "north", 7, 2)
    assert len(list(exchange.waiting())) == 4, "the same frame once more"


def test_a_frame_that_is_being_written_does_not_wait_yet(tmp_path: Path) -> None:
    exchange = DirectoryExchange(tmp_path)
    header = sent(exchange, "north", 1, 1)
    write_aside(tmp_path / header.file_name, b"half a fra")
    assert [path.name for path in exchange.waiting()] == [header.file_name]


def test_what_was_left_half_written_long_ago_goes(tmp_path: Path) -> None:
    exchange = DirectoryExchange(tmp_path)
    header = sent(exchange, "north", 1, 1)
    frame = tmp_path / header.file_name
    for path in (frame, write_aside(tmp_path / "some", b"half")):
        os.utime(path, (time.time() - 2 * ABANDONED_S,) * 2)
    now, recent = write_aside(frame, b"half a fra"), write_aside(frame, b"half a fra")
    os.utime(recent, (time.time() - ABANDONED_S / 2,) * 2)
    assert list(exchange.waiting()) == [frame]
    assert set(tmp_path.rglob(f"{TEMPORARY}*")) == {now, recent}


def test_a_full_directory_takes_no_more(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exchanges, "MAX_WAITING", 2)
    exchange = DirectoryExchange(tmp_path)
    sent(exchange, "north", 1, 1)
    sent(exchange, "north", 1, 2)
    with pytest.raises(InboxFullError, match="nobody has taken"):
        sent(exchange, "north", 1, 3)
    next(exchange.waiting()).unlink()
    sent(exchange, "north", 1, 3)


def test_who_is_not_listed_is_told_and_keeps_the_frame(tmp_path: Path) -> None:
    exchange = DirectoryExchange(tmp_path)
    sent(exchange, "early", 1, 1)
    exchange.admit({"south", "north"})
    sent(DirectoryExchange(tmp_path), "north", 1, 1)
    told = """there is no edge 'stranger' in edges = \\["north", "south"\\]: add it in the file of the root or relay"""
    with pytest.raises(StrangerError, match=told) as refused:
        sent(DirectoryExchange(tmp_path), "stranger", 1, 1)
    assert refused.value.code == "refused", "an edge tells what has this code"
    assert [read_header(path.read_bytes()).edge for path in exchange.waiting()] == ["early", "north"]
    exchange.admit(["stranger"])
    sent(DirectoryExchange(tmp_path), "stranger", 1, 1)


def test_a_message_lists_some_names() -> None:
    names = [f"edge{number}" for number in range(MAX_LISTED)]
    assert '"edge7"]' in StrangerError("stranger", names).message
    assert '"edge7", ...]' in StrangerError("stranger", [*names, "edge8"]).message


def test_parked_frames_are_told_once_for_each_edge(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    exchange = DirectoryExchange(tmp_path)
    parked = {"north~1~2.frame": "frame 1 before it is missing", "north~1~1.frame": "why", "south~1~1.frame": "other"}
    for _ in range(3):
        exchange.report_parked(parked)
    assert [record.message for record in caplog.records] == [
        "edge north: parked north~1~1.frame and 1 after it: why",
        "edge south: parked south~1~1.frame: other",
    ]
    exchange.report_parked({})
    exchange.report_parked({"south~2~1.frame": "other"})
    assert caplog.records[-1].message == "edge south: parked south~2~1.frame: other"


def test_what_is_refused_is_kept_with_the_reason(tmp_path: Path) -> None:
    exchange = DirectoryExchange(tmp_path)
    sent(exchange, "north", 1, 1)
    (path,) = exchange.waiting()
    data = path.read_bytes()
    exchange.refuse(path, "no \ud800 text")
    assert not list(exchange.waiting())
    assert (tmp_path / "refused" / path.name).read_bytes() == data
    assert (tmp_path / "refused" / f"{path.name}.reason").read_text() == "no ? text\n"


def test_orders_come_down(tmp_path: Path) -> None:
    exchange = DirectoryExchange(tmp_path)
    assert exchange.orders() is None
    exchange.publish(ORDERS)
    found = exchange.orders()
    assert found is not None
    assert found.plan_id == ORDERS.plan_id
    assert found.queries == QUERIES
    exchange.publish(Orders("Trades"))
    assert exchange.orders() == Orders("Trades")


def test_tables_come_down_as_they_were_kept(tmp_path: Path) -> None:
    exchange = DirectoryExchange(tmp_path)
    table = pa.table({"sym": ["a", "b"]})
    sink = pa.BufferOutputStream()
    with pa.ipc.new_file(sink, table.schema) as writer:
        writer.write_table(table)
    name = exchange.keep_table(bytes(sink.getvalue()))
    assert exchange.table(name).equals(table)
    (tmp_path / "tables" / f"{name}.arrow").write_bytes(b"other")
    with pytest.raises(DataError, match="damaged"):
        exchange.table(name)
    with pytest.raises(DataError, match="missing"):
        exchange.table("0" * 32)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "{}",
        "null",
        "[" * 100_000,
        to_text(ORDERS).replace('"version": 1', '"version": 2'),
        to_text(Orders("Trades")).replace('"plan": null', '"plan": 5'),
        to_text(Orders("Trades")).replace('"plan": null', '"plan": "{}"'),
        to_text(Orders("Trades", queries=QUERIES)).replace("Output", "Input"),
    ],
)
def test_orders_that_are_none_are_refused(text: str) -> None:
    with pytest.raises(DataError):
        from_text(text)


def test_a_query_in_place_of_a_plan_is_refused() -> None:
    (query, *_) = QUERIES.values()
    with pytest.raises(DataError, match="no orders"):
        from_text(to_text(Orders("Trades")).replace('"plan": null', f'"plan": {json.dumps(encode(query))}'))
