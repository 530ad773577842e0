"""The rows of a node: partials per slice, cell and group, as columns."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from headrace.aggregates.partials import Partial
from headrace.expressions.columns import canonical
from headrace.kernel.slots import MOST_KEYS, Codes, Keys, Slots, find_slots
from headrace.kernel.states import KINDS
from headrace.model.expressions import Expression
from headrace.planner.nodes import Node

Integers = npt.NDArray[np.int64]


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
        columns = [*self.groups.values(), *(column for state in self.states.values() for column in state)]
        return 3 * self.starts_us.nbytes + sum(int(column.nbytes) for column in columns)

    def digits(self, place: int) -> Codes:
        """The cell of each row in the dimension at `place`."""
        sizes = [dimension.size for dimension in self.node.dimensions]
        return (self.cells // math.prod(sizes[place + 1 :]) % sizes[place]).astype(np.int32)


@lru_cache(maxsize=4_096)
def ordered_groups(node: Node) -> tuple[Expression, ...]:
    """In the order of their columns."""
    return tuple(sorted(node.groups, key=repr))


@lru_cache(maxsize=4_096)
def ordered_partials(node: Node) -> tuple[Partial, ...]:
    """In the order of their columns."""
    return tuple(sorted(node.partials, key=repr))


@dataclass(frozen=True, eq=False)
class Encoded:
    """Values as numbers into a dictionary; NULL is the number behind the last."""

    codes: Codes
    dictionary: pa.Array

    @property
    def size(self) -> int:
        return len(self.dictionary) + 1

    def values(self, rows: Integers) -> pa.Array:
        codes = self.codes[rows]
        return self.dictionary.take(pa.array(codes, mask=codes == len(self.dictionary)))


def encode(values: pa.Array) -> Encoded:
    """Equal values have equal numbers: NaN equals NaN, and -0.0 equals 0.0."""
    encoded = canonical(values).dictionary_encode()
    codes = np.asarray(encoded.indices.fill_null(len(encoded.dictionary))).astype(np.int32)
    return Encoded(codes, encoded.dictionary)


def combine(parts: Sequence[NodePartials]) -> NodePartials:
    """Rows of one node from several tasks, batches or plans as one row per slice, cell and group."""
    if len(parts) == 1:
        return parts[0]
    whole = concatenate(parts)
    keys = Keys(whole.rows)
    for column in (whole.starts_us, whole.ends_us, whole.cells):
        numbered = find_slots(column, MOST_KEYS)
        keys.extend(numbered.of_row.astype(np.int32), numbered.count)
    for values in whole.groups.values():
        encoded = encode(values)
        keys.extend(encoded.codes, encoded.size)
    return merged(whole, keys.slots())


def merged(whole: NodePartials, slots: Slots) -> NodePartials:
    first = slots.first_rows
    return NodePartials(
        whole.node,
        whole.starts_us[first],
        whole.ends_us[first],
        whole.cells[first],
        {tree: values.take(pa.array(first)) for tree, values in whole.groups.items()},
        {
            partial: KINDS[partial.kind].combine(slots.of_row, slots.count, state)
            for partial, state in whole.states.items()
        },
    )


def concatenate(parts: Sequence[NodePartials]) -> NodePartials:
    first = parts[0]
    return NodePartials(
        first.node,
        np.concatenate([part.starts_us for part in parts]),
        np.concatenate([part.ends_us for part in parts]),
        np.concatenate([part.cells for part in parts]),
        {tree: pa.concat_arrays([part.groups[tree] for part in parts]) for tree in first.groups},
        {
            partial: tuple(
                pa.concat_arrays([part.states[partial][place] for part in parts])
                for place in range(len(first.states[partial]))
            )
            for partial in first.states
        },
    )
