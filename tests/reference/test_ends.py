"""The end of a bounded stream, empty windows and gaps."""

from __future__ import annotations

import pytest

from headrace.model.time import SECOND_US
from headrace.model.windows import Interval
from headrace.reference import Gap
from headrace.reference.interpreter import ENDED
from tests.reference.scenario import Scenario, at, bounded

COUNT = "SELECT count(*) AS n FROM s [RANGE 10]"


def test_a_bounded_end_closes_every_window_that_holds_a_row() -> None:
    # time  0   3     10         20   25   30
    # row       r                     r       | end
    #       [---------)          [--------)
    #                     w = 20               -> infinity
    scenario = Scenario("SELECT k, count(*) AS n FROM s [RANGE 10] GROUP BY k", stream="LATENESS 5")
    assert scenario.batch(at(3, k="a"), at(25, k="a")).rows() == [(0, 10, "a", 1)]
    end = scenario.end()
    assert end.rows() == [(20, 30, "a", 1)]
    assert end.result.watermark_us == ENDED
    assert scenario.end().rows() == []


def test_without_an_end_open_windows_stay_open() -> None:
    # time  0   3     10     15   20
    # row       r            r
    #       [---------)[----------      w = 15: the second one stays open
    scenario = Scenario(COUNT)
    assert scenario.batch(at(3), at(15)).rows() == [(0, 10, 1)]
    assert scenario.batch().rows() == []


def test_empty_windows_only_between_windows_with_rows() -> None:
    # time  0         10   13    20         30   35    40         50
    # row                  r                     r
    #       ..........[ 1 -------)[ 0 ------)[ 1 -----)..........
    scenario = Scenario(COUNT)
    assert scenario.batch(at(13)).rows() == []
    assert scenario.batch(at(35)).rows() == [(10, 20, 1)]
    assert scenario.end().rows() == [(20, 30, 0), (30, 40, 1)]


def test_an_empty_window_waits_for_the_next_one_with_rows() -> None:
    # time  10   13    20         30         40    45
    # row        r                                 r (v = 0)   WHERE v > 0
    #       [ 1 ------)[ empty until a row passes ...
    scenario = Scenario("SELECT count(*) AS n FROM s [RANGE 10] WHERE v > 0")
    assert scenario.batch(at(13, v=1), at(45, v=0)).rows() == [(10, 20, 1)]
    assert scenario.batch(at(95, v=0)).rows() == []
    assert scenario.end().rows() == []


def test_an_empty_window_counts_0_and_knows_nothing_else() -> None:
    # time  0    3    10         20    25   30
    # row        r                     r
    #       [---------)[ empty --)[--------)
    query = (
        "SELECT count(*) AS n, count(v) AS c, count(DISTINCT v) AS u, sum(v) AS s, min(k) AS lo, max(x) AS hi, "
        "avg(v) AS a, var_pop(v) AS vp, var_samp(v) AS vs, stddev_pop(v) AS sp, stddev_samp(v) AS ss, sum(v) + 1 AS e, "
        "coalesce(sum(v), -1) AS z FROM s [RANGE 10]"
    )
    rows = bounded(query, at(3, v=1, k="a", x=1.0), at(25, v=1))
    assert rows[1] == (10, 20, 0, 0, 0, *[None] * 9, -1)


def test_a_grouped_query_has_no_empty_windows() -> None:
    # time  0    3    10         20    25   30
    # row        a                     a
    #       [---------)          [--------)
    query = "SELECT k, count(*) AS n FROM s [RANGE 10] GROUP BY k"
    assert bounded(query, at(3, k="a"), at(25, k="a")) == [(0, 10, "a", 1), (20, 30, "a", 1)]


def test_empty_windows_of_overlapping_and_hopping_windows() -> None:
    # time  0    3   5    10   15   20   25
    # row        r                       r
    # [-5,5) 1  [0,10) 1  [5,15) 0  [10,20) 0  [15,25) 0  [20,30) 1  [25,35) 1
    overlapping = "SELECT count(*) AS n FROM s [RANGE 10 SLIDE 5]"
    assert bounded(overlapping, at(3), at(25)) == [
        (-5, 5, 1),
        (0, 10, 1),
        (5, 15, 0),
        (10, 20, 0),
        (15, 25, 0),
        (20, 30, 1),
        (25, 35, 1),
    ]
    # time  0    6 8 10      16     20      26 28 30
    # row          r                            r
    #            [---)       [-- 0 --)       [-----)
    hopping = "SELECT count(*) AS n FROM s [RANGE 4 SLIDE 10]"
    assert bounded(hopping, at(8), at(28)) == [(6, 10, 1), (16, 20, 0), (26, 30, 1)]


