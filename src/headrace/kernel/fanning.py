"""Fan-out: many leaves of one node at once. Each row goes to every leaf whose predicate holds in its cell."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from headrace.kernel.partials import NodePartials, encode, ordered_partials
from headrace.kernel.slots import MOST_KEYS, Keys, Slots, find_slots
from headrace.kernel.sources import NodeRows, truth
from headrace.planner.nodes import Node
from headrace.predicates import Dimension, Predicate, truth_grid
from headrace.windows import slices_holding

Mask = npt.NDArray[np.bool_]
MOST_CELLS = 1 << 14
"""Of a node whose leaves' truth is kept for every cell."""


def is_fanned_out(node: Node, parent: Node) -> bool:
    """A leaf with its parent's groups."""
    return not node.dimensions and len(node.keep) == 1 and node.groups == parent.groups


def fan_out(source: NodeRows, leaves: Sequence[Node]) -> list[NodePartials]:
    """The rows of each leaf: as `compute` makes them one by one, but in one go for all."""
    parent = source.parent
    groups = group_slots(parent)
    slices = find_slots(parent.starts_us, MOST_KEYS)
    starts_us = parent.starts_us[slices.first_rows]
    taken, keys, bounds, offset = [], [], [], 0
    for leaf in leaves:
        (predicate,) = leaf.keep
        rows = np.flatnonzero(passes(predicate, source))
        own, of_start = slices_holding(leaf.boundaries, starts_us)
        keys.append(offset + of_start[slices.of_row[rows]] * np.int64(groups.count) + groups.of_row[rows])
        taken.append(rows)
        bounds.append(own)
        offset += len(own.starts_us) * groups.count
    rows, whole_keys = np.concatenate(taken), np.concatenate(keys)
    slots = find_slots(whole_keys, offset)
    slice_of_slot = whole_keys[slots.first_rows] // groups.count
    wanted = dict.fromkeys(partial for leaf in leaves for partial in ordered_partials(leaf))
    whole = NodePartials(
        parent.node,
        np.concatenate([own.starts_us for own in bounds])[slice_of_slot],
        np.concatenate([own.ends_us for own in bounds])[slice_of_slot],
        np.zeros(slots.count, dtype=np.int64),
        {tree: values.take(pa.array(rows[slots.first_rows])) for tree, values in parent.groups.items()},
        {partial: source.fold(partial, slots, rows) for partial in wanted},
    )
    # Slots appear leaf by leaf, so the rows of each leaf lie together.
    ends = np.searchsorted(slots.first_rows, np.cumsum([len(each) for each in taken]))
    return [
        part_of(whole, leaf, int(begin), int(end)) for leaf, begin, end in zip(leaves, [0, *ends], ends, strict=False)
    ]


def part_of(whole: NodePartials, leaf: Node, begin: int, end: int) -> NodePartials:
    part = slice(begin, end)
    return NodePartials(
        leaf,
        whole.starts_us[part],
        whole.ends_us[part],
        whole.cells[part],
        {tree: values.slice(begin, end - begin) for tree, values in whole.groups.items()},
        {
            partial: tuple(column.slice(begin, end - begin) for column in whole.states[partial])
            for partial in ordered_partials(leaf)
        },
    )


def group_slots(parent: NodePartials) -> Slots:
    keys = Keys(parent.rows)
    for values in parent.groups.values():
        encoded = encode(values)
        keys.extend(encoded.codes, encoded.size)
    return keys.slots()


def passes(predicate: Predicate, source: NodeRows) -> Mask:
    """Whether the predicate is TRUE, for each row; by a table of all cells where there are few."""
    if source.keep == {predicate}:
        return np.ones(source.parent.rows, dtype=np.bool_)
    dimensions = source.parent.node.dimensions
    told = {dimension.expression for dimension in dimensions}
    cells = math.prod(dimension.size for dimension in dimensions)
    if cells > MOST_CELLS or not all(each.expression in told for each in predicate.dimensions):
        return truth(predicate, source)
    return np.take(truth_of_cells(predicate, dimensions), source.parent.cells)


@lru_cache(maxsize=4_096)
def truth_of_cells(predicate: Predicate, dimensions: tuple[Dimension, ...]) -> Mask:
    return truth_grid(predicate, dimensions).reshape(-1)
