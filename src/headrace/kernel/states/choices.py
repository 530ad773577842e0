"""States of choices: the x of the row with the least or greatest y, and whether all or any conditions are true.

The state of a choice is its x and its y. A row whose y is NULL does not count, so in a state y is NULL where there was
no row; beside a y that is not NULL the x may be NULL. Among rows with the same y the least x is chosen, and NULL only
if all are: so the order of rows does not matter.
"""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from headrace.expressions.columns import canonical, column_type, holds
from headrace.kernel.states.columns import Columns, Slots
from headrace.kernel.states.extremes import GREATEST, LEAST, Extreme
from headrace.kernel.states.state import StateFamily, lower_first_column
from headrace.model.types import DataType


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
class Verdict:
    """The states of bool_and and bool_or: the least and the greatest truth; NULL where there was none."""

    extreme: Extreme

    def columns(self, argument: DataType | None) -> tuple[pa.DataType, ...]:
        return (pa.bool_(),)

    def lift(self, slots: Slots, count: int, argument: pa.Array | None) -> Columns:
        assert argument is not None
        (truth,) = self.extreme.lift(slots, count, argument.cast(pa.int64()))
        return (truth.cast(pa.bool_()),)

    def combine(self, slots: Slots, count: int, states: Columns) -> Columns:
        return self.lift(slots, count, states[0])


def as_comparable(values: pa.Array) -> pa.Array:
    """Return DOUBLEs as their bits, in which NaN equals NaN, and a column of type NULL as numbers, for Arrow."""
    if pa.types.is_null(values.type):
        return values.cast(pa.int64())
    return values.view(pa.int64()) if pa.types.is_floating(values.type) else values


MIN_BY, MAX_BY = Choice(LEAST), Choice(GREATEST)
BOOL_AND, BOOL_OR = Verdict(LEAST), Verdict(GREATEST)

FAMILY = StateFamily(
    states={"least_by": MIN_BY, "greatest_by": MAX_BY, "all": BOOL_AND, "any": BOOL_OR},
    lowerings=dict.fromkeys(("min_by", "max_by", "bool_and", "bool_or"), lower_first_column),
)
