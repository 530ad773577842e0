"""What each aggregate gives for the values of one window and group. All rows lie in [0, 10)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from decimal import Decimal

import pytest

from headrace.model.types import MAX_BIGINT, MIN_BIGINT, Value
from tests.reference.scenario import Scenario, at, bounded

NAN, INF = math.nan, math.inf
STATISTICS = ("var_pop", "var_samp", "stddev_pop", "stddev_samp")


def over(aggregate: str, values: Sequence[Value], column: str = "x") -> object:
    """The aggregate over rows with these values, one after the other, in one window."""
    rows = [at(place / 100, **{column: value}) for place, value in enumerate(values)]
    ((_, _, result),) = bounded(f"SELECT {aggregate} AS result FROM s [RANGE 10]", *rows)
    return result


def test_counts() -> None:
    # time  0   1    2   3
    # x     1  NULL NaN  1
    values = [1.0, None, NAN, 1.0]
    assert over("count(*)", values) == 4
    assert over("count(x)", values) == 3
    assert over("count(DISTINCT x)", values) == 2


def test_nulls_do_not_take_part() -> None:
    values = [None, 3, None, 5]
    found = {name: over(f"{name}(v)", values, "v") for name in ("sum", "min", "max", "avg", "var_pop", "var_samp")}
    assert found == {"sum": 8, "min": 3, "max": 5, "avg": 4.0, "var_pop": 1.0, "var_samp": 2.0}


def test_without_values_there_is_no_result() -> None:
    for aggregate in ("sum", "min", "max", "avg", *STATISTICS):
        assert over(f"{aggregate}(v)", [None, None], "v") is None
    assert over("count(v)", [None, None], "v") == 0


def test_one_value_has_no_sample_variance() -> None:
    assert [over(f"{name}(v)", [7], "v") for name in STATISTICS] == [0.0, None, 0.0, None]


def test_types_of_sums() -> None:
    assert type(over("sum(v)", [1, 2], "v")) is int
    assert type(over("avg(v)", [1, 3], "v")) is float
    assert over("sum(d)", [Decimal("0.10"), Decimal("0.20")], "d") == Decimal("0.30")
    assert over("avg(d)", [Decimal("0.10"), Decimal("0.20")], "d") == 0.15
    assert over("avg(x)", [1.0, 1.5]) == 1.25


def test_an_average_of_decimals_is_rounded_once() -> None:
    # 2^53 + 1 lies halfway between two DOUBLEs; the last of 36 digits decides for the upper one
    decisive = "9007199254740993.00000000000000000001"
    assert over("avg(CAST(k AS DECIMAL(38, 20)))", [decisive], "k") == 2**53 + 2


def test_a_sum_may_leave_64_bits_on_its_way() -> None:
    # MAX + MAX + (-MAX): beyond 64 bits after two rows, back after three
    assert over("sum(v)", [MAX_BIGINT, MAX_BIGINT, -MAX_BIGINT], "v") == MAX_BIGINT
    assert over("avg(v)", [MAX_BIGINT, MAX_BIGINT], "v") == float(MAX_BIGINT)


@pytest.mark.parametrize("values", [[MAX_BIGINT, 1], [MIN_BIGINT, -1]])
def test_a_sum_that_ends_beyond_64_bits_is_null_and_counts_once(values: list[int]) -> None:
    # time  0    1      10         20
    # row   r    r                    r
    #       [- overflow -)[- empty -)[---
    scenario = Scenario("SELECT sum(v) AS total, count(*) AS n FROM s [RANGE 10]")
    first = scenario.batch(*(at(place, v=value) for place, value in enumerate(values)))
    assert first.errors() == 0
    second = scenario.batch(at(20, v=1))
    assert (second.rows(), second.errors()) == ([(0, 10, None, 2)], 1)
    assert scenario.end().errors() == 0


def test_a_decimal_sum_has_38_digits() -> None:
    # The column's 10 digits become 38: cast the rows up to see the limit.
    big = "CAST(k AS DECIMAL(38, 0))"
    most, half = "9" * 38, "5" + "0" * 37
    assert over(f"sum({big})", [most, "-1"], "k") == Decimal("9" * 37 + "8")
    assert over(f"sum({big})", [half, half, f"-{half}"], "k") == Decimal(half)
    assert over(f"sum({big})", [half, half], "k") is None


def test_double_sums_are_exact_before_they_are_rounded() -> None:
    assert over("sum(x)", [0.1] * 10) == 1.0
    assert over("sum(x)", [1e16, 1.0, -1e16]) == 1.0
    assert over("sum(x)", [1e308, 1e308, -1e308]) == 1e308
    assert over("sum(x)", [1e308, 1e308, 0.5, -1e308, -1e308]) == 0.5
    assert over("sum(x)", [1e308, 1e308]) == INF
    assert over("sum(x)", [-1e308, -1e308]) == -INF
    assert over("sum(x)", [1.7976931348623157e308, 9.979201547673599e291]) == INF


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([INF, 1.0], INF),
        ([-INF, 1.0], -INF),
        ([INF, -INF], NAN),
        ([NAN, 1.0], NAN),
        ([INF, NAN], NAN),
        ([1e308, 1e308, -INF], -INF),
    ],
)
def test_sums_and_averages_of_what_is_not_finite(values: list[float], expected: float) -> None:
    for aggregate in ("sum(x)", "avg(x)"):
        found = over(aggregate, values)
        assert found == expected or (math.isnan(expected) and found != found)
    for aggregate in STATISTICS:
        found = over(f"{aggregate}(x)", values)
        assert found != found


def test_variance_with_a_mean_a_million_times_the_deviation() -> None:
    # 1e6 - 1, 1e6, 1e6 + 1: the squares are a million million times the variance
    values = [1e6 - 1, 1e6, 1e6 + 1]
    assert [over(f"{name}(x)", values) for name in STATISTICS] == [2 / 3, 1.0, math.sqrt(2 / 3), 1.0]
    assert over("var_pop(x)", [1e15 + place for place in (1, 2, 3, 4)]) == 1.25


def test_equal_values_have_no_variance() -> None:
    assert over("var_pop(x)", [0.1] * 3) == 0.0
    assert over("stddev_samp(x)", [1e300, 1e300]) == 0.0


def test_variance_beyond_a_double_is_infinite() -> None:
    assert over("var_pop(x)", [1e200, -1e200]) == INF
    assert over("stddev_pop(x)", [1e200, -1e200]) == INF


def test_min_and_max_of_doubles() -> None:
    # -inf < -0.0 = 0.0 < inf < NaN, and zero is always shown as 0.0
    assert (over("min(x)", [NAN, 1.0]), over("max(x)", [INF, 1.0])) == (1.0, INF)
    assert math.isnan(float(str(over("max(x)", [INF, NAN]))))
    assert math.isnan(float(str(over("min(x)", [NAN, None]))))
    for values in ([-0.0, 0.0], [0.0, -0.0], [-0.0]):
        assert [str(over(f"{name}(x)", values)) for name in ("min", "max")] == ["0.0", "0.0"]


def test_min_and_max_of_other_types() -> None:
    texts = ["b", "\u00e9", "B", ""]
    assert (over("min(k)", texts, "k"), over("max(k)", texts, "k")) == ("", "\u00e9")
    assert (over("min(b)", [True, False], "b"), over("max(b)", [True, False], "b")) == (False, True)
    assert over("max(d)", [Decimal("9.99"), Decimal("10.00")], "d") == Decimal("10.00")
    assert over("max(t)", [1, 1, 1], "v") == 20_000


def test_distinct() -> None:
    assert over("sum(DISTINCT v)", [3, 3, 5, None], "v") == 8
    assert over("avg(DISTINCT v)", [3, 3, 5, None], "v") == 4.0
    assert over("count(DISTINCT x)", [0.0, -0.0, NAN, -NAN, 1.0, None]) == 3
    assert over("count(DISTINCT k)", ["a", "A", "a "], "k") == 3


def test_filter() -> None:
    # time  0   1   2   3
    # v     1   2   4  NULL
    # b     T   F  NULL T
    query = (
        "SELECT count(*) FILTER (WHERE b) AS n, count(v) FILTER (WHERE b) AS c, sum(v) FILTER (WHERE v > 1) AS s, "
        "sum(v) AS total, max(v) FILTER (WHERE v > 9) AS none FROM s [RANGE 10]"
    )
    rows = [at(0, v=1, b=True), at(1, v=2, b=False), at(2, v=4), at(3, b=True)]
    assert bounded(query, *rows) == [(0, 10, 2, 1, 6, 7, None)]


def test_filter_comes_after_where_and_before_distinct() -> None:
    query = "SELECT count(DISTINCT v) FILTER (WHERE b) AS n FROM s [RANGE 10] WHERE v < 9"
    rows = [at(0, v=1, b=True), at(1, v=1, b=True), at(2, v=2, b=False), at(3, v=9, b=True)]
    assert bounded(query, *rows) == [(0, 10, 1)]


def test_expressions_over_aggregates() -> None:
    query = (
        "SELECT sum(v) / count(*) AS mean, max(v) - min(v) AS spread, CASE WHEN sum(v) > 5 THEN 'much' END AS m "
        "FROM s [RANGE 10]"
    )
    assert bounded(query, at(0, v=2), at(1, v=6)) == [(0, 10, 4.0, 4, "much")]
