"""Sources of an edge: files from any place in them, sockets and standard input with good and bad input."""

from __future__ import annotations

import json
import os
import random
import socket
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.edge.edge_state import SourceMark
from headrace.edge.file_source import FileSource, RowSource
from headrace.edge.intake import Refused
from headrace.edge.socket_rows import BLOCK_BYTES, MAX_LINE_BYTES, MAX_MESSAGE_BYTES, batches_in, lines_in
from headrace.edge.socket_sources import (
    ITEM_BYTES,
    MAX_WAITING_BYTES,
    ChannelSource,
    Connections,
    Datagrams,
    StandardInput,
    Waiting,
    dropped_datagrams,
)
from headrace.inputs import Source, parquet
from headrace.model.errors import DataError, UsageError
from tests.edge.agents import STREAM, in_any_order, sent_rows, write_files
from tests.engine.files import SCHEMA, batches

COLUMNS = [column.name for column in STREAM.columns]
PATIENCE_S = 30


def quiet(_text: str) -> None:
    pass


def file_source(folder: Path, mark: SourceMark | None = None, seen: Any = None, format: str = "parquet") -> FileSource:
    reading = None if mark is None else mark.reading
    return FileSource(Source(str(folder), format), STREAM, seen or {}, reading, quiet, unit_bytes=1)


# Files


@pytest.mark.parametrize("seed", range(5))
def test_files_are_read_on_from_any_mark(seed: int, tmp_path: Path) -> None:
    """Left and taken up again at random, with other columns now and then."""
    random_source = random.Random(seed)
    write_files(tmp_path, 4)
    source = file_source(tmp_path / "input")
    rows: list[dict[str, Any]] = []
    while (found := source.take(COLUMNS, 0)) is not None:
        rows += found.table.to_pylist()
        if random_source.random() < 0.5:
            mark = source.mark()
            source = file_source(tmp_path / "input", mark, source.seen)
        elif random_source.random() < 0.3:
            found = source.take(["t"], 0)
            assert found is None or found.table.column_names == ["t"]
            skipped = found.table["t"].to_pylist() if found else []
            rows += [row for row in sent_rows(4) if row["t"] in skipped]
    assert in_any_order(rows) == in_any_order(sent_rows(4))


