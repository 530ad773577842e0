"""Cells and fragments: what many predicates say of the same rows, told from the rows' cells alone."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from headrace.expressions.normal import normalize
from headrace.model.expressions import Call
from headrace.model.types import BOOLEAN
from headrace.predicates.dimensions import Codes, Dimension
from headrace.predicates.predicate import MAX_TABLE_CELLS, Predicate, union_dimensions

Cells = npt.NDArray[np.int32]
"""One row per cell, one column per dimension."""

Bits = npt.NDArray[np.bool_]
Partial = TypeVar("Partial")


def truth_matrix(predicates: Sequence[Predicate], dimensions: Sequence[Dimension], cells: Cells) -> Bits:
    """For each cell (row) and predicate (column): is it TRUE there? The dimensions cover those of the predicates."""
    places = {dimension.expression: place for place, dimension in enumerate(dimensions)}
    result = np.empty((len(cells), len(predicates)), dtype=np.bool_)
    for column, predicate in enumerate(predicates):
        own = [
            dimensions[places[dimension.expression]].coarsen(dimension)[cells[:, places[dimension.expression]]]
            for dimension in predicate.dimensions
        ]
        result[:, column] = predicate.table[tuple(own)] if own else bool(predicate.table)
    return result


def truth_grid(predicate: Predicate, dimensions: Sequence[Dimension]) -> Bits:
    """Whether the predicate is TRUE, for every cell of the dimensions, which cover its own: one axis for each."""
    places = {dimension.expression: place for place, dimension in enumerate(dimensions)}
    axes = [places[own.expression] for own in predicate.dimensions]
    finer = [dimensions[axis].coarsen(own) for axis, own in zip(axes, predicate.dimensions, strict=True)]
    table = predicate.table[np.ix_(*finer)] if finer else predicate.table
    ordered = np.transpose(table, np.argsort(axes)) if axes else table
    shape = [dimension.size if place in axes else 1 for place, dimension in enumerate(dimensions)]
    return np.broadcast_to(ordered.reshape(shape), [dimension.size for dimension in dimensions])


@dataclass(frozen=True, eq=False)
class Fragments:
    """Sets of cells with the same truth vector [OTF 4.2]: the fragment of each cell, and the bits of each fragment."""

    of_cell: npt.NDArray[np.intp]
    signatures: Bits


def fragments(truth: Bits) -> Fragments:
    if truth.shape[1] == 0:
        return Fragments(np.zeros(len(truth), dtype=np.intp), np.zeros((min(1, len(truth)), 0), dtype=np.bool_))
    packed = np.packbits(truth, axis=1)
    _, first, of_cell = np.unique(packed, axis=0, return_index=True, return_inverse=True)
    return Fragments(of_cell.reshape(-1), truth[first])


def observed_cells(codes: Sequence[Codes], rows: int) -> tuple[Cells, npt.NDArray[np.intp]]:
    """The distinct cells among the rows, and the cell of each row."""
    if not codes:
        return np.zeros((min(1, rows), 0), dtype=np.int32), np.zeros(rows, dtype=np.intp)
    keys = np.zeros(rows, dtype=np.int64)
    for column in codes:
        _, compact = np.unique(column, return_inverse=True)
        _, keys = np.unique(keys * (int(compact.max(initial=0)) + 1) + compact, return_inverse=True)
    _, first, of_row = np.unique(keys, return_index=True, return_inverse=True)
    return np.stack([column[first] for column in codes], axis=1), of_row


def final_aggregation(
    signatures: Bits, partials: Sequence[Partial], combine: Callable[[Partial, Partial], Partial]
) -> list[Partial | None]:
    """For each query the combination of the partials of its fragments [OTF algorithm 2]; None if there are none."""
    results: list[Partial | None] = [None] * signatures.shape[1]
    for signature, partial in zip(signatures, partials, strict=True):
        for query in np.flatnonzero(signature):
            known = results[query]
            results[query] = partial if known is None else combine(known, partial)
    return results


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
