"""Rows judged by time at an edge."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from headrace.edge.admission import Judge
from headrace.edge.intake import Intake, Refused
from headrace.model.schema import Stream
from headrace.sql import parse_script
from headrace.wire.frames import RowCounts

SECOND_US = 1_000_000


def stream_of(partition: str = "") -> Stream:
    declared = f"CREATE STREAM s (t TIMESTAMP, p STRING) EVENT TIME t LATENESS '2 s' {partition}"
    return parse_script(f"{declared} SKEW '5 s' IDLE '10 s';").catalog.streams[0]


def rows_at(*seconds: int | None, partition: str | None = None, bad: int = 0) -> Intake:
    times = [None if each is None else each * SECOND_US for each in seconds]
    table = pa.table(
        {
            "t": pa.array(times, pa.int64()).cast(pa.timestamp("us", "UTC")),
            "p": pa.array([partition] * len(seconds), pa.string()),
        }
    )
    return Intake(table, (Refused("bad", bad),))


class Clock:
    def __init__(self, seconds: int) -> None:
        self.seconds = seconds

    def __call__(self) -> int:
        return self.seconds * SECOND_US


def test_rows_without_a_time_or_of_the_future_are_counted_and_left_out() -> None:
    """The clock says 100, and 5 seconds of skew are allowed: 105 is the last that is taken."""
    judge = Judge(stream_of(), {}, None, Clock(100))
    found = judge.admit(rows_at(99, None, 105, 106, 2_000, bad=3))
    assert [time.timestamp() for time in found["t"].to_pylist()] == [99, 105]
    judged = judge.cut()
    assert judged.rows == RowCounts(read=8, future=2, dropped=1, bad=3)
    assert (judged.lowest_us, judged.highest_us) == (99 * SECOND_US, 105 * SECOND_US)
    assert judge.watermark_us == 103 * SECOND_US
    assert judge.cut().rows == RowCounts()


def test_without_a_clock_there_is_no_future() -> None:
    judge = Judge(stream_of(), {}, None, None)
    assert judge.admit(rows_at(1, 10**9)).num_rows == 2
    assert judge.watermark_us == (10**9 - 2) * SECOND_US


def test_late_rows_are_counted_and_go_on() -> None:
    """
    frame 1   100, 1         nothing was sent before: 1 is not late
    watermark 98
    frame 2   1, 97, 98      two are below it; which windows are open is for the root to say
    """
    judge = Judge(stream_of(), {}, None, None)
    judge.admit(rows_at(100))
    judge.admit(rows_at(1))
    assert judge.cut().rows == RowCounts(read=2)
    assert judge.watermark_us == 98 * SECOND_US
    assert judge.admit(rows_at(1, None, 97, 98)).num_rows == 3
    assert judge.cut().rows == RowCounts(read=4, late=2, dropped=1)
    assert judge.watermark_us == 98 * SECOND_US


def test_late_rows_are_counted_after_a_start() -> None:
    judge = Judge(stream_of(), {"": 100 * SECOND_US}, 98 * SECOND_US, None)
    judge.admit(rows_at(97, 120))
    assert judge.cut().rows == RowCounts(read=2, late=1)


def test_an_idle_partition_does_not_hold_the_watermark_back() -> None:
    """
    clock  20        29   31
    a      10         |    |     idle for more than 10 seconds
    b                20    |
    """
    clock = Clock(20)
    judge = Judge(stream_of("PARTITION p"), {}, None, clock)
    judge.admit(rows_at(10, partition="a"))
    clock.seconds = 29
    judge.admit(rows_at(20, partition="b"))
    assert judge.watermark_us == 8 * SECOND_US
    clock.seconds = 31
    assert judge.watermark_us == 18 * SECOND_US


def test_partitions_outlive_the_agent() -> None:
    judge = Judge(stream_of("PARTITION p"), {}, None, None)
    judge.admit(rows_at(10, partition="a"))
    judge.admit(rows_at(20, partition=None))
    known = judge.cut().partitions
    assert known == {'"a"': 10 * SECOND_US, "null": 20 * SECOND_US}
    again = Judge(judge.stream, known, 8 * SECOND_US, None)
    again.admit(rows_at(30, partition=None))
    assert again.watermark_us == 8 * SECOND_US


@given(st.lists(st.tuples(st.sampled_from(["a", "b", "c"]), st.integers(0, 50)), min_size=1, max_size=20))
def test_the_watermark_is_the_lowest_of_the_partitions_and_never_goes_back(pieces: list[tuple[str, int]]) -> None:
    judge = Judge(stream_of("PARTITION p"), {}, None, None)
    highest: dict[str, int] = {}
    expected: Any = None
    for partition, seconds in pieces:
        judge.admit(rows_at(seconds, partition=partition))
        highest[partition] = max(highest.get(partition, 0), seconds)
        found = (min(highest.values()) - 2) * SECOND_US
        expected = found if expected is None else max(expected, found)
        assert judge.watermark_us == expected
