"""Rows that go up as they are, in frames that are not too large."""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path
from unittest.mock import patch

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.edge import work as forwarding
from headrace.edge.work import pack_frame
from headrace.model.errors import DataError
from headrace.wire import exchange as exchanges
from headrace.wire.frames import Frame, Header, RowCounts, from_bytes
from headrace.wire.ledger import BEGINNING, EdgeState, FrameVerdict, decide, take_frame
from headrace.wire.orders import Orders
from tests.edge.agents import QUICK, in_any_order, make_agent, received, rows_in, upper
from tests.engine.files import SCHEMA

LIMIT = 4_000
"""In place of 63 MB."""
HASTY = replace(QUICK, patience_s=0.1)


def text_of(size: int, source: random.Random) -> str:
    """That can't be packed to less than half."""
    return "".join(source.choices("0123456789abcdef", k=size))


def wide_rows(sizes: list[int], *, is_plain: bool = False) -> pa.Table:
    source = random.Random(1)
    rows = [
        {"t": number, "k": "a" * size if is_plain else text_of(size, source), "v": number, "x": 0.0}
        for number, size in enumerate(sizes)
    ]
    return pa.Table.from_pylist(rows, schema=SCHEMA)


def write_rows(root: Path, sizes: list[int]) -> pa.Table:
    """As one piece of one file."""
    (root / "input").mkdir()
    rows = wide_rows(sizes)
    pq.write_table(rows, root / "input" / "wide.parquet")
    upper(root).publish(Orders("r"))
    return rows


def test_rows_that_are_packed_too_well_go_in_several_frames() -> None:
    """Whoever is above takes tables in proportion to the bytes that come."""
    rows = pa.concat_tables([wide_rows([2_000], is_plain=True)] * 20_000)
    header = Header("north", 5, 8, "r", None, {"files": 1}, {"files": 2}, 70, 0, 0, RowCounts(read=rows.num_rows))
    frames = pack_frame(Frame(header, (rows,)), 60)
    assert len(frames) > 1
    assert sum(from_bytes(each.data).tables[0].num_rows for each in frames) == rows.num_rows


@given(
    sizes=st.lists(st.sampled_from([10, 500, 2_500, 9_000, 40_000]), min_size=1, max_size=20), is_plain=st.booleans()
)
def test_frames_fit_and_hold_all_rows_that_can(sizes: list[int], is_plain: bool) -> None:
    rows = wide_rows(sizes, is_plain=is_plain)
    counts = RowCounts(read=len(sizes) + 3, dropped=2, bad=1)
    header = Header("north", 5, 8, "r", None, {"files": 1}, {"files": 2}, 70, 0, 99, counts, ended=True)
    with patch.object(forwarding, "MAX_SENT_BYTES", LIMIT):
        found = pack_frame(Frame(header, (rows,)), 60)
    frames = [from_bytes(each.data, LIMIT + 200) for each in found]
    assert [frame.header for frame in frames] == [each.header for each in found]
    kept = [number for number, size in enumerate(sizes) if is_plain or size < 9_000]
    assert rows_in(frames) == rows.take(pa.array(kept, pa.int64())).to_pylist()
    total = RowCounts()
    for frame in frames:
        total = total.plus(frame.header.rows)
        assert frame.header.rows.read >= sum(table.num_rows for table in frame.tables)
    assert total == RowCounts(read=len(sizes) + 3, dropped=2, bad=1 + len(sizes) - len(kept))
    headers = [frame.header for frame in frames]
    assert [each.sequence for each in headers] == list(range(8, 8 + len(headers)))
    assert [(each.watermark_us, each.ended) for each in headers] == [(60, False)] * (len(headers) - 1) + [(70, True)]
    places = [headers[0].begins, *(each.position for each in headers)]
    assert places[0] == {"files": 1}
    assert places[-1] == {"files": 2}
    assert [each.begins for each in headers] == places[:-1]
    assert len(set(map(repr, places))) == len(places)


def test_a_source_without_positions_has_none_inside() -> None:
    with patch.object(forwarding, "MAX_SENT_BYTES", LIMIT):
        found = pack_frame(Frame(Header("north", 5, 1, "r", None), (wide_rows([3_000] * 6),)), None)
    assert len(found) > 1
    assert {(each.header.begins, each.header.position) for each in found} == {(None, None)}


def test_partials_are_not_cut() -> None:
    with patch.object(forwarding, "MAX_SENT_BYTES", LIMIT), pytest.raises(DataError, match="4,000 bytes of a frame"):
        pack_frame(Frame(Header("north", 5, 1, "r", "plan"), (wide_rows([9_000]),)), None)


def test_a_stop_between_frames_of_one_piece_counts_each_row_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first of them is taken above, then there is no room; the next start sends it once more, and the others."""
    monkeypatch.setattr(forwarding, "MAX_SENT_BYTES", LIMIT)
    rows = write_rows(tmp_path, [2_000] * 12)
    with monkeypatch.context() as full:
        full.setattr(exchanges, "MAX_WAITING", 1)
        agent = make_agent(tmp_path, pace=HASTY)
        agent.run()
    assert agent.progress().frames_sent == 1
    assert agent.progress().frames_waiting > 2
    first = received(tmp_path)
    ledger = take_frame({}, first[0].header, 0)
    assert first[0].header.begins == BEGINNING
    next(upper(tmp_path).waiting()).unlink()
    make_agent(tmp_path).run()
    verdicts, others = [], []
    for path in upper(tmp_path).waiting():
        frame = from_bytes(path.read_bytes())
        verdicts.append(decide(ledger, frame.header).verdict)
        if verdicts[-1] is FrameVerdict.TAKE:
            ledger = take_frame(ledger, frame.header, 0)
            others.append(frame)
    assert verdicts == [FrameVerdict.DUPLICATE] + [FrameVerdict.TAKE] * len(others)
    assert len(others) > 3
    assert in_any_order(rows_in([*first, *others])) == in_any_order(rows.to_pylist())
    assert others[-1].header.incarnation > first[0].header.incarnation


def test_another_start_waits_for_all_frames_of_a_piece(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(forwarding, "MAX_SENT_BYTES", LIMIT)
    write_rows(tmp_path, [2_000] * 12)
    make_agent(tmp_path).run()
    make_agent(tmp_path).run()
    *frames, second = received(tmp_path)
    ledger: dict[str, EdgeState] = {}
    for frame in frames[:-2]:
        ledger = take_frame(ledger, frame.header, 0)
        assert decide(ledger, second.header).verdict is FrameVerdict.WAIT


@pytest.mark.parametrize("sizes", [[10, 20_000, 10], [20_000]])
def test_a_row_that_no_frame_can_hold_is_bad(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, sizes: list[int]) -> None:
    monkeypatch.setattr(forwarding, "MAX_SENT_BYTES", LIMIT)
    rows = write_rows(tmp_path, sizes)
    told: list[str] = []
    agent = make_agent(tmp_path, report=told.append)
    agent.run()
    assert agent.progress().rows == RowCounts(read=len(sizes), bad=1)
    assert len(told) == 1
    assert "left out as bad: 1 of the rows" in told[0]
    again = make_agent(tmp_path, report=told.append)
    again.run()
    assert again.progress().rows == RowCounts()
    assert len(told) == 1
    frames = received(tmp_path)
    assert in_any_order(rows_in(frames)) == in_any_order([row for row in rows.to_pylist() if len(row["k"]) == 10])
    assert sum(frame.header.rows.bad for frame in frames) == 1
