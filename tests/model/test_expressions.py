"""Expression trees as values: equal trees, walking and changing them."""

from __future__ import annotations

from decimal import Decimal

from hypothesis import given
from hypothesis import strategies as st

from headrace.model.expressions import (
    WINDOW_END,
    Aggregate,
    Call,
    ColumnRef,
    Expression,
    Literal,
    aggregates_in,
    children,
    columns_in,
    height,
    is_window_bound,
    transform,
    walk,
    with_children,
)
from headrace.model.types import BIGINT, BOOLEAN, DOUBLE, decimal
from tests.expressions.trees import KINDS, trees

X, Y = ColumnRef("S", "x", BIGINT), ColumnRef("S", "y", BIGINT)
OK = ColumnRef("S", "ok", BOOLEAN)
ONE = Literal(1, BIGINT)
SUM = Aggregate("sum", (Call("+", (X, ONE), BIGINT),), BIGINT, filter=Call("not", (OK,), BOOLEAN))
TREE = Call("*", (SUM, Call("negate", (Y,), BIGINT)), BIGINT)

any_tree = st.sampled_from(KINDS).flatmap(lambda kind: trees(kind, 3))


def test_walk_goes_parents_first_and_from_left_to_right() -> None:
    assert list(walk(TREE)) == [TREE, SUM, SUM.arguments[0], X, ONE, SUM.filter, OK, TREE.arguments[1], Y]
    assert list(columns_in(TREE)) == [X, OK, Y]
    assert list(aggregates_in(TREE)) == [SUM]


def test_height_counts_calls_and_aggregates() -> None:
    assert (height(ONE), height(X), height(SUM), height(TREE)) == (0, 0, 2, 3)


def test_a_deep_tree_needs_no_stack() -> None:
    tree: Expression = OK
    for _ in range(5_000):
        tree = Call("not", (tree,), BOOLEAN)
    assert height(tree) == 5_000
    assert sum(1 for _ in walk(tree)) == 5_001


@given(any_tree)
def test_a_tree_is_made_of_its_children(tree: Expression) -> None:
    assert with_children(tree, children(tree)) == tree
    assert transform(tree, lambda node: node) == tree


def test_transform_works_from_the_leaves_up() -> None:
    def change(node: Expression) -> Expression:
        return ONE if node in (X, Y) else node

    changed = transform(TREE, change)
    assert list(columns_in(changed)) == [OK]
    assert height(changed) == height(TREE)


def test_zero_has_no_sign() -> None:
    assert str(Literal(-0.0, DOUBLE).value) == "0.0"
    assert str(Literal(Decimal("-0.00"), decimal(2, 2)).value) == "0.00"
    assert Literal(0, BIGINT).value == 0
    assert Literal(False, BOOLEAN).value is False


def test_equal_numbers_of_different_types_are_different_constants() -> None:
    assert (
        len({Literal(1, BIGINT), Literal(1.0, DOUBLE), Literal(True, BOOLEAN), Literal(Decimal(1), decimal(1, 0))}) == 4
    )


def test_the_bounds_of_the_window() -> None:
    assert is_window_bound(WINDOW_END)
    assert not is_window_bound(X)
