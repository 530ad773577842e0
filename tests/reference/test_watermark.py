"""The watermark: what moves it, what does not, and when a window closes. `w` marks it in the drawings."""

from __future__ import annotations

import pytest

from headrace.model.time import SECOND_US
from headrace.reference import Interpreter
from headrace.sql import parse_script
from tests.reference.scenario import Scenario, at

COUNT = "SELECT count(*) AS n FROM s [RANGE 10]"
YEAR_2099 = 4_070_908_800


def test_it_is_the_highest_event_time_minus_the_lateness() -> None:
    # time  0      7      12     15
    # row          r      r      r     lateness 5
    #              w <-5- 12
    #                     w  <-5-     17
    scenario = Scenario(COUNT, stream="LATENESS 5")
    assert scenario.batch().watermark is None
    assert scenario.batch(at(12), at(7)).watermark == 7
    assert scenario.batch(at(17)).watermark == 12


def test_it_never_goes_back() -> None:
    # time  0      12     20
    # row                 r      first batch
    # row          r             second batch
    #                     w
    scenario = Scenario(COUNT)
    assert scenario.batch(at(20)).watermark == 20
    assert scenario.batch(at(12)).watermark == 20
    assert scenario.batch().watermark == 20


def test_a_window_closes_when_the_watermark_reaches_its_end() -> None:
    # time  0    3        10
    # row        r       r r     9.999999, then 10
    #       [------------)
    #                   w        just before the end: open
    #                    w       at the end: closed
    scenario = Scenario(COUNT)
    assert scenario.batch(at(3)).windows() == []
    assert scenario.batch(at(9.999999)).windows() == []
    assert scenario.batch(at(10)).rows() == [(0, 10, 2)]
    assert scenario.batch(at(11)).rows() == []


def test_the_lateness_keeps_windows_open() -> None:
    # time  0        9 10      15
    # row            r r       r      lateness 5
    #       [----------)
    #          w at 9.999999 - 5, then at 15 - 5
    scenario = Scenario(COUNT, stream="LATENESS 5")
    assert scenario.batch(at(14.999999)).windows() == []
    assert scenario.batch(at(9)).windows() == []
    assert scenario.batch(at(15)).rows() == [(0, 10, 1)]


def test_windows_close_in_the_order_of_their_ends() -> None:
    # time  0         10         20        30    35
    # row   r         r          r               r
    #       [---------)[---------)[--------)
    #       first batch: 20, 0, 10             second: 35
    scenario = Scenario(COUNT, stream="LATENESS 30")
    assert scenario.batch(at(20), at(0), at(10)).windows() == []
    assert scenario.batch(at(65)).windows() == [(0, 10), (10, 20), (20, 30)]


def test_the_order_of_rows_inside_a_batch_means_nothing() -> None:
    # time  0    3         10         20       40
    # row        r                             r       one batch, in both orders
    #       [--- taken ----)
    #                                          w
    for rows in ((at(3), at(40)), (at(40), at(3))):
        scenario = Scenario(COUNT)
        step = scenario.batch(*rows)
        assert step.rows() == [(0, 10, 1)]
        assert (step.watermark, step.counts.late, step.counts.dropped) == (40, 0, 0)


def test_it_is_the_lowest_of_the_partitions() -> None:
    # time  0    5         10      18     25
    # a          r                        r
    # b                    r       r
    #            w         (lowest highest: a)
    #                             w      (lowest highest: b)
    scenario = Scenario(COUNT, stream="PARTITION p")
    assert scenario.batch(at(5, p="a"), at(10, p="b")).watermark == 5
    assert scenario.batch(at(25, p="a"), at(18, p="b"), at(12, p="b")).watermark == 18


def test_a_partition_counts_with_its_highest_row_not_its_last() -> None:
    # time  0      12     20
    # a                   r      first batch
    # a            r             second batch
    # b                   r      third batch
    scenario = Scenario(COUNT, stream="PARTITION p LATENESS 100")
    for row in (at(20, p="a"), at(12, p="a"), at(20, p="b")):
        watermark = scenario.batch(row).watermark
    assert watermark == -80


def test_a_partition_that_comes_later_cannot_pull_it_back() -> None:
    # time  0   4         10         20       30
    # a                              r        r
    # b         r                             r      second batch: its row is late, and it holds the watermark
    #                                w        w
    scenario = Scenario(COUNT, stream="PARTITION p")
    assert scenario.batch(at(20, p="a")).watermark == 20
    step = scenario.batch(at(4, p="b"), at(30, p="a"))
    assert (step.watermark, step.counts.late) == (20, 1)
    assert scenario.batch(at(30, p="b")).watermark == 30


def test_rows_without_a_partition_are_a_partition() -> None:
    # time  0    5         10
    # NULL       r
    # a                    r
    scenario = Scenario(COUNT, stream="PARTITION p")
    assert scenario.batch(at(5, p=None), at(10, p="a")).watermark == 5


def test_all_nans_are_one_partition() -> None:
    # time  0    5         10
    # NaN        r         r      one partition, with 10 as its highest
    catalog = parse_script("CREATE STREAM s (t TIMESTAMP, x DOUBLE) EVENT TIME t PARTITION x").catalog
    interpreter = Interpreter(catalog.streams[0])
    rows = [{"t": seconds * SECOND_US, "x": float("nan")} for seconds in (5, 10)]
    assert interpreter.batch(rows).watermark_us == 10 * SECOND_US


