"""Slices of a span of time: which there are, which hold a time, and which are no longer needed."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from headrace.model.windows import AnyWindow, Interval, Window
from headrace.windows.boundaries import Boundaries, Times, boundaries_between, paired_boundaries
from headrace.windows.instances import last_ending

FEW_BOUNDARIES = 1 << 16


class Slices(NamedTuple):
    """Half-open intervals [start, end), in order and without overlap."""

    starts_us: Times
    ends_us: Times


def slices_between(parts: Sequence[Boundaries], start_us: int, end_us: int) -> Slices:
    """The slices that overlap [start, end), whole ones, from the last boundary at or before `start` on."""
    longest_us = max((part.period_us for part in parts), default=0)
    cuts = boundaries_between(parts, start_us - longest_us - 1, end_us + longest_us)
    first = np.searchsorted(cuts, start_us, side="right") - 1
    last = np.searchsorted(cuts, end_us, side="left")
    chosen = cuts[max(first, 0) : last + 1]
    return Slices(chosen[:-1], chosen[1:])


def slices_holding(parts: Sequence[Boundaries], times_us: Times) -> tuple[Slices, npt.NDArray[np.int32]]:
    """The slices that the times lie in, perhaps others between them, and the position of each time's slice.

    Where a span has many more boundaries than there are times in it, only the slices of the times are made.
    """
    if not len(times_us):
        return Slices(times_us, times_us), np.empty(0, dtype=np.int32)
    first, last = int(times_us.min()), int(times_us.max())
    longest_us = max(part.period_us for part in parts)
    span_us = last - first + 2 * longest_us
    if sum(len(part.residues_us) * span_us / part.period_us for part in parts) > FEW_BOUNDARIES + 4 * len(times_us):
        starts, first_rows, codes = np.unique(slice_starts(parts, times_us), return_index=True, return_inverse=True)
        return Slices(starts, slice_ends(parts, times_us[first_rows])), codes.astype(np.int32)
    slices = slices_between(parts, first, last + 1)
    return slices, (np.searchsorted(slices.starts_us, times_us, side="right") - 1).astype(np.int32)


def slice_starts(parts: Sequence[Boundaries], times_us: Times) -> Times:
    """The last boundary at or before each time."""
    starts = np.full(len(times_us), np.iinfo(np.int64).min)
    for part in parts:
        for residue in part.residues_us:
            np.maximum(starts, times_us - (times_us - residue) % part.period_us, out=starts)
    return starts


def slice_ends(parts: Sequence[Boundaries], times_us: Times) -> Times:
    """The first boundary after each time."""
    ends = np.full(len(times_us), np.iinfo(np.int64).max)
    for part in parts:
        for residue in part.residues_us:
            np.minimum(ends, times_us + part.period_us - (times_us - residue) % part.period_us, out=ends)
    return ends


def horizon(windows: Iterable[AnyWindow], watermark_us: int) -> int | None:
    """The start of the earliest instance still open: no open window needs a slice that ends by then."""
    return min((earliest_open(window, watermark_us).start_us for window in windows), default=None)


def earliest_open(window: AnyWindow, watermark_us: int) -> Interval:
    """The first instance that ends after the watermark; starts and ends of instances have the same order."""
    if isinstance(window, Window):
        end_us = (last_ending(window, watermark_us) + 1) * window.slide_us + window.offset_us
        return Interval(end_us - window.range_us, end_us)
    return next(window.ending_between(watermark_us, watermark_us + paired_boundaries(window).period_us))
