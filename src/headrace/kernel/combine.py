"""The rows of a node: partials per slice, cell and group, as columns."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain, pairwise

import numpy as np
import pyarrow as pa

from headrace.aggregates.partials import Partial
from headrace.kernel import groups as grouping
from headrace.kernel.groups import Groups, encode_columns
from headrace.kernel.slots import MAX_KEYS, Codes, Keys, Slots, find_slots
from headrace.kernel.states import totals
from headrace.kernel.states.columns import Columns
from headrace.kernel.states.kinds import state_of
from headrace.kernel.states.totals import IntegerTotals
from headrace.model.arrays import Integers
from headrace.model.caches import cached
from headrace.model.expressions import Expression
from headrace.model.stable_names import stable_text
from headrace.planner.lattice import Node

MANY_SLICES = 8
"""If parts that follow each other in time have this many slices each, they hardly overlap."""


@dataclass(frozen=True, eq=False)
class NodePartials:
    """A row stands for the rows of the stream in one slice [start, end), one cell and one group of the node.

    A cell is one number: the cells of the node's dimensions, in their order, as digits.
    """

    node: Node
    starts_us: Integers
    ends_us: Integers
    cells: Integers
    groups: Mapping[Expression, pa.Array]
    states: Mapping[Partial, tuple[pa.Array, ...]]

    @property
    def rows(self) -> int:
        return len(self.starts_us)

    @property
    def nbytes(self) -> int:
        groups, states = self.groups, self.states
        group_bytes = groups.nbytes if isinstance(groups, Groups) else sum_bytes(groups.values())
        state_bytes = states.nbytes if isinstance(states, IntegerTotals) else sum_bytes(chain(*states.values()))
        return 3 * self.starts_us.nbytes + group_bytes + state_bytes

    def digits(self, place: int) -> Codes:
        """The cell of each row in the dimension at `place`."""
        sizes = [dimension.size for dimension in self.node.dimensions]
        return (self.cells // math.prod(sizes[place + 1 :]) % sizes[place]).astype(np.int32)

    def at(self, rows: Integers | slice) -> NodePartials:
        """Some of the rows."""
        groups = encode_columns(self.groups, self.rows).at(rows)
        times = self.starts_us[rows], self.ends_us[rows]
        return NodePartials(self.node, *times, self.cells[rows], groups, states_at(self.states, rows))


@cached
def ordered_groups(node: Node) -> tuple[Expression, ...]:
    """In the order of their columns."""
    return tuple(sorted(node.groups, key=stable_text))


@cached
def ordered_partials(node: Node) -> tuple[Partial, ...]:
    """In the order of their columns."""
    return tuple(sorted(node.partials, key=stable_text))


def sum_bytes(columns: Iterable[pa.Array]) -> int:
    return sum(int(column.nbytes) for column in columns)


def states_at(states: Mapping[Partial, Columns], rows: Integers | slice) -> Mapping[Partial, Columns]:
    if isinstance(states, IntegerTotals):
        return states.at(rows)
    chosen = rows if isinstance(rows, slice) else pa.array(rows)
    return {
        partial: tuple(column[chosen] if isinstance(rows, slice) else column.take(chosen) for column in state)
        for partial, state in states.items()
    }


def gather_parts(parts: Sequence[NodePartials]) -> NodePartials:
    """Rows of one node: combined, or only put together if the parts follow each other in time and share few slices."""
    if len(parts) == 1:
        return parts[0]
    ordered = sorted((part for part in parts if part.rows), key=lambda part: int(part.starts_us.min()))
    if ordered and all(one.starts_us.max() <= next.starts_us.min() for one, next in pairwise(ordered)):
        starts_us = np.concatenate([part.starts_us for part in parts])
        if find_slots(starts_us, MAX_KEYS).count >= MANY_SLICES * len(parts):
            return concatenate(ordered)
    return combine(parts)


def combine(parts: Sequence[NodePartials]) -> NodePartials:
    """Rows of one node from several tasks, batches or plans as one row per slice, cell and group."""
    if len(parts) == 1:
        return parts[0]
    whole = concatenate(parts)
    slices = Keys(whole.rows)
    for times_us in (whole.starts_us, whole.ends_us):
        numbered = find_slots(times_us, MAX_KEYS)
        slices.extend(numbered.of_row, numbered.count)
    keys, numbered = Keys(whole.rows), slices.slots()  # numbered again: starts and ends that meet are few
    keys.extend(numbered.of_row, numbered.count)
    keys.extend(whole.cells, whole.node.cells)
    groups = encode_columns(whole.groups, whole.rows)
    keys.extend(groups.codes, groups.table.size)
    slots = keys.slots()
    first = replace(whole, groups=groups, states={}).at(slots.first_rows)
    return replace(first, states=combine_states(whole.states, slots))


def combine_states(states: Mapping[Partial, Columns], slots: Slots) -> Mapping[Partial, Columns]:
    if isinstance(states, IntegerTotals):
        return totals.sum_addends({partial: states.addends(partial) for partial in states}, slots.of_row, slots.count)
    return {partial: state_of(partial).combine(slots.of_row, slots.count, state) for partial, state in states.items()}


def concatenate(parts: Sequence[NodePartials]) -> NodePartials:
    return NodePartials(
        parts[0].node,
        np.concatenate([part.starts_us for part in parts]),
        np.concatenate([part.ends_us for part in parts]),
        np.concatenate([part.cells for part in parts]),
        grouping.put_together([encode_columns(part.groups, part.rows) for part in parts]),
        concat_states([part.states for part in parts]),
    )


def concat_states(states: Sequence[Mapping[Partial, Columns]]) -> Mapping[Partial, Columns]:
    plain = [part for part in states if isinstance(part, IntegerTotals)]
    whole = totals.concat_totals(plain) if len(plain) == len(states) else None
    if whole is not None:
        return whole
    return {
        partial: tuple(pa.concat_arrays(columns) for columns in zip(*(part[partial] for part in states), strict=True))
        for partial in states[0]
    }
