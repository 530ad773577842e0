"""The normal form: it means what the tree meant, it is stable, and other words for the same thing reach it too."""

from __future__ import annotations

import math
from datetime import UTC
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from headrace.expressions.functions import FUNCTIONS
from headrace.expressions.normal import MIRRORED, normalize, sort_key
from headrace.model.expressions import Aggregate, Call, Expression, Literal, height, walk
from headrace.model.schema import UserFunction
from headrace.model.types import ADDRESS, BIGINT, BOOLEAN, DOUBLE, STRING, Value
from headrace.reference.evaluate import Evaluator
from tests.expressions.trees import KINDS, PLAIN, STREAM, USER_FUNCTIONS, call, column, rows, trees, variants

IMPLEMENTED = {
    "midcap": UserFunction("midcap", (STRING,), BOOLEAN, lambda text: text < "M"),
    "score": UserFunction("Score", (BIGINT, DOUBLE), DOUBLE, lambda volume, price: volume * price),
    "port_of": UserFunction("port_of", (ADDRESS,), BIGINT, lambda address: address % 65_536),
}
EVALUATOR = Evaluator(IMPLEMENTED, UTC)
VOL, OK, PRICE = column("vol"), column("ok"), column("price")

HEAVY = settings(max_examples=60, suppress_health_check=[HealthCheck.too_slow])
any_tree = st.sampled_from(KINDS).flatmap(lambda kind: trees(kind, 3))
conditions = trees("BOOLEAN", 4)


def whole(value: int) -> Literal:
    return Literal(value, BIGINT)


def shown(value: Value) -> object:
    """NaN equals itself here, and 1 is not 1.0."""
    return ("nan",) if isinstance(value, float) and math.isnan(value) else (type(value), value)


@given(st.one_of(conditions, any_tree), rows)
@HEAVY
def test_the_normal_form_means_the_same(tree: Expression, row: dict[str, Value]) -> None:
    raw = EVALUATOR.evaluate(tree, {STREAM: row})
    normal = EVALUATOR.evaluate(normalize(tree), {STREAM: row})
    assert (shown(normal.value), normal.failed) == (shown(raw.value), raw.failed)


@given(st.one_of(conditions, any_tree))
def test_normalizing_twice_changes_nothing(tree: Expression) -> None:
    once = normalize(tree)
    assert normalize(once) == once
    assert height(once) <= height(tree)


@given(st.data())
@HEAVY
def test_other_words_give_the_same_normal_form(data: st.DataObject) -> None:
    tree = data.draw(conditions)
    assert normalize(data.draw(variants(tree))) == normalize(tree)


def test_every_function_is_drawn() -> None:
    special = {"=", "and", "or", "in", "like", "is_null", "is_not_null", "ip_in", "ip_prefix", "round"}
    choices = {"case", "coalesce", "nullif", "greatest", "least"}
    drawn = {name for functions in PLAIN.values() for name in functions} - USER_FUNCTIONS.keys()
    assert drawn | special | choices | MIRRORED.keys() == FUNCTIONS.keys()


@given(any_tree, any_tree)
def test_different_trees_have_different_sort_keys(first: Expression, second: Expression) -> None:
    assert (sort_key(first) == sort_key(second)) == (first == second)


@given(conditions)
def test_not_stands_only_before_atoms(tree: Expression) -> None:
    for node in walk(normalize(tree)):
        if isinstance(node, Call) and node.function == "not":
            (operand,) = node.arguments
            assert not (isinstance(operand, Call) and operand.function in {"and", "or", "not", "<", "=", "is_null"})


