"""One node from its source: the rows it keeps, a slot for each, and folds. Level 1 is nothing but this, repeated."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, tzinfo
from functools import lru_cache
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from headrace.kernel.coding import slice_codes
from headrace.kernel.fanning import fan_out, is_fanned_out
from headrace.kernel.partials import (
    Encoded,
    Integers,
    NodePartials,
    combine,
    concatenate,
    ordered_groups,
    ordered_partials,
)
from headrace.kernel.slots import MOST_KEYS, Keys, find_slots
from headrace.kernel.sources import MOST_CELLS, NodeRows, Rows, Source, cell_map, truth
from headrace.model.expressions import Expression
from headrace.model.schema import UserFunction
from headrace.planner.nodes import EVERYTHING, Node
from headrace.planner.plan import STREAM, Plan
from headrace.predicates import Dimension, truth_grid, union_dimensions

Shipped = Mapping[int, NodePartials]
"""Rows of shipped nodes, by the place of the node in the plan."""

BUDGET_BYTES = 256 << 20
"""How much the partials of chunks may take before they are given."""
MANY_SLICES = 8
"""If chunks that follow each other have so many slices each, they hardly meet."""
FIRST_ROWS = 4_096
WORTH_FILTERING = 0.7
"""If more of the first rows pass, a coalesced filter is not applied: what no leaf wants does no harm."""


def compute(node: Node, source: Source) -> NodePartials:
    """The node's rows, from rows of the stream or of a node that covers it."""
    rows, cells = kept_cells(node, source)
    slices, of_row = slice_codes(node.boundaries, source.times_us if rows is None else source.times_us[rows])
    keys = Keys(len(of_row))
    keys.extend(of_row, len(slices.starts_us))
    keys.extend(cells, math.prod(dimension.size for dimension in node.dimensions))
    groups = {tree: of_rows(source.group(tree), rows) for tree in ordered_groups(node)}
    for encoded in groups.values():
        keys.extend(encoded.codes, encoded.size)
    slots = keys.slots()
    first = slots.first_rows
    slice_of_slot = of_row[first]
    return NodePartials(
        node,
        slices.starts_us[slice_of_slot],
        slices.ends_us[slice_of_slot],
        cells[first],
        {tree: encoded.values(first) for tree, encoded in groups.items()},
        {partial: source.fold(partial, slots, rows) for partial in ordered_partials(node)},
    )


def of_rows(encoded: Encoded, rows: Rows | None) -> Encoded:
    return encoded if rows is None else replace(encoded, codes=encoded.codes[rows])


# Filters and cells


def kept_cells(node: Node, source: Source) -> tuple[Rows | None, Integers]:
    """The rows that pass the node's filter, None if all are taken, and the cell of each."""
    if EVERYTHING in node.keep or source.keep == node.keep:
        return None, source.cells(node.dimensions)
    sieve = sieve_of(node)
    if sieve is None:
        cells = source.cells(node.dimensions)
        if len(node.keep) > 1:
            return None, cells
        (predicate,) = node.keep
        rows = np.flatnonzero(truth(predicate, source))
        return rows, cells[rows]
    cells = source.cells(sieve.dimensions)
    if len(node.keep) > 1 and np.take(sieve.passes, cells[:FIRST_ROWS]).mean() > WORTH_FILTERING:
        return None, cells if sieve.own is None else np.take(sieve.own, cells)
    rows = np.flatnonzero(np.take(sieve.passes, cells))
    return rows, cells[rows] if sieve.own is None else np.take(sieve.own, cells[rows])


class Sieve(NamedTuple):
    """For each cell of the dimensions whether some predicate of a node is TRUE there, a coalesced filter [NFC V].

    `own` gives the cell of the node's own dimensions; None if these are the same.
    """

    dimensions: tuple[Dimension, ...]
    passes: npt.NDArray[np.bool_]
    own: Integers | None


@lru_cache(maxsize=4_096)
def sieve_of(node: Node) -> Sieve | None:
    """None if there were too many cells."""
    dimensions = union_dimensions([node.dimensions, *(predicate.dimensions for predicate in node.keep)])
    sizes = [dimension.size for dimension in dimensions]
    if math.prod(sizes) > MOST_CELLS:
        return None
    passes = np.zeros(sizes, dtype=np.bool_)
    for predicate in node.keep:
        passes |= truth_grid(predicate, dimensions)
    own = None if dimensions == node.dimensions else cell_map(dimensions, node.dimensions)
    return Sieve(dimensions, passes.reshape(-1), own)


# The tree


def level_one(
    plan: Plan,
    sources: Iterable[Source],
    functions: Iterable[UserFunction] = (),
    zone: tzinfo = UTC,
    budget_bytes: int = BUDGET_BYTES,
) -> Iterator[Shipped]:
    """All nodes along the tree; what is shipped is given, by its place in the plan.

    The rows come in chunks, small enough for a processor's cache; what is computed from nodes is computed once, at the
    end, or as soon as the partials of chunks have reached the budget: then they are given early, and combine later.
    """
    parts: dict[int, list[NodePartials]] = {}
    held = 0
    for source in sources:
        for place in plan.children(STREAM):
            found = compute(plan.nodes[place].node, source)
            parts.setdefault(place, []).append(found)
            held += found.nbytes
        if held > budget_bytes:
            yield rolled_up(plan, parts, functions, zone)
            parts, held = {}, 0
    if parts:
        yield rolled_up(plan, parts, functions, zone)


def rolled_up(
    plan: Plan, parts: Mapping[int, Sequence[NodePartials]], functions: Iterable[UserFunction], zone: tzinfo
) -> Shipped:
    computed = {place: gathered(each) for place, each in parts.items()}
    for place in range(len(plan.nodes)):
        children = {child: plan.nodes[child].node for child in plan.children(place)}
        if children:
            computed |= compute_all(children, NodeRows(computed[place], functions, zone))
    return {place: computed[place] for place in sorted(plan.shipped)}


def gathered(parts: Sequence[NodePartials]) -> NodePartials:
    """The rows of chunks: combined, or only put together if chunks follow each other in time and share few slices."""
    bounds = [(part.starts_us.min(), part.starts_us.max()) for part in parts if part.rows]
    in_order = all(last <= first for (_, last), (first, _) in pairwise(bounds))
    whole = concatenate(parts)
    if in_order and find_slots(whole.starts_us, MOST_KEYS).count >= MANY_SLICES * len(parts):
        return whole
    return combine(parts)


def compute_all(nodes: Mapping[int, Node], source: NodeRows) -> Mapping[int, NodePartials]:
    """Nodes of one parent: leaves in one go, the others one by one."""
    leaves = {place: node for place, node in nodes.items() if is_fanned_out(node, source.parent.node)}
    result = {place: compute(node, source) for place, node in nodes.items() if place not in leaves}
    if leaves:
        result |= zip(leaves, fan_out(source, list(leaves.values())), strict=True)
    return result


def finest_dimensions(plan: Plan) -> Mapping[Expression, Dimension]:
    """For each expression the cuts of all nodes that are computed from the stream, and of their filters."""
    nodes = [each.node for each in plan.nodes if each.parent == STREAM]
    wanted = [node.dimensions for node in nodes]
    wanted += [predicate.dimensions for node in nodes for predicate in node.keep]
    return {dimension.expression: dimension for dimension in union_dimensions(wanted)}