def test_an_idle_partition_does_not_hold_it() -> None:
    # clock  100            160     161
    # a       5              30
    # b       5                            nothing for 61 seconds: idle
    # w       5              5      30
    scenario = Scenario(COUNT, stream="PARTITION p IDLE 60")
    assert scenario.batch(at(5, p="a"), at(5, p="b"), clock=100).watermark == 5
    assert scenario.batch(at(30, p="a"), clock=160).watermark == 5
    step = scenario.batch(clock=161)
    assert step.watermark == 30
    assert step.rows() == [(0, 10, 2)]


def test_an_idle_partition_that_comes_back_holds_it_again() -> None:
    # clock  100     200     201     202
    # a       5       30              50
    # b       5               12            late, and b is back at 12
    # w       5       30      30      30
    scenario = Scenario(COUNT, stream="PARTITION p IDLE 60")
    scenario.batch(at(5, p="a"), at(5, p="b"), clock=100)
    assert scenario.batch(at(30, p="a"), clock=200).watermark == 30
    assert scenario.batch(at(12, p="b"), clock=201).counts.late == 1
    assert scenario.batch(at(50, p="a"), clock=202).watermark == 30


def test_when_all_partitions_are_idle_it_stays() -> None:
    # clock  100     500
    # a       5
    # b       7
    # w       5       5
    scenario = Scenario(COUNT, stream="PARTITION p IDLE 60")
    scenario.batch(at(5, p="a"), at(7, p="b"), clock=100)
    assert scenario.batch(clock=500).watermark == 5


def test_a_partition_seen_before_there_was_a_clock_falls_idle_too() -> None:
    # clock   -      100     161
    # a       5       30      30
    # b       5                      its silence counts from the clock's first beat
    # w       5       5       30
    scenario = Scenario(COUNT, stream="PARTITION p IDLE 60")
    scenario.batch(at(5, p="a"), at(5, p="b"))
    assert scenario.batch(at(30, p="a"), clock=100).watermark == 5
    assert scenario.batch(at(30, p="a"), clock=161).watermark == 30


def test_a_batch_without_a_clock_keeps_the_last_one() -> None:
    # clock  100      -       161
    # a       5       30      31
    # b       5                       seen at 100: idle at 161, not before
    # row                200 at clock 100 is future
    scenario = Scenario(COUNT, stream="PARTITION p IDLE 60 SKEW 60")
    scenario.batch(at(5, p="a"), at(5, p="b"), clock=100)
    step = scenario.batch(at(30, p="a"), at(200, p="a"))
    assert (step.watermark, step.counts.future) == (5, 1)
    assert scenario.batch(at(31, p="a"), clock=161).watermark == 31


@pytest.mark.parametrize("first", [0, 100])
def test_the_clock_never_goes_back(first: int) -> None:
    # clock  100    40
    # row           150 is within 60 seconds of 100
    scenario = Scenario(COUNT, stream="SKEW 60")
    scenario.batch(clock=first)
    assert scenario.batch(at(first + 50), clock=first - 60).counts.future == 0


def test_a_row_dated_2099_closes_nothing() -> None:
    # clock  100
    # time   0    95 100                 2099
    # row         r                      r
    #             [...)                  goes to the side output
    #             w
    scenario = Scenario(COUNT)
    step = scenario.batch(at(95, v=1), at(YEAR_2099), clock=100)
    assert step.watermark == 95
    assert (step.counts.rows, step.counts.future, step.counts.late, step.counts.dropped) == (2, 1, 0, 0)
    assert step.side_output() == [(YEAR_2099, "future", None)]
    assert scenario.batch(at(96), at(YEAR_2099), clock=101).side_output() == [(YEAR_2099, "future", 95)]
    assert scenario.end().rows() == [(90, 100, 2)]


def test_a_row_is_future_when_it_is_later_than_clock_and_skew() -> None:
    # clock  100             160
    # row                    r      exactly clock + skew: taken
    # row                     r     a microsecond later: future
    scenario = Scenario(COUNT, stream="SKEW 60")
    step = scenario.batch(at(160), at(160.000001), clock=100)
    assert (step.watermark, step.counts.future) == (160, 1)
    assert scenario.end().rows() == [(160, 170, 1)]


def test_a_future_row_is_taken_if_it_comes_again_in_time() -> None:
    # clock  100     300
    # row    300     300     first future, then not
    scenario = Scenario(COUNT)
    assert scenario.batch(at(300), clock=100).counts.future == 1
    assert scenario.batch(at(300), clock=300).counts.future == 0
    assert scenario.end().rows() == [(300, 310, 1)]


def test_a_partition_that_sends_only_future_rows_does_not_count() -> None:
    # clock  100
    # a       40
    # b                    900, future: b has no event time yet
    # w       40
    scenario = Scenario(COUNT, stream="PARTITION p")
    assert scenario.batch(at(40, p="a"), at(900, p="b"), clock=100).watermark == 40


def test_without_a_clock_nothing_is_future() -> None:
    # time   0                           2099
    # row                                r w
    scenario = Scenario(COUNT)
    step = scenario.batch(at(YEAR_2099))
    assert (step.watermark, step.counts.future) == (YEAR_2099, 0)