@pytest.mark.parametrize("columns", [(["t"], COLUMNS), (COLUMNS, ["t"])])
def test_pieces_end_at_the_same_rows_whatever_the_columns(
    columns: tuple[list[str], list[str]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Arrow ends a batch where the dictionary of a row group ends, if a column was written with one."""
    monkeypatch.setattr(parquet, "PIECE_ROWS", 10)
    rows = pa.Table.from_pylist(sent_rows(4), schema=SCHEMA)
    encoded = rows.set_column(1, "k", rows["k"].dictionary_encode())
    pq.write_table(encoded, tmp_path / "one.parquet", row_group_size=7)
    source = FileSource(Source(str(tmp_path)), STREAM, {}, None, quiet)
    first = source.take(columns[0], 0)
    assert first is not None
    times = first.table["t"].to_pylist()
    while (found := source.take(columns[1], 0)) is not None:
        times += found.table["t"].to_pylist()
    assert times == rows["t"].to_pylist()


def test_lines_of_text_are_read_on_too(tmp_path: Path) -> None:
    table = pa.Table.from_pylist([row for rows in batches(3) for row in rows], schema=SCHEMA)
    pa_csv.write_csv(table, tmp_path / "rows.csv")
    source = FileSource(Source(str(tmp_path), "csv"), STREAM, {}, None, quiet, unit_bytes=100)
    rows: list[dict[str, Any]] = []
    pieces = 0
    while (found := source.take(COLUMNS, 0)) is not None:
        rows += found.table.to_pylist()
        pieces += 1
        mark = source.mark()
        seen, reading = source.seen, mark.reading
        source = FileSource(Source(str(tmp_path), "csv"), STREAM, seen, reading, quiet, unit_bytes=100)
    assert pieces > 3
    assert in_any_order(rows) == in_any_order(sent_rows(3))


def test_a_bad_file_is_told_counted_and_left(tmp_path: Path) -> None:
    write_files(tmp_path, 2)
    (tmp_path / "input" / "bad.parquet").write_bytes(b"no Parquet")
    told: list[str] = []
    source = FileSource(Source(str(tmp_path / "input")), STREAM, {}, None, told.append)
    found = list(taken(source))
    assert sum(rows.table.num_rows for rows in found) == 24
    assert sum(rows.bad for rows in found) == 1
    assert len(told) == 1
    assert "bad.parquet" in told[0]
    assert len(source.mark().files) == 3, "it is not read again"


def test_a_file_that_changes_is_told_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("headrace.edge.file_source.LISTED_EVERY_S", 0)
    write_files(tmp_path, 2)
    told: list[str] = []
    source = FileSource(Source(str(tmp_path / "input")), STREAM, {}, None, told.append)
    assert sum(rows.table.num_rows for rows in taken(source)) == 24
    os.utime(tmp_path / "input" / "part-0001.parquet")
    for _ in range(3):
        assert source.take(COLUMNS, 0) is None
    assert len(told) == 1
    assert "changed after it was read" in told[0]


def taken(source: RowSource) -> Iterator[Any]:
    while (found := source.take(COLUMNS, 0)) is not None:
        yield found


# Channels


def json_lines(rows: list[dict[str, Any]]) -> bytes:
    return b"".join(json.dumps({**row, "t": row["t"].isoformat()}).encode() + b"\n" for row in rows)


def arrow_stream(rows: list[dict[str, Any]]) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, SCHEMA) as writer:
        writer.write_table(pa.Table.from_pylist(rows, schema=SCHEMA))
    return bytes(sink.getvalue())


ENCODERS: dict[str, Callable[[list[dict[str, Any]]], bytes]] = {"json": json_lines, "arrow": arrow_stream}


def gathered(source: ChannelSource, count: int) -> tuple[list[dict[str, Any]], int]:
    """At least so many rows, good ones and bad ones together; then all that was on its way."""
    rows: list[dict[str, Any]] = []
    bad, until_s = 0, time.monotonic() + PATIENCE_S
    while len(rows) + bad < count:
        assert time.monotonic() < until_s, (len(rows), bad)
        if (found := source.take(COLUMNS, 0.1)) is not None:
            rows += found.table.to_pylist()
            bad += found.bad
    source.stop()
    while (found := source.take(COLUMNS, 0.5)) is not None:
        rows += found.table.to_pylist()
        bad += found.bad
    return rows, bad


@pytest.mark.parametrize("encoding", ENCODERS)
def test_datagrams(encoding: str) -> None:
    source = Datagrams(STREAM, encoding, ("127.0.0.1", 0))
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
        for rows in [sent_rows(4)[begin : begin + 5] for begin in range(0, 48, 5)]:
            sender.sendto(ENCODERS[encoding](rows), source.address)
        sender.sendto(b"\xff{ neither of the two \n", source.address)
    rows, bad = gathered(source, 49)
    assert in_any_order(rows) == in_any_order(sent_rows(4))
    assert bad == 1
    assert source.datagrams_dropped == 0
    assert source.is_ended


@pytest.mark.parametrize("encoding", ENCODERS)
def test_connections(encoding: str) -> None:
    """Three clients at once, of which one breaks off; and one that speaks another language."""
    source = Connections(STREAM, encoding, ("127.0.0.1", 0))
    clients = [socket.create_connection(source.address) for _ in range(4)]
    for number, client in enumerate(clients[:3]):
        client.sendall(ENCODERS[encoding](sent_rows(3)[number::3]))
    clients[3].sendall(b"GET / HTTP/1.1\r\n")
    for client in clients:
        client.close()
    rows, bad = gathered(source, 37)
    assert in_any_order(rows) == in_any_order(sent_rows(3))
    assert bad == 1
    assert source.is_ended


@pytest.mark.parametrize("encoding", ENCODERS)
def test_standard_input(encoding: str) -> None:
    reader, writer = os.pipe()
    os.write(writer, ENCODERS[encoding](sent_rows(2)))
    os.close(writer)
    source = StandardInput(STREAM, encoding, reader)
    rows, bad = gathered(source, 24)
    assert in_any_order(rows) == in_any_order(sent_rows(2))
    assert (bad, source.is_ended) == (0, True)
    os.close(reader)


def test_a_channel_that_breaks_is_told() -> None:
    """Standard input that can't be read at all."""
    source = StandardInput(STREAM, "json", os.open(os.devnull, os.O_WRONLY))
    for thread in source.threads:
        thread.join()
    assert not source.is_ended
    with pytest.raises(DataError, match="nothing can be received any more"):
        source.take(COLUMNS, 0)


def test_a_client_waits_while_nobody_reads() -> None:
    """The queue and the buffers of the system are bounded: a client that sends more than they hold must wait."""
    source = Connections(STREAM, "json", ("127.0.0.1", 0))
    block = json_lines(sent_rows(20)) * 50
    sent, is_waiting = 0, False
    with socket.create_connection(source.address) as client:
        client.settimeout(0.5)
        while not is_waiting and sent < 1 << 30:
            try:
                sent += client.send(block)
            except TimeoutError:
                is_waiting = True
    assert is_waiting
    rows = 0
    while (found := source.take(["t"], 2)) is not None:
        rows += found.table.num_rows
    assert rows == sent // len(block) * 12_000 + block[: sent % len(block)].count(b"\n")
    source.stop()


def test_an_address_in_use_is_told() -> None:
    source = Connections(STREAM, "json", ("127.0.0.1", 0))
    with pytest.raises(UsageError, match="can't listen on 127"):
        Connections(STREAM, "json", source.address)
    gathered(source, 0)


def test_drops_are_found_in_the_table_of_the_system(tmp_path: Path) -> None:
    table = tmp_path / "udp"
    table.write_text(
        "sl local_address rem_address st tx_queue rx_queue tr tm->when retrnsmt uid timeout inode ref pointer drops\n"
        " 1: 0100007F:2328 00000000:0000 07 00000000:00000000 00:00000000 00000000  0  0 4711 2 0000000000000000 12\n"
    )
    assert dropped_datagrams(4711, (str(tmp_path / "none"), str(table))) == 12
    assert dropped_datagrams(4712, (str(table),)) == 0


def test_a_queue_is_bounded_by_bytes() -> None:
    """Large items as well as many small ones; an item that waits for room comes when some were taken."""
    for size in (100, MAX_WAITING_BYTES // 3):
        waiting = Waiting()
        while waiting.bytes < MAX_WAITING_BYTES:
            waiting.put(b"x" * size)
        assert waiting.bytes <= MAX_WAITING_BYTES + size + ITEM_BYTES
        last = threading.Thread(target=waiting.put, args=(b"last",))
        last.start()
        found: list[Any] = []
        while not found or found[-1] != b"last":
            found += waiting.take(PATIENCE_S)
        last.join()
        assert waiting.bytes == 0
        assert found.count(b"last") == 1
        assert waiting.take(0) == []


# What comes over a wire


def reader_of(data: bytes, sizes: Iterator[int]) -> Callable[[int], bytes]:
    """Gives the data in pieces of these sizes."""
    left = [data]

    def read(count: int) -> bytes:
        size = min(count, next(sizes))
        found, left[0] = left[0][:size], left[0][size:]
        return found

    return read


@given(st.lists(st.binary(max_size=20).map(lambda line: line.replace(b"\n", b""))), st.randoms())
def test_lines_come_whole_however_they_are_cut(lines: list[bytes], source: random.Random) -> None:
    data = b"".join(line + b"\n" for line in lines)
    found = list(lines_in(reader_of(data, iter(lambda: source.randint(1, 9), 0))))
    assert b"".join(found) == data
    assert all(block.endswith(b"\n") for block in found)


def test_a_line_too_long_is_passed_over() -> None:
    data = b"first\n" + b"x" * (MAX_LINE_BYTES + 3 * BLOCK_BYTES) + b"\nlast\n"
    found = list(lines_in(reader_of(data, iter(lambda: BLOCK_BYTES, 0))))
    assert b"".join(item for item in found if isinstance(item, bytes)) == b"first\nlast\n"
    assert [type(item) for item in found if not isinstance(item, bytes)] == [Refused]


@given(st.data())
def test_a_damaged_arrow_stream_ends_and_is_bad(data: st.DataObject) -> None:
    """Cut off anywhere, or with a byte changed, it gives batches that are valid, and something bad, or neither."""
    raw = bytearray(arrow_stream(sent_rows(1)))
    if data.draw(st.booleans()):
        raw = raw[: data.draw(st.integers(1, len(raw) - 1))]
    else:
        raw[data.draw(st.integers(0, len(raw) - 1))] ^= data.draw(st.integers(1, 255))
    for item in batches_in(reader_of(bytes(raw), iter(lambda: 1 << 20, 0))):
        if not isinstance(item, Refused):
            item.validate(full=True)


def test_a_message_too_long_is_not_waited_for() -> None:
    length = (MAX_MESSAGE_BYTES + 8).to_bytes(4, "little")
    (found,) = batches_in(reader_of(b"\xff\xff\xff\xff" + length + b"x" * 100, iter(lambda: 1 << 20, 0)))
    assert isinstance(found, Refused)
    assert "bytes of metadata" in found.reason
