"""The states of aggregates: how rows fold into partials, how partials combine, and what is lowered from them.

A partial is a few Arrow columns with a row per slot. Both ways into it take slots, so that any number of rows or
partials meets in one. `combine` is associative and commutative; what `lift` makes of no rows is its neutral element.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any, Protocol

import pyarrow as pa

from headrace.aggregates.partials import COUNTERS, PARTIALS_OF, Partial, partials_of, size_of
from headrace.aggregates.registry import KIND, REGISTERED, aggregate_called
from headrace.expressions.columns import Evaluated
from headrace.kernel.sketches.counters import Counters
from headrace.kernel.states.choices import BOOL_AND, BOOL_OR, MAX_BY, MIN_BY
from headrace.kernel.states.columns import Columns, Slots
from headrace.kernel.states.extremes import GREATEST, LEAST
from headrace.kernel.states.moments import Moments, lower_variance
from headrace.kernel.states.multiset import Multiset
from headrace.kernel.states.multiset import lower as lower_percentile
from headrace.kernel.states.sketches import (
    BUCKETS,
    DISTINCTS,
    QUANTILES,
    STORED,
    lower_distinct,
    lower_hitters,
    lower_parts,
    lower_quantile,
    lower_relative,
    lower_sketch,
    lower_top,
    sketch_of,
)
from headrace.kernel.states.sums import LOWER_SUM, Count, Sum, lower_average
from headrace.kernel.states.user import UserState
from headrace.kernel.states.user import lower as lower_user
from headrace.kernel.states.values import Values, listed
from headrace.model.expressions import Aggregate

__all__ = ["KINDS", "Slots", "State", "lower", "state_of"]


class State(Protocol):
    """What a kind of partial is made of. Each call gives one row for each of `count` slots."""

    def columns(self, *arguments: Any, **_none: Any) -> tuple[pa.DataType, ...]:
        """The types of its columns, from those of its arguments; count(*) has none."""

    def lift(self, slots: Slots, count: int, *arguments: Any, **_none: Any) -> Columns:
        """Rows into slots; NULLs do not count."""

    def combine(self, slots: Slots, count: int, states: Columns) -> Columns:
        """Partials into slots."""


KINDS: Mapping[str, State] = {
    "count": Count(),
    "sum": Sum(),
    "min": LEAST,
    "max": GREATEST,
    "moments": Moments(),
    "values": Values(),
    "all": BOOL_AND,
    "any": BOOL_OR,
    "least_by": MIN_BY,
    "greatest_by": MAX_BY,
    "multiset": Multiset(),
    "quantiles": QUANTILES,
    "buckets": BUCKETS,
    "distinct": DISTINCTS,
    "counters": Counters(),
}


def state_of(wanted: Partial, is_compressed: bool = False) -> State:
    """What a partial is made of, and how rows fold into it."""
    if wanted.kind.startswith(KIND):
        return UserState(REGISTERED[wanted.kind])
    if wanted.kind == "counters":
        return Counters(wanted.size or COUNTERS, is_compressed)
    if wanted.kind in STORED:
        return sketch_of(wanted)
    return KINDS[wanted.kind]


def lower(aggregate: Aggregate, states: Mapping[str, Columns]) -> Evaluated:
    """The results, one for each row of the states, which come by kind; one that does not fit its type fails."""
    if aggregate.distinct:
        states = lifted_again(aggregate, states["values"][0])
    compute = LOWER.get(aggregate.function)
    if compute is None:
        return lower_by_user(aggregate, states)
    return compute(aggregate, states)


def lower_by_user(aggregate: Aggregate, states: Mapping[str, Columns]) -> Evaluated:
    ((state,),) = states.values()
    declared = aggregate_called(aggregate.function)
    extractor = None if aggregate.function == declared.name else aggregate.function
    return lower_user(declared, state, extractor, [parameter.value for parameter in aggregate.parameters])


def lifted_again(aggregate: Aggregate, lists: pa.Array) -> Mapping[str, Columns]:
    """The partials over distinct values only."""
    slots, values = listed(lists)
    partials = partials_of(replace(aggregate, distinct=False))
    return {each.kind: state_of(each).lift(slots, len(lists), values) for each in partials}


Lower = Callable[[Aggregate, Mapping[str, Columns]], Evaluated]


def variance(aggregate: Aggregate, states: Mapping[str, Columns], *, sample: bool, root: bool) -> Evaluated:
    return Evaluated(lower_variance(states["moments"], sample=sample, root=root))


def first_column(aggregate: Aggregate, states: Mapping[str, Columns]) -> Evaluated:
    return Evaluated(states[PARTIALS_OF[aggregate.function][0]][0])


def of_state(compute: Callable[..., pa.Array]) -> Lower:
    """From the one column of the state and the aggregate's parameters."""

    def lowered(aggregate: Aggregate, states: Mapping[str, Columns]) -> Evaluated:
        (kind,) = PARTIALS_OF[aggregate.function]
        return Evaluated(compute(states[kind][0], *(parameter.value for parameter in aggregate.parameters)))

    return lowered


def exact_percentile(aggregate: Aggregate, states: Mapping[str, Columns]) -> Evaluated:
    fraction = float(str(aggregate.parameters[0].value)) if aggregate.parameters else 0.5
    return Evaluated(lower_percentile(states["multiset"], fraction))


def distinct_count(aggregate: Aggregate, states: Mapping[str, Columns]) -> Evaluated:
    return Evaluated(lower_distinct(states["distinct"][0], size_of(aggregate)))


def of_items(compute: Callable[..., pa.Array]) -> Lower:
    """Items have the type of the first argument."""

    def lowered(aggregate: Aggregate, states: Mapping[str, Columns]) -> Evaluated:
        (asked,) = aggregate.parameters
        return Evaluated(compute(states["counters"][0], asked.value, aggregate.arguments[0].type))

    return lowered


LOWER: Mapping[str, Lower] = {
    "count": first_column,
    "min": first_column,
    "max": first_column,
    "bool_and": first_column,
    "bool_or": first_column,
    "min_by": first_column,
    "max_by": first_column,
    "sum": lambda aggregate, states: LOWER_SUM[aggregate.type.name](states["sum"], aggregate.type),
    "avg": lambda aggregate, states: lower_average(states["sum"], states["count"][0]),
    "var_pop": partial(variance, sample=False, root=False),
    "var_samp": partial(variance, sample=True, root=False),
    "stddev_pop": partial(variance, sample=False, root=True),
    "stddev_samp": partial(variance, sample=True, root=True),
    "median": exact_percentile,
    "percentile": exact_percentile,
    "approx_median": of_state(partial(lower_quantile, fraction=0.5)),
    "percentile_approx": of_state(lower_quantile),
    "quantiles": of_state(lower_parts),
    "quantile_sketch": of_state(lower_sketch),
    "percentile_relative": of_state(lower_relative),
    "relative_sketch": of_state(lower_sketch),
    "approx_count_distinct": distinct_count,
    "distinct_sketch": of_state(lower_sketch),
    "heavy_hitters": of_items(lower_hitters),
    "top_k": of_items(lower_top),
}
