"""Dimensions: the values of one expression, split into cells, so that a cell decides every atom over the expression.

An *interval* dimension has cuts and a cell between each two; an *equality* dimension has a cell for each named constant
and one for all others; an *opaque* dimension has the outcomes of a condition we can't look into. Cell 0 is NULL.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import cached_property
from operator import ge, gt, le, lt
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from headrace.model.cached_hash import HashedOnce
from headrace.model.expressions import Expression
from headrace.model.stable_names import stored
from headrace.model.types import MAX_BIGINT, DataType, Value

Codes = npt.NDArray[np.int32]
Truth = npt.NDArray[np.int8]

NULL_CELL = 0
FALSE, UNKNOWN, TRUE = 0, 1, 2
"""Truth values as numbers: AND is the minimum, OR the maximum, NOT the distance from TRUE."""


class Kind(StrEnum):
    INTERVAL = "interval"
    EQUALITY = "equality"
    OPAQUE = "opaque"


@stored("Cut", "value", "above")
@dataclass(frozen=True, slots=True)
class Cut:
    """A place between values: just below `value`, or just above it."""

    value: Value
    above: bool = False

    @property
    def key(self) -> tuple[Any, bool]:
        return self.value, self.above


DISCRETE = ("BIGINT", "TIMESTAMP", "ADDRESS")


def cut_above(value: Any, data_type: DataType) -> Cut:
    """Just above a whole number is just below the next: so no cell is empty for lack of values in it."""
    return Cut(value + 1) if data_type.name in DISCRETE else Cut(value, above=True)


def cut_for(test: str, constant: Any, data_type: DataType) -> Cut:
    """The cut that decides `expression test constant`, a test of order."""
    return Cut(constant) if test in (">=", "<") else cut_above(constant, data_type)


@stored("Dimension", "expression", "kind", "marks")
@dataclass(frozen=True)
class Dimension(HashedOnce):
    """`marks` are the sorted cuts of an interval dimension or the sorted constants of an equality dimension."""

    expression: Expression
    kind: Kind
    marks: tuple[Any, ...] = ()

    @property
    def size(self) -> int:
        """The number of cells, NULL included."""
        return 3 if self.kind == Kind.OPAQUE else len(self.marks) + 2

    def __str__(self) -> str:
        return f"{self.kind} dimension with {self.size} cells"

    __hash__ = HashedOnce.__hash__

    # Values to cells

    @cached_property
    def _positions(self) -> dict[Any, int]:
        return {mark: position for position, mark in enumerate(self.marks)}

    def cell_of(self, value: Value) -> int:
        """The cell of one value, as `codes` finds it for a column."""
        if value is None:
            return NULL_CELL
        if self.kind == Kind.OPAQUE:
            return 2 if value else 1
        if self.kind == Kind.EQUALITY:
            return self._positions.get(value, len(self.marks)) + 1
        return 1 + bisect_left(self.marks, True, key=lambda cut: not passes(cut, value))

    def codes(self, values: pa.Array) -> Codes:
        """The cell of each value: a binary search or a hash look-up, whatever the number of predicates."""
        if self.kind == Kind.OPAQUE:
            return np.asarray(pc.fill_null(pc.add(pc.cast(values, pa.int32()), 1), NULL_CELL), dtype=np.int32)
        if self.kind == Kind.INTERVAL and (pa.types.is_integer(values.type) or pa.types.is_floating(values.type)):
            return self._search(values)
        if self.kind == Kind.EQUALITY and pa.types.is_string(values.type):
            return self._look_up(values)
        encoded = values.dictionary_encode()
        cells = [self.cell_of(plain(value)) for value in encoded.dictionary]
        indices: npt.NDArray[np.int32] = np.asarray(pc.fill_null(encoded.indices, len(cells)))
        return np.array([*cells, NULL_CELL], dtype=np.int32)[indices]

    def _look_up(self, values: pa.Array) -> Codes:
        positions = pc.index_in(values, value_set=pa.array(self.marks, values.type), skip_nulls=True)
        return with_null_cells(np.asarray(pc.fill_null(positions, len(self.marks))) + np.int32(1), values)

    def _search(self, values: pa.Array) -> Codes:
        """Numbers by `searchsorted`, which has NaN behind all numbers, as we have."""
        numbers = np.asarray(pc.fill_null(values, 0))
        below = [cut.value for cut in self.marks if not cut.above and within(cut.value, numbers.dtype)]
        above = [cut.value for cut in self.marks if cut.above]
        cells = 1 + np.searchsorted(np.array(below, dtype=numbers.dtype), numbers, side="right")
        if above:
            cells = cells + np.searchsorted(np.array(above, dtype=numbers.dtype), numbers, side="left")
        return with_null_cells(cells.astype(np.int32), values)

    # Dimensions among themselves

    def as_interval(self) -> Dimension:
        if self.kind != Kind.EQUALITY:
            return self
        data_type = self.expression.type
        cuts = [cut for constant in self.marks for cut in (Cut(constant), cut_above(constant, data_type))]
        return Dimension(self.expression, Kind.INTERVAL, sorted_cuts(cuts))

    def union(self, *others: Dimension) -> Dimension:
        """Return the coarsest dimension from which all can be derived."""
        if not others:
            return self
        if any(other.kind != self.kind for other in others):
            first, *rest = (dimension.as_interval() for dimension in (self, *others))
            return first.union(*rest)
        marks = {mark for dimension in (self, *others) for mark in dimension.marks}
        ordered = tuple(sorted(marks)) if self.kind == Kind.EQUALITY else sorted_cuts(marks)
        return replace(self, marks=ordered)

    def covers(self, other: Dimension) -> bool:
        if self.expression != other.expression:
            return False
        if self.kind == other.kind:
            return set(self.marks) >= set(other.marks)
        return self.kind == Kind.INTERVAL and set(self.marks) >= set(other.as_interval().marks)

    def coarsen(self, coarse: Dimension) -> Codes:
        """For each cell of this dimension the cell of `coarse` that holds it."""
        if self.kind == Kind.OPAQUE or self == coarse:
            return np.arange(self.size, dtype=np.int32)
        if self.kind == Kind.EQUALITY:
            cells = [coarse.cell_of(mark) for mark in self.marks]
            return np.array([NULL_CELL, *cells, coarse.size - 1], dtype=np.int32)
        target = coarse.as_interval()
        steps = np.array([cut in target._positions for cut in self.marks], dtype=np.int32)
        cells_of_target = np.concatenate(([NULL_CELL, 1], 1 + np.cumsum(steps))).astype(np.int32)
        return cells_of_target if coarse.kind == Kind.INTERVAL else interval_to_equality(coarse)[cells_of_target]

    # Atoms on cells

    def truth(self, test: str, constants: tuple[Value, ...]) -> Truth:
        """The truth of an atom in each cell: `expression test constants`."""
        if test in ("is_null", "is_not_null"):
            result = np.full(self.size, FALSE if test == "is_null" else TRUE, dtype=np.int8)
            result[NULL_CELL] = TRUE if test == "is_null" else FALSE
            return result
        if self.kind == Kind.OPAQUE:
            return opaque_truth(test, constants)
        if test in ("in", "="):
            return self._is_one_of(constants)
        if test == "<>":
            return negate_truth(self._is_one_of(constants))
        (constant,) = constants
        cut = cut_for(test, constant, self.expression.type)
        reached = np.arange(self.size) > self._positions[cut] + 1
        result = np.where(reached == (test in (">", ">=")), TRUE, FALSE).astype(np.int8)
        result[NULL_CELL] = UNKNOWN
        return result

    def _is_one_of(self, constants: tuple[Value, ...]) -> Truth:
        other = UNKNOWN if None in constants else FALSE
        result = np.full(self.size, other, dtype=np.int8)
        result[[self.cell_of(constant) for constant in constants if constant is not None]] = TRUE
        result[NULL_CELL] = UNKNOWN
        return result


def with_null_cells(codes: Codes, values: pa.Array) -> Codes:
    """Set the codes of the rows that are NULL."""
    if values.null_count:
        codes[np.asarray(values.is_null())] = NULL_CELL
    return codes


def passes(cut: Cut, value: Any) -> bool:
    """True if the value lies above the cut. NaN lies above all."""
    if value != value:
        return True
    return bool(value > cut.value if cut.above else value >= cut.value)


def within(value: Any, dtype: np.dtype[Any]) -> bool:
    """A cut behind the largest integer is never passed."""
    return dtype.kind == "f" or value <= MAX_BIGINT


def plain(scalar: Any) -> Any:
    """An Arrow scalar as the value that constants have inside: an address and a time as a number."""
    if pa.types.is_timestamp(scalar.type):
        return scalar.value
    value = scalar.as_py()
    return int.from_bytes(value, "big") if isinstance(value, bytes) else value


def sorted_cuts(cuts: Iterable[Cut]) -> tuple[Cut, ...]:
    return tuple(sorted(set(cuts), key=lambda cut: cut.key))


def interval_to_equality(coarse: Dimension) -> Codes:
    """From the cells between the cuts of an equality dimension to its own cells."""
    finest = coarse.as_interval()
    cells = np.full(finest.size, coarse.size - 1, dtype=np.int32)
    cells[NULL_CELL] = NULL_CELL
    just_above = [finest._positions[Cut(constant)] + 2 for constant in coarse.marks]
    cells[just_above] = np.arange(1, len(just_above) + 1)
    return cells


def negate_truth(truth: Truth) -> Truth:
    return (TRUE - truth).astype(np.int8)


ORDER: Mapping[str, Callable[[Any, Any], bool]] = {"<": lt, "<=": le, ">": gt, ">=": ge}


def opaque_truth(test: str, constants: tuple[Value, ...]) -> Truth:
    """Cells are NULL, false, true."""
    if test in ("is_true", "is_false"):
        wanted = 2 if test == "is_true" else 1
        return np.where(np.arange(3) == wanted, TRUE, FALSE).astype(np.int8)
    unknown = UNKNOWN if None in constants else FALSE
    if test == "holds":
        outcomes = [FALSE, TRUE]
    elif test in ORDER:
        (bound,) = constants
        outcomes = [unknown or TRUE * ORDER[test](value, bound) for value in (False, True)]
    else:
        outcomes = [TRUE if value in constants else unknown for value in (False, True)]
    truth = np.array([UNKNOWN, *outcomes], dtype=np.int8)
    return negate_truth(truth) if test == "<>" else truth
