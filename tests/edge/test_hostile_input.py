"""What anybody may send to a socket of an edge: it is counted with its reason, takes little memory and ends nothing."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from headrace.cli.commands.edge import line_of
from headrace.edge import socket_sources as channels
from headrace.edge.agent import Agent
from headrace.edge.agent_progress import Mode
from headrace.edge.intake import MAX_REASONS, Intake, Refused, merge
from headrace.edge.socket_rows import batches_in, lines_in, rows_in
from headrace.edge.socket_sources import ChannelSource, Connections, Datagrams
from headrace.edge.spool import Spool
from headrace.wire.orders import Orders
from tests.edge.agents import EDGE, QUICK, STREAM, Running, in_any_order, sent_rows, upper
from tests.edge.test_file_source import COLUMNS, PATIENCE_S, arrow_stream, gathered, json_lines
from tests.engine.files import CATALOG, SCHEMA
from tests.kernel.sketches.mutations import check_survived, limit_memory, needs_limit

LOCAL = ("127.0.0.1", 0)
MANY = 5_000_000


def arrow_bytes(*batches: pa.Table, **options: Any) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batches[0].schema, options=pa.ipc.IpcWriteOptions(**options)) as writer:
        for batch in batches:
            writer.write_table(batch)
    return bytes(sink.getvalue())


def taken(data: bytes, items_in: Callable[[Any], Iterator[Any]] = batches_in) -> Intake:
    return rows_in(list(items_in(BytesIO(data).read)), STREAM, COLUMNS)


def send_datagrams(source: Datagrams, *datagrams: bytes) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
        for datagram in datagrams:
            sender.sendto(datagram, source.address)


# Names that are no texts


def with_bad_name() -> bytes:
    table = pa.Table.from_pylist(sent_rows(1)[:1], schema=SCHEMA).append_column("zzzz", pa.array([1]))
    return arrow_bytes(table).replace(b"zzzz", b"\xff\xfe\xff\xfe")


def test_a_name_that_is_no_text_is_a_bad_row() -> None:
    source = Datagrams(STREAM, "arrow", LOCAL)
    send_datagrams(source, with_bad_name(), arrow_stream(sent_rows(1)))
    rows, bad = gathered(source, 13)
    assert in_any_order(rows) == in_any_order(sent_rows(1))
    assert bad == 1


# Little that claims to be much


def nothing(count: int) -> pa.Array:
    return pa.Array.from_buffers(pa.null(), count, [None])


def shared_text(size: int, rows: int) -> pa.Array:
    return pa.DictionaryArray.from_arrays(pa.array(np.zeros(rows, np.int8)), pa.array(["x" * size]))


def times(count: int) -> pa.Array:
    return pa.repeat(pa.scalar(0, pa.timestamp("us", "UTC")), count)


def viewed(size: int, rows: int) -> pa.Array:
    """Views of one and the same text."""
    one = pa.array(["x" * size], pa.string_view()).buffers()
    return pa.Array.from_buffers(pa.string_view(), rows, [None, pa.py_buffer(bytes(one[1]) * rows), *one[2:]])


BOMBS: dict[str, Callable[[], bytes]] = {
    "compressed": lambda: arrow_bytes(pa.table({"t": times(MANY)}), compression="zstd"),
    "compressed with lz4": lambda: arrow_bytes(pa.table({"t": times(MANY)}), compression="lz4"),
    "no event time": lambda: arrow_bytes(pa.table({"nothing": nothing(MANY)})),
    "nulls": lambda: arrow_bytes(pa.table({"t": nothing(MANY)})),
    "more nulls": lambda: arrow_bytes(pa.table({"t": nothing(2_000_000_000)})),
    "runs": lambda: arrow_bytes(
        pa.table({"t": pa.RunEndEncodedArray.from_arrays(pa.array([2_000_000_000], pa.int32()), times(1))})
    ),
    "one text for all": lambda: arrow_bytes(pa.table({"t": times(30_000), "k": shared_text(30_000, 30_000)})),
    "one wide value for all": lambda: arrow_bytes(
        pa.table(
            {
                "t": times(30_000),
                "k": pa.DictionaryArray.from_arrays(
                    pa.array(np.zeros(30_000, np.int8)), pa.array([b"x" * 30_000], pa.binary(30_000))
                ),
            }
        )
    ),
    "views of one text": lambda: arrow_bytes(pa.table({"t": times(30_000), "k": viewed(30_000, 30_000)})),
    "deltas": lambda: arrow_bytes(
        *(
            pa.table({"t": times(many), "k": pa.array([str(n) for n in range(many)]).dictionary_encode()})
            for many in (1, 2)
        ),
        emit_dictionary_deltas=True,
    ),
}


@pytest.mark.parametrize("name", BOMBS)
def test_a_bomb_is_one_bad_row(name: str) -> None:
    found = taken(BOMBS[name]())
    assert found.bad == 1
    assert found.table.num_rows <= 1
    (refused,) = found.refused
    assert "Arrow stream" in refused.reason


def survive() -> None:
    """With no more than 1 GiB beside what the process has now."""
    bombs = [make() for make in BOMBS.values()]
    taken(arrow_stream(sent_rows(1)))
    limit_memory()
    for data in bombs:
        taken(data)
    taken(b"x\n" * (1 << 18), lines_in)


@needs_limit
def test_bombs_take_little_memory() -> None:
    check_survived("tests.edge.test_hostile_input")


def test_dictionaries_of_moderate_texts_are_read() -> None:
    """Seldom sent, and much larger once each row has its own text."""
    table = pa.table({"t": times(10_000), "k": shared_text(200, 10_000)})
    assert taken(arrow_bytes(table)).table.num_rows == 10_000


def test_columns_over_the_same_bytes_are_refused() -> None:
    """Each of many columns would be checked and copied as if it had bytes of its own."""
    table = pa.table({"t": pa.array(range(1_000)), "v": pa.array(range(1_000))})
    data = arrow_bytes(table)
    assert taken(data).bad == 1_000, "times are no whole numbers"
    longer = data.replace((8_000).to_bytes(8, "little"), (12_000).to_bytes(8, "little"))
    assert (taken(longer).bad, "overlap" in taken(longer).refused[0].reason) == (1, True)


def test_a_batch_that_is_not_as_declared_is_bad_with_all_rows_for_one_reason() -> None:
    table = pa.table({"other": list(range(200_000))})
    found = taken(arrow_bytes(table))
    assert (found.bad, found.table.num_rows) == (200_000, 0)
    assert [each.reason for each in found.refused] == ["has no column 't', the event time"]


# Reasons


def test_lines_are_counted_by_reason_with_a_sample() -> None:
    lines = json_lines(sent_rows(1)) + b'no object\n{"t": 5}\n' * 3 + b"\xff\xff\n"
    found = taken(lines, lines_in)
    assert (found.table.num_rows, found.bad) == (12, 7)
    assert {(each.reason, each.rows) for each in found.refused} >= {("not a JSON object", 3), ("not valid UTF-8", 1)}
    assert "no object" in {each.sample for each in found.refused}


def test_reasons_are_bounded() -> None:
    merged = merge(Refused(f"{number} " + "x" * 10_000, sample="y" * 10_000) for number in range(1_000))
    assert len(merged) == MAX_REASONS + 1
    assert sum(each.rows for each in merged) == 1_000
    assert max(len(each.reason) + len(each.sample) for each in merged) < 1_000


@pytest.mark.parametrize(("version", "name"), [(5, "NetFlow v5"), (9, "NetFlow v9"), (10, "IPFIX")])
def test_flows_in_place_of_a_text_are_recognised(version: int, name: str) -> None:
    source = Datagrams(STREAM, "json", LOCAL)
    send_datagrams(source, version.to_bytes(2, "big") + b"\x00\x01\n\n\n\n" * 20, json_lines(sent_rows(1)))
    found: list[Intake] = []
    until_s = time.monotonic() + PATIENCE_S
    while sum(each.table.num_rows for each in found) < 12:
        assert time.monotonic() < until_s
        if (rows := source.take(COLUMNS, 0.1)) is not None:
            found.append(rows)
    source.stop()
    (refused,) = [each for rows in found for each in rows.refused]
    assert refused.reason == f"binary datagram: is this {name}?"
    assert (refused.rows, refused.sample[:6]) == (1, r"b'\x00")


@contextmanager
def running(root: Path, source: ChannelSource, report: Callable[[str], None]) -> Iterator[Running]:
    upper(root).publish(Orders("r"))
    spool = Spool(root / "state", EDGE, "r")
    agent = Agent(CATALOG, STREAM, spool, source, lambda: upper(root), mode=Mode.LIVE, pace=QUICK, report=report)
    with Running(agent) as found:
        yield found
    assert found.problem is None


def test_an_agent_reports_bad_input_once_and_counts_on(tmp_path: Path) -> None:
    told: list[str] = []
    source = Datagrams(STREAM, "json", LOCAL)
    with running(tmp_path, source, told.append) as found:
        send_datagrams(source, *[b"\x00\x09\x00\x01 flows"] * 20, json_lines(sent_rows(1)))
        found.wait_for(lambda: found.agent.progress().rows.read == 32)
        progress = found.agent.progress()
    assert progress.rows.bad == 20
    assert [(each.reason, each.rows) for each in progress.refused] == [("binary datagram: is this NetFlow v9?", 20)]
    assert len(told) == 1
    assert "is this NetFlow v9?, such as b'\\x00\\t" in told[0]
    assert "20 bad (most: binary datagram: is this NetFlow v9?)" in line_of(progress, None)


def test_a_name_that_is_no_text_does_not_end_an_agent(tmp_path: Path) -> None:
    source = Datagrams(STREAM, "arrow", LOCAL)
    with running(tmp_path, source, print) as found:
        send_datagrams(source, with_bad_name(), arrow_stream(sent_rows(1)))
        found.wait_for(lambda: found.agent.progress().rows.read == 13)
        assert found.agent.progress().rows.bad == 1


# Many connections


def test_connections_beyond_the_limit_are_refused_until_others_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(channels, "MAX_CONNECTIONS", 3)
    source = Connections(STREAM, "json", LOCAL)
    clients = [socket.create_connection(source.address, PATIENCE_S) for _ in range(5)]
    assert [client.recv(1) for client in clients[3:]] == [b"", b""], "the newest are closed"
    for client in clients:
        client.close()
    for thread in source.threads[1:]:
        thread.join(PATIENCE_S)
    with closing(socket.create_connection(source.address, PATIENCE_S)) as client:
        client.sendall(json_lines(sent_rows(1)))
    rows, bad = gathered(source, 14)
    assert (len(rows), bad) == (12, 2)


def test_an_idle_connection_is_closed() -> None:
    source = Connections(STREAM, "json", LOCAL, idle_s=0.01)
    with closing(socket.create_connection(source.address, PATIENCE_S)) as client:
        assert client.recv(1) == b""
    found = source.take(COLUMNS, PATIENCE_S)
    assert found is not None
    assert (found.bad, [each.reason for each in found.refused]) == (
        0,
        ["a connection that brought nothing for 0.01 s: closed"],
    )
    gathered(source, 0)
