"""Slices of a span of time: which lie inside a window, which belong to no window at all, which are no longer needed."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from headrace.model.windows import AnyWindow, Interval, SlicedWindow
from headrace.windows.boundaries import Boundaries, Times, boundaries_between, paired


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


def inside(slices: Slices, window: Interval) -> slice:
    """The positions of the slices that lie inside the window."""
    first = int(np.searchsorted(slices.starts_us, window.start_us, side="left"))
    last = int(np.searchsorted(slices.ends_us, window.end_us, side="right"))
    return slice(first, max(first, last))


def covered(slices: Slices, windows: Iterable[AnyWindow]) -> npt.NDArray[np.bool_]:
    """Which slices lie inside some instance: those between hopping windows do not, and need not be kept."""
    kept = np.zeros(len(slices.starts_us), dtype=np.bool_)
    for window in windows:
        if isinstance(window, SlicedWindow):
            kept[:] = True
        else:
            periods = -((window.offset_us - slices.ends_us) // window.slide_us)
            kept |= periods * window.slide_us + window.offset_us - window.range_us <= slices.starts_us
    return kept


def horizon(windows: Iterable[AnyWindow], watermark_us: int) -> int | None:
    """The start of the earliest instance still open: no open window needs a slice that ends by then."""
    return min((earliest_open(window, watermark_us).start_us for window in windows), default=None)


def earliest_open(window: AnyWindow, watermark_us: int) -> Interval:
    """The first instance that ends after the watermark; starts and ends of instances have the same order."""
    return next(window.ending_between(watermark_us, watermark_us + paired(window).period_us))
