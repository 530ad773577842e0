"""When rows arrive: a given number of rows over a given span, busier in some minutes and seconds than in others."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from headrace.model.arrays import Integers

SECOND_US = 1_000_000


@dataclass(frozen=True, slots=True, eq=False)
class Arrivals:
    """Event times of rows by row number; any stretch of rows can be asked for on its own."""

    start_us: int
    span_us: int
    rows_through: Integers

    @classmethod
    def over(cls, start_us: int, span_us: int, rows: int, rng: np.random.Generator) -> Arrivals:
        """Spread rows over the seconds of the span: minutes vary by 15% either way, seconds within them by 40%."""
        seconds = -(-span_us // SECOND_US)
        minute_weights = rng.integers(850, 1151, -(-seconds // 60))
        weights = np.repeat(minute_weights, 60)[:seconds] * rng.integers(600, 1401, seconds)
        last_us = span_us - (seconds - 1) * SECOND_US
        weights[-1] = max(1, weights[-1] * last_us // SECOND_US)
        cumulative = np.cumsum(weights)
        return cls(start_us, span_us, np.floor(cumulative / cumulative[-1] * rows).astype(np.int64))

    def times_us(self, first: int, end: int, rng: np.random.Generator) -> Integers:
        """Return the ascending event times of rows `first` up to but without `end`.

        The rows of a second are one per equal part of it, at a random place in their part, so no sort is needed.
        """
        numbers = np.arange(first, end)
        second = np.searchsorted(self.rows_through, numbers, side="right")
        before = np.where(second > 0, self.rows_through[second - 1], 0)
        in_second = self.rows_through[second] - before
        length_us = np.minimum(SECOND_US, self.span_us - second * SECOND_US)
        offset_us = ((numbers - before + rng.random(end - first)) / in_second * length_us).astype(np.int64)
        times_us: Integers = self.start_us + second * SECOND_US + np.minimum(offset_us, length_us - 1)
        return times_us
