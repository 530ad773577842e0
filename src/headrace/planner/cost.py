"""What a plan costs: nanoseconds of one core, per task and batch, from a sample and calibrated constants.

An arc `u -> v` costs a start of v, and for each row of u that v keeps a slot and a fold or combine of each partial.
Then partials are shipped and stored, and combined to windows when these close. Coding the rows (evaluating expressions,
finding partners, cells and groups) is the same for every tree over the same queries; it only
matters when a shared plan is compared with queries that run alone.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from headrace.aggregates.hitters import MEETING_PLACES
from headrace.aggregates.partials import Partial
from headrace.aggregates.specification import FoldChoice
from headrace.model.expressions import Call, Expression, walk
from headrace.model.windows import AnyWindow, Window
from headrace.planner.demand import Demand, Leaf
from headrace.planner.lattice import EVERYTHING, MAX_CELLS, Node, is_matched
from headrace.planner.statistics import BatchSample
from headrace.predicates import Predicate

DENSE_KEYS = 1 << 18
"""Up to this many keys, the slots of a node are an array; beyond, a hash table."""
LARGE_TABLE = 1 << 16
"""A hash table of more rows does not stay in a processor's cache."""


@dataclass(frozen=True, slots=True)
class Constants:
    """Nanoseconds of each piece of work: as `headrace calibrate` measured them once, and can measure them again.

    A node and a leaf are started once per batch; the rest is per row, per addition of a fold or combine, per byte.
    """

    node_ns: float = 110_000.0
    leaf_ns: float = 45_000.0
    join_ns: float = 20.0
    evaluate_ns: float = 0.3
    code_ns: float = 20.0
    slice_ns: float = 1.5
    key_ns: float = 0.6
    dense_ns: float = 0.6
    hash_ns: float = 11.0
    large_hash_ns: float = 47.0
    addition_ns: float = 1.6
    ship_row_ns: float = 30.0
    ship_byte_ns: float = 0.3


FOR_EDGES = Constants(leaf_ns=math.inf, ship_row_ns=450.0, ship_byte_ns=10.0)
"""Where rows are at edges. What is shipped goes over a network, so it is expensive; and a node is a table in an edge's
few megabytes, fed with the rows of the stream: none is computed from another, and leaves are separated when their
windows are closed.
"""
KEY_BYTES = 8
"""A shipped row names its slice's start and end, its cell and each of its groups."""


