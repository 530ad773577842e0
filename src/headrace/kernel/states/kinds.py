"""The table of states: one line for each family of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

import pyarrow as pa

from headrace.aggregates.distinct import VALUES
from headrace.aggregates.partials import Partial, partials_of
from headrace.aggregates.registry import USER_AGGREGATES, specification_of
from headrace.expressions.columns import Evaluated
from headrace.kernel.states import extremes, moments, multiset, sketches, sums
from headrace.kernel.states.columns import Columns, Slots
from headrace.kernel.states.state import Lowering, State, StateFamily
from headrace.kernel.states.user import UserState, lower_user
from headrace.model.expressions import Aggregate

__all__ = ["LOWERINGS", "STATES", "Slots", "State", "lower", "state_of"]

FAMILIES: tuple[StateFamily, ...] = (
    sums.FAMILY,
    extremes.FAMILY,
    moments.FAMILY,
    multiset.FAMILY,
    sketches.FAMILY,
)
STATES: Mapping[str, State] = {kind: state for family in FAMILIES for kind, state in family.states.items()}
"""States of the default size, by kind of partial."""
SIZED: Mapping[str, Callable[[int, bool], State]] = {
    kind: make for family in FAMILIES for kind, make in family.sized.items()
}
LOWERINGS: Mapping[str, Lowering] = {name: lower for family in FAMILIES for name, lower in family.lowerings.items()}


def state_of(partial: Partial, is_compressed: bool = False) -> State:
    """Return the state of a partial; `is_compressed` puts equal rows together before they are folded."""
    if partial.kind in USER_AGGREGATES:
        return UserState(USER_AGGREGATES[partial.kind])
    if partial.kind in SIZED and (partial.size or is_compressed):
        return SIZED[partial.kind](partial.size, is_compressed)
    return STATES[partial.kind]


def lower(aggregate: Aggregate, states: Mapping[str, Columns]) -> Evaluated:
    """Return the results, one for each row of the states, which come by kind; one that does not fit its type fails."""
    if aggregate.distinct:
        states = lift_distinct(aggregate, states[VALUES.name][0])
    kinds = specification_of(aggregate.function).kinds
    compute: Lowering = LOWERINGS.get(aggregate.function, lower_user)
    return compute(aggregate, *(states[kind.name] for kind in kinds))


def lift_distinct(aggregate: Aggregate, lists: pa.Array) -> Mapping[str, Columns]:
    """Return the aggregate's partials over the distinct values that are listed."""
    slots, distinct_values = multiset.flatten_lists(lists)
    partials = partials_of(replace(aggregate, distinct=False))
    return {partial.kind: state_of(partial).lift(slots, len(lists), distinct_values) for partial in partials}