EXAMPLES: list[tuple[Expression, Expression]] = [
    (call("<", whole(5), VOL), call(">", VOL, whole(5))),
    (call("=", whole(5), VOL), call("=", VOL, whole(5))),
    (call("+", VOL, call("abs", VOL)), call("+", call("abs", VOL), VOL)),
    (call("and", OK, OK), OK),
    (call("not", call("<", VOL, whole(5))), call(">=", VOL, whole(5))),
    (call("in", VOL, whole(10), whole(9), whole(10)), call("in", VOL, whole(9), whole(10))),
    (call("in", VOL, whole(9), whole(9)), call("=", VOL, whole(9))),
    (call(">", PRICE, whole(5)), call(">", PRICE, Literal(5.0, DOUBLE))),
    (call("not", Literal(True, BOOLEAN)), Literal(False, BOOLEAN)),
    (call(">", VOL, VOL), call("<", VOL, VOL)),
    (call("<", VOL, VOL), call("<", VOL, VOL)),
    (call("not", call(">=", VOL, VOL)), call("<", VOL, VOL)),
]


@pytest.mark.parametrize(("tree", "expected"), EXAMPLES)
def test_examples(tree: Expression, expected: Expression) -> None:
    assert normalize(tree) == expected


def test_a_whole_number_beyond_a_double_stays_whole() -> None:
    tree = call(">", PRICE, whole(2**53 + 1))
    assert normalize(tree) == tree


def test_a_chain_stays_a_chain() -> None:
    """(a + b) + c is not a + (b + c): DOUBLEs add up differently, BIGINTs may overflow on the way."""
    first, second, third = VOL, call("abs", VOL), whole(1)
    left = normalize(call("+", call("+", first, second), third))
    assert left == call("+", call("+", second, first), third)
    assert left != normalize(call("+", first, call("+", second, third)))


def test_numbers_in_a_list_are_sorted_by_value() -> None:
    numbers: list[Any] = [10, -2.5, Decimal("9.5"), 2**63 - 1, 2**63 - 2]
    types = {int: BIGINT, float: DOUBLE, Decimal: column("amount").type}
    tree = normalize(call("in", VOL, *(Literal(number, types[type(number)]) for number in numbers)))
    assert isinstance(tree, Call)
    assert [inner.value for inner in tree.arguments[1:] if isinstance(inner, Literal)] == sorted(numbers)


def results_over(group: Expression) -> st.SearchStrategy[Expression]:
    """Conditions that can be computed when only the group's value is known."""
    return st.recursive(
        st.sampled_from([group, group, Literal(True, BOOLEAN), Literal(None, BOOLEAN)]),
        lambda inner: (
            inner.map(lambda tree: call("not", tree))
            | inner.map(lambda tree: call("is_true", tree))
            | st.tuples(st.sampled_from(["and", "or"]), inner, inner).map(lambda parts: call(*parts))
        ),
        max_leaves=6,
    )


@given(st.data())
@HEAVY
def test_a_result_over_groups_can_be_computed_from_the_groups_alone(data: st.DataObject) -> None:
    group = data.draw(conditions)
    result = data.draw(results_over(group))
    row = {STREAM: data.draw(rows)}
    known = {normalize(group): EVALUATOR.evaluate(group, row).value}
    computed = EVALUATOR.evaluate(normalize(result, frozenset(known)), {}, known)
    assert computed.value == EVALUATOR.evaluate(result, row).value


def test_groups_stay_in_sight_outside_of_aggregates() -> None:
    """GROUP BY vol > 5 with NOT (vol > 5) in the result: turned into vol <= 5 it would no longer name the group."""
    group = call(">", VOL, whole(5))
    groups = frozenset([group])
    assert normalize(call("not", group), groups) == Call("not", (group,), BOOLEAN)
    assert normalize(call("not", call("not", group)), groups) == group
    counted = Aggregate("count", (call("not", group),), BIGINT)
    assert normalize(counted, groups) == Aggregate("count", (call("<=", VOL, whole(5)),), BIGINT)


def test_a_group_that_is_a_conjunction_is_not_flattened_away() -> None:
    both = normalize(call("and", OK, call(">", VOL, whole(5))))
    tree = normalize(call("and", both, call("<", PRICE, whole(1))), frozenset([both]))
    assert both in walk(tree)
    assert normalize(call("not", both), frozenset([both])) == Call("not", (both,), BOOLEAN)
