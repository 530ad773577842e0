"""Least and greatest values, choices by them, and whether all or any conditions are true.

The order is that of SQL: NaN is greater than every number, and zero is always 0.0.

The state of a choice, which is the x of the row with the least or greatest y, is its x and its y. A row whose y is
NULL does not count, so in a state y is NULL where there was no row; beside a y that is not NULL the x may be NULL.
Among rows with the same y the least x is chosen, and NULL only if all are: so the order of rows does not matter.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from headrace.expressions.columns import canonical, column_type, holds
from headrace.kernel.states.columns import Columns, Slots, column, find_valid, numbers, rank_values, readable
from headrace.kernel.states.fold_loops import keep_extreme
from headrace.kernel.states.state import StateFamily, lower_first_column
from headrace.model.arrays import Mask
from headrace.model.arrow import arrow_type
from headrace.model.types import MAX_BIGINT, MIN_BIGINT, DataType


@dataclass(frozen=True, slots=True)
class Extreme:
    """The states of min and max. Numbers and times are compared as they lie in memory, other values by rank."""

    is_least: bool

    def columns(self, argument: DataType) -> tuple[pa.DataType, ...]:
        return (arrow_type(argument),)

    def lift(self, slots: Slots, count: int, argument: pa.Array) -> Columns:
        if pa.types.is_floating(argument.type):
            neutral: NDArray[Any] = np.full(count, np.nan if self.is_least else -np.inf)
            best, seen = self.fold(slots, numbers(argument, np.float64), argument, neutral)
            return (column(best + 0.0, argument.type, seen),)
        neutral = np.full(count, MAX_BIGINT if self.is_least else MIN_BIGINT, np.int64)
        if pa.types.is_int64(argument.type) or pa.types.is_timestamp(argument.type):
            best, seen = self.fold(slots, numbers(argument), argument, neutral)
            return (column(best, argument.type, seen),)
        ranks, ordered = rank_values(argument)
        best, seen = self.fold(slots, readable(ranks), argument, neutral)
        return (ordered.take(pa.array(best, mask=~seen)),)

    def combine(self, slots: Slots, count: int, states: Columns) -> Columns:
        return self.lift(slots, count, states[0])

    def fold(
        self, slots: Slots, values: NDArray[Any], argument: pa.Array, best: NDArray[Any]
    ) -> tuple[NDArray[Any], Mask]:
        seen = np.zeros(len(best), np.bool_)
        keep_extreme(readable(slots), values, find_valid(argument), self.is_least, best, seen)
        return best, seen


LEAST, GREATEST = Extreme(is_least=True), Extreme(is_least=False)


@dataclass(frozen=True, slots=True)
class Choice:
    """The states of min_by and max_by; the first column is the result."""

    extreme: Extreme

    def columns(self, chosen: DataType, by: DataType) -> tuple[pa.DataType, ...]:
        return (column_type(chosen), column_type(by))

    def lift(self, slots: Slots, count: int, chosen: pa.Array, by: pa.Array) -> Columns:
        by = canonical(by)
        (best,) = self.extreme.lift(slots, count, by)
        rows = holds(pc.equal(as_comparable(by), as_comparable(best.take(pa.array(slots)))))
        (least,) = LEAST.lift(slots[rows], count, canonical(chosen.filter(pa.array(rows))))
        return least, best

    def combine(self, slots: Slots, count: int, states: Columns) -> Columns:
        chosen, by = states
        return self.lift(slots, count, chosen, by)


@dataclass(frozen=True, slots=True)
class BooleanExtreme:
    """The states of bool_and and bool_or: the least and the greatest truth; NULL where there was none."""

    extreme: Extreme

    def columns(self, _argument: DataType) -> tuple[pa.DataType, ...]:
        return (pa.bool_(),)

    def lift(self, slots: Slots, count: int, argument: pa.Array) -> Columns:
        (truth,) = self.extreme.lift(slots, count, argument.cast(pa.int64()))
        return (truth.cast(pa.bool_()),)

    def combine(self, slots: Slots, count: int, states: Columns) -> Columns:
        return self.lift(slots, count, states[0])


def as_comparable(values: pa.Array) -> pa.Array:
    """Return DOUBLEs as their bits, in which NaN equals NaN, and a column of type NULL as numbers, for Arrow."""
    if pa.types.is_null(values.type):
        return values.cast(pa.int64())
    return values.view(pa.int64()) if pa.types.is_floating(values.type) else values


FAMILY = StateFamily(
    states={
        "min": LEAST,
        "max": GREATEST,
        "least_by": Choice(LEAST),
        "greatest_by": Choice(GREATEST),
        "all": BooleanExtreme(LEAST),
        "any": BooleanExtreme(GREATEST),
    },
    lowerings=dict.fromkeys(("min", "max", "min_by", "max_by", "bool_and", "bool_or"), lower_first_column),
)
