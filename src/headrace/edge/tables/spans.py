"""Rows in the order of their slices: tables take those of one slice at a time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from headrace.edge.tables.tables import Values
from headrace.kernel.level1.cells import slice_codes
from headrace.kernel.level1.rows import NodeSource
from headrace.model.arrays import Integers
from headrace.windows import Boundaries


class SliceSpan(NamedTuple):
    """Rows of one slice, from `begin` until before `end`."""

    begin: int
    end: int
    start_us: int
    end_us: int

    @property
    def rows(self) -> int:
        return self.end - self.begin


class Spans(NamedTuple):
    """`positions` says where the rows are in their piece; None if they are all of it, as they come."""

    positions: Integers | None
    spans: Sequence[SliceSpan]


def spans_of(rows: NodeSource, boundaries: tuple[Boundaries, ...]) -> Spans:
    """Of rows that come in any order; there must be one."""
    slices, codes = slice_codes(boundaries, rows.times_us)
    positions = rows.rows
    if (codes[1:] < codes[:-1]).any():
        order = np.argsort(codes, kind="stable")
        codes = codes[order]
        positions = order if positions is None else positions[order]
    begins = np.concatenate([[0], np.flatnonzero(codes[1:] != codes[:-1]) + 1])
    ends, numbers = np.append(begins[1:], len(codes)), codes[begins]
    columns = (begins, ends, slices.starts_us[numbers], slices.ends_us[numbers])
    return Spans(
        positions, [SliceSpan(*bounds) for bounds in zip(*(column.tolist() for column in columns), strict=True)]
    )


def take_rows(values: Values, positions: Integers | None) -> Values:
    return values if positions is None else values[positions]


def code_matrix(codes: Sequence[Integers], positions: Integers | None) -> Integers:
    """A row for each field."""
    if positions is None:
        return np.stack(codes)
    matrix = np.empty((len(codes), len(positions)), dtype=np.int64)
    for row, column in zip(matrix, codes, strict=True):
        np.take(column, positions, out=row, mode="clip")  # all are there: to look for others would take a second copy
    return matrix
