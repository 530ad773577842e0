"""One node from its source: the rows it keeps, a slot for each, and folds. Level 1 is nothing but this, repeated."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, tzinfo
from functools import partial
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from headrace.aggregates.partials import Partial
from headrace.kernel.combine import NodePartials, gather_parts, ordered_partials
from headrace.kernel.level1.fan_out import fan_out, is_fanned_out
from headrace.kernel.level1.row_slots import place_rows
from headrace.kernel.level1.rows import MAX_TABLE_CELLS, KeptRows, NodeRows, NodeSource, truth
from headrace.kernel.states.columns import Columns
from headrace.kernel.states.totals import sum_addends
from headrace.kernel.threads import in_order
from headrace.model.arrays import Integers
from headrace.model.caches import cached
from headrace.model.expressions import Expression
from headrace.model.schema import UserFunction
from headrace.planner.lattice import EVERYTHING, Node
from headrace.planner.plan import STREAM, Plan
from headrace.predicates import Dimension, Predicate, truth_grid, union_dimensions

Shipped = Mapping[int, NodePartials]
"""Rows of shipped nodes, by the place of the node in the plan."""

BUDGET_BYTES = 256 << 20
"""How much the partials of chunks may take before they are given."""
FIRST_ROWS = 4_096
WORTH_FILTERING = 0.7
"""If more of the first rows pass, a coalesced filter is not applied: what no leaf wants does no harm."""


def compute(node: Node, source: NodeSource) -> NodePartials:
    """The node's rows, from rows of the stream or of a node that covers it."""
    return fold_all(node, keep_rows(source, node.keep))


def fold_all(node: Node, source: NodeSource, compressed: frozenset[Partial] = frozenset()) -> NodePartials:
    """From the rows that the node keeps; others than those do no harm where it keeps several predicates' rows.

    For the partials in `compressed` equal rows are put together before they are folded.
    """
    slots, rows = place_rows(node, source)
    return replace(rows, states=fold_states(ordered_partials(node), source, slots, rows.rows, compressed))


def fold_states(
    partials: Iterable[Partial], source: NodeSource, slots: Integers, count: int, compressed: frozenset[Partial]
) -> Mapping[Partial, Columns]:
    addends = {partial: source.addends(partial) for partial in partials}
    plain = {partial: added for partial, added in addends.items() if added is not None}
    if len(plain) == len(addends):
        return sum_addends(plain, slots, count)
    return {
        partial: source.fold(partial, slots, count, source.columns(partial), partial in compressed)
        for partial in addends
    }


# Filters


def keep_rows(source: NodeSource, keep: frozenset[Predicate]) -> NodeSource:
    """The rows that pass some of the predicates; more of them if it would cost more than it spares."""
    if EVERYTHING in keep or source.keep == keep:
        return source
    sieve = sieve_of(keep)
    if sieve is None:
        if len(keep) > 1:
            return source
        (predicate,) = keep
        return KeptRows(source, np.flatnonzero(truth(predicate, source)), keep)
    cells = source.cells(sieve.dimensions)
    if len(keep) > 1 and len(cells) and np.take(sieve.passes, cells[:FIRST_ROWS]).mean() > WORTH_FILTERING:
        return source
    rows = np.flatnonzero(np.take(sieve.passes, cells))
    return KeptRows(source, rows, keep, sieve.dimensions, cells[rows])


class Sieve(NamedTuple):
    """For each cell of the dimensions whether some predicate is TRUE there: a coalesced filter [NFC V]."""

    dimensions: tuple[Dimension, ...]
    passes: npt.NDArray[np.bool_]


@cached
def sieve_of(keep: frozenset[Predicate]) -> Sieve | None:
    """None if there were too many cells."""
    dimensions = union_dimensions([predicate.dimensions for predicate in keep])
    sizes = [dimension.size for dimension in dimensions]
    if math.prod(sizes) > MAX_TABLE_CELLS:
        return None
    passes = np.zeros(sizes, dtype=np.bool_)
    for predicate in keep:
        passes |= truth_grid(predicate, dimensions)
    return Sieve(dimensions, passes.reshape(-1))


# The tree


def fold_chunk(plan: Plan, source: NodeSource) -> Mapping[int, NodePartials]:
    """The nodes that are computed from the stream, by their places. Those that keep the same rows follow each other."""
    by_rows: dict[frozenset[Predicate], list[int]] = {}
    for place in plan.children(STREAM):
        by_rows.setdefault(plan.nodes[place].node.keep, []).append(place)
    computed: dict[int, NodePartials] = {}
    for keep, places in by_rows.items():
        rows = keep_rows(source, keep)
        for place in places:
            computed[place] = fold_all(plan.nodes[place].node, rows, plan.nodes[place].compressed)
    return computed


def level_one(
    plan: Plan,
    chunks: Iterable[Mapping[int, NodePartials]],
    functions: Iterable[UserFunction] = (),
    zone: tzinfo = UTC,
    budget_bytes: int = BUDGET_BYTES,
    threads: int = 1,
) -> Iterator[Shipped]:
    """All nodes along the tree; what is shipped is given, by its place in the plan.

    The rows come in chunks, small enough for a processor's cache; what is computed from nodes is computed once, at the
    end, or as soon as the partials of chunks have reached the budget: then they are given early, and combine later.
    """
    parts: dict[int, list[NodePartials]] = {}
    held = 0
    for chunk in chunks:
        for place, part in chunk.items():
            parts.setdefault(place, []).append(part)
            held += part.nbytes
        if held > budget_bytes:
            yield roll_up(plan, parts, functions, zone, threads)
            parts, held = {}, 0
    if parts:
        yield roll_up(plan, parts, functions, zone, threads)


def roll_up(
    plan: Plan,
    parts: Mapping[int, Sequence[NodePartials]],
    functions: Iterable[UserFunction],
    zone: tzinfo,
    threads: int,
) -> Shipped:
    """The nodes below each one that is computed from the stream."""

    def subtree(first: int) -> dict[int, NodePartials]:
        computed = {first: gather_parts(parts[first])}
        waiting = [first]
        while waiting:
            place = waiting.pop()
            children = {child: plan.nodes[child].node for child in plan.children(place)}
            if children:
                computed |= compute_all(children, NodeRows(computed[place], functions, zone))
                waiting += children
        return computed

    trees = in_order([partial(subtree, place) for place in parts], threads)
    computed = {place: part for tree in trees for place, part in tree.items()}
    return {place: computed[place] for place in sorted(plan.shipped)}


def compute_all(nodes: Mapping[int, Node], source: NodeRows) -> Mapping[int, NodePartials]:
    """Nodes of one parent: leaves in one go, the others one by one."""
    leaves = {place: node for place, node in nodes.items() if is_fanned_out(node, source.parent.node)}
    result = {place: compute(node, source) for place, node in nodes.items() if place not in leaves}
    if leaves:
        result |= zip(leaves, fan_out(source, list(leaves.values())), strict=True)
    return result


def finest_dimensions(nodes: Sequence[Node]) -> Mapping[Expression, Dimension]:
    """For each expression the cuts of all these nodes, which are computed from the stream, and of their filters."""
    wanted = [node.dimensions for node in nodes]
    wanted += [predicate.dimensions for node in nodes for predicate in node.keep]
    return {dimension.expression: dimension for dimension in union_dimensions(wanted)}
