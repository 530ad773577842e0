"""Distinct values, for aggregates with DISTINCT: a list per slot, sorted, without NULLs."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headrace.expressions.columns import column_type, present
from headrace.kernel.states.columns import Columns, Slots, rank_values
from headrace.kernel.states.state import StateFamily
from headrace.model.types import DataType


class Values:
    """The states of aggregates with DISTINCT."""

    def columns(self, argument: DataType | None = None) -> tuple[pa.DataType, ...]:
        assert argument is not None
        return (pa.list_(column_type(argument)),)

    def lift(self, slots: Slots, count: int, argument: pa.Array | None = None) -> Columns:
        assert argument is not None
        rows = present(argument)
        if rows is not None:
            slots, argument = slots[rows], argument.drop_null()
        ranks, ordered = rank_values(argument)
        distinct = max(len(ordered), 1)
        keys = np.sort(pa.array(slots * distinct + ranks).unique().to_numpy())
        offsets = np.searchsorted(keys, np.arange(count + 1) * distinct).astype(np.int32)
        return (pa.ListArray.from_arrays(pa.array(offsets), ordered.take(pa.array(keys % distinct))),)

    def combine(self, slots: Slots, count: int, states: Columns) -> Columns:
        parents, values = flatten_lists(states[0])
        return self.lift(slots[parents], count, values)


def flatten_lists(lists: pa.Array) -> tuple[Slots, pa.Array]:
    """Return the number of the list that each value is from, and the values of all lists."""
    return pc.list_parent_indices(lists).to_numpy(), lists.flatten()


FAMILY = StateFamily(states={"values": Values()})
