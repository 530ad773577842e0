"""States of user-defined aggregates: one Arrow struct each, built and combined by the user's code.

An error of that code stays in its slot: the state becomes a failure, which survives combining and is NULL when
lowered. A state without rows is NULL, and no code is called for it before it is lowered.
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
from headrace.aggregates.user import DeclaredAggregate, Failure, lower_state, require_state, run_isolated
from headrace.expressions.columns import Evaluated, from_plain, holds, present, unite_masks
from headrace.kernel.close.loops import order_by_group
from headrace.kernel.states.columns import Columns, Slots
from headrace.model.arrays import Mask
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
        """Hand over each slot's rows at once, in the order they came in."""
        arrays: list[pa.Array] = list(arguments)
        skipped = self.find_skipped(arrays)
        if skipped is not None:
            slots, arrays = slots[~skipped], [array.filter(pa.array(~skipped)) for array in arrays]
        order, bounds = order_by_slot(slots)
        if order is not None:
            slots, arrays = slots[order], [array.take(pa.array(order)) for array in arrays]
        columns = self.aggregate.columns(arrays)
        states = [
            run_isolated("update", self.aggregate.fold_rows, [column[begin:end] for column in columns])
            for begin, end in pairs(bounds)
        ]
        return (place_states(self.aggregate.form.to_arrow(states), slots[bounds[:-1]], count),)

    def find_skipped(self, arguments: Sequence[pa.Array]) -> Mask | None:
        """Return the rows with a NULL or a NaN that the class does not take; None if there are none."""
        implementation = self.aggregate.first_level.implementation
        rows = None if implementation.takes_null else present(*arguments)
        doubles = (
            [] if implementation.takes_nan else [values for values in arguments if pa.types.is_floating(values.type)]
        )
        skipped = unite_masks([None if rows is None else ~rows, *(holds(pc.is_nan(values)) for values in doubles)])
        return skipped if skipped is not None and skipped.any() else None

    @np.errstate(all="ignore")
    def combine(self, slots: Slots, count: int, states: Columns) -> Columns:
        """Combine states; the user's code is called only where several meet."""
        column = check_states(self.aggregate, states[0])
        is_valid = column.is_valid().to_numpy(zero_copy_only=False)
        order, bounds = order_by_slot(slots[is_valid])
        rows = np.flatnonzero(is_valid)
        rows = rows if order is None else rows[order]
        several = np.diff(bounds) > 1
        first = rows[bounds[:-1]]
        meeting = rows[np.repeat(several, np.diff(bounds))]
        loaded = self.aggregate.form.from_arrow(column.take(pa.array(meeting)))
        groups = pairs(np.append(0, np.cumsum(np.diff(bounds)[several])))
        merged = [self.merge_states(loaded[begin:end]) for begin, end in groups]
        combined = pa.concat_arrays([column.take(pa.array(first[~several])), self.aggregate.form.to_arrow(merged)])
        return (place_states(combined, np.append(slots[first[~several]], slots[first[several]]), count),)

    def merge_states(self, states: list[Any]) -> Any:
        """Return the first failure among the states, or all in one."""
        failed = next((state for state in states if isinstance(state, Failure)), None)
        return failed or run_isolated("merge", self.merge_all, states)

    def merge_all(self, states: list[Any]) -> Any:
        total = states[0]
        for state in states[1:]:
            total = require_state(self.aggregate.implementation.merge(total, state))
        return total


@dataclass(frozen=True, slots=True, eq=False)
class Lowered(Evaluated):
    """Results, and the first error."""

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
    """Return the output, or that of an extractor, for each state; NULL and failed where the user's code failed."""
    result = aggregate.result(extractor)
    loaded = aggregate.form.from_arrow(check_states(aggregate, states))
    if states.null_count:
        empty = run_isolated("initialize", aggregate.implementation.initialize)
        loaded = [empty if state is None else state for state in loaded]
    outcomes = [
        state
        if isinstance(state, Failure)
        else run_isolated(result.name, lower_state, aggregate, result, state, parameters)
        for state in loaded
    ]
    values = from_plain([None if isinstance(value, Failure) else value for value in outcomes], result.returns)
    failed = np.array([isinstance(value, Failure) for value in outcomes], np.bool_)
    message = next((value.message for value in outcomes if isinstance(value, Failure)), None)
    return Lowered(values, failed if failed.any() else None, message)


def check_states(aggregate: DeclaredAggregate, states: pa.Array) -> pa.StructArray:
    """Refuse states that are older than the class, or damaged in storage."""
    expected = aggregate.form.arrow
    if states.type != expected:
        raise DataError("udaf-state", f"a state of {aggregate.name} is {expected}, not {states.type}")
    try:
        states.validate(full=True)
    except pa.ArrowInvalid as problem:
        detail = str(problem).splitlines()[0]
        raise DataError("udaf-state", f"the states of {aggregate.name} are damaged", detail=detail) from None
    return states


def order_by_slot(slots: Slots) -> tuple[Slots | None, Slots]:
    """Return the order that groups rows by slot, None if they are grouped, and the bounds of the slots' rows."""
    if (slots[1:] >= slots[:-1]).all():
        return None, np.append(np.flatnonzero(np.diff(slots, prepend=-1)), len(slots))
    counts = np.bincount(slots)
    order = np.empty(len(slots), np.int64)
    order_by_group(slots.copy(), np.cumsum(counts), order)
    return order, np.append(0, np.cumsum(counts[counts > 0]))


def pairs(bounds: Slots) -> Iterator[tuple[int, int]]:
    return pairwise(bounds.tolist())


def place_states(states: pa.StructArray, slots: Slots, count: int) -> pa.StructArray:
    """Return one row for each slot, NULL where there is no state."""
    rows = np.full(count, -1, np.int64)
    rows[slots] = np.arange(len(slots))
    return states.take(pa.array(rows, mask=rows < 0))
