"""Frames: what is sent comes back, and bytes from outside are a frame or a FrameError, whatever they are."""

from __future__ import annotations

import json
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.wire import frames
from headrace.wire.frames import (
    DIGEST_BYTES,
    HEAD,
    MAX_DEPTH,
    MAX_RATIO,
    MAX_TIME_US,
    MIN_PLAIN_BYTES,
    SIZE,
    Frame,
    FrameError,
    Header,
    Member,
    RowCounts,
    digest,
    from_bytes,
    read_header,
    to_bytes,
)
from tests.faults.mutations import mutated_json, survives
from tests.kernel.sketches.mutations import check_survived, limit_memory, mutated, needs_limit

COUNTS = st.integers(0, MAX_TIME_US - 1)
TIMES = st.none() | st.integers(-MAX_TIME_US, MAX_TIME_US)
NAMES = st.from_regex(frames.NAME, fullmatch=True)
POSITIONS = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)
TABLES = (
    pa.table({"node": pa.array(["a", "b", "a"]).dictionary_encode(), "cell": [1, 2, 3], "state": [b"x", b"", None]}),
    pa.table({"node": pa.array(["c"] * 1_000).dictionary_encode(), "sum": [float(n) for n in range(1_000)]}),
)
HEADER = Header("north", 17, 1, "Trades", "plan", begins={}, position={"file": 3}, lowest_us=1, highest_us=2)


@st.composite
def headers(draw: st.DrawFn) -> Header:
    lowest, highest = draw(st.none() | st.tuples(COUNTS, COUNTS)) or (None, None)
    is_turned = lowest is not None and highest is not None and lowest > highest
    return Header(
        edge=draw(NAMES),
        incarnation=draw(COUNTS),
        sequence=draw(COUNTS.filter(bool)),
        stream=draw(st.text(min_size=1, max_size=20)),
        plan=draw(st.none() | NAMES),
        begins=draw(POSITIONS),
        position=draw(POSITIONS),
        watermark_us=draw(TIMES),
        lowest_us=highest if is_turned else lowest,
        highest_us=lowest if is_turned else highest,
        rows=RowCounts(*draw(st.tuples(*[COUNTS] * 5))),
        errors=draw(st.dictionaries(st.text(), COUNTS, max_size=3)),
        ended=draw(st.booleans()),
        members=draw(st.dictionaries(NAMES, st.builds(Member, st.none() | NAMES, TIMES, TIMES), max_size=3)),
    )


@given(headers(), st.sampled_from([(), TABLES[:1], TABLES]))
def test_what_is_sent_comes_back(header: Header, tables: tuple[pa.Table, ...]) -> None:
    raw = to_bytes(Frame(header, tables))
    back = from_bytes(raw)
    assert back.header == read_header(raw) == header
    assert all(mine.equals(theirs) for mine, theirs in zip(back.tables, tables, strict=True))


def test_frames_of_an_edge_lie_in_the_order_in_which_it_sent_them() -> None:
    keys = [(16, 2), (17, 1), (17, 2), (17, 10), (1_000_000, 1)]
    names = [Header("north", *key, "Trades", None).file_name for key in keys]
    assert names == sorted(names)


# Headers that can't be true


def resealed(raw: bytes) -> bytes:
    """With the checksum that fits: whoever forges a frame knows how."""
    body = raw[:-DIGEST_BYTES]
    return body + digest(body)


def with_header(text: bytes, raw: bytes | None = None) -> bytes:
    old = to_bytes(Frame(HEADER, TABLES)) if raw is None else raw
    mark, version, length = HEAD.unpack_from(old)
    return resealed(HEAD.pack(mark, version, len(text)) + text + old[HEAD.size + length :])


def header_text(raw: bytes) -> bytes:
    _, _, length = HEAD.unpack_from(raw)
    return raw[HEAD.size : HEAD.size + length]


def changed(**fields: Any) -> bytes:
    document = json.loads(header_text(to_bytes(Frame(HEADER, TABLES))))
    return with_header(json.dumps(document | fields).encode())


