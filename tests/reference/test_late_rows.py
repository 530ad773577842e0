"""Late rows, per window; dropped rows and the side output. `w` is the watermark that entered the batch."""

from __future__ import annotations

from tests.reference.scenario import Scenario, at

TUMBLING = "SELECT count(*) AS n FROM s [RANGE 10]"
OVERLAPPING = "SELECT count(*) AS n FROM s [RANGE 20 SLIDE 10]"


def test_a_batch_is_judged_by_the_watermark_that_entered_it() -> None:
    # time  0    3    6     10      15
    # row             r             r      first batch: nothing is late yet
    # row        r                         second batch: w = 15
    #       [-closed-------)
    scenario = Scenario(TUMBLING)
    first = scenario.batch(at(15), at(6))
    assert (first.counts.late, first.rows()) == (0, [(0, 10, 1)])
    second = scenario.batch(at(3))
    assert (second.counts.late, second.counts.dropped, second.rows()) == (1, 1, [])


def test_a_late_row_still_counts_in_its_open_windows() -> None:
    # time  -10     0     4     10    14    20
    # row                             r          first batch: w = 14
    # row                 l                      second batch
    #        [------------------)                closed: without it
    #               [-----l-----------r-----)    open: with it
    scenario = Scenario(OVERLAPPING)
    assert scenario.batch(at(14)).rows() == []
    step = scenario.batch(at(4))
    assert (step.counts.late, step.counts.dropped, step.side_output()) == (1, 0, [])
    assert scenario.end().rows() == [(0, 20, 2), (10, 30, 1)]


def test_a_closed_window_is_never_emitted_again() -> None:
    # time  -10    0     4     10    14    20
    # row   [------------r-----)                  emitted when w = 14
    # row                 l                       too late for it
    scenario = Scenario(OVERLAPPING)
    assert scenario.batch(at(4), at(14)).rows() == [(-10, 10, 1)]
    assert scenario.batch(at(4.5)).rows() == []
    assert scenario.end().rows() == [(0, 20, 3), (10, 30, 1)]


def test_a_row_that_no_open_window_takes_goes_to_the_side_output() -> None:
    # time  0    3         10      25
    # row                          r      w = 25
    # row        l                        its only window has closed
    scenario = Scenario(TUMBLING)
    scenario.batch(at(25))
    step = scenario.batch(at(3))
    assert (step.counts.rows, step.counts.late, step.counts.dropped) == (1, 1, 1)
    assert step.side_output() == [(3, "late", 25)]
    assert scenario.end().rows() == [(20, 30, 1)]


def test_a_row_at_the_watermark_is_not_late() -> None:
    # time  0         10         20
    # row             r                w = 10
    # row             r                again at 10: on time
    # row            l                 a microsecond earlier: late
    scenario = Scenario(TUMBLING)
    scenario.batch(at(10))
    step = scenario.batch(at(10), at(9.999999))
    assert (step.counts.late, step.counts.dropped) == (1, 1)
    assert scenario.end().rows() == [(10, 20, 2)]


def test_late_but_within_an_open_window_is_not_dropped() -> None:
    # time  0   3      8    10
    # row              r         w = 8
    # row       l                late, and its window is open
    scenario = Scenario(TUMBLING)
    scenario.batch(at(8))
    step = scenario.batch(at(3))
    assert (step.counts.late, step.counts.dropped) == (1, 0)
    assert scenario.end().rows() == [(0, 10, 2)]


def test_one_query_with_an_open_window_is_enough() -> None:
    # time   0    3         10     15            60
    # row                          r                   w = 15
    # row         l
    # short  [-closed-------)
    # long   [--------------------------open-----)
    scenario = Scenario(TUMBLING)
    scenario.register("long", "SELECT count(*) AS n FROM s [RANGE 60]")
    scenario.batch(at(15))
    step = scenario.batch(at(3))
    assert (step.counts.late, step.counts.dropped) == (1, 0)
    end = scenario.end()
    assert end.rows() == [(10, 20, 1)]
    assert end.rows("long") == [(0, 60, 2)]


def test_whether_a_window_could_take_the_row_is_not_up_to_where() -> None:
    # time  0   3      8    10
    # row              r         w = 8
    # row       l (v = -1)       late, its window is open, WHERE does not let it in: not dropped
    scenario = Scenario("SELECT count(*) AS n FROM s [RANGE 10] WHERE v > 0")
    scenario.batch(at(8, v=1))
    step = scenario.batch(at(3, v=-1))
    assert (step.counts.late, step.counts.dropped) == (1, 0)
    assert scenario.end().rows() == [(0, 10, 1)]


def test_a_late_row_in_the_hole_of_a_hopping_window_is_dropped() -> None:
    # time  0    3   6     10   13
    # row                       r     w = 13, on time in a hole: not dropped
    # row        l                    late in a hole: no window could take it
    #       .....    [-----)....
    scenario = Scenario("SELECT count(*) AS n FROM s [RANGE 4 SLIDE 10]")
    assert scenario.batch(at(13)).counts.dropped == 0
    step = scenario.batch(at(3))
    assert (step.counts.late, step.counts.dropped) == (1, 1)


def test_without_queries_only_late_rows_are_dropped() -> None:
    # time  0    3         10
    # row                  r      w = 10
    # row        l
    scenario = Scenario()
    assert scenario.batch(at(10)).counts.dropped == 0
    assert scenario.batch(at(3)).side_output() == [(3, "late", 10)]


def test_a_row_without_an_event_time_is_dropped_and_named() -> None:
    # time  0   3   NULL
    # row       r
    # row           r      to the side output; the watermark does not care
    scenario = Scenario(TUMBLING)
    step = scenario.batch(at(3), at(None))
    assert (step.counts.rows, step.counts.late, step.counts.dropped) == (2, 0, 1)
    assert step.side_output() == [(None, "no event time", None)]
    assert step.watermark == 3
    assert scenario.batch(at(None)).side_output() == [(None, "no event time", 3)]
    assert scenario.end().rows() == [(0, 10, 1)]


def test_after_the_end_every_row_is_late() -> None:
    # time  0   3        ...  the end
    # row       r
    # row           5                   comes after the end
    scenario = Scenario(TUMBLING)
    scenario.batch(at(3))
    assert scenario.end().rows() == [(0, 10, 1)]
    step = scenario.batch(at(5))
    assert (step.rows(), step.counts.late, step.counts.dropped) == ([], 1, 1)
