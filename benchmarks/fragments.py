"""Fragments: sets of rows that satisfy the same predicates [OTF 4.2]."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from headrace.predicates import Dimension, Predicate
from headrace.predicates.dimensions import Codes
from headrace.predicates.predicate import Bits

Cells = npt.NDArray[np.int32]
"""One row per cell, one column per dimension."""


def observed_cells(codes: Sequence[Codes], rows: int) -> tuple[Cells, npt.NDArray[np.intp]]:
    """Return the distinct cells among the rows, and the cell of each row."""
    if not codes:
        return np.zeros((min(1, rows), 0), dtype=np.int32), np.zeros(rows, dtype=np.intp)
    keys = np.zeros(rows, dtype=np.int64)
    for column in codes:
        _, compact = np.unique(column, return_inverse=True)
        _, keys = np.unique(keys * (int(compact.max(initial=0)) + 1) + compact, return_inverse=True)
    _, first, of_row = np.unique(keys, return_index=True, return_inverse=True)
    return np.stack([column[first] for column in codes], axis=1), of_row


def truth_matrix(predicates: Sequence[Predicate], dimensions: Sequence[Dimension], cells: Cells) -> Bits:
    """Decide for each cell (row) whether each predicate (column) is TRUE; dimensions cover those of the predicates."""
    places = {dimension.expression: place for place, dimension in enumerate(dimensions)}
    result = np.empty((len(cells), len(predicates)), dtype=np.bool_)
    for column, predicate in enumerate(predicates):
        own = [
            dimensions[places[dimension.expression]].coarsen(dimension)[cells[:, places[dimension.expression]]]
            for dimension in predicate.dimensions
        ]
        result[:, column] = predicate.table[tuple(own)] if own else bool(predicate.table)
    return result


@dataclass(frozen=True, eq=False)
class Fragments:
    """Sets of cells with the same truth vector: the fragment of each cell, and the bits of each fragment."""

    of_cell: npt.NDArray[np.intp]
    signatures: Bits


def fragments(truth: Bits) -> Fragments:
    if truth.shape[1] == 0:
        return Fragments(np.zeros(len(truth), dtype=np.intp), np.zeros((min(1, len(truth)), 0), dtype=np.bool_))
    packed = np.packbits(truth, axis=1)
    _, first, of_cell = np.unique(packed, axis=0, return_index=True, return_inverse=True)
    return Fragments(of_cell.reshape(-1), truth[first])
