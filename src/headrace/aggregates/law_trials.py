"""The trial of one aggregate: all ways from rows to a state, and whether their results are the same."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from functools import reduce
from typing import Any

import numpy as np
import pyarrow as pa

from headrace.aggregates.law_cases import SIMPLE, Case, Row, Rows
from headrace.aggregates.user import DeclaredAggregate, Extractor, lower_state, require_state
from headrace.aggregates.user_states import Failure, arrow_values, run_isolated
from headrace.model.arrow import arrow_type

TOLERANCE = 1e-9
Way = Callable[..., Any]
"""From a trial and the three parts of a case to a state."""
Answers = tuple[Any, ...]
"""The results of a state: its output and that of each extractor, or a failure in its place."""


@dataclass(frozen=True, slots=True)
class Violation:
    text: str
    by_rounding: bool = False


class Trial:
    """An aggregate under trial."""

    def __init__(self, aggregate: DeclaredAggregate) -> None:
        self.aggregate = aggregate
        self.alone = replace(aggregate, low=None)
        self.implementation = aggregate.implementation
        self.first = copy.deepcopy(self.implementation.initialize())
        self.results = [aggregate.result(None), *aggregate.extractors]
        self.parameters = [
            tuple(SIMPLE[data_type.name][-1] for data_type in result.parameters) for result in self.results
        ]

    def fold(self, rows: Sequence[Row], state: Any = None) -> Any:
        """Fold rows into a state one by one where the class can, without its low level."""
        if self.aggregate.only_raises:
            return self.by_levels(rows) if state is None else self.merge(state, self.by_levels(rows))
        state = self.implementation.initialize() if state is None else state
        if not self.aggregate.has_method("update"):
            return self.batch(rows, state)
        return require_state(reduce(lambda total, row: self.implementation.update(total, *row), rows, state))

    def batch(self, rows: Sequence[Row], state: Any) -> Any:
        if not rows:
            return state
        if not self.aggregate.has_method("update_batch"):
            return self.fold(rows, state)
        return self.alone.update_state(state, self.alone.columns(self.columns(rows)))

    def by_levels(self, rows: Sequence[Row]) -> Any:
        return self.aggregate.fold_rows(self.aggregate.columns(self.columns(rows)))

    def columns(self, rows: Sequence[Row]) -> list[pa.Array]:
        types = map(arrow_type, self.aggregate.arguments)
        return [arrow_values([row[place] for row in rows], arrow) for place, arrow in enumerate(types)]

    def merge_all(self, *parts: Rows) -> Any:
        return reduce(self.merge, map(self.fold, parts))

    def merge_stored(self, *parts: Rows) -> Any:
        """Merge states that come from storage, as the engine does."""
        column = self.aggregate.form.to_arrow([self.fold(part) for part in parts])
        return reduce(self.merge, self.aggregate.form.from_arrow(column))

    def merge(self, left: Any, right: Any) -> Any:
        return require_state(self.implementation.merge(left, right))

    def read_results(self, state: Any) -> Answers:
        if isinstance(state, Failure):
            return (state,) * len(self.results)
        calls = zip(self.results, self.parameters, strict=True)
        return tuple(
            run_isolated(result.name, lower_state, self.aggregate, result, state, parameters)
            for result, parameters in calls
        )

    def compare(self, case: Case, ways: Mapping[str, Way]) -> Violation | None:
        """Return a violation unless all ways to a state have the same results."""
        (first_name, first), *others = (
            (name, self.read_results(run_isolated("raised", way, self, *case.parts))) for name, way in ways.items()
        )
        for name, answers in others:
            for result, one, two in zip(self.results, first, answers, strict=True):
                if not self.same(result, one, two, case.whole):
                    text = f"{first_name} gives {format_answer(one)}, {name} gives {format_answer(two)}"
                    prefix = "" if result.method == "output" else f"{result.name}: "
                    return Violation(prefix + text, is_close(one, two, case.whole))
        return None

    def same(self, result: Extractor, one: Any, two: Any, rows: Rows) -> bool:
        if isinstance(one, Failure) or isinstance(two, Failure):
            return isinstance(one, Failure) and isinstance(two, Failure)
        equality = self.implementation.equality
        if equality == "exact" or not (is_number(one) and is_number(two)):
            return is_equal(one, two)
        if equality == "close":
            return is_close(one, two, rows)
        if self.aggregate.has_method("exact") and result.method == "output":
            return True  # both are compared with the truth instead
        return is_equal(one, two) or abs(one - two) <= 2 * self.implementation.error * max(abs(one), abs(two))


# When two answers, or two states, are the same


def format_answer(value: Any) -> str:
    return value.message if isinstance(value, Failure) else repr(value)


def is_number(value: Any) -> bool:
    return isinstance(value, int | float | Decimal) and not isinstance(value, bool)


def is_equal(one: Any, two: Any) -> bool:
    """Compare by value and, except for numbers, by type: a list that was a set when it was stored is different."""
    if isinstance(one, np.generic) or isinstance(two, np.generic):
        return is_equal(to_python(one), to_python(two))
    if isinstance(one, np.ndarray) and isinstance(two, np.ndarray):
        return one.dtype == two.dtype and bool(np.array_equal(one, two, equal_nan=one.dtype.kind == "f"))
    if is_number(one) and is_number(two):
        return bool(one == two) or (one != one and two != two)
    if type(one) is not type(two):
        return False
    if isinstance(one, list | tuple):
        return len(one) == len(two) and all(map(is_equal, one, two))
    return bool(one == two)


def to_python(value: Any) -> Any:
    return value.item() if isinstance(value, np.generic) else value


def is_close(one: Any, two: Any, rows: Rows) -> bool:
    """Return whether two numbers differ by rounding of the sum of what was added; whole numbers do not round."""
    if not (isinstance(one, float) and isinstance(two, float)) or is_equal(one, two):
        return is_equal(one, two)
    size = sum(math.prod(max(1.0, abs(float(value))) for value in row if is_number(value)) for row in rows)
    return abs(one - two) <= TOLERANCE * max(abs(one), abs(two), size)
