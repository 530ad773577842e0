"""Cells decide every predicate exactly as row-by-row evaluation does; implication and coalescing follow from it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from datetime import UTC
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.fragments import fragments, observed_cells, truth_matrix
from headrace.model.address import parse_address
from headrace.model.arrow import arrow_type
from headrace.model.expressions import Call, ColumnRef, Expression, Literal
from headrace.model.types import ADDRESS, BIGINT, BOOLEAN, DOUBLE, MAX_BIGINT, MIN_BIGINT, STRING, DataType, Value
from headrace.predicates import (
    Cut,
    Kind,
    Predicate,
    dimensions,
    implies,
    truth_grid,
    union_dimensions,
)
from headrace.predicates.dimensions import TRUE, Dimension, passes
from headrace.reference.evaluate import Evaluator
from headrace.sql import parse_query, parse_script

CATALOG = parse_script(
    "CREATE STREAM S (t TIMESTAMP, i BIGINT, d DOUBLE, k STRING, b BOOLEAN, a ADDRESS, j BIGINT) EVENT TIME t;"
).catalog
EVALUATOR = Evaluator({}, UTC)
TYPES: Mapping[str, DataType] = {"i": BIGINT, "d": DOUBLE, "k": STRING, "b": BOOLEAN, "a": ADDRESS, "j": BIGINT}

integers = st.one_of(st.integers(-4, 4), st.sampled_from([MIN_BIGINT, MAX_BIGINT]))
doubles = st.one_of(st.integers(-4, 4).map(float), st.sampled_from([math.inf, -math.inf, math.nan, -0.0, 0.5, 5e-324]))
addresses = st.sampled_from(["0.0.0.0", "10.0.0.0", "10.0.0.255", "10.1.0.0", "255.255.255.255", "::", "::1", "ff::1"])
rows = st.fixed_dictionaries(
    {
        "i": st.none() | integers,
        "d": st.none() | doubles,
        "k": st.none() | st.sampled_from(["", "a", "b", "é", "zz"]),
        "b": st.none() | st.booleans(),
        "a": st.none() | addresses.map(parse_address),
        "j": st.none() | integers,
    }
)
signs = st.sampled_from(["=", "<>", "<", "<=", ">", ">="])
small = st.integers(-3, 3)
atoms = st.one_of(
    st.builds("{} {} {}".format, st.sampled_from(["i", "d", "i + 1"]), signs, small),
    st.builds("i {} {}".format, signs, st.sampled_from(["9223372036854775807", "-9223372036854775808", "2.5"])),
    st.builds("d {} {}".format, signs, st.sampled_from(["0.5", "-1e300", "i"])),
    st.builds("k {} '{}'".format, signs, st.sampled_from(["", "a", "b", "é"])),
    st.builds("i IN ({}, {}, {})".format, small, small, st.one_of(small, st.just("NULL"))),
    st.builds("k NOT IN ('a', '{}')".format, st.sampled_from(["b", "q"])),
    st.builds("i BETWEEN {} AND {}".format, small, small),
    st.builds("{} IS {}NULL".format, st.sampled_from(["i", "d", "k", "b"]), st.sampled_from(["", "NOT "])),
    st.builds("b IS {}{}".format, st.sampled_from(["", "NOT "]), st.sampled_from(["TRUE", "FALSE"])),
    st.sampled_from(
        ["b", "b = TRUE", "b <> FALSE", "b IN (TRUE, NULL)", "k LIKE 'a%'", "i < j", "10 / i > 2", "NULL", "TRUE"]
    ),
    st.builds("ip_in(a, '{}')".format, st.sampled_from(["10.0.0.0/24", "0.0.0.0/0", "::/0", "ff::/16", "10.0.0.0"])),
    st.builds("a {} '{}'".format, signs, addresses),
)
conditions = st.recursive(
    atoms,
    lambda inner: st.one_of(
        st.builds("({} AND {})".format, inner, inner),
        st.builds("({} OR {})".format, inner, inner),
        st.builds("(NOT {})".format, inner),
    ),
    max_leaves=5,
)


def predicate(text: str) -> Predicate:
    return Predicate(parse_query(f"SELECT count(*) FROM S [RANGE 60] WHERE {text}", CATALOG).where)


def value_of(tree: Expression, row: Mapping[str, Value]) -> Value:
    return EVALUATOR.evaluate(tree, {"S": row}).value


def holds(chosen: Predicate, row: Mapping[str, Value]) -> bool:
    return chosen.tree is None or value_of(chosen.tree, row) is True


def column(dimension: Dimension, table: list[dict[str, Any]]) -> pa.Array:
    values: list[Any] = [value_of(dimension.expression, row) for row in table]
    if dimension.expression.type == ADDRESS:
        values = [None if value is None else value.to_bytes(16, "big") for value in values]
    return pa.array(values, arrow_type(dimension.expression.type))


@given(st.lists(conditions, min_size=1, max_size=4), st.lists(rows, min_size=1, max_size=12))
def test_cells_decide_every_predicate(texts: list[str], table: list[dict[str, Any]]) -> None:
    predicates = [predicate(text) for text in texts]
    dimensions = union_dimensions([each.dimensions for each in predicates])
    codes = [dimension.codes(column(dimension, table)) for dimension in dimensions]
    for dimension, found in zip(dimensions, codes, strict=True):
        assert found.tolist() == [dimension.cell_of(value_of(dimension.expression, row)) for row in table]
        assert found.max() < dimension.size
    cells, of_row = observed_cells(codes, len(table))
    truth = truth_matrix(predicates, dimensions, cells)[of_row]
    if math.prod(dimension.size for dimension in dimensions) <= 100_000:
        for place, each in enumerate(predicates):
            grid = truth_grid(each, dimensions)
            assert (np.atleast_1d(grid[tuple(cells.T)])[of_row] == truth[:, place]).all()
    assert truth.tolist() == [[holds(each, row) for each in predicates] for row in table]


@given(conditions, conditions, st.lists(rows, max_size=20))
def test_implication_is_never_refuted(one: str, two: str, table: list[dict[str, Any]]) -> None:
    stronger, weaker = predicate(one), predicate(two)
    if implies(stronger, weaker):
        assert all(holds(weaker, row) for row in table if holds(stronger, row))


@given(signs, small, signs, small)
def test_implication_is_found_in_all_interval_cases(sign: str, constant: int, other_sign: str, other: int) -> None:
    """Over whole numbers, where x > 1 is x >= 2: compared with every number near the constants and far away."""
    stronger, weaker = predicate(f"i {sign} {constant}"), predicate(f"i {other_sign} {other}")
    numbers = [*range(-6, 7), MIN_BIGINT, MAX_BIGINT]
    expected = all(holds(weaker, {"i": number}) for number in numbers if holds(stronger, {"i": number}))
    assert implies(stronger, weaker) == expected


def test_implication_over_conjunctions_and_doubles() -> None:
    assert implies(predicate("d > 5 AND k = 'a'"), predicate("d > 3"))
    assert implies(predicate("d > 5 AND d < 7"), predicate("d >= 5 OR k = 'a'"))
    assert not implies(predicate("d > 5"), predicate("d > 5.5"))
    assert implies(predicate("k IN ('a', 'b')"), predicate("k IN ('c', 'b', 'a')"))
    assert implies(predicate("ip_in(a, '10.1.0.0/16')"), predicate("ip_in(a, '10.0.0.0/8')"))
    assert not implies(predicate("i > 5"), predicate("j > 5"))
    assert implies(predicate("i > 5"), Predicate(None))
    assert not implies(Predicate(None), predicate("i > 5"))


def test_fragments_of_the_papers_example() -> None:
    """OTF 4.2, example 1: three predicates, at most eight fragments, each row in one."""
    predicates = [predicate("i > 0"), predicate("i > 2"), predicate("i < 4")]
    (dimension,) = union_dimensions([each.dimensions for each in predicates])
    cells, _ = observed_cells([dimension.codes(pa.array([-1, 1, 2, 3, 5, None, 1]))], 7)
    found = fragments(truth_matrix(predicates, [dimension], cells))
    assert {tuple(signature) for signature in found.signatures.tolist()} == {
        (False, False, True),
        (True, False, True),
        (True, True, True),
        (True, True, False),
        (False, False, False),
    }


@given(st.lists(conditions, min_size=1, max_size=4), st.lists(rows, min_size=1, max_size=12))
def test_final_aggregation_over_fragments(texts: list[str], table: list[dict[str, Any]]) -> None:
    """OTF algorithm 2 gives each query the count of its rows."""
    predicates = [predicate(text) for text in texts]
    dimensions = union_dimensions([each.dimensions for each in predicates])
    cells, of_row = observed_cells([each.codes(column(each, table)) for each in dimensions], len(table))
    found = fragments(truth_matrix(predicates, dimensions, cells))
    counts = np.bincount(found.of_cell[of_row], minlength=len(found.signatures))
    assert (counts @ found.signatures).tolist() == [sum(holds(each, row) for row in table) for each in predicates]


def test_a_thousand_predicates_are_one_search() -> None:
    predicates = [predicate(f"i > {constant}") for constant in range(0, 3_000, 3)]
    (dimension,) = union_dimensions([each.dimensions for each in predicates])
    assert dimension.size == 1_002
    codes = dimension.codes(pa.array([None, -5, 1_499, 1_500, 1_501, 5_000]))
    assert codes.tolist() == [0, 1, 501, 501, 502, 1_001]


def test_a_predicate_over_too_many_combinations_is_opaque() -> None:
    wide = " OR ".join(f"(i + {n} IN ({', '.join(map(str, range(40)))}))" for n in range(1, 6))
    chosen = predicate(wide)
    assert len(chosen.dimensions) == 1
    assert chosen.dimensions[0].expression == chosen.tree
    assert chosen.table.tolist() == [False, False, True]


def test_matching_rows_twice_gives_equal_values() -> None:
    column_i = ColumnRef("S", "i", BIGINT)
    assert predicate("5 < i") == Predicate(Call(">", (column_i, Literal(5, BIGINT)), BOOLEAN))


def test_implication_of_constants() -> None:
    everything, nothing = predicate("TRUE"), predicate("FALSE")
    assert implies(everything, predicate("NOT FALSE"))
    assert implies(nothing, everything)
    assert not implies(everything, nothing)
    assert implies(predicate("i > 3"), everything)
    assert not implies(everything, predicate("i > 3"))


def test_a_long_list_of_constants_takes_a_search_for_each_not_a_comparison_with_all(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Quadratic work on one query's IN list stops all the others."""
    calls = 0

    def counting(cut: Cut, value: Any) -> bool:
        nonlocal calls
        calls += 1
        return passes(cut, value)

    monkeypatch.setattr(dimensions, "passes", counting)
    named = tuple(range(0, 3_000, 3))
    coarse = Dimension(ColumnRef("S", "i", BIGINT), Kind.EQUALITY, named)
    fine = coarse.as_interval()
    coarse_cells, truth = fine.coarsen(coarse), fine.truth("in", named)
    for value in (-1, 0, 1, 2, 3, 4, 2_997, 2_998):
        assert coarse_cells[fine.cell_of(value)] == coarse.cell_of(value)
        assert (truth[fine.cell_of(value)] == TRUE) == (value in named)
    assert calls < 20 * len(named)
