"""A slot for each row of a node, from its slice, its cell and its group."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from headrace.kernel.combine import NodePartials, ordered_groups
from headrace.kernel.groups import Groups, encode_columns
from headrace.kernel.level1.cells import slice_codes, slices_within
from headrace.kernel.level1.loops import slots_by_slice
from headrace.kernel.level1.rows import NodeSource
from headrace.kernel.slots import Codes, Keys, is_dense
from headrace.kernel.states.columns import readable
from headrace.model.arrays import Integers
from headrace.planner.lattice import Node
from headrace.windows import Slices


@dataclass(frozen=True, eq=False, slots=True)
class Kinds:
    """Cell and group of each row as one number: that at its place in `rows`, or else at its own."""

    rows: Integers | None
    of_row: Codes
    cells: Integers
    groups: Groups

    @property
    def count(self) -> int:
        return len(self.cells)


def place_rows(node: Node, source: NodeSource) -> tuple[Integers, NodePartials]:
    """Return the slot of each row, and for each slot a row of the node, still without states.

    It takes one pass, by an array of slices and kinds, where these are few. The slots of rows may lie in memory of the
    source, which its next node takes.
    """
    rows = len(source.times_us)
    slices = slices_within(node.boundaries, *source.span_us) if rows else None
    kinds = kinds_of(node, source)
    if slices is None or not is_dense(len(slices.starts_us) * kinds.count, rows):
        return place_by_keys(node, source, kinds)
    slots, keys = source.scratch.take("slots", rows), source.scratch.take("keys", rows)
    kind_rows = None if kinds.rows is None else readable(kinds.rows)
    codes = readable(kinds.of_row)
    count = slots_by_slice(readable(source.times_us), slices.starts_us, kind_rows, codes, kinds.count, slots, keys)
    of_slot = keys[:count] // kinds.count
    return slots, rows_of_slots(node, slices, of_slot, kinds, keys[:count] - of_slot * kinds.count)


def place_by_keys(node: Node, source: NodeSource, kinds: Kinds) -> tuple[Integers, NodePartials]:
    """The same by a hash table, or where slices are many."""
    slices, of_row = slice_codes(node.boundaries, source.times_us)
    codes = kinds.of_row if kinds.rows is None else np.take(kinds.of_row, kinds.rows)
    keys = Keys(len(of_row))
    keys.extend(of_row, len(slices.starts_us))
    keys.extend(codes, kinds.count)
    slots = keys.slots()
    of_slot = of_row[slots.first_rows]
    return slots.of_row, rows_of_slots(node, slices, of_slot, kinds, codes[slots.first_rows])


def rows_of_slots(
    node: Node, slices: Slices, slice_of_slot: Codes | Integers, kinds: Kinds, kind_of_slot: Codes | Integers
) -> NodePartials:
    times = slices.starts_us[slice_of_slot], slices.ends_us[slice_of_slot]
    return NodePartials(node, *times, kinds.cells[kind_of_slot], kinds.groups.at(kind_of_slot), {})


def kinds_of(node: Node, source: NodeSource) -> Kinds:
    """Cells and groups that occur together are few, so that with slices they often fit an array."""
    rows = len(source.times_us)
    trees = ordered_groups(node)
    groups = source.groups(trees) if trees else encode_columns({}, rows)
    size = groups.table.size
    if not node.dimensions:
        every = Groups(groups.table, np.arange(size, dtype=np.int32))
        return Kinds(source.rows if trees else None, groups.codes, np.zeros(size, dtype=np.int64), every)
    kept = groups.at(source.rows) if trees and source.rows is not None else groups
    cells = source.cells(node.dimensions)
    keys = Keys(rows)
    keys.extend(cells, node.cells)
    keys.extend(kept.codes, size)
    slots = keys.slots()
    return Kinds(None, slots.of_row.astype(np.int32), cells[slots.first_rows], kept.at(slots.first_rows))
