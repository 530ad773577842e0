"""The vectorised evaluation equals the reference, value for value and failure for failure."""

from __future__ import annotations

import math
from datetime import tzinfo
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from headrace.expressions.columns import column_type
from headrace.expressions.evaluation import FORGIVING, LENIENT, STRICT, Evaluation
from headrace.expressions.functions import FUNCTIONS
from headrace.model.expressions import Call, Expression
from headrace.reference.evaluate import Evaluator, Result
from tests.expressions.batches import Batch, batch_for, to_plain
from tests.expressions.strategies import (
    CAST_PAIRS,
    INEXACT,
    SHAPES,
    USER_FUNCTIONS,
    call,
    expression,
)

ZONE: tzinfo = ZoneInfo("Europe/Berlin")
UNSUPPORTED: dict[str, str] = {}
"""Functions without a vectorised form, with the reason."""

slow_to_draw = settings(suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])


def by_reference(tree: Expression, batch: Batch) -> list[Result]:
    evaluator = Evaluator({function.name.lower(): function for function in USER_FUNCTIONS}, ZONE)
    return [evaluator.evaluate(tree, row) for row in batch.rows]


def check(trees: list[Expression], batch: Batch) -> None:
    evaluation = Evaluation(batch.columns, len(batch.rows), USER_FUNCTIONS, ZONE)
    for tree in trees:
        found = evaluation.evaluate(tree)
        assert isinstance(found.values, pa.Array)
        found.values.validate(full=True)
        assert found.values.type == column_type(tree.type)
        failed = np.zeros(len(batch.rows), np.bool_) if found.failed is None else found.failed
        assert found.failed is None or found.failed.any()
        expected = by_reference(tree, batch)
        close = isinstance(tree, Call) and tree.function in INEXACT
        got = list(zip(to_plain(found.values, tree.type), failed.tolist(), strict=True))
        same = [agree(ours, theirs, close) for ours, theirs in zip(got, expected, strict=True)]
        assert all(same), f"{tree}\n ours   {got}\n theirs {[tuple(result) for result in expected]}"


def agree(ours: tuple[Any, bool], theirs: Result, close: bool) -> bool:
    value, wanted = ours[0], theirs.value
    if ours[1] != theirs.failed or (value is None) != (wanted is None) or type(value) is not type(wanted):
        return False
    if isinstance(value, float) and isinstance(wanted, float):
        if math.isnan(value) or math.isnan(wanted):
            return math.isnan(value) and math.isnan(wanted)
        return value == wanted or (close and math.isclose(value, wanted, rel_tol=1e-12, abs_tol=4 * 5e-324))
    return bool(value == wanted)


@settings(slow_to_draw, max_examples=150)
@given(st.data())
def test_any_expression_is_what_the_reference_says(data: st.DataObject) -> None:
    trees = [expression(data.draw) for _ in range(data.draw(st.integers(1, 3)))]
    check(trees, batch_for(data.draw, trees))


def test_every_function_has_a_vectorised_form() -> None:
    assert STRICT.keys() | LENIENT.keys() | FORGIVING.keys() == FUNCTIONS.keys() - UNSUPPORTED.keys()
    assert SHAPES.keys() == FUNCTIONS.keys()


@pytest.mark.parametrize("name", FUNCTIONS)
@settings(slow_to_draw, max_examples=12)
@given(data=st.data())
def test_every_function_is_what_the_reference_says(name: str, data: st.DataObject) -> None:
    shapes = data.draw(st.lists(st.sampled_from(SHAPES[name]), min_size=1, max_size=4))
    trees = [call(data.draw, name, shape, "BOOLEAN", 1) for shape in shapes]
    check(trees, batch_for(data.draw, trees))


@pytest.mark.parametrize(("source", "target"), CAST_PAIRS)
@settings(slow_to_draw, max_examples=12)
@given(data=st.data())
def test_every_cast_is_what_the_reference_says(source: str, target: str, data: st.DataObject) -> None:
    trees = [call(data.draw, "cast", (source,), target, 0) for _ in range(3)]
    check(trees, batch_for(data.draw, trees))
