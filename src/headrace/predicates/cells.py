"""Cells: what predicates say of rows, decided from the rows' cells alone."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from headrace.expressions.normal import normalize
from headrace.model.expressions import Call
from headrace.model.types import BOOLEAN
from headrace.predicates.dimensions import Dimension
from headrace.predicates.predicate import MAX_TABLE_CELLS, Predicate, union_dimensions

Bits = npt.NDArray[np.bool_]


def truth_grid(predicate: Predicate, dimensions: Sequence[Dimension]) -> Bits:
    """Whether the predicate is TRUE, for every cell of the dimensions, which cover its own: one axis for each."""
    places = {dimension.expression: place for place, dimension in enumerate(dimensions)}
    axes = [places[own.expression] for own in predicate.dimensions]
    finer = [dimensions[axis].coarsen(own) for axis, own in zip(axes, predicate.dimensions, strict=True)]
    table = predicate.table[np.ix_(*finer)] if finer else predicate.table
    ordered = np.transpose(table, np.argsort(axes)) if axes else table
    shape = [dimension.size if place in axes else 1 for place, dimension in enumerate(dimensions)]
    return np.broadcast_to(ordered.reshape(shape), [dimension.size for dimension in dimensions])


def coalesce(predicates: Sequence[Predicate]) -> Predicate:
    """The filter that passes exactly the rows that at least one of the predicates passes [NFC V]."""
    trees = [predicate.tree for predicate in predicates]
    known = [tree for tree in trees if tree is not None]
    if len(known) < len(trees) or not known:
        return Predicate(None)
    return Predicate(normalize(Call("or", tuple(known), BOOLEAN)) if len(known) > 1 else known[0])


def implies(stronger: Predicate, weaker: Predicate) -> bool:
    """True only if every row that passes `stronger` passes `weaker`: judged in every cell of their dimensions."""
    if stronger == weaker or weaker.tree is None:
        return True
    dimensions = union_dimensions([stronger.dimensions, weaker.dimensions])
    if np.prod([float(dimension.size) for dimension in dimensions]) > MAX_TABLE_CELLS:
        return False
    return bool((~truth_grid(stronger, dimensions) | truth_grid(weaker, dimensions)).all())
