"""A predicate as atoms over dimensions: which it needs at least, and its truth in each combination of their cells.

What predicates say of rows is decided from the cells of the rows alone.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from headrace.model.address import BITS, IPV4_BITS, MAPPED, is_ipv4, parse_network
from headrace.model.cached_hash import HashedOnce
from headrace.model.expressions import Call, Expression, Literal
from headrace.model.stable_names import stable_text, stored
from headrace.model.types import BOOLEAN, NULL, common_type
from headrace.predicates.dimensions import ORDER, UNKNOWN, Dimension, Kind, Truth, cut_for, negate_truth, sorted_cuts
from headrace.predicates.dimensions import TRUE as HOLDS

Bits = npt.NDArray[np.bool_]
MAX_TABLE_CELLS = 1 << 20
"""A predicate over more combinations than this is taken as one opaque condition."""

COMPARISONS = ORDER.keys() | {"=", "<>", "in"}


@dataclass(frozen=True, slots=True)
class Atom:
    """`expression test constants`; `holds` is the test of an opaque condition."""

    expression: Expression
    test: str
    constants: tuple[Any, ...] = ()

    def dimension(self) -> Dimension:
        """The coarsest dimension that decides the atom."""
        if self.expression.type == BOOLEAN:
            return Dimension(self.expression, Kind.OPAQUE)
        values = [constant for constant in self.constants if constant is not None]
        if self.test not in ORDER:
            return Dimension(self.expression, Kind.EQUALITY, tuple(sorted(values)))
        cuts = [cut_for(self.test, value, self.expression.type) for value in values]
        return Dimension(self.expression, Kind.INTERVAL, sorted_cuts(cuts))


def atom_of(tree: Expression) -> Atom:
    """The atom that a leaf of a predicate is; what we can't look into is an opaque condition."""
    if isinstance(tree, Call):
        subject = tree.arguments[0] if tree.arguments else tree
        literals = [argument for argument in tree.arguments[1:] if isinstance(argument, Literal)]
        if tree.function in COMPARISONS and len(literals) == len(tree.arguments) - 1:
            return comparison_atom(tree, subject, tuple(literal.value for literal in literals))
        if tree.function in ("is_null", "is_not_null", "is_true", "is_false"):
            return Atom(subject, tree.function)
    return Atom(tree, "holds")


def comparison_atom(tree: Call, subject: Expression, constants: tuple[Any, ...]) -> Atom:
    """Compared values meet in one type: a BIGINT beside a DOUBLE constant is an dimension of its own, as DOUBLE."""
    target = subject.type
    for argument in tree.arguments[1:]:
        target = common_type(target, argument.type) or target
    if isinstance(subject, Literal) or target == NULL or (tree.function in ORDER and None in constants):
        return Atom(tree, "holds")
    if target != subject.type:
        if target.name != "DOUBLE":
            return Atom(tree, "holds")
        subject = Call("cast", (subject,), target)
        constants = tuple(float(value) if isinstance(value, int) else value for value in constants)
    return Atom(subject, tree.function, constants)


def expand(tree: Expression) -> Expression:
    """Membership in a network is an interval of addresses."""
    if not isinstance(tree, Call):
        return tree
    if tree.function in ("and", "or", "not"):
        return Call(tree.function, tuple(expand(argument) for argument in tree.arguments), tree.type)
    if tree.function == "ip_in" and isinstance(tree.arguments[1], Literal):
        return network_intervals(tree)
    return tree


def network_intervals(tree: Call) -> Expression:
    subject, text = tree.arguments
    assert isinstance(text, Literal)
    first, length = parse_network(str(text.value))
    last = first + (1 << (IPV4_BITS if is_ipv4(first) else BITS) - length) - 1

    def within(low: int, high: int) -> Call:
        bounds = ((">=", low), ("<=", high))
        sides = tuple(Call(sign, (subject, Literal(value, subject.type)), BOOLEAN) for sign, value in bounds)
        return Call("and", sides, BOOLEAN)

    mapped_last = MAPPED + (1 << IPV4_BITS) - 1
    if is_ipv4(first) or not first <= MAPPED <= last:
        return within(first, last)
    return Call("or", (within(first, MAPPED - 1), within(mapped_last + 1, last)), BOOLEAN)


