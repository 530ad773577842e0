"""Distinct values, for aggregates with DISTINCT, and all values with their counts, for exact medians and percentiles.

A state has a list of sorted distinct values without NULLs, and a multiset beside it a list of how often each was there.

A percentile lies at position fraction * (count - 1) among the sorted values, and between two of them on the line from
one to the other, as in Spark's percentile and DuckDB's quantile_cont. NaN comes last.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headrace.expressions.columns import Evaluated, column_type, present, raw
from headrace.kernel.states.columns import Columns, Slots, column, numbers, rank_values, readable
from headrace.kernel.states.fold_loops import add_counts
from headrace.kernel.states.moments import to_doubles
from headrace.kernel.states.state import StateFamily
from headrace.model.arrays import Doubles, Integers
from headrace.model.expressions import Aggregate
from headrace.model.types import DataType


class DistinctValues:
    """The states of aggregates with DISTINCT."""

    def columns(self, argument: DataType) -> tuple[pa.DataType, ...]:
        return (pa.list_(column_type(argument)),)

    def lift(self, slots: Slots, count: int, argument: pa.Array) -> Columns:
        slots, values = drop_nulls(slots, argument)
        ranks, ordered = rank_values(values)
        distinct = max(len(ordered), 1)
        keys = np.sort(pa.array(slots * distinct + ranks).unique().to_numpy())
        return build_lists(keys, count, distinct, ordered.take(pa.array(keys % distinct)))

    def combine(self, slots: Slots, count: int, states: Columns) -> Columns:
        parents, values = flatten_lists(states[0])
        return self.lift(slots[parents], count, values)


class Multiset:
    def columns(self, argument: DataType) -> tuple[pa.DataType, ...]:
        return (pa.list_(column_type(argument)), pa.list_(pa.int64()))

    def lift(self, slots: Slots, count: int, argument: pa.Array) -> Columns:
        return count_values(*drop_nulls(slots, argument), count)

    def combine(self, slots: Slots, count: int, states: Columns) -> Columns:
        parents, values = flatten_lists(states[0])
        return count_values(slots[parents], values, count, numbers(states[1].flatten()))


def drop_nulls(slots: Slots, values: pa.Array) -> tuple[Slots, pa.Array]:
    rows = present(values)
    return (slots, values) if rows is None else (slots[rows], values.drop_null())


def flatten_lists(lists: pa.Array) -> tuple[Slots, pa.Array]:
    """Return the number of the list that each value is from, and the values of all lists."""
    return pc.list_parent_indices(lists).to_numpy(), lists.flatten()


def build_lists(keys: Integers, count: int, distinct: int, *items: pa.Array) -> Columns:
    """Return a list of items for each slot; keys are slot * distinct + rank, in order."""
    offsets = pa.array(np.searchsorted(keys, np.arange(count + 1) * distinct).astype(np.int32))
    return tuple(pa.ListArray.from_arrays(offsets, column) for column in items)


def count_values(slots: Slots, values: pa.Array, count: int, times: Integers | None = None) -> Columns:
    """Count values by slot, each once or `times` times."""
    ranks, ordered = rank_values(values)
    distinct = max(len(ordered), 1)
    keys = slots * distinct + ranks
    if times is None:
        pairs, totals = np.unique(keys, return_counts=True)
    else:
        pairs, places = np.unique(keys, return_inverse=True)
        totals = np.zeros(len(pairs), np.int64)
        add_counts(readable(places), times, totals)
    return build_lists(pairs, count, distinct, ordered.take(pa.array(pairs % distinct)), pa.array(totals))


def percentiles(states: Columns, fraction: float) -> pa.Array:
    """Return the percentile of each state as DOUBLE; NULL without values."""
    if not 0.0 <= fraction <= 1.0:
        raise ValueError(f"a percentile's fraction is from 0 to 1, not {fraction}")
    values = states[0].flatten()
    if not len(values):
        return pa.nulls(len(states[0]), pa.float64())
    up_to = np.cumsum(raw(states[1].flatten()))
    ends = np.cumsum(pc.fill_null(pc.list_value_length(states[0]), 0).to_numpy())
    counts = np.diff(np.append(0, up_to)[np.append(0, ends)])
    positions = fraction * (np.maximum(counts, 1) - 1)
    before = np.append(0, up_to)[np.append(0, ends[:-1])]
    below = to_doubles(values.take(pa.array(find_positions(up_to, before + np.floor(positions).astype(np.int64)))))
    above = to_doubles(values.take(pa.array(find_positions(up_to, before + np.ceil(positions).astype(np.int64)))))
    return column(
        interpolate(raw(below, np.float64), raw(above, np.float64), positions % 1.0), pa.float64(), counts > 0
    )


def find_positions(up_to: Integers, positions: Integers) -> Integers:
    """Return the value that each position falls on; behind the last one, where a state has none, the last."""
    return np.minimum(np.searchsorted(up_to, positions, side="right"), len(up_to) - 1)


def interpolate(below: Doubles, above: Doubles, share: Doubles) -> Doubles:
    """Return the point between two values, never past one. Their difference is not taken: it may overflow."""
    with np.errstate(invalid="ignore", over="ignore"):
        mixed = np.clip((1.0 - share) * below + share * above, below, above)
    return np.where((below == above) | (share == 0.0), below, mixed)


def lower_percentile(aggregate: Aggregate, state: Columns) -> Evaluated:
    fraction = float(str(aggregate.parameters[0].value)) if aggregate.parameters else 0.5
    return Evaluated(percentiles(state, fraction))


FAMILY = StateFamily(
    states={"values": DistinctValues(), "multiset": Multiset()},
    lowerings={"median": lower_percentile, "percentile": lower_percentile},
)