@pytest.mark.parametrize(
    "fields",
    [
        {"edge": "../up"},
        {"edge": ""},
        {"edge": "a~1"},
        {"edge": 5},
        {"incarnation": -1},
        {"incarnation": True},
        {"sequence": 0},
        {"sequence": 1.0},
        {"stream": None},
        {"stream": "x" * 1_001},
        {"plan": "a/b"},
        {"watermark_us": "now"},
        {"watermark_us": 2**63},
        {"lowest_us": 3},
        {"lowest_us": None},
        {"rows": {"read": 1}},
        {"rows": {"read": 1, "late": 0, "future": 0, "dropped": 0, "bad": -1}},
        {"errors": {"q": None}},
        {"ended": 0},
        {"members": {"a": {"plan": None}}},
        {"members": {"/": {"plan": None, "watermark_us": None, "highest_us": None}}},
        {"tables": 3},
        {"tables": 1},
        {"tables": 0},
        {"tables": None},
        {"tables": 2**40},
        {"more": 1},
    ],
)
def test_a_header_that_cannot_be_true_is_refused(fields: dict[str, Any]) -> None:
    assert from_bytes(changed()).header == HEADER
    with pytest.raises(FrameError):
        from_bytes(changed(**fields))


def nested(depth: int) -> Any:
    return [nested(depth - 1)] if depth else 1


def test_values_of_json_lie_inside_one_another_up_to_a_depth() -> None:
    assert from_bytes(changed(position=nested(MAX_DEPTH))).header.position == nested(MAX_DEPTH)
    for key in ("position", "begins"):
        with pytest.raises(FrameError, match=key):
            from_bytes(changed(**{key: nested(MAX_DEPTH + 1)}))


@pytest.mark.parametrize("text", [b"[" * 500_000, b'{"a":' * 100_000, b"9" * 10_000, b"\xff\xfe", b"NaN", b"[]", b""])
def test_a_header_that_is_no_object_is_refused(text: bytes) -> None:
    with pytest.raises(FrameError):
        from_bytes(with_header(text))


def test_a_number_that_is_none_is_refused_on_both_sides() -> None:
    with pytest.raises(FrameError, match="not JSON"):
        from_bytes(changed(position=float("nan")))
    with pytest.raises(ValueError, match="JSON compliant"):
        to_bytes(Frame(Header("north", 1, 1, "Trades", None, position=float("nan"))))


def test_a_header_that_nobody_would_read_is_not_written() -> None:
    with pytest.raises(FrameError, match="header"):
        to_bytes(Frame(Header("north", 1, 1, "Trades", None, position="x" * frames.MAX_HEADER_BYTES)))


# Tables that are none


def with_tables(plain: bytes, count: int, size: int | None = None) -> bytes:
    document = json.loads(header_text(to_bytes(Frame(HEADER)))) | {"tables": count}
    text = json.dumps(document).encode()
    packed: bytes = pa.compress(plain, codec="zstd", asbytes=True)
    head = HEAD.pack(frames.MARK, frames.VERSION, len(text))
    body = head + text + SIZE.pack(len(plain) if size is None else size) + packed
    return body + digest(body)


def arrow_bytes(table: pa.Table, **options: Any) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema, options=pa.ipc.IpcWriteOptions(**options)) as writer:
        writer.write_table(table)
    return bytes(sink.getvalue())


def test_tables_that_are_forged_well_are_read() -> None:
    (table,) = from_bytes(with_tables(arrow_bytes(TABLES[0]), 1)).tables
    assert table.equals(TABLES[0])


def test_a_frame_is_not_larger_than_allowed() -> None:
    raw = to_bytes(Frame(HEADER, TABLES))
    assert from_bytes(raw, len(raw)).header == HEADER
    with pytest.raises(FrameError, match="are allowed"):
        from_bytes(raw, len(raw) - 1)


def test_a_decompression_bomb_is_not_unpacked() -> None:
    raw = with_tables(bytes(1 << 24), 1)
    assert len(raw) < 10_000
    with pytest.raises(FrameError, match="would take"):
        from_bytes(raw, 1 << 19)


