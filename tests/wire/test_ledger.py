"""Which frames are taken: each once, in order, and only where the one before them ended."""

from __future__ import annotations

import json
from collections.abc import Sequence
from random import Random

from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from headrace.wire.frames import MAX_COUNT, Header, Member, RowCounts
from headrace.wire.ledger import (
    BEGINNING,
    MAX_INCARNATIONS,
    EdgeState,
    FrameVerdict,
    Ledger,
    decide,
    from_json,
    take_frame,
    to_json,
)


def frame(
    incarnation: int, sequence: int, begins: object = None, position: object = None, edge: str = "north"
) -> Header:
    return Header(
        edge, incarnation, sequence, "Trades", "plan", begins=begins, position=position, rows=RowCounts(read=1)
    )


def after(*headers: Header) -> Ledger:
    ledger: Ledger = {}
    for header in headers:
        assert decide(ledger, header).verdict is FrameVerdict.TAKE
        ledger = take_frame(ledger, header, 10)
    return ledger


def verdict(ledger: Ledger, header: Header) -> FrameVerdict:
    return decide(ledger, header).verdict


FIRST, SECOND, THIRD = frame(5, 1, BEGINNING, {"row": 1}), frame(5, 2, {"row": 1}, {"row": 2}), frame(5, 3, {"row": 2})


def test_a_frame_is_taken_once() -> None:
    ledger = after(FIRST, SECOND)
    assert verdict(ledger, FIRST) is verdict(ledger, SECOND) is FrameVerdict.DUPLICATE
    assert verdict(ledger, THIRD) is FrameVerdict.TAKE


def test_a_frame_waits_for_the_one_before_it() -> None:
    assert decide({}, SECOND) == (FrameVerdict.WAIT, "frame 1 before it is missing")
    assert decide(after(FIRST), THIRD) == (FrameVerdict.WAIT, "frame 2 before it is missing")


def test_a_new_incarnation_begins_where_the_edge_was_left() -> None:
    ledger = after(FIRST, SECOND)
    assert verdict(ledger, frame(6, 1, {"row": 2})) is FrameVerdict.TAKE
    for begins in ({"row": 1}, {"row": 3}, BEGINNING):
        assert verdict(ledger, frame(6, 1, begins)) is FrameVerdict.WAIT
    assert verdict({}, frame(6, 1, {"row": 2})) is FrameVerdict.WAIT, "rows before it were never seen"


def test_a_new_incarnation_waits_for_the_last_frame_of_the_old_one() -> None:
    reborn = frame(6, 1, {"row": 2})
    assert verdict(after(FIRST), reborn) is FrameVerdict.WAIT
    assert verdict(after(FIRST, SECOND), reborn) is FrameVerdict.TAKE


def test_an_older_incarnation_has_nothing_more_to_say() -> None:
    """Two agents of one name would read the same rows."""
    ledger = after(FIRST, frame(6, 1, {"row": 1}, {"row": 1}))
    assert decide(ledger, SECOND) == (FrameVerdict.WAIT, "a later start of the edge has gone on")
    assert verdict(ledger, frame(4, 1, {"row": 1})) is FrameVerdict.WAIT


def test_who_cannot_tell_a_position_is_believed() -> None:
    ledger = after(frame(5, 1), frame(6, 1), frame(5, 2), frame(7, 1))
    assert ledger["north"].rows == RowCounts(read=4)
    assert verdict(ledger, frame(5, 2)) is FrameVerdict.DUPLICATE
    assert verdict(ledger, frame(5, 3)) is FrameVerdict.TAKE


def test_incarnations_long_gone_are_refused() -> None:
    ledger = after(*(frame(number, 1) for number in range(1, MAX_INCARNATIONS + 2)))
    assert min(ledger["north"].sequences) == 2
    assert decide(ledger, frame(1, 1)) == (FrameVerdict.DUPLICATE, "of an incarnation long gone")
    assert decide(ledger, frame(1, 2)).verdict is FrameVerdict.DUPLICATE


def test_edges_do_not_know_each_other() -> None:
    assert verdict(after(FIRST), frame(5, 1, BEGINNING, edge="south")) is FrameVerdict.TAKE


def test_what_is_known_of_an_edge_is_that_of_its_newest_incarnation() -> None:
    last = Header("north", 7, 1, "Trades", "new", position=3, watermark_us=20, highest_us=25, ended=True)
    late = Header("north", 6, 1, "Trades", "old", position=2, watermark_us=30, highest_us=10)
    state = after(last, late)["north"]
    assert (state.plan, state.position, state.ended) == ("new", 3, True)
    assert (state.watermark_us, state.highest_us, state.frames, state.bytes) == (30, 25, 2, 20)


def sent() -> list[Header]:
    """Two edges, one of which starts twice more, once with nothing to say."""
    spans = [(5, 1), (5, 2), (5, 3), (8, 1), (8, 2), (9, 1), (9, 2)]
    north = [frame(*key, {"row": at} if at else BEGINNING, {"row": at + 1}) for at, key in enumerate(spans)]
    ends = [{"at": number} if number else BEGINNING for number in range(5)]
    return north + [frame(1, at + 1, begins, ends[at + 1], "south") for at, begins in enumerate(ends[:-1])]


@given(st.lists(st.sampled_from(range(11)), max_size=30), st.integers(0, 2**32))
def test_whatever_comes_twice_or_in_another_order_is_taken_once(extra: Sequence[int], seed: int) -> None:
    every = sent()
    waiting = every + [every[number] for number in extra]
    Random(seed).shuffle(waiting)
    ledger: Ledger = {}
    order: list[Header] = []
    is_moving = True
    while is_moving:
        is_moving = False
        for header in waiting:
            if verdict(ledger, header) is FrameVerdict.TAKE:
                ledger, is_moving = take_frame(ledger, header, 1), True
                order.append(header)
    assert all(verdict(ledger, header) is FrameVerdict.DUPLICATE for header in every)
    for edge in ("north", "south"):
        assert [header for header in order if header.edge == edge] == [each for each in every if each.edge == edge]
    assert from_json(json.loads(json.dumps(to_json(ledger)))) == ledger


def test_members_survive_json() -> None:
    state = EdgeState({5: 2}, {"row": 1}, "plan", 1, 2, RowCounts(read=3), 4, 5, True, {"far": Member(None, 1, None)})
    assert from_json(json.loads(json.dumps(to_json({"relay": state})))) == {"relay": state}


def test_counts_that_no_edge_can_have_do_not_make_a_ledger_unreadable() -> None:
    claims = [replace(frame(1, number), rows=RowCounts(read=MAX_COUNT)) for number in (1, 2)]
    ledger = after(*claims)
    assert from_json(json.loads(json.dumps(to_json(ledger)))) == ledger
    assert ledger["north"].rows.read == MAX_COUNT
