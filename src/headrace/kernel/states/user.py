"""States of user-defined aggregates: one Arrow struct each, made and combined by the user's own code.

Whatever that code raises stays in its slot: the state becomes a failure, which survives combining and is NULL when
lowered, and the other slots go on. A state without rows is NULL, and no code is called for it before it is lowered.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headrace.aggregates.registry import aggregate_called
from headrace.aggregates.user import DeclaredAggregate, Failed, isolated, lowered, there
from headrace.expressions.columns import Evaluated, Mask, from_plain, holds, present, united
from headrace.kernel.close.loops import order_by_group
from headrace.kernel.states.columns import Columns, Slots
from headrace.model.errors import DataError
from headrace.model.expressions import Aggregate
from headrace.model.types import DataType, Value


@dataclass(frozen=True, slots=True)
class UserState:
    aggregate: DeclaredAggregate

    def columns(self, *arguments: DataType | None) -> tuple[pa.DataType, ...]:
        return (self.aggregate.form.arrow,)

    @np.errstate(all="ignore")
    def lift(self, slots: Slots, count: int, *arguments: pa.Array | None) -> Columns:
        """Each slot's rows go over at once, in the order they came in."""
        arrays: list[pa.Array] = list(arguments)
        skipped = self.skipped(arrays)
        if skipped is not None:
            slots, arrays = slots[~skipped], [array.filter(pa.array(~skipped)) for array in arrays]
        order, bounds = by_slot(slots)
        if order is not None:
            slots, arrays = slots[order], [array.take(pa.array(order)) for array in arrays]
        columns = self.aggregate.columns(arrays)
        states = [
            isolated("update", self.aggregate.folded, [column[begin:end] for column in columns])
            for begin, end in pairs(bounds)
        ]
        return (placed(self.aggregate.form.stored(states), slots[bounds[:-1]], count),)

    def skipped(self, arguments: Sequence[pa.Array]) -> Mask | None:
        """Rows with a NULL or a NaN, unless the class takes them; None if there are none."""
        takes = self.aggregate.first_level.implementation
        rows = None if takes.takes_null else present(*arguments)
        floating = [] if takes.takes_nan else [each for each in arguments if pa.types.is_floating(each.type)]
        found = united([None if rows is None else ~rows, *(holds(pc.is_nan(each)) for each in floating)])
        return found if found is not None and found.any() else None

    @np.errstate(all="ignore")
    def combine(self, slots: Slots, count: int, states: Columns) -> Columns:
        """Only where several states meet is the user's code called."""
        column = checked(self.aggregate, states[0])
        there_are = column.is_valid().to_numpy(zero_copy_only=False)
        order, bounds = by_slot(slots[there_are])
        rows = np.flatnonzero(there_are)
        rows = rows if order is None else rows[order]
        several = np.diff(bounds) > 1
        first = rows[bounds[:-1]]
        meeting = rows[np.repeat(several, np.diff(bounds))]
        loaded = self.aggregate.form.loaded(column.take(pa.array(meeting)))
        groups = pairs(np.append(0, np.cumsum(np.diff(bounds)[several])))
        merged = [self.merged(loaded[begin:end]) for begin, end in groups]
        found = pa.concat_arrays([column.take(pa.array(first[~several])), self.aggregate.form.stored(merged)])
        return (placed(found, np.append(slots[first[~several]], slots[first[several]]), count),)

    def merged(self, states: list[Any]) -> Any:
        """The first failure among them, or all in one."""
        failed = next((state for state in states if isinstance(state, Failed)), None)
        return failed or isolated("merge", self.merge_all, states)

    def merge_all(self, states: list[Any]) -> Any:
        total = states[0]
        for state in states[1:]:
            total = there(self.aggregate.implementation.merge(total, state))
        return total


@dataclass(frozen=True, slots=True, eq=False)
class Lowered(Evaluated):
    """Results, and the first thing that went wrong."""

    message: str | None = None


def lower_user(aggregate: Aggregate, state: Columns) -> Lowered:
    """Lower the state by the output of the user's class, or by the extractor that the query calls."""
    declared = aggregate_called(aggregate.function)
    extractor = None if aggregate.function == declared.name else aggregate.function
    return lower(declared, state[0], extractor, [parameter.value for parameter in aggregate.parameters])


@np.errstate(all="ignore")
def lower(
    aggregate: DeclaredAggregate, states: pa.Array, extractor: str | None = None, parameters: Sequence[Value] = ()
) -> Lowered:
    """The output, or what an extractor gives, for each state; NULL and failed where the user's code did not give it."""
    result = aggregate.result(extractor)
    loaded = aggregate.form.loaded(checked(aggregate, states))
    if states.null_count:
        nothing = isolated("initialize", aggregate.implementation.initialize)
        loaded = [nothing if state is None else state for state in loaded]
    outcomes = [
        state if isinstance(state, Failed) else isolated(result.name, lowered, aggregate, result, state, parameters)
        for state in loaded
    ]
    values = from_plain([None if isinstance(each, Failed) else each for each in outcomes], result.returns)
    failed = np.array([isinstance(each, Failed) for each in outcomes], np.bool_)
    message = next((each.message for each in outcomes if isinstance(each, Failed)), None)
    return Lowered(values, failed if failed.any() else None, message)


def checked(aggregate: DeclaredAggregate, states: pa.Array) -> pa.StructArray:
    """Stored states may be older than the class, or no longer what was stored."""
    wanted = aggregate.form.arrow
    if states.type != wanted:
        raise DataError("udaf-state", f"a state of {aggregate.name} is {wanted}, not {states.type}")
    try:
        states.validate(full=True)
    except pa.ArrowInvalid as problem:
        detail = str(problem).splitlines()[0]
        raise DataError("udaf-state", f"the states of {aggregate.name} are damaged", detail=detail) from None
    return states


def by_slot(slots: Slots) -> tuple[Slots | None, Slots]:
    """The order that brings a slot's rows together, None if they are; and where each slot begins, and the last ends."""
    if (slots[1:] >= slots[:-1]).all():
        return None, np.append(np.flatnonzero(np.diff(slots, prepend=-1)), len(slots))
    counts = np.bincount(slots)
    order = np.empty(len(slots), np.int64)
    order_by_group(slots.copy(), np.cumsum(counts), order)
    return order, np.append(0, np.cumsum(counts[counts > 0]))


def pairs(bounds: Slots) -> Iterator[tuple[int, int]]:
    return pairwise(bounds.tolist())


def placed(states: pa.StructArray, slots: Slots, count: int) -> pa.StructArray:
    """One row for each slot, NULL where no state is."""
    rows = np.full(count, -1, np.int64)
    rows[slots] = np.arange(len(slots))
    return states.take(pa.array(rows, mask=rows < 0))