@dataclass(frozen=True)
class Cost:
    """Answers what each part of a plan costs on the data of a sample."""

    sample: BatchSample
    constants: Constants = Constants()
    sharers: Mapping[frozenset[Predicate], int] = field(default_factory=dict)
    """How many leaves keep the same rows: what is computed from the stream filters once for all of them."""

    def arc(self, parent: Node | None, child: Node) -> float:
        """Computing a node from its parent, or from the stream."""
        if child.cells > MAX_CELLS:
            return math.inf
        slot = self.constants.slice_ns + self.key_ns(child) + self.slot_ns(child)
        if parent is None:
            rows = self.sample.batch_rows * self.sample.selectivity(child.keep)
            folds = sum(self.folding(partial, child) for partial in child.partials) * self.constants.addition_ns
            return self.constants.node_ns + self.filter_ns(child) + rows * (slot + folds)
        return self.start_ns(parent, child) + self.passing_rows(parent, child) * (
            slot + self.combine_ns(child.partials, parent)
        )

    def filter_ns(self, node: Node) -> float:
        """Looking at every row of the stream, and leaving out those that no predicate of the node keeps."""
        if EVERYTHING in node.keep:
            return 0.0
        expressions = {dimension.expression for predicate in node.keep for dimension in predicate.dimensions}
        row_ns = self.constants.key_ns * (1 + len(expressions)) + self.constants.dense_ns
        return self.sample.batch_rows * row_ns / self.sharers.get(node.keep, 1)

    def ship(self, node: Node) -> float:
        """Sending the node's rows to the reducers, which combine those of all tasks, storing and reading them."""
        size = KEY_BYTES * (3 + len(node.groups)) + sum(self.state_bytes(partial, node) for partial in node.partials)
        row_ns = self.constants.ship_row_ns + size * self.constants.ship_byte_ns + self.combine_ns(node.partials, node)
        return self.sample.rows(node) * row_ns

    def close(self, shipped: Node, leaf: Leaf) -> float:
        """Combining a shipped node's rows to the windows of the leaf's queries."""
        rows = self.passing_rows(shipped, leaf.node)
        slot = self.key_ns(leaf.node) + self.slot_ns(leaf.node)
        return rows * sum(overlap(ask.window) * (slot + self.combine_ns(ask.partials, shipped)) for ask in leaf.asks)

    def coding(self, demands: Iterable[Demand]) -> float:
        """Evaluating and coding each distinct expression once for every row."""
        trees: set[Expression] = set()
        arguments: set[Expression] = set()
        for demand in demands:
            trees |= {dimension.expression for dimension in demand.predicate.dimensions} | demand.groups
            for partial in demand.partials:
                arguments.update(partial.arguments, () if partial.filter is None else (partial.filter,))
        calls = {part for tree in trees for part in walk(tree) if isinstance(part, Call) and not is_matched(part)}
        calls |= {part for tree in arguments for part in walk(tree) if isinstance(part, Call)}
        joins = sum(is_matched(tree) for tree in trees)
        row_ns = joins * self.constants.join_ns + len(calls) * self.constants.evaluate_ns
        return self.sample.batch_rows * (row_ns + (len(trees) - joins) * self.constants.code_ns)

    def passing_rows(self, parent: Node, child: Node) -> float:
        """The parent's rows that the child keeps."""
        whole = self.sample.selectivity(parent.keep)
        part = self.sample.selectivity(child.keep)
        return self.sample.rows(parent) * min(1.0, part / whole) if whole else 0.0

    def key_ns(self, node: Node) -> float:
        """Putting a row's slice, cells and groups together."""
        return self.constants.key_ns * (1 + len(node.dimensions) + len(node.groups))

    def slot_ns(self, node: Node) -> float:
        """Finding the place of a key."""
        if self.sample.key_space(node) <= DENSE_KEYS:
            return self.constants.dense_ns
        return self.constants.hash_ns if self.sample.rows(node) <= LARGE_TABLE else self.constants.large_hash_ns

    def folding(self, partial: Partial, node: Node) -> float:
        """Additions for one row of the stream."""
        fold = partial.traits.fold
        return fold.additions(self.repeats(partial, node)) if isinstance(fold, FoldChoice) else fold

    def compressed_partials(self, node: Node) -> frozenset[Partial]:
        """The partials for which equal rows are put together before they are folded [UDAF 8]."""
        choices = {partial: partial.traits.fold_choice for partial in node.partials}
        return frozenset(
            partial for partial, ways in choices.items() if ways and ways.is_compressed(self.repeats(partial, node))
        )

    def repeats(self, partial: Partial, node: Node) -> float:
        """The share of the rows that find their like: large if some values of the partial's argument come often."""
        return self.sample.repeats(with_values(node, partial), MEETING_PLACES)

    def combine_ns(self, partials: Iterable[Partial], node: Node) -> float:
        """Combining the states of one row of a node."""
        return sum(self.additions(partial, node) for partial in partials) * self.constants.addition_ns

    def additions(self, partial: Partial, node: Node) -> float:
        items = partial.traits.items
        return partial.traits.combine + (items.combine * self.items(partial, node) if items else 0.0)

    def state_bytes(self, partial: Partial, node: Node) -> float:
        items = partial.traits.items
        return partial.traits.state_bytes + (items.size * self.items(partial, node) if items else 0.0)

    def items(self, partial: Partial, node: Node) -> float:
        """How many items a state of the node holds: few if the values that meet in it repeat [UDAF 8]."""
        items, rows = partial.traits.items, self.sample.rows(node)
        if items is None or not rows:
            return 0.0
        seen = self.sample.batch_rows * self.sample.selectivity(node.keep) / rows
        if items.are_distinct:
            seen = self.sample.rows(with_values(node, partial)) / rows
        times = partial.size / partial.traits.default_size if partial.size else 1.0
        return min(seen, items.max_count * times)

    def start_ns(self, parent: Node, child: Node) -> float:
        """Leaves of the same groups are fanned out in one go. Where even they can't come from a node, nothing does."""
        is_fan_out = not child.dimensions and child.groups == parent.groups
        return self.constants.leaf_ns if is_fan_out or math.isinf(self.constants.leaf_ns) else self.constants.node_ns


def with_values(node: Node, partial: Partial) -> Node:
    """The node that has a row for each value of the partial's argument."""
    return replace(node, groups=node.groups | {partial.arguments[0]}, partials=frozenset())


def overlap(window: AnyWindow) -> float:
    """In how many instances a row lies, on average."""
    return window.range_us / window.slide_us if isinstance(window, Window) else 1.0
