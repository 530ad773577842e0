"""The instances of a window, numbered: which of them hold a slice, and where each begins and ends."""

from __future__ import annotations

import numpy as np

from headrace.model.windows import AnyWindow, SlicedWindow
from headrace.windows.boundaries import Times


def instances_of(window: AnyWindow, starts_us: Times, ends_us: Times) -> tuple[Times, Times]:
    """For each slice the numbers of the first and of the last instance that hold it; no instance: first > last."""
    if isinstance(window, SlicedWindow):
        ends = np.cumsum(window.slices_us)
        cycles, phases = np.divmod(starts_us - window.offset_us, window.period_us)
        places = np.searchsorted(ends, phases, side="right")
        fits = ends_us - starts_us <= ends[places] - phases
        numbers = cycles * len(ends) + places
        return numbers, np.where(fits, numbers, numbers - 1)
    first = -((window.offset_us - ends_us) // window.slide_us)
    last = (starts_us + window.range_us - window.offset_us) // window.slide_us
    return first, last


def instances_ending(window: AnyWindow, after_us: int, until_us: int) -> tuple[int, int]:
    """The numbers of the first and the last instance that end later than the one and no later than the other."""
    return last_ending(window, after_us) + 1, last_ending(window, until_us)


def last_ending(window: AnyWindow, until_us: int) -> int:
    """The number of the last instance that ends no later."""
    if isinstance(window, SlicedWindow):
        ends = np.cumsum(window.slices_us)
        cycle, phase = divmod(until_us - window.offset_us, window.period_us)
        return int(cycle * len(ends) + np.searchsorted(ends, phase, side="right") - 1)
    return (until_us - window.offset_us) // window.slide_us


def bounds_of(window: AnyWindow, numbers: Times) -> tuple[Times, Times]:
    """Where the instances begin and end."""
    if isinstance(window, SlicedWindow):
        ends = np.cumsum(window.slices_us)
        cycles, places = np.divmod(numbers, len(ends))
        end_us = window.offset_us + cycles * window.period_us + ends[places]
        return end_us - np.array(window.slices_us, dtype=np.int64)[places], end_us
    end_us = numbers * window.slide_us + window.offset_us
    return end_us - window.range_us, end_us
