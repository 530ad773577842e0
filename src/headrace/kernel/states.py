"""The states of aggregates: how rows fold into partials, how partials combine, and what is lowered from them.

A partial is a few Arrow columns with a row per slot. Both ways into it take slots, so that any number of rows or
partials meets in one. `combine` is associative and commutative; what `lift` makes of no rows is its neutral element.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import NoReturn, Protocol

import pyarrow as pa

from headrace.aggregates.partials import PARTIALS_OF
from headrace.expressions.columns import Evaluated
from headrace.kernel.states_columns import Columns, Slots
from headrace.kernel.states_extremes import GREATEST, LEAST
from headrace.kernel.states_moments import Moments, lower_variance
from headrace.kernel.states_sums import LOWER_SUM, Count, Sum, lower_average
from headrace.kernel.states_values import Values, listed
from headrace.model.errors import UnsupportedError
from headrace.model.expressions import Aggregate
from headrace.model.query import Query
from headrace.model.types import DataType

__all__ = ["KINDS", "UNSUPPORTED", "Slots", "State", "check_supported", "lower"]


class State(Protocol):
    """What a kind of partial is made of. Each call gives one row for each of `count` slots."""

    def columns(self, argument: DataType | None) -> tuple[pa.DataType, ...]:
        """The types of its columns; count(*) has no argument."""

    def lift(self, slots: Slots, count: int, argument: pa.Array | None) -> Columns:
        """Rows into slots; NULLs do not count."""

    def combine(self, slots: Slots, count: int, states: Columns) -> Columns:
        """Partials into slots."""


@dataclass(frozen=True, slots=True)
class Missing:
    """A kind that the kernel does not have."""

    kind: str

    def columns(self, argument: DataType | None) -> tuple[pa.DataType, ...]:
        refuse(self.kind)

    def lift(self, slots: Slots, count: int, argument: pa.Array | None) -> Columns:
        refuse(self.kind)

    def combine(self, slots: Slots, count: int, states: Columns) -> Columns:
        refuse(self.kind)


UNSUPPORTED: Mapping[str, str] = {"quantiles": "it needs a sketch, which this engine does not have yet"}
KINDS: Mapping[str, State] = {
    "count": Count(),
    "sum": Sum(),
    "min": LEAST,
    "max": GREATEST,
    "moments": Moments(),
    "values": Values(),
    **{kind: Missing(kind) for kind in UNSUPPORTED},
}


def refuse(kind: str, function: str | None = None) -> NoReturn:
    raise UnsupportedError("unsupported", f"{function or kind} can't be computed here: {UNSUPPORTED[kind]}")


def check_supported(query: Query) -> None:
    for aggregate in query.aggregates():
        check_aggregate(aggregate)


def check_aggregate(aggregate: Aggregate) -> None:
    for kind in PARTIALS_OF[aggregate.function]:
        if kind in UNSUPPORTED:
            refuse(kind, aggregate.function)


def lower(aggregate: Aggregate, states: Mapping[str, Columns]) -> Evaluated:
    """The results, one for each row of the states, which come by kind; one that does not fit its type fails."""
    check_aggregate(aggregate)
    if aggregate.distinct:
        states = lifted_again(aggregate, states["values"][0])
    return LOWER[aggregate.function](aggregate, states)


def lifted_again(aggregate: Aggregate, lists: pa.Array) -> Mapping[str, Columns]:
    """The partials over distinct values only."""
    slots, values = listed(lists)
    return {kind: KINDS[kind].lift(slots, len(lists), values) for kind in PARTIALS_OF[aggregate.function]}


def only_column(aggregate: Aggregate, states: Mapping[str, Columns]) -> Evaluated:
    (state,) = states[aggregate.function]
    return Evaluated(state)


def variance(aggregate: Aggregate, states: Mapping[str, Columns], *, sample: bool, root: bool) -> Evaluated:
    return Evaluated(lower_variance(states["moments"], sample=sample, root=root))


LOWER: Mapping[str, Callable[[Aggregate, Mapping[str, Columns]], Evaluated]] = {
    "count": only_column,
    "min": only_column,
    "max": only_column,
    "sum": lambda aggregate, states: LOWER_SUM[aggregate.type.name](states["sum"], aggregate.type),
    "avg": lambda aggregate, states: lower_average(states["sum"], states["count"][0]),
    "var_pop": partial(variance, sample=False, root=False),
    "var_samp": partial(variance, sample=True, root=False),
    "stddev_pop": partial(variance, sample=False, root=True),
    "stddev_samp": partial(variance, sample=True, root=True),
}
