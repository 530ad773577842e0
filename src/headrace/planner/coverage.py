"""Which nodes cover which, asked for thousands of pairs: the same answers as `Node.covers`, from bits of integers.

Every part that a node may have (a progression of boundaries, a cut, a predicate, a group-by, a partial) has a bit. A
node *needs* some parts and *provides* those that follow from its own; it is covered by what provides all it needs.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

from headrace.model.expressions import Expression
from headrace.planner.lattice import EVERYTHING, Node, is_function_of
from headrace.predicates import Dimension, Kind, Predicate, implies
from headrace.windows import Boundaries


@dataclass(frozen=True, slots=True)
class Progression:
    """The boundaries `k * period + residue`."""

    period_us: int
    residue_us: int


@dataclass(frozen=True, slots=True)
class DimensionMark:
    """A cut or constant of a dimension; without values, that there is such a dimension at all."""

    expression: Expression
    kind: Kind
    values: tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class Profile:
    """A node as bits: what it needs, what it needs where its parent keeps other rows, what it provides."""

    needs: int
    needs_to_filter: int
    provides: int
    keep: frozenset[Predicate]


class Coverage:
    """Made from the leaves; knows them, their unions and every mixture of the parts of those."""

    def __init__(self, leaves: Sequence[Node]) -> None:
        self.bits: dict[Hashable, int] = {}
        for leaf in leaves:
            for part in parts_of(leaf):
                self.bits.setdefault(part, 1 << len(self.bits))
        self.marks: dict[Expression, int] = {}
        for part, bit in self.bits.items():
            if isinstance(part, DimensionMark):
                self.marks[part.expression] = self.marks.get(part.expression, 0) | bit
        self.progressions = [part for part in self.bits if isinstance(part, Progression)]
        self.periods_us = np.array([progression.period_us for progression in self.progressions], dtype=np.int64)
        self.residues_us = np.array([progression.residue_us for progression in self.progressions], dtype=np.int64)
        self.from_times: dict[Progression, int] = {}
        self.from_dimensions: dict[tuple[Dimension, ...], int] = {}
        self.from_cuts: dict[Dimension, int] = {}
        self.from_groups: dict[frozenset[Expression], int] = {}
        self.implies = cache(implies)

    def profile(self, node: Node) -> Profile:
        needs = self.mask((*node.groups, *node.partials))
        provides = self.mask_from_groups(node.groups)
        needs_to_filter = 0
        for progression in progressions(node.boundaries):
            needs |= self.bits[progression]
            provides |= self.mask_from_time(progression)
        for dimension in node.dimensions:
            needs |= self.marks_of((dimension,))
            provides |= self.mask_from_cuts(dimension)
        for predicate in node.keep:
            needs_to_filter |= self.marks_of(predicate.dimensions)
        return Profile(needs, needs_to_filter, provides | needs, node.keep)

    def marks_of(self, dimensions: tuple[Dimension, ...]) -> int:
        if dimensions not in self.from_dimensions:
            self.from_dimensions[dimensions] = self.mask(marks(dimensions))
        return self.from_dimensions[dimensions]

    def covers(self, parent: Profile, child: Profile) -> bool:
        if child.needs & ~parent.provides:
            return False
        if parent.keep == child.keep:
            return True
        return not child.needs_to_filter & ~parent.provides and self.holds(parent.keep, child.keep)

    def mask(self, parts: Iterable[Hashable]) -> int:
        result = 0
        for part in parts:
            result |= self.bits[part]
        return result

    def mask_from_time(self, progression: Progression) -> int:
        """Return the mask of the progressions that run inside this one."""
        if progression not in self.from_times:
            multiples = self.periods_us % progression.period_us == 0
            inside = multiples & (self.residues_us % progression.period_us == progression.residue_us)
            self.from_times[progression] = self.mask(self.progressions[place] for place in np.flatnonzero(inside))
        return self.from_times[progression]

    def mask_from_groups(self, groups: frozenset[Expression]) -> int:
        """Return the mask of the group-bys and dimensions that are functions of these groups."""
        if groups not in self.from_groups:
            mask = self.mask(
                part for part in self.bits if isinstance(part, Expression) and is_function_of(part, groups)
            )
            for expression, marks_of_it in self.marks.items():
                mask |= marks_of_it if is_function_of(expression, groups) else 0
            self.from_groups[groups] = mask
        return self.from_groups[groups]

    def mask_from_cuts(self, dimension: Dimension) -> int:
        """Return the mask of the constants of equality dimensions that have a cut on both sides."""
        if dimension.kind != Kind.INTERVAL:
            return 0
        if dimension not in self.from_cuts:
            cuts = set(dimension.marks)
            self.from_cuts[dimension] = self.mask(
                part
                for part in self.bits
                if isinstance(part, DimensionMark)
                and part.expression == dimension.expression
                and part.kind == Kind.EQUALITY
                and cuts.issuperset(Dimension(part.expression, Kind.EQUALITY, part.values).as_interval().marks)
            )
        return self.from_cuts[dimension]

    def holds(self, keep: frozenset[Predicate], others: frozenset[Predicate]) -> bool:
        return EVERYTHING in keep or all(
            other in keep or any(self.implies(other, kept) for kept in keep) for other in others
        )


def parts_of(node: Node) -> Iterator[Hashable]:
    """Yield what the node has, what separates its rows from others, and what equality becomes beside intervals."""
    yield from progressions(node.boundaries)
    yield from node.groups
    yield from node.partials
    for dimensions in (node.dimensions, *(predicate.dimensions for predicate in node.keep)):
        for dimension in dimensions:
            yield from marks((dimension, dimension.as_interval()))


def marks(dimensions: Iterable[Dimension]) -> Iterator[DimensionMark]:
    for dimension in dimensions:
        yield DimensionMark(dimension.expression, dimension.kind, ())
        for mark in dimension.marks:
            yield DimensionMark(dimension.expression, dimension.kind, (mark,))


def progressions(boundaries: Iterable[Boundaries]) -> Iterator[Progression]:
    for part in boundaries:
        for residue in part.residues_us:
            yield Progression(part.period_us, residue)
