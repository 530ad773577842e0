"""Which windows a row lies in: alignment, half-open bounds, hops, overlaps, slices and offsets."""

from __future__ import annotations

import pytest

from tests.reference.scenario import Scenario, at, bounded


def test_cql_windows_are_aligned_at_their_ends() -> None:
    # time  -2   0   3   5   7      10      15      20
    # row                    r
    #       [----------------r------)
    #                [-------r--------------)
    #                           [-- 8 to 20: begins after the row
    assert bounded("SELECT count(*) AS n FROM s [RANGE 12 SLIDE 5]", at(7)) == [(-2, 10, 1), (3, 15, 1)]


@pytest.mark.parametrize(
    "query",
    [
        "SELECT count(*) AS n FROM s GROUP BY window(t, '12 seconds', '5 seconds')",
        "SELECT count(*) AS n FROM TABLE(HOP(TABLE s, DESCRIPTOR(t), 5 SECONDS, 12 SECONDS))",
    ],
)
def test_windows_of_spark_and_hop_are_aligned_at_their_starts(query: str) -> None:
    # time  -5   0       5   7   10   12      17
    # row                    r
    #            [-----------r--------)
    #                    [---r----------------)
    #        [---------------) -5 to 7: ends before the row
    assert bounded(query, at(7)) == [(0, 12, 1), (5, 17, 1)]


@pytest.mark.parametrize(
    ("query", "windows"),
    [
        ("SELECT count(*) AS n FROM s [RANGE '12 min' SLIDE '5 min']", [(-120, 600, 1), (180, 900, 1)]),
        ("SELECT count(*) AS n FROM s GROUP BY window(t, '12 minutes', '5 minutes')", [(0, 720, 1), (300, 1020, 1)]),
    ],
)
def test_twelve_by_five_minutes_differ(query: str, windows: list[tuple[int, ...]]) -> None:
    # The two drawings above, in minutes.
    assert bounded(query, at(7 * 60)) == windows


def test_the_start_of_spark_windows_can_be_shifted() -> None:
    # time  -4      0 1     6 7 8       13      18
    # row                     r
    #        [----------------r-)
    #                 [-------r---------)
    #                       [-r----------------)
    query = "SELECT count(*) AS n FROM s GROUP BY window(t, '12 seconds', '5 seconds', '1 second')"
    assert bounded(query, at(7)) == [(-4, 8, 1), (1, 13, 1), (6, 18, 1)]


@pytest.mark.parametrize(
    "query",
    [
        "SELECT count(*) AS n FROM s [RANGE 10]",
        "SELECT count(*) AS n FROM s GROUP BY window(t, '10 seconds')",
        "SELECT count(*) AS n FROM TABLE(TUMBLE(TABLE s, DESCRIPTOR(t), 10 SECONDS))",
    ],
)
def test_a_row_on_a_boundary_counts_once(query: str) -> None:
    # time  0         10         20
    # row   r         r         r        the last one at 19.999999
    #       [---------)[---------)
    assert bounded(query, at(0), at(10), at(19.999999)) == [(0, 10, 1), (10, 20, 2)]


def test_overlapping_windows_each_take_the_row() -> None:
    # time  -5    0     5     10    15
    # row               r
    #             [-----------)
    #                   [-----------)
    #       [-----------) ends where the row begins
    assert bounded("SELECT count(*) AS n FROM s [RANGE 10 SLIDE 5]", at(5)) == [(0, 10, 1), (5, 15, 1)]


def test_hopping_windows_leave_holes() -> None:
    # time  0    3   6     10   13   16     20
    # row        r   r     r         r   r
    #       ....     [-----).........[------)
    scenario = Scenario("SELECT count(*) AS n FROM s [RANGE 4 SLIDE 10]")
    step = scenario.batch(at(3), at(6), at(10), at(16), at(19.999999))
    assert step.rows() + scenario.end().rows() == [(6, 10, 1), (16, 20, 2)]
    assert (step.counts.late, step.counts.dropped) == (0, 0)


def test_a_range_that_is_no_multiple_of_the_slide() -> None:
    # time  -7   -2  0  1  3  5  6  8  10       15
    # row            r  r     r  r
    #       [--------)
    #            [---r--r-----)
    #                      [--r--r-----)
    #                                [-----------)
    rows = (at(0, v=1), at(1, v=2), at(5, v=4), at(6, v=8))
    assert bounded("SELECT sum(v) AS total FROM s [RANGE 7 SLIDE 5]", *rows) == [(-2, 5, 3), (3, 10, 12)]


def test_an_offset_moves_the_ends() -> None:
    # time  -7        2 3         13
    # row             r r
    #       [---------r-)
    #                   [r--------)
    expected = [(-7, 3, 1), (3, 13, 1)]
    assert bounded("SELECT count(*) AS n FROM s [RANGE 10 OFFSET 3]", at(2), at(3)) == expected
    assert bounded("SELECT count(*) AS n FROM s [RANGE 10 SLIDE 10 OFFSET 13]", at(2), at(3)) == expected


def test_slices_repeat_from_their_offset_on() -> None:
    # time  1    5      11   15      21
    # row   r  r r      r         r
    #       [----)[-----)[---)[------)
    #         4      6     4     6
    rows = (at(1), at(4), at(5), at(11), at(20))
    query = "SELECT count(*) AS n FROM s [SLICES 4, 6 OFFSET 1]"
    assert bounded(query, *rows) == [(1, 5, 2), (5, 11, 1), (11, 15, 1), (15, 21, 1)]


def test_slices_of_one_length_tumble() -> None:
    sliced, tumbling = (
        f"SELECT count(*) AS n FROM s [{window}]" for window in ("SLICES 4, 4 OFFSET 1", "RANGE 4 OFFSET 1")
    )
    assert Scenario().parse(sliced) == Scenario().parse(tumbling)
    assert bounded(sliced, at(0), at(1), at(8)) == [(-3, 1, 1), (1, 5, 1), (5, 9, 1)]


def test_times_before_the_epoch() -> None:
    # time  -10      -1 0         10
    # row             r r
    #       [---------r-)[---------)
    assert bounded("SELECT count(*) AS n FROM s [RANGE 10]", at(-1), at(0)) == [(-10, 0, 1), (0, 10, 1)]


def test_time_buckets_are_tumbling_windows() -> None:
    # time  0         10         20        30
    # row   r         r                 r
    #       [-- tb 0 -)[-- tb 1 --)[ tb 2 -)
    query = "SELECT tb, count(*) AS n FROM s GROUP BY t/10 AS tb"
    assert bounded(query, at(0), at(10), at(29)) == [(0, 10, 0, 1), (10, 20, 1, 1), (20, 30, 2, 1)]
