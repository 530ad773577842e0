"""Three-valued logic, and comparisons with NULL, NaN and -0.0. Only TRUE passes."""

from __future__ import annotations

import math
from itertools import pairwise, product

import pytest

from tests.reference.scenario import at, bounded, outcome, value_of

NAN, INF = math.nan, math.inf
TRUTHS = {"TRUE": True, "FALSE": False, "NULL": None}


# AND    T F N        OR     T F N
# T      T F N        T      T T T
# F      F F F        F      T F N
# N      N F N        N      T N N
AND = {"TRUE": "TFN", "FALSE": "FFF", "NULL": "NFN"}
OR = {"TRUE": "TTT", "FALSE": "TFN", "NULL": "TNN"}
LETTERS = {"T": True, "F": False, "N": None}


@pytest.mark.parametrize(("left", "right"), list(product(TRUTHS, repeat=2)))
def test_and_or(left: str, right: str) -> None:
    column = list(TRUTHS).index(right)
    for operator, table in (("AND", AND), ("OR", OR)):
        expected = LETTERS[table[left][column]]
        v = {"TRUE": 1, "FALSE": 0, "NULL": None}[right]
        assert value_of(f"b {operator} v = 1", b=TRUTHS[left], v=v) is expected
        assert value_of(f"v = 1 {operator} b", b=TRUTHS[left], v=v) is expected
        assert value_of(f"{left} {operator} b", b=TRUTHS[right]) is expected


@pytest.mark.parametrize(("operand", "expected"), [(True, False), (False, True), (None, None)])
def test_not(operand: bool | None, expected: bool | None) -> None:
    assert value_of("NOT b", b=operand) is expected
    assert value_of("NOT (NOT b)", b=operand) is operand


@pytest.mark.parametrize(("a", "b"), list(product([True, False, None], repeat=2)))
def test_not_moves_inwards_without_a_change(a: bool | None, b: bool | None) -> None:
    v = None if a is None else int(a)
    for inner in ("v = 1 AND b", "v = 1 OR b", "v < 1", "v IN (1, 2)", "v IN (1, NULL)", "v IS NULL", "b IS TRUE"):
        positive = value_of(f"({inner})", v=v, b=b)
        assert value_of(f"NOT ({inner})", v=v, b=b) is (None if positive is None else not positive)


@pytest.mark.parametrize("operator", ["=", "<>", "<", "<=", ">", ">="])
def test_a_comparison_with_null_is_null(operator: str) -> None:
    assert value_of(f"v {operator} 1", v=None) is None
    assert value_of(f"v {operator} NULL", v=1) is None
    assert value_of(f"v {operator} x", v=None, x=None) is None


@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        ("v IN (1, 2)", True),
        ("v IN (2, 3)", False),
        ("v IN (1, NULL)", True),
        ("v IN (2, NULL)", None),
        ("v NOT IN (1, NULL)", False),
        ("v NOT IN (2, NULL)", None),
        ("v NOT IN (2, 3)", True),
        ("v IN (NULL)", None),
        ("NULL IN (v)", None),
        ("v IN (x, 1)", True),
        ("v IN (x, 2)", None),
    ],
)
def test_in(condition: str, expected: bool | None) -> None:
    assert value_of(condition, v=1) is expected


def test_nothing_is_in_a_list_for_null() -> None:
    assert value_of("v IN (1, 2)", v=None) is None
    assert value_of("v NOT IN (1, 2)", v=None) is None


@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        ("v BETWEEN 1 AND 1", True),
        ("v BETWEEN 2 AND 0", False),
        ("v BETWEEN 0 AND NULL", None),
        ("v BETWEEN 2 AND NULL", False),
        ("v BETWEEN NULL AND 0", False),
        ("v NOT BETWEEN 2 AND NULL", True),
    ],
)
def test_between(condition: str, expected: bool | None) -> None:
    assert value_of(condition, v=1) is expected


@pytest.mark.parametrize(
    ("test", "expected"),
    [
        ("IS NULL", [False, False, True]),
        ("IS NOT NULL", [True, True, False]),
        ("IS TRUE", [True, False, False]),
        ("IS FALSE", [False, True, False]),
        ("IS NOT TRUE", [False, True, True]),
        ("IS NOT FALSE", [True, False, True]),
    ],
)
def test_is(test: str, expected: list[bool]) -> None:
    assert [value_of(f"b {test}", b=b) for b in (True, False, None)] == expected


def test_only_true_passes_where() -> None:
    # time  0  1  2  3      b: TRUE, FALSE, NULL, TRUE
    # row   r  .  .  r
    rows = [at(0, v=1, b=True), at(1, v=2, b=False), at(2, v=4), at(3, v=8, b=True)]
    assert bounded("SELECT sum(v) AS total FROM s [RANGE 10] WHERE b", *rows) == [(0, 10, 9)]
    assert bounded("SELECT sum(v) AS total FROM s [RANGE 10] WHERE NOT b", *rows) == [(0, 10, 2)]
    assert bounded("SELECT sum(v) AS total FROM s [RANGE 10] WHERE NULL", *rows) == []


