"""The spool: what it keeps, what it deletes, and what it says after any number of frames were sent."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from headrace.edge.edge_state import EdgeRecord, Reading, SourceMark, nothing_known, position_after
from headrace.edge.spool import SETTLED_EVERY, Spool
from headrace.model.errors import UsageError
from headrace.model.units import InputFile
from headrace.storage.disk import DamagedError
from headrace.wire.frames import Frame, Header, to_bytes


def add(spool: Spool, number: int) -> bytes:
    """A frame that says a file more was read."""
    mark = SourceMark((InputFile(f"/in/{number}", number + 1, number),), Reading(f"/in/{number + 1}", 7, 8, 100, 1, 2))
    position = position_after(spool.known.position, mark)
    header = Header("north", 5, number, "r", None, spool.known.position, position)
    frame = to_bytes(Frame(header))
    record = EdgeRecord(
        incarnation=5,
        sequence=number,
        clock_us=100 + number,
        position=position,
        watermark_us=number,
        partitions={"p": number},
        files=mark.files,
        reading=mark.reading,
    )
    spool.add(header, record, frame)
    return frame


def opened(folder: Path) -> Spool:
    return Spool(folder, "north", "r")


def send(spool: Spool, count: int) -> list[bytes]:
    sent = []
    for _ in range(count):
        entry = spool.first(0)
        assert entry is not None
        sent.append(entry.frame())
        spool.acknowledge()
    return sent


@given(st.lists(st.sampled_from(["add", "send", "settle", "open"]), max_size=30))
def test_what_is_known_and_what_waits_outlive_the_agent(
    tmp_path_factory: pytest.TempPathFactory, story: list[str]
) -> None:
    """Frames that were sent may come again when they were not deleted; those that were not sent surely come."""
    folder = tmp_path_factory.mktemp("spool")
    spool = opened(folder)
    frames: list[bytes] = []
    sent = 0
    for step in story:
        if step == "add":
            frames.append(add(spool, len(frames) + 1))
        elif step == "send" and spool.waiting:
            assert send(spool, 1) == [frames[sent]]
            sent += 1
        elif step == "settle":
            spool.settle(None, at_once=True)
        else:
            known = spool.known
            spool.close()
            spool = opened(folder)
            assert spool.known == known
            sent = len(frames) - len(spool.waiting)
        assert spool.waiting_bytes == sum(map(len, frames[sent:]))
    assert send(spool, len(frames) - sent) == frames[sent:]
    assert spool.known.position.get("files", 0) == len(frames)
    spool.close()


def test_frames_are_deleted_in_groups(tmp_path: Path) -> None:
    spool = opened(tmp_path)
    for number in range(1, SETTLED_EVERY + 1):
        add(spool, number)
    send(spool, SETTLED_EVERY - 1)
    spool.settle(None)
    assert len(list(tmp_path.glob("*.spooled"))) == SETTLED_EVERY
    send(spool, 1)
    spool.settle(None)
    assert not list(tmp_path.glob("*.spooled"))
    spool.close()


def test_files_that_are_gone_are_forgotten_after_a_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("headrace.storage.seen_files.ABSENT_US", 0)
    spool = opened(tmp_path)
    for number in (1, 2, 3):
        add(spool, number)
    send(spool, 2)
    spool.settle({"/in/2"}, at_once=True)
    spool.close()
    again = opened(tmp_path)
    assert again.known.files.keys() == {"/in/2", "/in/3"}
    assert again.known.position["files"] == 3
    again.close()


def test_positions_tell_ways_apart() -> None:
    whole = SourceMark((InputFile("/a", 1, 1),))
    assert position_after({}, whole) == position_after({}, whole)
    assert position_after({}, whole) != position_after({}, SourceMark((InputFile("/b", 1, 1),)))
    assert position_after({}, whole) != position_after({}, SourceMark((), Reading("/a", 1, 1, 100)))
    assert position_after(position_after({}, whole), SourceMark())["files"] == 1


def test_the_state_of_another_edge_is_refused(tmp_path: Path) -> None:
    opened(tmp_path).close()
    for edge, stream in (("south", "r"), ("north", "s")):
        with pytest.raises(UsageError, match="is the state of edge north for stream r"):
            Spool(tmp_path, edge, stream)
    opened(tmp_path).close()


def test_a_state_has_one_agent(tmp_path: Path) -> None:
    first = opened(tmp_path)
    with pytest.raises(UsageError, match="another agent runs"):
        opened(tmp_path)
    first.close()
    opened(tmp_path).close()


def test_a_damaged_record_is_told(tmp_path: Path) -> None:
    spool = opened(tmp_path)
    add(spool, 1)
    spool.close()
    (path,) = tmp_path.glob("*.spooled")
    path.write_bytes(path.read_bytes().replace(b'"clock_us":101', b'"clock_us":102'))
    with pytest.raises(DamagedError):
        opened(tmp_path)


@pytest.mark.parametrize("damage", [lambda data: data[:-1], lambda data: data[:-1] + b"?"], ids=["shorter", "other"])
def test_a_damaged_frame_is_told_before_it_is_sent(tmp_path: Path, damage: Callable[[bytes], bytes]) -> None:
    spool = opened(tmp_path)
    add(spool, 1)
    (path,) = tmp_path.glob("*.spooled")
    path.write_bytes(damage(path.read_bytes()))
    with pytest.raises(DamagedError, match=path.name) as problem:
        send(spool, 1)
    assert "delete this file" in (problem.value.hint or "")
    spool.close()


def test_frames_of_one_span_stay_together(tmp_path: Path) -> None:
    """Each is sent by itself, none of a damaged file; what they say of the source is settled behind the last."""
    spool = opened(tmp_path)
    spool.add(
        Header("north", 5, 3, "r", None),
        EdgeRecord(incarnation=5, sequence=3, clock_us=100, position={"files": 1}, watermark_us=7),
        b"one",
        b"three",
        b"two",
    )
    (path,) = tmp_path.glob("*.spooled")
    whole = path.read_bytes()
    path.write_bytes(whole[:-1])
    with pytest.raises(DamagedError):
        send(spool, 1)
    path.write_bytes(whole)
    assert send(spool, 2) == [b"one", b"three"]
    assert spool.waiting_bytes == 3
    spool.settle(None, at_once=True)
    spool.close()
    again = opened(tmp_path)
    assert again.settled.key == (0, 0)
    assert again.known.key == (5, 3)
    assert send(again, 3) == [b"one", b"three", b"two"]
    again.settle(None, at_once=True)
    assert again.settled == again.known
    assert not list(tmp_path.glob("*.spooled"))
    again.close()


def test_a_record_says_what_is_new() -> None:
    known = replace(nothing_known("north", "r"), partitions={"a": 1, "b": 2})
    after = known.after(
        EdgeRecord(incarnation=5, sequence=1, clock_us=9, position={}, watermark_us=1, partitions={"b": 3})
    )
    assert after.partitions == {"a": 1, "b": 3}
    assert after.key == (5, 1)


@pytest.mark.parametrize("sent", [0, SETTLED_EVERY])
def test_frames_without_the_list_of_settled_files_are_damage(tmp_path: Path, sent: int) -> None:
    """The files that were settled would be read again, behind a position that goes on from the frames."""
    spool = opened(tmp_path)
    for number in range(1, SETTLED_EVERY + 3):
        add(spool, number)
    send(spool, sent)
    spool.settle(None)
    spool.close()
    (tmp_path / "known.json").unlink()
    for _ in range(2):
        with pytest.raises(DamagedError, match=r"known\.json is missing") as problem:
            opened(tmp_path)
        assert "docs/edge.md" in (problem.value.hint or "")
    assert len(list(tmp_path.glob("*.spooled"))) == SETTLED_EVERY + 2 - sent