def test_empty_slices() -> None:
    # time  0   2  4         10     14         20  22 24
    # row       r                                  r
    #       [------)[ 0 -----)[ 0 --)[ 0 ------)[-----)
    query = "SELECT count(*) AS n FROM s [SLICES 4, 6]"
    assert bounded(query, at(2), at(22)) == [(0, 4, 1), (4, 10, 0), (10, 14, 0), (14, 20, 0), (20, 24, 1)]


def test_a_long_run_of_empty_windows_is_one_counted_gap() -> None:
    # time  0  3  10      20      30      40      50      60      70 73 80
    # row      r                                                     r
    #       [-----)[  0  )[  0  )[ ......... gap of 4 .........)[------)
    scenario = Scenario(COUNT, max_empty=2)
    scenario.batch(at(3))
    step = scenario.batch(at(73), at(85))
    assert step.rows() == [(0, 10, 1), (10, 20, 0), (20, 30, 0), (70, 80, 1)]
    assert step.result.gaps == [Gap("q", Interval(70 * SECOND_US, 80 * SECOND_US), 4)]
    assert scenario.end().result.gaps == []


def test_a_gap_may_be_of_one_window() -> None:
    # time  0  3  10      20      30      40  45  50
    # row      r                              r
    #       [-----)[  0  )[  0  )[  gap  )[------)
    scenario = Scenario(COUNT, max_empty=2)
    scenario.batch(at(3), at(45))
    end = scenario.end()
    assert end.rows() == [(10, 20, 0), (20, 30, 0), (40, 50, 1)]
    assert [gap.count for gap in end.result.gaps] == [1]


def test_a_run_of_exactly_max_empty_is_written_out() -> None:
    # time  0  3  10      20      30  35  40
    # row      r                      r
    scenario = Scenario(COUNT, max_empty=2)
    scenario.batch(at(3), at(35))
    end = scenario.end()
    assert end.rows() == [(10, 20, 0), (20, 30, 0), (30, 40, 1)]
    assert end.result.gaps == []


def test_the_gap_of_a_century_takes_no_time() -> None:
    # time  0  3 ... a hundred years of microsecond windows
    scenario = Scenario("SELECT count(*) AS n FROM s [RANGE '1 us']")
    scenario.batch(at(0), at(100 * 365 * 86_400))
    (gap,) = scenario.end().result.gaps
    assert gap.count == 100 * 365 * 86_400 * SECOND_US - 1


@pytest.mark.parametrize(("slide", "empty"), [("1 ms", 1_000), ("999 us", 0)])
def test_empty_windows_that_come_more_often_than_every_millisecond_are_only_counted(slide: str, empty: int) -> None:
    # time  0  ... ten seconds of short windows
    scenario = Scenario(f"SELECT count(*) AS n FROM s [RANGE '{slide}']")
    end = [scenario.batch(at(0), at(10)), scenario.end()]
    assert [row[2] for step in end for row in step.rows()] == [1, *[0] * empty, 1]


def test_gaps_of_slices_are_counted_too() -> None:
    # time  0   2  4     10  14    20  24    30  34    40
    # row       r                                  r (33)
    #       [------)  6 4 6 4 6: five empty slices, of which one is written out
    scenario = Scenario("SELECT count(*) AS n FROM s [SLICES 4, 6]", max_empty=1)
    scenario.batch(at(2), at(33))
    end = scenario.end()
    assert end.rows() == [(4, 10, 0), (30, 34, 1)]
    assert [gap.count for gap in end.result.gaps] == [4]


def test_a_window_whose_rows_having_leaves_out_is_closed_without_rows() -> None:
    # time  0  3  10      20  25  30
    # row      r              r r
    #       [ 1 --)[  0  )[ 2 ---)      HAVING count(*) <> 1
    scenario = Scenario("SELECT count(*) AS n FROM s [RANGE 10] HAVING count(*) <> 1")
    first = scenario.batch(at(3), at(25), at(26))
    end = scenario.end()
    assert first.windows() + end.windows() == [(0, 10), (10, 20), (20, 30)]
    assert first.rows() + end.rows() == [(10, 20, 0), (20, 30, 2)]
