"""Nodes of the lattice: slice boundaries, predicate cells, group-bys and partials that are computed together."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

from headrace.aggregates.partials import Partial
from headrace.model.cached_hash import HashedOnce
from headrace.model.expressions import Call, Expression, Literal
from headrace.model.stable_names import stable_text, stored
from headrace.predicates import Dimension, Predicate, implies, union_dimensions
from headrace.windows import Boundaries, compose

EVERYTHING = Predicate(None)

MAX_CELLS = 1 << 40
"""How many cells a node may have: they are numbers, and with slices and groups they make up keys."""


@stored("Node", "boundaries", "dimensions", "keep", "groups", "partials")
@dataclass(frozen=True)
class Node(HashedOnce):
    """`(T, P, G, A)`. `keep` are the predicates whose rows the node holds: a coalesced filter [NFC V]."""

    boundaries: tuple[Boundaries, ...]
    dimensions: tuple[Dimension, ...]
    keep: frozenset[Predicate]
    groups: frozenset[Expression]
    partials: frozenset[Partial]

    __hash__ = HashedOnce.__hash__

    @cached_property
    def cells(self) -> int:
        """How many there are, whether rows lie in them or not."""
        return math.prod(dimension.size for dimension in self.dimensions)

    def covers(self, other: Node) -> bool:
        """True if `other` can be computed from this node alone."""
        return (
            contains_boundaries(self.boundaries, other.boundaries)
            and other.partials <= self.partials
            and all(is_function_of(tree, self.groups) for tree in other.groups)
            and all(self.distinguishes(dimension) for dimension in other.dimensions)
            and self.keeps(other)
        )

    def distinguishes(self, dimension: Dimension) -> bool:
        """Return whether the cell of each row of this node is known, from its own cells or from its groups."""
        return any(known.covers(dimension) for known in self.dimensions) or is_function_of(
            dimension.expression, self.groups
        )

    def keeps(self, other: Node) -> bool:
        """Return whether this node holds all rows of `other` and can separate them from the rest."""
        if other.keep == self.keep:
            return True
        holds_all = EVERYTHING in self.keep or all(
            predicate in self.keep or any(implies(predicate, kept) for kept in self.keep) for predicate in other.keep
        )
        return holds_all and all(
            self.distinguishes(dimension) for predicate in other.keep for dimension in predicate.dimensions
        )


def union(nodes: Sequence[Node]) -> Node:
    """The coarsest node that covers them all, part by part."""
    keep = frozenset(predicate for node in nodes for predicate in node.keep)
    if EVERYTHING in keep:
        keep = frozenset((EVERYTHING,))
    groups = frozenset(tree for node in nodes for tree in node.groups)
    wanted = [node.dimensions for node in nodes]
    # a node of several predicates distinguishes them already
    wanted += [
        predicate.dimensions for node in nodes if node.keep != keep and len(node.keep) == 1 for predicate in node.keep
    ]
    united = union_dimensions(wanted)
    return Node(
        boundaries=compose(part for node in nodes for part in node.boundaries),
        dimensions=tuple(dimension for dimension in united if not is_function_of(dimension.expression, groups)),
        keep=keep,
        groups=minimal_groups(groups),
        partials=frozenset(partial for node in nodes for partial in node.partials),
    )


def minimal_groups(groups: frozenset[Expression]) -> frozenset[Expression]:
    """Without those that are functions of the others: beside `addr`, `ip_prefix(addr, 24)` adds nothing."""
    kept = set(groups)
    for tree in sorted(groups, key=lambda tree: -len(stable_text(tree))):
        if is_function_of(tree, frozenset(kept - {tree})):
            kept.discard(tree)
    return frozenset(kept)


def is_function_of(tree: Expression, known: frozenset[Expression]) -> bool:
    """True if the value of `tree` follows from the values of `known`. All functions are deterministic."""
    if isinstance(tree, Literal) or tree in known:
        return True
    if not isinstance(tree, Call) or is_matched(tree):
        return False
    if tree.function == "ip_prefix" and any(is_longer_prefix(other, tree) for other in known):
        return True
    return all(is_function_of(argument, known) for argument in tree.arguments)


def is_matched(tree: Expression) -> bool:
    """The condition that a row has a partner in a joined table: known of each row, computed from no column."""
    return isinstance(tree, Call) and tree.function == "matched"


def is_longer_prefix(known: Expression, tree: Call) -> bool:
    if not isinstance(known, Call) or known.function != "ip_prefix" or known.arguments[0] != tree.arguments[0]:
        return False
    longer, shorter = known.arguments[1], tree.arguments[1]
    if not isinstance(longer, Literal) or not isinstance(shorter, Literal):
        return False
    return int(longer.value or 0) >= int(shorter.value or 0)


def contains_boundaries(fine: Iterable[Boundaries], coarse: Iterable[Boundaries]) -> bool:
    """Each progression of boundaries of `coarse` runs inside one of `fine`."""
    finer = list(fine)
    return all(
        any(part.period_us % cut.period_us == 0 and residue % cut.period_us in cut.residues_us for cut in finer)
        for part in coarse
        for residue in part.residues_us
    )
