"""Windows: which instances there are, where each begins and ends, in half-open intervals of int microseconds."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

from headrace.model.stable_names import stored
from headrace.model.time import MAX_DURATION_US

MAX_OVERLAP = 100_000
"""How many instances of one window a row may lie in: range / slide at the most."""


MIN_FILLED_US = 1_000
"""Empty instances of a window are answered if there is at most one in this time; they are counted in any case."""


class Interval(NamedTuple):
    """[start_us, end_us)."""

    start_us: int
    end_us: int


@stored("Window", "range_us", "slide_us", "offset_us")
@dataclass(frozen=True, slots=True)
class Window:
    """Instances end at `k * slide + offset` and cover `[end - range, end)`; the offset is kept in [0, slide)."""

    range_us: int
    slide_us: int
    offset_us: int = 0

    def __post_init__(self) -> None:
        if not 0 < self.range_us <= MAX_DURATION_US or not 0 < self.slide_us <= MAX_DURATION_US:
            raise ValueError("a window needs a range and a slide above zero, and at most 100 years")
        if self.range_us > self.slide_us * MAX_OVERLAP:
            raise ValueError(f"a row would lie in more than {MAX_OVERLAP:,} of its instances; use a longer slide")
        object.__setattr__(self, "offset_us", self.offset_us % self.slide_us)

    @classmethod
    def aligned_at_start(cls, range_us: int, slide_us: int, start_us: int = 0) -> Window:
        """Return the window whose instances *begin* at `k * slide + start`, as Spark's window() and HOP have it."""
        return cls(range_us, slide_us, start_us + range_us)

    def containing(self, time_us: int) -> Iterator[Interval]:
        """Return the instances that hold a row of this time, by end."""
        return self.ending_between(time_us, time_us + self.range_us)

    def ending_between(self, after_us: int, until_us: int) -> Iterator[Interval]:
        """Yield the instances that end after `after_us` and no later than `until_us`, by end."""
        first = (after_us - self.offset_us) // self.slide_us * self.slide_us + self.offset_us + self.slide_us
        for end_us in range(first, until_us + 1, self.slide_us):
            yield Interval(end_us - self.range_us, end_us)

    def count_ending(self, after_us: int, until_us: int) -> int:
        return (until_us - self.offset_us) // self.slide_us - (after_us - self.offset_us) // self.slide_us


@stored("SlicedWindow", "slices_us", "offset_us")
@dataclass(frozen=True, slots=True)
class SlicedWindow:
    """`[SLICES a, b, ...]` [HIFI 3.1]: consecutive slices that repeat from `offset` on, a result at the end of each."""

    slices_us: tuple[int, ...]
    offset_us: int = 0

    def __post_init__(self) -> None:
        if not self.slices_us or min(self.slices_us) <= 0 or self.period_us > MAX_DURATION_US:
            raise ValueError("slices must be above zero, and at most 100 years together")
        total = len(self.slices_us)
        shortest = next(
            self.slices_us[:count]
            for count in range(1, total + 1)
            if total % count == 0 and self.slices_us[:count] * (total // count) == self.slices_us
        )
        object.__setattr__(self, "slices_us", shortest)
        object.__setattr__(self, "offset_us", self.offset_us % sum(shortest))

    @property
    def period_us(self) -> int:
        return sum(self.slices_us)

    def _from(self, time_us: int) -> Iterator[Interval]:
        """Yield the slices from the one that holds `time_us` on."""
        start_us = (time_us - self.offset_us) // self.period_us * self.period_us + self.offset_us
        while True:
            for length_us in self.slices_us:
                if start_us + length_us > time_us:
                    yield Interval(start_us, start_us + length_us)
                start_us += length_us

    def containing(self, time_us: int) -> Iterator[Interval]:
        yield next(self._from(time_us))

    def ending_between(self, after_us: int, until_us: int) -> Iterator[Interval]:
        for interval in self._from(after_us):
            if interval.end_us > until_us:
                return
            yield interval

    def count_ending(self, after_us: int, until_us: int) -> int:
        periods = (until_us - after_us) // self.period_us
        rest = self.ending_between(after_us + periods * self.period_us, until_us)
        return periods * len(self.slices_us) + sum(1 for _ in rest)


AnyWindow = Window | SlicedWindow


def fills_gaps(window: AnyWindow) -> bool:
    """Return whether empty instances between those with rows are answered: not where they would outnumber the rows.

    This depends on the query alone, so results do not depend on how the rows are cut into steps.
    """
    if isinstance(window, Window):
        return window.slide_us >= MIN_FILLED_US
    return window.period_us >= MIN_FILLED_US * len(window.slices_us)


def sliced_window(slices_us: tuple[int, ...], offset_us: int = 0) -> AnyWindow:
    """Return a window of slices. Slices of one length are a tumbling window, and equal to it."""
    window = SlicedWindow(slices_us, offset_us)
    if len(window.slices_us) == 1:
        return Window(window.period_us, window.period_us, window.offset_us)
    return window