# -inf < -1 < -0.0 = 0.0 < 1 < inf < NaN = NaN
ASCENDING: list[tuple[float, ...]] = [(-INF,), (-1.0,), (-0.0, 0.0), (1.0,), (INF,), (NAN, -NAN)]


@pytest.mark.parametrize(("low", "high"), list(product(range(len(ASCENDING)), repeat=2)))
def test_doubles_have_one_order(low: int, high: int) -> None:
    for left, right in product(ASCENDING[low], ASCENDING[high]):
        constant = f"CAST('{right}' AS DOUBLE)"
        found = [operator for operator in ("<", "=", ">") if value_of(f"x {operator} {constant}", x=left)]
        assert found == [["=", "<", ">"][(low < high) - (low > high)]]
        assert value_of(f"x <> {constant}", x=left) is (low != high)
        assert value_of(f"x IN ({constant}, 7.5)", x=left) is (low == high)
        assert value_of(f"x >= {constant}", x=left) is (low >= high)


def test_nan_is_not_null() -> None:
    assert value_of("x IS NULL", x=NAN) is False
    assert value_of("x = x", x=NAN) is True
    assert value_of("x <> x", x=NAN) is False


def test_a_bigint_meets_a_double_as_a_double() -> None:
    assert value_of("v = x", v=2**53 + 1, x=float(2**53)) is True
    assert value_of("v = 9007199254740992", v=2**53 + 1) is False


def test_texts_compare_by_code_point() -> None:
    ascending = ["", "A", "B", "a", "a ", "ab", "z", "\u00e9", "\uff21", "\U0001f600"]
    for first, second in pairwise(ascending):
        assert value_of(f"k < '{second}'", k=first) is True


@pytest.mark.parametrize(
    ("text", "pattern", "expected"),
    [
        ("abc", "a%", True),
        ("abc", "b%", False),
        ("abc", "_b_", True),
        ("abc", "abc", True),
        ("abc", "ab", False),
        ("ABC", "abc", False),
        ("a\nb", "a_b", True),
        ("stra\u00dfe", "stra_e", True),
        ("\U0001f600", "_", True),
        ("a.c", "a.c", True),
        ("abc", "a.c", False),
        ("", "%", True),
        (None, "%", None),
        ("a" * 1_000, "%a" * 100 + "b", False),
        ("a" * 1_000, "%a_" * 30 + "%a", True),
        ("aab", "%ab", True),
        ("abab", "%ab", True),
        ("abcab", "a%b%ab", True),
    ],
)
def test_like(text: str | None, pattern: str, expected: bool | None) -> None:
    assert value_of(f"k LIKE '{pattern}'", k=text) is expected
    assert value_of(f"k NOT LIKE '{pattern}'", k=text) is (None if expected is None else not expected)


def test_like_with_an_escape() -> None:
    assert value_of("k LIKE '10!%' ESCAPE '!'", k="10%") is True
    assert value_of("k LIKE '10!%' ESCAPE '!'", k="100") is False
    assert value_of(r"k LIKE 'a\\_b'", k="a_b") is True
    assert value_of(r"k LIKE 'a\\_b'", k="axb") is False


def test_case_takes_the_first_branch_that_is_true() -> None:
    ladder = "CASE WHEN v > 10 THEN 'high' WHEN v > 5 THEN 'middle' ELSE 'low' END"
    assert [value_of(ladder, v=v) for v in (11, 6, 5, None)] == ["high", "middle", "low", "low"]
    assert value_of("CASE WHEN v > 10 THEN 1 END", v=1) is None
    assert value_of("CASE v WHEN 1 THEN 'one' WHEN NULL THEN 'never' ELSE 'other' END", v=None) == "other"


def test_branches_of_case_and_coalesce_have_one_type() -> None:
    for expression in ("CASE WHEN v > 0 THEN v ELSE 0.5 END", "coalesce(v, 0.5)", "greatest(v, 0.5)"):
        value = value_of(expression, v=3)
        assert (value, type(value)) == (3.0, float)


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("coalesce(v, 5)", 5),
        ("coalesce(v, v, 6, 5)", 6),
        ("coalesce(v, v)", None),
        ("nullif(5, 5)", None),
        ("nullif(5, 6)", 5),
        ("nullif(5, v)", 5),
        ("nullif(v, 5)", None),
        ("greatest(v, 2, 1)", 2),
        ("least(v, 2, 1)", 1),
        ("greatest(v, v)", None),
    ],
)
def test_functions_that_see_nulls(expression: str, expected: int | None) -> None:
    assert value_of(expression, v=None) == expected


def test_greatest_and_least_know_nan() -> None:
    assert math.isnan(float(str(value_of("greatest(x, 1.0)", x=NAN))))
    assert value_of("least(x, 1.0)", x=NAN) == 1.0
    assert value_of("nullif(x, CAST('NaN' AS DOUBLE))", x=NAN) is None
    assert value_of("nullif(x, 0.0)", x=-0.0) is None


def test_what_can_not_fail_does_not_count() -> None:
    assert outcome("b AND v > 1 OR k LIKE '%' OR x IN (1, NULL)") == (None, 0)
