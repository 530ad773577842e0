"""Whatever arrives at a socket of an edge: it is rows, or counted as bad, in little time; others are still served."""

from __future__ import annotations

import socket
import struct
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from io import BytesIO
from random import Random
from typing import Any

import pyarrow as pa
import pytest

from headrace.edge.admission import Judge
from headrace.edge.socket_rows import batches_in, lines_in, rows_in
from headrace.edge.socket_sources import ChannelSource, Connections, Datagrams
from headrace.edge.work import work_for
from tests.edge.agents import QUERIES, STREAM, orders_for, sent_rows
from tests.edge.test_file_source import COLUMNS, PATIENCE_S, arrow_stream, json_lines
from tests.edge.test_hostile_input import BOMBS, LOCAL, arrow_bytes, with_bad_name
from tests.engine.files import CATALOG, SCHEMA
from tests.faults.mutations import survives
from tests.kernel.sketches.mutations import mutated

SHORT = 1_000
LONG = pytest.param(30_000, marks=pytest.mark.slow)
ROWS = pa.Table.from_pylist(sent_rows(1), schema=SCHEMA)
ITEMS: dict[str, Callable[[Any], Iterator[Any]]] = {"json": lines_in, "arrow": batches_in}
ENCODED = ROWS.set_column(1, "k", ROWS["k"].dictionary_encode())
TEXTS = ROWS.set_column(0, "t", ROWS["t"].cast(pa.string()))
POOLS: dict[str, list[bytes]] = {
    "json": [json_lines(sent_rows(1)), b'{"t": 1e400, "v": [[[]]]}\n', b'{"t": "9999-12-31T23:59:59Z", "v": 1}\n'],
    "arrow": [arrow_stream(sent_rows(1)), arrow_bytes(ENCODED), arrow_bytes(TEXTS), with_bad_name()],
}
HUGE = (
    b"\xff\xff\xff\xff" + b"\xff" * 8,
    b"\xff\xff\xff\xff" + struct.pack("<I", 1 << 16),
    b"\xff\xff\xff\xff" + struct.pack("<I", 1 << 31) + b"x" * 1_000,
    struct.pack("<I", 2**32 - 2),
    b'{"t": "' + b"x" * 60_000,
    b'{"a":' * 10_000,
    b"[" * 60_000 + b"\n",
    b"9" * 60_000 + b"\n",
    b'{"t": ' + b"9" * 5_000 + b"}\n",
    b"\n" * 60_000,
    b"\x00" * 60_000,
)


def payloads(encoding: str, random: Random) -> Callable[[int], bytes]:
    """Damage of every kind, and messages that claim to be long; bombs are left to `arrow`."""
    pool = POOLS[encoding]
    bombs = [make() for name, make in BOMBS.items() if "compressed" not in name] if encoding == "arrow" else []
    fixed = [*HUGE, *(bomb for bomb in bombs if len(bomb) < 60_000)]

    def payload(number: int) -> bytes:
        if number % 10 == 0:
            return fixed[number // 10 % len(fixed)]
        if number % 10 == 1:
            return random.randbytes(random.randint(1, 2_000))
        return mutated(random.choice(pool), random.choice(pool), random)

    return payload


@pytest.mark.parametrize("encoding", ITEMS)
@pytest.mark.parametrize("rounds", [SHORT, LONG])
def test_what_is_read_goes_through_level_one(encoding: str, rounds: int) -> None:
    """Nothing is refused with an error here: what is no row is counted."""
    judge = Judge(STREAM, {}, None, lambda: 10**15)
    work = work_for(orders_for(QUERIES), CATALOG, {}, 1 << 20)
    bad = 0

    def use(data: bytes) -> None:
        nonlocal bad
        intake = rows_in(list(ITEMS[encoding](BytesIO(data).read)), STREAM, COLUMNS)
        bad += intake.bad
        accepted = judge.admit(intake)
        if accepted.num_rows:
            work.feed(accepted)

    for data in POOLS[encoding]:
        use(data)
    assert survives(use, payloads(encoding, Random(1)), rounds) == 0
    work.cut()
    assert bad > 0.3 * rounds
    assert judge.cut().rows.bad >= bad


# Sockets


def marker(encoding: str, number: int) -> bytes:
    row = {**sent_rows(1)[0], "v": 1_000_000_007 + number}
    return json_lines([row]) if encoding == "json" else arrow_stream([row])


def wait_for_marker(source: ChannelSource, number: int) -> None:
    until_s = time.monotonic() + PATIENCE_S
    while True:
        assert time.monotonic() < until_s, f"marker {number} did not arrive"
        found = source.take(COLUMNS, 0.1)
        if found is not None and 1_000_000_007 + number in found.table["v"].to_pylist():
            return


@pytest.mark.parametrize("encoding", ITEMS)
@pytest.mark.parametrize("rounds", [300, LONG])
def test_datagrams(encoding: str, rounds: int) -> None:
    """A good one after every few bad ones arrives."""
    source = Datagrams(STREAM, encoding, LOCAL)
    payload = payloads(encoding, Random(2))
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
        for number in range(rounds):
            sender.sendto(payload(number)[:60_000], source.address)
            if number % 2:
                sender.sendto(marker(encoding, number), source.address)
                wait_for_marker(source, number)
    source.stop()
    assert source.broken is None


def send_badly(address: tuple[str, int], data: bytes, random: Random) -> None:
    """All of it, or half of it; and close, shut down, or reset the connection."""
    with closing(socket.create_connection(address, PATIENCE_S)) as client:
        way = random.randrange(4)
        try:
            client.sendall(data[: len(data) // 2] if way == 0 else data)
            if way == 1:
                client.shutdown(socket.SHUT_WR)
        except OSError:
            pass
        if way >= 2:
            client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))


@pytest.mark.parametrize("encoding", ITEMS)
@pytest.mark.parametrize("rounds", [200, pytest.param(5_000, marks=pytest.mark.slow)])
def test_connections(encoding: str, rounds: int) -> None:
    source = Connections(STREAM, encoding, LOCAL)
    random = Random(3)
    payload = payloads(encoding, random)
    for number in range(rounds):
        send_badly(source.address, payload(number), random)
        if number % 20 == 19:
            with closing(socket.create_connection(source.address, PATIENCE_S)) as client:
                client.sendall(marker(encoding, number))
            wait_for_marker(source, number)
    source.stop()
    assert source.broken is None
