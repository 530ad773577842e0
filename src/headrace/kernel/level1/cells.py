"""Codes of rows: the cell of each value and the slice of each time, by compiled searches."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from headrace.expressions.columns import raw
from headrace.kernel.level1.loops import count_few_reached, count_reached, find_slices, rank_doubles
from headrace.model.arrays import Integers
from headrace.model.caches import cached
from headrace.model.types import MAX_BIGINT
from headrace.predicates import Dimension, Kind
from headrace.predicates.dimensions import NULL_CELL, Codes
from headrace.windows import Boundaries, Slices, slices_between, slices_holding

TABLE_BITS = 12
FEW_BOUNDARIES = 1 << 16
FEW_CUTS = 8
"""Up to this many cuts are compared with every number, which is faster than a search."""


class RankedCuts(NamedTuple):
    """Sorted ranks, and for ranges of 2 ** shift numbers from the first on how many of them lie below."""

    ranks: Integers
    shift: int
    table: npt.NDArray[np.int32]


def codes_of(dimension: Dimension, values: pa.Array) -> Codes:
    """The cell of each value, as `Dimension.codes` has it."""
    is_double = pa.types.is_float64(values.type)
    if dimension.kind == Kind.EQUALITY and pa.types.is_int64(values.type):
        fine, cells_of_fine = as_interval(dimension)
        return np.take(cells_of_fine, codes_of(fine, values))
    if dimension.kind != Kind.INTERVAL or not (is_double or pa.types.is_int64(values.type)):
        return dimension.codes(values)
    cuts = cuts_of(dimension, is_double)
    if is_double or len(cuts.ranks) > FEW_CUTS:
        cells = np.empty(len(values), dtype=np.int32)
        count_reached(raw(values, np.int64), is_double, cuts.ranks, cuts.shift, cuts.table, cells)
    else:
        cells = np.ones(len(values), dtype=np.int32)
        count_few_reached(raw(values, np.int64), cuts.ranks, cells)
    if values.null_count:
        cells[np.asarray(values.is_null())] = NULL_CELL
    return cells


@cached
def as_interval(dimension: Dimension) -> tuple[Dimension, Codes]:
    """Return the interval dimension that is finer than an equality dimension, and the coarse cell of each fine one."""
    fine = dimension.as_interval()
    return fine, fine.coarsen(dimension)


@cached
def cuts_of(dimension: Dimension, is_double: bool) -> RankedCuts:
    """What a value must reach to be behind each cut; just above a DOUBLE has the next rank."""
    if is_double:
        ranks = np.empty(len(dimension.marks), dtype=np.int64)
        rank_doubles(np.array([cut.value for cut in dimension.marks], dtype=np.float64).view(np.int64), ranks)
        ranks += np.array([cut.above for cut in dimension.marks], dtype=np.int64)
    else:
        ranks = np.array([cut.value for cut in dimension.marks if cut.value <= MAX_BIGINT], dtype=np.int64)
    if not len(ranks):
        return RankedCuts(ranks, 0, np.zeros(1, dtype=np.int32))
    span = int(ranks[-1]) - int(ranks[0])
    shift = max(0, span.bit_length() - TABLE_BITS)
    begins = [int(ranks[0]) + (place << shift) for place in range((span >> shift) + 1)]
    return RankedCuts(ranks, shift, np.searchsorted(ranks, np.array(begins), side="left").astype(np.int32))


def slices_within(boundaries: tuple[Boundaries, ...], first_us: int, last_us: int) -> Slices | None:
    """Those of a span of times; None if there might be many."""
    span_us = last_us - first_us + 2 * max(part.period_us for part in boundaries)
    if sum(len(part.residues_us) * span_us / part.period_us for part in boundaries) > FEW_BOUNDARIES:
        return None
    return slices_between(boundaries, first_us, last_us + 1)


def slice_codes(boundaries: tuple[Boundaries, ...], times_us: Integers) -> tuple[Slices, Codes]:
    """As `slices_holding`, with a search that is made for times that come about in order."""
    slices = slices_within(boundaries, int(times_us.min()), int(times_us.max())) if len(times_us) else None
    if slices is None:
        return slices_holding(boundaries, times_us)
    codes = np.empty(len(times_us), dtype=np.int32)
    find_slices(times_us, slices.starts_us, codes)
    return slices, codes
