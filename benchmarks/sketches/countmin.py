"""Count-min sketches of keys and their prefixes [UDAF 4.2]: heavy hitters by search from the top.

Each of `depth` rows adds a key's weight to one of `width` counts, so the least of its counts is never below its weight.
With multipliers drawn at random two keys share a place with a chance of at most 2 / width; a row's estimate is then
too high by 2 * total / width on average. There is a sketch of the keys, one of keys without their last `step_bits`, and
so on; where prefixes are fewer than a sketch has counts, they are counted exactly. The defaults are the paper's:
sketches of 32, 24 and 16 bits and 256 exact counts, though of 64 bits each, so 14 KB where it has 7. Sketches combine
by addition.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from benchmarks.sketches.countmin_loops import (
    Integers,
    Multipliers,
    search,
    update_slots,
)
from headrace.kernel.states.columns import Slots, readable
from headrace.model.errors import DataError, UsageError

NAME = "count-min sketch"
MAX_ROWS, MAX_WIDTH, MAX_KEY_BITS, MAX_STEP_BITS = 16, 1 << 20, 62, 16
SEARCH_STEPS = 1 << 16
"""Prefixes that a search looks into, and keys that it finds, before it is given up."""


class Estimates(NamedTuple):
    """Keys by descending estimate, then by key."""

    keys: Integers
    weights: Integers


@dataclass(frozen=True, slots=True)
class CountMin:
    """Keys are from 0 to below 2 ** `key_bits`. The width is a power of two: a place is the first bits of a hash."""

    depth: int = 2
    width: int = 256
    key_bits: int = 32
    step_bits: int = 8

    def __post_init__(self) -> None:
        fits = 1 <= self.depth <= MAX_ROWS and 2 <= self.width <= MAX_WIDTH and self.width.bit_count() == 1
        if not (fits and 1 <= self.key_bits <= MAX_KEY_BITS and 1 <= self.step_bits <= MAX_STEP_BITS):
            raise UsageError("sketch-size", f"there is no sketch {self}")

    # The shape

    @property
    def width_bits(self) -> int:
        return self.width.bit_length() - 1

    @property
    def levels(self) -> int:
        """Count the levels with a sketch: the prefixes above them are fewer than its counts."""
        exact_bits = (self.depth * self.width).bit_length() - 1
        return max(0, -(-(self.key_bits - exact_bits) // self.step_bits))

    @property
    def cells(self) -> int:
        return self.levels * self.depth * self.width + self.exact_cells

    @property
    def exact_cells(self) -> int:
        return 1 << max(0, self.key_bits - self.levels * self.step_bits)

    @property
    def multipliers(self) -> Multipliers:
        return multipliers(self.levels, self.depth)

    # Counts

    def empty(self, sketches: int) -> Integers:
        return np.zeros((sketches, self.cells), np.int64)

    def check_keys(self, keys: Integers) -> None:
        if len(keys) and (keys.min() < 0 or keys.max() >= 1 << self.key_bits):
            raise DataError(
                "sketch-key", f"a {NAME} of {self.key_bits} bits counts keys from 0 to 2^{self.key_bits} - 1"
            )

    def add(self, slots: Slots, keys: Integers, weights: Integers, cells: Integers, totals: Integers) -> None:
        rows, numbers, amounts = readable(slots), readable(keys), readable(weights)
        update_slots(rows, numbers, amounts, self.multipliers, self.width_bits, self.step_bits, cells, totals)

    def above(self, cells: Integers, least: int, most: int = SEARCH_STEPS) -> Estimates:
        if most < 1:
            raise UsageError("sketch-share", f"the largest {most} keys can't be listed")
        found, heap = np.empty((SEARCH_STEPS, 2), np.int64), np.empty((4 * SEARCH_STEPS, 4), np.int64)
        sketch, shape = readable(cells), (self.multipliers, self.width_bits, self.step_bits)
        count = search(sketch, *shape, least, min(most, SEARCH_STEPS), found, heap)
        if count < 0:
            raise UsageError("sketch-width", f"a {NAME} of width {self.width} is too narrow to separate this many keys")
        return Estimates(found[:count, 0].copy(), found[:count, 1].copy())


@lru_cache(maxsize=64)
def multipliers(levels: int, depth: int) -> Multipliers:
    """Return odd numbers without a pattern, the same everywhere: sketches combine only if they hash alike."""
    numbers = np.array([scramble(place) | 1 for place in range(levels * depth)], np.uint64)
    table: Multipliers = readable(numbers.reshape(levels, depth))
    return table


def scramble(number: int) -> int:
    """Scramble a number with the finalizer of SplitMix64."""
    number = (number + 1) * 0x9E3779B97F4A7C15 % 2**64
    number = (number ^ number >> 30) * 0xBF58476D1CE4E5B9 % 2**64
    number = (number ^ number >> 27) * 0x94D049BB133111EB % 2**64
    return number ^ number >> 31
