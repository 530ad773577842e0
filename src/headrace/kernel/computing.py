"""One node from its source: the rows it keeps, a slot for each, and folds. Level 1 is nothing but this, repeated."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, tzinfo
from functools import lru_cache
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from headrace.kernel.coding import slice_codes
from headrace.kernel.fanning import fan_out, is_fanned_out
from headrace.kernel.partials import Encoded, Integers, NodePartials, combine, ordered_groups, ordered_partials
from headrace.kernel.slots import Codes, Keys
from headrace.kernel.sources import NodeRows, Rows, Source, truth
from headrace.model.expressions import Expression
from headrace.model.schema import UserFunction
from headrace.planner.nodes import EVERYTHING, Node
from headrace.planner.plan import STREAM, Plan
from headrace.predicates import Dimension, truth_grid, union_dimensions

Shipped = Mapping[int, NodePartials]
"""Rows of shipped nodes, by the place of the node in the plan."""

MOST_FILTER_CELLS = 1 << 16
"""A coalesced filter over more cells is not applied: rows that no query wants do no harm, and no leaf takes them."""
FIRST_ROWS = 4_096
WORTH_FILTERING = 0.7
"""If more of the first rows pass, a coalesced filter is not applied."""


def compute(node: Node, source: Source) -> NodePartials:
    """The node's rows, from rows of the stream or of a node that covers it."""
    rows = kept_rows(node, source)
    slices, of_row = slice_codes(node.boundaries, source.times_us if rows is None else source.times_us[rows])
    keys = Keys(len(of_row))
    keys.extend(of_row, len(slices.starts_us))
    cells = [chosen(source.codes(dimension), rows) for dimension in node.dimensions]
    for dimension, codes in zip(node.dimensions, cells, strict=True):
        keys.extend(codes, dimension.size)
    groups = {tree: of_rows(source.group(tree), rows) for tree in ordered_groups(node)}
    for encoded in groups.values():
        keys.extend(encoded.codes, encoded.size)
    slots = keys.slots()
    first = slots.first_rows
    return NodePartials(
        node,
        slices.starts_us[of_row[first]],
        slices.ends_us[of_row[first]],
        cell_numbers(node.dimensions, [codes[first] for codes in cells], len(first)),
        {tree: encoded.values(first) for tree, encoded in groups.items()},
        {partial: source.fold(partial, slots, rows) for partial in ordered_partials(node)},
    )


def chosen(codes: Codes, rows: Rows | None) -> Codes:
    return codes if rows is None else codes[rows]


def of_rows(encoded: Encoded, rows: Rows | None) -> Encoded:
    return replace(encoded, codes=chosen(encoded.codes, rows))


def cell_numbers(dimensions: Sequence[Dimension], codes: Sequence[Codes], rows: int) -> Integers:
    """The cells of all dimensions as digits of one number."""
    numbers = np.zeros(rows, dtype=np.int64)
    for dimension, digits in zip(dimensions, codes, strict=True):
        numbers = numbers * dimension.size + digits
    return numbers


def kept_rows(node: Node, source: Source) -> Rows | None:
    """The rows that pass the node's filter; None if all do, or if it would cost more than it spares."""
    if EVERYTHING in node.keep or source.keep == node.keep:
        return None
    if len(node.keep) == 1:
        (predicate,) = node.keep
        return np.flatnonzero(truth(predicate, source))
    found = coalesced(node)
    if found is None:
        return None
    codes = [source.codes(dimension) for dimension in found.dimensions]
    if found.passes[tuple(each[:FIRST_ROWS] for each in codes)].mean() > WORTH_FILTERING:
        return None
    return np.flatnonzero(found.passes[tuple(codes)])


class CoalescedFilter(NamedTuple):
    """For each cell of the dimensions whether some predicate of a node is TRUE there [NFC V]."""

    dimensions: tuple[Dimension, ...]
    passes: npt.NDArray[np.bool_]


@lru_cache(maxsize=4_096)
def coalesced(node: Node) -> CoalescedFilter | None:
    """None if the filter has too many cells."""
    dimensions = union_dimensions([predicate.dimensions for predicate in node.keep])
    sizes = [dimension.size for dimension in dimensions]
    if math.prod(sizes) > MOST_FILTER_CELLS:
        return None
    passes = np.zeros(sizes, dtype=np.bool_)
    for predicate in node.keep:
        passes |= truth_grid(predicate, dimensions)
    return CoalescedFilter(dimensions, passes)


def level_one(
    plan: Plan, sources: Iterable[Source], functions: Iterable[UserFunction] = (), zone: tzinfo = UTC
) -> Shipped:
    """All nodes along the tree; what is shipped is given, by its place in the plan.

    The rows come in chunks, small enough for a processor's cache; what is computed from nodes is computed once.
    """
    parts: dict[int, list[NodePartials]] = {place: [] for place in plan.children(STREAM)}
    for source in sources:
        for place, computed_so_far in parts.items():
            computed_so_far.append(compute(plan.nodes[place].node, source))
    computed = {place: combine(each) for place, each in parts.items() if each}
    for place in range(len(plan.nodes)):
        children = {child: plan.nodes[child].node for child in plan.children(place)}
        if children and place in computed:
            computed |= compute_all(children, NodeRows(computed[place], functions, zone))
    return {place: computed[place] for place in sorted(plan.shipped) if place in computed}


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
