"""Fan-out: many leaves of one node at once. Each row goes to every leaf whose predicate holds in its cell."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

import numpy as np

from headrace.aggregates.partials import Partial
from headrace.kernel.combine import NodePartials, ordered_partials
from headrace.kernel.level1.loops import count_passing, take_passing
from headrace.kernel.level1.rows import MAX_TABLE_CELLS, NodeRows, take_columns, truth
from headrace.kernel.slots import MAX_KEYS, Keys, Slots, find_slots
from headrace.kernel.states.columns import Columns
from headrace.kernel.states.totals import IntegerTotals, sum_addends
from headrace.model.arrays import Integers, Mask
from headrace.model.caches import cached
from headrace.planner.lattice import Node
from headrace.predicates import Dimension, Predicate, truth_grid
from headrace.windows import slices_holding


def is_fanned_out(node: Node, parent: Node) -> bool:
    """A leaf with its parent's groups."""
    return not node.dimensions and len(node.keep) == 1 and node.groups == parent.groups


def fan_out(source: NodeRows, leaves: Sequence[Node]) -> list[NodePartials]:
    """The rows of each leaf: as `compute` makes them one by one, but in one go for all."""
    parent = source.parent
    groups = source.parent_groups
    size = groups.table.size
    slices = find_slots(parent.starts_us, MAX_KEYS)
    bounds, firsts, offset = [], np.empty((len(leaves), slices.count), dtype=np.int64), 0
    for place, leaf in enumerate(leaves):
        leaf_slices, of_start = slices_holding(leaf.boundaries, parent.starts_us[slices.first_rows])
        firsts[place] = (offset + of_start) * size
        bounds.append(leaf_slices)
        offset += len(leaf_slices.starts_us)
    cells, passes = truths(source, leaves)
    counts = np.empty(len(leaves), dtype=np.int64)
    count_passing(cells, passes, counts)
    rows, keys = np.empty(counts.sum(), dtype=np.int64), np.empty(counts.sum(), dtype=np.int64)
    take_passing(cells, passes, slices.of_row, groups.codes, firsts, rows, keys)
    slots = find_slots(keys, offset * size)
    slice_of_slot = keys[slots.first_rows] // size
    wanted = dict.fromkeys(partial for leaf in leaves for partial in ordered_partials(leaf))
    whole = NodePartials(
        parent.node,
        np.concatenate([leaf_slices.starts_us for leaf_slices in bounds])[slice_of_slot],
        np.concatenate([leaf_slices.ends_us for leaf_slices in bounds])[slice_of_slot],
        np.zeros(slots.count, dtype=np.int64),
        groups.at(rows[slots.first_rows]),
        fold_some(wanted, source, rows, slots),
    )
    # Slots appear leaf by leaf, so the rows of each leaf lie together.
    ends = np.searchsorted(slots.first_rows, np.cumsum(counts))
    return [
        part_of(whole, leaf, int(begin), int(end)) for leaf, begin, end in zip(leaves, [0, *ends], ends, strict=False)
    ]


def fold_some(partials: Iterable[Partial], source: NodeRows, rows: Integers, slots: Slots) -> Mapping[Partial, Columns]:
    """Of some rows, each in a slot."""
    of_row, count = slots.of_row, slots.count
    states = source.parent.states
    if isinstance(states, IntegerTotals):
        return sum_addends({partial: states.addends(partial).at(rows) for partial in partials}, of_row, count)
    return {
        partial: source.fold(partial, of_row, count, take_columns(source.columns(partial), rows))
        for partial in partials
    }


def part_of(whole: NodePartials, leaf: Node, begin: int, end: int) -> NodePartials:
    """The rows and the partials of one leaf."""
    states, partials = whole.states, ordered_partials(leaf)
    if isinstance(states, IntegerTotals):
        states = IntegerTotals({partial: states.numbers[partial] for partial in partials}, states.bound)
    else:
        states = {partial: states[partial] for partial in partials}
    return replace(whole, node=leaf, states=states).at(slice(begin, end))


def truths(source: NodeRows, leaves: Sequence[Node]) -> tuple[Integers, Mask]:
    """For each leaf whether its predicate is TRUE in each cell, and the cell of each row.

    Where there are too many cells, or they do not determine all, cells and groups that occur together are the cells.
    """
    dimensions = source.parent.node.dimensions
    cells = source.parent.node.cells
    predicates = [predicate for leaf in leaves if leaf.keep != source.keep for predicate in leaf.keep]
    by_cell = cells <= MAX_TABLE_CELLS and all(
        source.determines(dimension) for predicate in predicates for dimension in predicate.dimensions
    )
    kinds = None if by_cell else kinds_of(source)
    one_of_each = source if kinds is None else source.at(kinds.first_rows)
    passes = np.ones((len(leaves), cells if kinds is None else kinds.count), dtype=np.bool_)
    for leaf_passes, leaf in zip(passes, leaves, strict=True):
        if leaf.keep != source.keep:
            (predicate,) = leaf.keep
            leaf_passes[:] = truth_of_cells(predicate, dimensions) if by_cell else truth(predicate, one_of_each)
    return source.parent.cells if kinds is None else kinds.of_row, passes


def kinds_of(source: NodeRows) -> Slots:
    """Cells and groups that occur together."""
    keys = Keys(source.parent.rows)
    keys.extend(source.parent.cells, source.parent.node.cells)
    keys.extend(source.parent_groups.codes, source.parent_groups.table.size)
    return keys.slots()


@cached
def truth_of_cells(predicate: Predicate, dimensions: tuple[Dimension, ...]) -> Mask:
    return truth_grid(predicate, dimensions).reshape(-1)
