"""All values with their counts, for exact medians and percentiles: two lists per slot, sorted distinct values and how
often each was there, without NULLs.

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
from headrace.kernel.states.values import flatten_lists
from headrace.model.arrays import Doubles, Integers
from headrace.model.expressions import Aggregate
from headrace.model.types import DataType


class Multiset:
    def columns(self, argument: DataType | None) -> tuple[pa.DataType, ...]:
        assert argument is not None
        return (pa.list_(column_type(argument)), pa.list_(pa.int64()))

    def lift(self, slots: Slots, count: int, argument: pa.Array | None) -> Columns:
        assert argument is not None
        rows = present(argument)
        if rows is not None:
            slots, argument = slots[rows], argument.drop_null()
        return count_values(slots, count, argument)

    def combine(self, slots: Slots, count: int, states: Columns) -> Columns:
        parents, values = flatten_lists(states[0])
        return count_values(slots[parents], count, values, numbers(states[1].flatten()))


def count_values(slots: Slots, count: int, values: pa.Array, times: Integers | None = None) -> Columns:
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
    offsets = pa.array(np.searchsorted(pairs, np.arange(count + 1) * distinct).astype(np.int32))
    lists = ordered.take(pa.array(pairs % distinct)), pa.array(totals)
    return tuple(pa.ListArray.from_arrays(offsets, items) for items in lists)


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
    states={"multiset": Multiset()},
    lowerings={"median": lower_percentile, "percentile": lower_percentile},
)
