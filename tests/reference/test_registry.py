"""Queries that come and go: which of their windows are complete."""

from __future__ import annotations

import pytest

from headrace.model.errors import DataError, UnsupportedError
from tests.reference.scenario import Scenario, at

COUNT = "SELECT count(*) AS n FROM s [RANGE 10]"
OVERLAPPING = "SELECT count(*) AS n FROM s [RANGE 20 SLIDE 10]"


def test_queries_registered_before_the_first_row_are_complete_from_the_beginning() -> None:
    # clock  100
    # time  -5    0    3    10    13
    # row    r         r          r
    #       -)    [---------)
    scenario = Scenario(emit_incomplete=True)
    scenario.batch(clock=100)
    scenario.register("q", COUNT)
    step = scenario.batch(at(-5), at(3), at(13))
    assert step.rows() == [(-10, 0, 1), (0, 10, 1)]
    assert step.complete() == [True, True]


def test_a_query_that_joins_in_the_middle_starts_with_its_first_complete_window() -> None:
    # time  0    3    7    10   12         20   22         30  33
    # row        r                                               first batch
    #              ^ the query joins
    # row             r         r               r              r
    #       [- lacks 3 -----)[-------------)[---------------)
    scenario = Scenario()
    scenario.batch(at(3))
    scenario.register("q", COUNT)
    steps = [scenario.batch(at(seconds)) for seconds in (7, 12, 22, 33)]
    assert [step.rows() for step in steps] == [[], [], [(10, 20, 1)], [(20, 30, 1)]]


def test_incomplete_windows_on_request_with_a_flag() -> None:
    # As above: [0,10) lacks the row at 3.
    scenario = Scenario(emit_incomplete=True)
    scenario.batch(at(3))
    scenario.register("q", COUNT)
    steps = [scenario.batch(at(seconds)) for seconds in (7, 12, 22)]
    assert [step.rows() for step in steps] == [[], [(0, 10, 1)], [(10, 20, 1)]]
    assert [step.complete() for step in steps] == [[], [False], [True]]


def test_a_window_is_complete_if_it_begins_after_the_highest_time_counted_before() -> None:
    # time  0         10         20
    # row             r                 counted before the query joins
    # row              r                a microsecond later, after it
    #       [---------)[---------)      lacks the row at 10
    # row          9.999999 instead:    [10,20) lacks nothing
    for before, rows in ((10, []), (9.999999, [(10, 20, 1)])):
        scenario = Scenario()
        scenario.batch(at(before))
        scenario.register("q", COUNT)
        scenario.batch(at(10.000001))
        assert scenario.end().rows() == rows


def test_overlapping_windows_are_complete_one_after_the_other() -> None:
    # time  0   5    10   15   20        30        40
    # row       r    ^ the query joins
    # row                 r    r
    #       [------------------)                        lacks 5
    #                [-------------------)
    #                          [-------------------)
    scenario = Scenario()
    scenario.batch(at(5))
    scenario.register("q", OVERLAPPING)
    scenario.batch(at(15), at(20))
    assert scenario.end().rows() == [(10, 30, 2), (20, 40, 1)]


@pytest.mark.parametrize("batches", [[[0, 100]], [[0], [100]], [[100], [0]]])
def test_what_a_query_missed_does_not_depend_on_the_batches(batches: list[list[float]]) -> None:
    # time  -30   -20     0       40    50    60      100  101   120   130
    # row                 r                            r                      before the query joins
    # row    r                          r                   r            r    after it
    #       -----)[------)                                           [-----   complete
    #                             [-----------)                               may lack rows between 0 and 100
    #                                                 [------------)          lacks 100
    scenario = Scenario(stream="LATENESS 200")
    for times in batches:
        scenario.batch(*(at(seconds) for seconds in times))
    scenario.register("q", "SELECT count(*) AS n FROM s [RANGE 20]")
    scenario.batch(at(50), at(101), at(130), at(-30))
    assert scenario.end().rows() == [(-40, -20, 1), (-20, 0, 0), (120, 140, 1)]


def test_rows_that_were_not_counted_are_not_missed() -> None:
    # clock  100
    # time   NULL                       5000
    # row    r                          r       dropped and future: in no window of anybody
    #              ^ the query joins
    # row            95   98
    scenario = Scenario()
    scenario.batch(at(None), at(5_000), clock=100)
    scenario.register("q", COUNT)
    scenario.batch(at(95), at(98), clock=101)
    assert scenario.end().rows() == [(90, 100, 2)]


def test_a_query_that_leaves_gives_no_more_windows() -> None:
    # time  0   3     10    13
    # row       r     |           the query leaves before the window closes
    # row                   r
    scenario = Scenario(COUNT)
    scenario.register("other", COUNT)
    scenario.batch(at(3))
    scenario.drop("q")
    step = scenario.batch(at(13))
    assert (step.rows(), step.rows("other")) == ([], [(0, 10, 1)])


def test_a_query_that_comes_back_starts_anew() -> None:
    # time  0   3   5   10    13    20    25
    # row       r |   |                         leaves and comes back at once
    # row             r       r           r
    #       [- lacks 3 -)[----------)
    scenario = Scenario(COUNT)
    scenario.batch(at(3))
    scenario.drop("q")
    scenario.register("q", COUNT)
    scenario.batch(at(5))
    assert scenario.batch(at(13)).rows() == []
    assert scenario.batch(at(25)).rows() == [(10, 20, 1)]


def test_a_query_that_comes_back_does_not_fill_the_time_it_was_away() -> None:
    # time  0   3   10   13   20   25  30        50   55   60  65
    # row       r         r                            r        r
    #       [-------)          |  away  |
    #                                    no empty windows from before it came back
    scenario = Scenario(COUNT)
    assert scenario.batch(at(3), at(13)).rows() == [(0, 10, 1)]
    scenario.drop("q")
    scenario.batch(at(25))
    scenario.register("q", COUNT)
    assert scenario.batch(at(55), at(65)).rows() == [(50, 60, 1)]


def test_a_query_does_not_notice_the_others() -> None:
    # time  0   3   7   10   15
    # row       r   r        r
    alone = Scenario(COUNT)
    scenario = Scenario(COUNT)
    scenario.register("filtered", "SELECT sum(v) AS n FROM s [RANGE 3 SLIDE 2] WHERE v / 0 > 1")
    scenario.register("grouped", "SELECT k, max(x) AS n FROM s [RANGE 60] GROUP BY k")
    for row in (at(3), at(7, v=1), at(15)):
        step, expected = scenario.batch(row), alone.batch(row)
        assert (step.rows(), step.errors()) == (expected.rows(), expected.errors())


def test_what_the_reference_has_no_answer_for_is_refused_when_it_is_registered() -> None:
    scenario = Scenario(tables="CREATE TABLE names (k STRING, name STRING)")
    with pytest.raises(UnsupportedError, match="quantile_sketch"):
        scenario.register("q", "SELECT quantile_sketch(x) AS m FROM s [RANGE 10]")
    with pytest.raises(DataError, match="names"):
        scenario.register("q", "SELECT count(*) AS n FROM s [RANGE 10] JOIN names ON s.k = names.k")
    assert scenario.interpreter.queries == {}
