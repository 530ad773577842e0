"""An aggregate on the bench: all ways from rows to a state, and whether what they tell is the same."""

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

from headrace.aggregates.law_rows import SIMPLE, Case, Row, Rows
from headrace.aggregates.user import DeclaredAggregate, Extractor, lowered, there
from headrace.aggregates.user_states import Failed, arrow_values, isolated
from headrace.model.arrow import arrow_type

TOLERANCE = 1e-9
Way = Callable[..., Any]
"""From a trial and the three parts of a case to a state."""
Answers = tuple[Any, ...]
"""What a state tells: its output and what each extractor gives, or a failure in the place of it."""


@dataclass(frozen=True, slots=True)
class Violation:
    text: str
    by_rounding: bool = False


class Trial:
    """An aggregate on the bench."""

    def __init__(self, aggregate: DeclaredAggregate) -> None:
        self.aggregate = aggregate
        self.alone = replace(aggregate, low=None)
        self.made = aggregate.implementation
        self.first = copy.deepcopy(self.made.initialize())
        self.results = [aggregate.result(None), *aggregate.extractors]
        self.parameters = [tuple(SIMPLE[each.name][-1] for each in one.parameters) for one in self.results]

    def fold(self, rows: Sequence[Row], state: Any = None) -> Any:
        """Row by row where the class can, without its low level."""
        if self.aggregate.only_raises:
            return self.by_levels(rows) if state is None else self.merge(state, self.by_levels(rows))
        state = self.made.initialize() if state is None else state
        if not self.aggregate.offers("update"):
            return self.batch(rows, state)
        return there(reduce(lambda total, row: self.made.update(total, *row), rows, state))

    def batch(self, rows: Sequence[Row], state: Any) -> Any:
        if not rows:
            return state
        if not self.aggregate.offers("update_batch"):
            return self.fold(rows, state)
        return self.alone.updated(state, self.alone.columns(self.columns(rows)))

    def by_levels(self, rows: Sequence[Row]) -> Any:
        return self.aggregate.folded(self.aggregate.columns(self.columns(rows)))

    def columns(self, rows: Sequence[Row]) -> list[pa.Array]:
        types = enumerate(self.aggregate.arguments)
        return [arrow_values([row[place] for row in rows], arrow_type(each)) for place, each in types]

    def merge_all(self, *parts: Rows) -> Any:
        return reduce(self.merge, map(self.fold, parts))

    def merge_stored(self, *parts: Rows) -> Any:
        """As the engine does it."""
        column = self.aggregate.form.stored([self.fold(part) for part in parts])
        return reduce(self.merge, self.aggregate.form.loaded(column))

    def merge(self, left: Any, right: Any) -> Any:
        return there(self.made.merge(left, right))

    def told(self, state: Any) -> Answers:
        if isinstance(state, Failed):
            return (state,) * len(self.results)
        asked = zip(self.results, self.parameters, strict=True)
        return tuple(isolated(one.name, lowered, self.aggregate, one, state, given) for one, given in asked)

    def compare(self, case: Case, ways: Mapping[str, Way]) -> Violation | None:
        """All ways to a state must tell the same."""
        found = [(name, self.told(isolated("raised", way, self, *case.parts))) for name, way in ways.items()]
        (first_name, first), *others = found
        for name, answers in others:
            for result, one, two in zip(self.results, first, answers, strict=True):
                if not self.same(result, one, two, case.whole):
                    text = f"{first_name} gives {answer(one)}, {name} gives {answer(two)}"
                    prefix = "" if result.method == "output" else f"{result.name}: "
                    return Violation(prefix + text, close(one, two, case.whole))
        return None

    def same(self, result: Extractor, one: Any, two: Any, rows: Rows) -> bool:
        if isinstance(one, Failed) or isinstance(two, Failed):
            return isinstance(one, Failed) and isinstance(two, Failed)
        equality = self.made.equality
        if equality == "exact" or not (is_number(one) and is_number(two)):
            return equal(one, two)
        if equality == "close":
            return close(one, two, rows)
        if self.aggregate.offers("exact") and result.method == "output":
            return True  # each is held against the truth instead
        return equal(one, two) or abs(one - two) <= 2 * self.made.error * max(abs(one), abs(two))


# When two answers, or two states, are the same


def answer(value: Any) -> str:
    return value.message if isinstance(value, Failed) else repr(value)


def is_number(value: Any) -> bool:
    return isinstance(value, int | float | Decimal) and not isinstance(value, bool)


def equal(one: Any, two: Any) -> bool:
    """By value, and but for numbers by type: a list that was a set when it was stored is another thing."""
    if isinstance(one, np.generic) or isinstance(two, np.generic):
        return equal(plain(one), plain(two))
    if isinstance(one, np.ndarray) and isinstance(two, np.ndarray):
        return one.dtype == two.dtype and bool(np.array_equal(one, two, equal_nan=one.dtype.kind == "f"))
    if is_number(one) and is_number(two):
        return bool(one == two) or (one != one and two != two)
    if type(one) is not type(two):
        return False
    if isinstance(one, list | tuple):
        return len(one) == len(two) and all(map(equal, one, two))
    return bool(one == two)


def plain(value: Any) -> Any:
    return value.item() if isinstance(value, np.generic) else value


def close(one: Any, two: Any, rows: Rows) -> bool:
    """Within rounding of the sum of what was added up; whole numbers do not round."""
    if not (isinstance(one, float) and isinstance(two, float)) or equal(one, two):
        return equal(one, two)
    size = sum(math.prod(max(1.0, abs(float(value))) for value in row if is_number(value)) for row in rows)
    return abs(one - two) <= TOLERANCE * max(abs(one), abs(two), size)