def test_tables_take_room_in_proportion_to_the_bytes_that_came() -> None:
    """However well they are packed: what a frame may take is not for its sender to say."""
    zeros = pa.table({"zeros": np.zeros(MIN_PLAIN_BYTES // 8, np.int64)})
    raw = with_tables(arrow_bytes(zeros), 1)
    assert len(raw) < MIN_PLAIN_BYTES // MAX_RATIO
    with pytest.raises(FrameError, match="would take"):
        from_bytes(raw)
    assert from_bytes(with_tables(arrow_bytes(zeros.slice(1_000)), 1)).tables[0].num_rows == zeros.num_rows - 1_000


@pytest.mark.parametrize("size", [1, 1_000, 2**40, 2**63 - 1, 2**64 - 1])
def test_a_size_that_is_not_that_of_the_tables_is_refused(size: int) -> None:
    with pytest.raises(FrameError):
        from_bytes(with_tables(arrow_bytes(TABLES[0]), 1, size))


@pytest.mark.parametrize("codec", ["zstd", "lz4"])
@pytest.mark.parametrize("table", [TABLES[1], pa.table({"plain": [0] * 5_000})])
def test_tables_that_are_packed_twice_are_refused(codec: str, table: pa.Table) -> None:
    assert from_bytes(with_tables(arrow_bytes(table), 1)).tables
    with pytest.raises(FrameError, match="packed twice"):
        from_bytes(with_tables(arrow_bytes(table, compression=codec), 1))


def test_rows_that_take_no_room_are_refused() -> None:
    nothing = pa.Array.from_buffers(pa.null(), 2**30, [None])
    with pytest.raises(FrameError, match="more rows than bytes"):
        from_bytes(with_tables(arrow_bytes(pa.table({"nothing": nothing})), 1))


def test_more_than_its_tables_is_refused() -> None:
    with pytest.raises(FrameError, match="more in it"):
        from_bytes(with_tables(arrow_bytes(TABLES[0]) + b"more", 1))


def test_texts_that_are_no_utf8_are_refused() -> None:
    texts = pa.Array.from_buffers(pa.string(), 1, pa.array([b"\xff\xfe"]).buffers())
    with pytest.raises(FrameError, match="damaged"):
        from_bytes(with_tables(arrow_bytes(pa.table({"x": texts})), 1))


# Damage


def pool() -> list[bytes]:
    member = {"other": Member("plan", 5, 6)}
    relayed = Header("relay", 3, 9, "Trades", "plan", position={"ledger": {"a": [1]}}, members=member, ended=True)
    return [to_bytes(Frame(HEADER, TABLES)), to_bytes(Frame(HEADER, TABLES[:1])), to_bytes(Frame(relayed))]


def attack(rounds: int) -> int:
    """How many of so many damaged frames were refused; nothing but a FrameError may come of them.

    Three quarters have a checksum that fits: damaged inside what is packed, in values of the header, or anywhere.
    """
    random, whole = Random(11), pool()
    plain = [arrow_bytes(table) for table in TABLES]
    header = json.loads(header_text(whole[0]))

    def damaged(number: int) -> bytes:
        if number % 4 == 0:
            return with_tables(mutated(random.choice(plain), random.choice(plain), random), 1)
        if number % 4 == 1:
            return with_header(json.dumps(mutated_json(header, random)).encode())
        raw = mutated(random.choice(whole), random.choice(whole), random)
        return resealed(raw) if number % 4 == 2 else raw

    return survives(from_bytes, damaged, rounds, FrameError)


def survive() -> None:
    """In a process that may take 1 GiB more than it has now."""
    for raw in pool():
        from_bytes(raw)
    limit_memory()
    refused = attack(10_000)
    assert 9_000 < refused < 10_000, refused


def test_damaged_frames_are_refused() -> None:
    assert 900 < attack(1_000) < 1_000


@needs_limit
def test_damaged_frames_take_little_memory() -> None:
    check_survived("tests.wire.test_frames")