@stored("Predicate", "tree")
@dataclass(frozen=True)
class Predicate(HashedOnce):
    """A WHERE clause in normal form; None lets every row pass."""

    tree: Expression | None

    __hash__ = HashedOnce.__hash__

    @cached_property
    def dimensions(self) -> tuple[Dimension, ...]:
        """The coarsest dimensions that decide the predicate, sorted by expression."""
        if self.tree is None:
            return ()
        dimensions = union_dimensions([[atom.dimension()] for atom in atoms_in(expand(self.tree))])
        if math.prod(dimension.size for dimension in dimensions) > MAX_TABLE_CELLS:
            return (Dimension(self.tree, Kind.OPAQUE),)
        return dimensions

    @cached_property
    def table(self) -> Bits:
        """For each combination of cells of `dimensions` whether the predicate is TRUE there."""
        shape = tuple(dimension.size for dimension in self.dimensions)
        if self.tree is None:
            return np.ones((), dtype=np.bool_)
        positions = {dimension.expression: position for position, dimension in enumerate(self.dimensions)}
        if self.tree in positions and self.dimensions[0].kind == Kind.OPAQUE and len(self.dimensions) == 1:
            truth = self.dimensions[0].truth("holds", ())
        else:
            truth = truth_on(expand(self.tree), self.dimensions, positions)
        return np.broadcast_to(truth == HOLDS, shape)


def atoms_in(tree: Expression) -> list[Atom]:
    if isinstance(tree, Call) and tree.function in ("and", "or", "not"):
        return [atom for argument in tree.arguments for atom in atoms_in(argument)]
    if isinstance(tree, Literal):
        return []
    return [atom_of(tree)]


def truth_on(tree: Expression, dimensions: Sequence[Dimension], positions: Mapping[Expression, int]) -> Truth:
    """An array of truth values with one index per dimension, of length 1 where the tree does not depend on it."""
    if isinstance(tree, Literal):
        value = UNKNOWN if tree.value is None else HOLDS * bool(tree.value)
        return np.full((1,) * len(dimensions), value, dtype=np.int8)
    if isinstance(tree, Call) and tree.function in ("and", "or"):
        combine = np.minimum if tree.function == "and" else np.maximum
        result = truth_on(tree.arguments[0], dimensions, positions)
        for argument in tree.arguments[1:]:
            result = combine(result, truth_on(argument, dimensions, positions))
        return result
    if isinstance(tree, Call) and tree.function == "not":
        return negate_truth(truth_on(tree.arguments[0], dimensions, positions))
    atom = atom_of(tree)
    place = positions[atom.expression]
    truth = dimensions[place].truth(atom.test, atom.constants)
    return truth.reshape([-1 if position == place else 1 for position in range(len(dimensions))])


def union_dimensions(groups: Sequence[Sequence[Dimension]]) -> tuple[Dimension, ...]:
    """One dimension per expression, fine enough for all, sorted by expression."""
    known: dict[Expression, list[Dimension]] = {}
    for dimension in dict.fromkeys(dimension for dimensions in groups for dimension in dimensions):
        known.setdefault(dimension.expression, []).append(dimension)
    united = [first.union(*others) for first, *others in known.values()]
    return tuple(sorted(united, key=lambda dimension: stable_text(dimension.expression)))


def truth_grid(predicate: Predicate, dimensions: Sequence[Dimension]) -> Bits:
    """Whether the predicate is TRUE, for every cell of the dimensions, which cover its own: one axis for each."""
    places = {dimension.expression: place for place, dimension in enumerate(dimensions)}
    axes = [places[dimension.expression] for dimension in predicate.dimensions]
    finer = [dimensions[axis].coarsen(coarse) for axis, coarse in zip(axes, predicate.dimensions, strict=True)]
    table = predicate.table[np.ix_(*finer)] if finer else predicate.table
    ordered = np.transpose(table, np.argsort(axes)) if axes else table
    shape = [dimension.size if place in axes else 1 for place, dimension in enumerate(dimensions)]
    return np.broadcast_to(ordered.reshape(shape), [dimension.size for dimension in dimensions])


def implies(stronger: Predicate, weaker: Predicate) -> bool:
    """True only if every row that passes `stronger` passes `weaker`: judged in every cell of their dimensions."""
    if stronger == weaker or weaker.tree is None:
        return True
    dimensions = union_dimensions([stronger.dimensions, weaker.dimensions])
    if math.prod(dimension.size for dimension in dimensions) > MAX_TABLE_CELLS:
        return False
    return bool((~truth_grid(stronger, dimensions) | truth_grid(weaker, dimensions)).all())
