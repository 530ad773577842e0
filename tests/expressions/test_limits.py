"""Texts that expressions make have a greatest length, and columns on the way to a result a greatest size."""

from __future__ import annotations

from datetime import UTC
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from headrace.expressions import columns, texts
from headrace.expressions.evaluation import Evaluation
from headrace.model.errors import ExpressionFailure
from headrace.model.expressions import Call, ColumnRef, Expression, Literal
from headrace.model.functions import user_function
from headrace.model.schema import UserFunction
from headrace.model.types import BIGINT, MAX_TEXT_BYTES, STRING
from headrace.reference.evaluate import Evaluator
from headrace.reference.interpreter import NullRow
from tests.expressions.cases import FAILED, S, T, call, constant, results

LONG = "x" * MAX_TEXT_BYTES


def nested_replace(depth: int) -> Expression:
    tree: Expression = S
    for _ in range(depth):
        tree = call("replace", tree, "a", "a" * 10)
    return tree


def in_reference(tree: Expression, c: Any, d: Any = None, functions: tuple[UserFunction, ...] = ()) -> Any:
    evaluator = Evaluator({function.name: function for function in functions}, UTC)
    found = evaluator.evaluate(tree, {"s": NullRow(c=c, d=d)})
    return FAILED if found.failed and found.value is None else found.value


MADE = {
    "as long as it may be": (call("concat", S, "é"), "x" * (MAX_TEXT_BYTES - 2), False),
    "a byte too long": (call("concat", S, "é"), "x" * (MAX_TEXT_BYTES - 1), True),
    "replaced": (call("replace", S, "ab", "é" * 2), "ab" * (MAX_TEXT_BYTES // 4), False),
    "replaced, a byte too long": (call("replace", S, "ab", "é" * 2), "ab" * (MAX_TEXT_BYTES // 4) + "x", True),
    "replaced by a column": (call("replace", S, "b", T), "b" * 10_000, False),
    "replaced by a long column": (call("replace", S, S, T), "b", True),
    "overlapping": (call("replace", S, "aa", "aaa"), "a" * 30_001, False),
    "from the input": (call("upper", S), LONG + "x", False),
    "a column that was too long already": (call("replace", S, "", "a"), LONG + "x", True),
    "nothing to replace": (call("replace", S, "q", ""), LONG, False),
    "shorter again": (call("replace", S, "x", ""), LONG + LONG, False),
    "eleven deep": (call("length", nested_replace(11)), "a", True),
    "eleven deep, untouched": (call("length", nested_replace(11)), "b", False),
}


@pytest.mark.parametrize(("tree", "text", "fails"), MADE.values(), ids=MADE)
def test_a_text_that_is_made_has_a_greatest_length(tree: Expression, text: str, fails: bool) -> None:
    """Both engines give NULL for a longer one, and count it."""
    other = "cd" * 3 if text.startswith("bb") else LONG + "y"
    expected = [in_reference(tree, each, d) for each, d in ((text, other), ("a", "z"), (None, "z"))]
    assert results(tree, [text, "a", None], [other, "z", "z"]) == expected
    assert (expected[0] is FAILED) == fails
    assert expected[2] is None


def repeat(text: str) -> str:
    return text * 100


def repeat_all(texts: pa.Array) -> pa.Array:
    return pa.array([text.as_py() * 100 for text in texts])


@pytest.mark.parametrize("implementation", [repeat, repeat_all], ids=["row by row", "vectorised"])
def test_a_user_function_may_make_texts_of_that_length(implementation: Any) -> None:
    function = user_function(
        parameters=["STRING"], returns="STRING", name="f", vectorized=implementation is repeat_all
    )(implementation)
    tree = Call("f", (S,), STRING)
    long = "x" * 656
    expected = ["a" * 100, FAILED, None]
    assert results(tree, ["a", long, None], functions=[function]) == expected
    assert [in_reference(tree, text, functions=(function,)) for text in ("a", long, None)] == expected


COLUMNS = {
    ("s", "c"): pa.array([f"text {number}" for number in range(1_000)] + [None]),
    ("s", "d"): pa.array(range(1_001)),
}
D = ColumnRef("s", "d", BIGINT)
LARGE = {
    "many columns": call("concat", *[S] * 500),
    "a constant for every row": call("case", call(">", D, 5), LONG, S),
    "one of two": call("coalesce", S, LONG),
    "the other one": call("left", constant(LONG[:5_000]), D),
    "a long replacement": call("replace", S, "t", "t" * 2_000),
    "by row": call("replace", S, S, call("concat", S, "t" * 2_000)),
    "many numbers": call("greatest", *(call("+", D, number) for number in range(200))),
    "with failures": call("div", call("length", call("concat", *[S] * 500)), call("-", D, 7)),
}


@pytest.mark.parametrize("tree", LARGE.values(), ids=LARGE)
def test_what_takes_much_memory_on_the_way_is_computed_from_pieces_of_the_rows(
    tree: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    outer = tree if tree.type == BIGINT else call("length", tree)
    expected = Evaluation(COLUMNS, 1_001).evaluate(outer)
    monkeypatch.setattr(columns, "MAX_HELD_BYTES", 1 << 18)
    found = Evaluation(COLUMNS, 1_001).evaluate(outer)
    assert found.values.equals(expected.values)
    assert np.array_equal(found.failed, expected.failed)  # type: ignore[arg-type]


def test_no_more_memory_is_taken_than_allowed(monkeypatch: pytest.MonkeyPatch) -> None:
    """A result has to fit; what is on the way to it has not."""
    monkeypatch.setattr(columns, "MAX_HELD_BYTES", 1 << 18)
    tree = call("length", call("concat", *[call("concat", S, str(number)) for number in range(100)]))
    before = pa.total_allocated_bytes()
    evaluation = Evaluation(COLUMNS, 1_001)
    assert evaluation.evaluate(tree).values[10].as_py() == 100 * len("text 10") + 10 + 180
    assert pa.total_allocated_bytes() - before < 1 << 19
    with pytest.raises(ExpressionFailure, match="too much memory") as caught:
        evaluation.evaluate(call("concat", *[S] * 500))
    assert caught.value.is_too_large


@pytest.mark.parametrize("problem", [pa.ArrowCapacityError, pa.ArrowMemoryError, RecursionError, OverflowError])
def test_an_expression_that_raises_is_named(problem: type[Exception], monkeypatch: pytest.MonkeyPatch) -> None:
    def length(_call: Call, _values: list[Any]) -> Any:
        raise problem("something unforeseen")

    monkeypatch.setitem(texts.STRICT, "length", length)
    monkeypatch.setattr("headrace.expressions.evaluation.STRICT", texts.STRICT)
    tree = call("length", call("concat", S, Literal("a", STRING)))
    with pytest.raises(ExpressionFailure, match="something unforeseen") as caught:
        Evaluation(COLUMNS, 1_001).evaluate(tree)
    assert caught.value.expression == tree
