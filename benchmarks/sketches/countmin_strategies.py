"""How heavy hitters by groups are divided between a low and a high level [UDAF 4.2].

The low level has a state of fixed size for each group. When it is full, and at the end, it goes up; that is all the
high level sees. Pairs of key and weight, as three of the low strategies ship them, go to either of two high ones, which
then hold the same sketches; the adaptive one holds exact lists for groups with few keys. Unlike the paper's, the table
of groups never throws one out, and numbers have 64 bits, so all sizes are twice the paper's.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from benchmarks.sketches.countmin import CountMin, Estimates
from benchmarks.sketches.countmin_loops import Integers, add_sketches
from benchmarks.sketches.countmin_strategy_loops import (
    FREE,
    PLACES,
    buffer_pairs,
    hash_pairs,
    update_adaptively,
    update_directly,
)
from headrace.kernel.sketches.counters_loops import add_by_slot
from headrace.kernel.states.columns import readable
from headrace.model.errors import DataError, UsageError

PAIR_BYTES = 16
PAPER = CountMin()
"""The sketch of the paper's experiments."""


# What goes up


@dataclass(frozen=True, slots=True, eq=False)
class Pairs:
    """Flushes of pairs: of each one the group, and where it ends. A place that was free has the key -1."""

    groups: Integers
    ends: Integers
    keys: Integers
    weights: Integers
    low_nbytes: int

    @property
    def nbytes(self) -> int:
        return len(self.keys) * PAIR_BYTES


@dataclass(frozen=True, slots=True, eq=False)
class Sketches:
    """A sketch for each of some groups, and its total."""

    groups: Integers
    cells: Integers
    totals: Integers
    low_nbytes: int

    @property
    def nbytes(self) -> int:
        return int(self.cells.nbytes)


Shipped = Pairs | Sketches


# The low level


class LowStrategy(Protocol):
    def run(self, keys: Integers, weights: Integers, groups: Integers, group_count: int) -> Shipped:
        """Tuples in; a weight that is not above 0 does not count."""


@dataclass(frozen=True, slots=True)
class Buffer:
    """Pairs as they come, 128 for each group."""

    def run(self, keys: Integers, weights: Integers, groups: Integers, group_count: int) -> Pairs:
        check_not_negative(keys)
        shipped = buffer_pairs(readable(groups), readable(keys), readable(weights), group_count)
        return Pairs(*shipped, group_count * PLACES * PAIR_BYTES)


@dataclass(frozen=True, slots=True)
class Hash:
    """Pairs added up by key in 128 places for each group; a flush with fewer than `compress_below` is without gaps."""

    compress_below: int = 0

    def run(self, keys: Integers, weights: Integers, groups: Integers, group_count: int) -> Pairs:
        check_not_negative(keys)
        rows = readable(groups), readable(keys), readable(weights)
        return Pairs(*hash_pairs(*rows, group_count, self.compress_below), group_count * PLACES * PAIR_BYTES)


@dataclass(frozen=True, slots=True)
class LowSketch:
    """A sketch for each group."""

    sketch: CountMin = PAPER

    def run(self, keys: Integers, weights: Integers, groups: Integers, group_count: int) -> Sketches:
        self.sketch.check_keys(keys)
        cells, totals = self.sketch.empty(group_count), np.zeros(group_count, np.int64)
        self.sketch.add(groups, keys, weights, cells, totals)
        return Sketches(np.arange(group_count), cells, totals, int(cells.nbytes))


def check_not_negative(keys: Integers) -> None:
    """How large they may be the high level knows."""
    if len(keys) and keys.min() < 0:
        raise DataError("sketch-key", "a key of a count-min sketch is not below 0")


LOW: Mapping[str, LowStrategy] = {
    "buffer": Buffer(),
    "hash": Hash(),
    "compress": Hash(compress_below=PLACES // 2),
    "low sketch": LowSketch(),
}


# The high level


@dataclass(frozen=True, slots=True, eq=False)
class Held:
    """What the high level knows of each group: the number of its sketch, or below 0 if it has a list of pairs."""

    sketch: CountMin
    totals: Integers
    sketches: Integers
    cells: Integers
    list_keys: Integers
    list_weights: Integers
    sizes: Integers

    @property
    def nbytes(self) -> int:
        """Without what is only reserved for lists."""
        return int(self.cells.nbytes + self.sizes.sum() * PAIR_BYTES)

    def top(self, group: int, k: int) -> Estimates:
        if k < 1:
            raise UsageError("sketch-share", f"the largest {k} keys can't be listed")
        return self.above(group, 1, k)

    def above(self, group: int, least: int, most: int | None = None) -> Estimates:
        if self.sketches[group] >= 0:
            cells = self.cells[self.sketches[group]]
            return self.sketch.above(cells, least) if most is None else self.sketch.above(cells, least, most)
        size = self.sizes[group]
        keys, weights = self.list_keys[group, :size], self.list_weights[group, :size]
        order = np.lexsort((keys, -weights))
        chosen = order[weights[order] >= least][:most]
        return Estimates(keys[chosen], weights[chosen])


class HighStrategy(Protocol):
    def run(self, shipped: Shipped, group_count: int) -> Held:
        """What went up, in; a form that the strategy is not for is refused."""


def hold_sketches(sketch: CountMin, cells: Integers, totals: Integers) -> Held:
    """A sketch for every group, and no lists."""
    none = np.zeros((len(cells), 0), np.int64)
    return Held(sketch, totals, np.arange(len(cells)), cells, none, none, np.zeros(len(cells), np.int64))


def pairs(shipped: Shipped, sketch: CountMin) -> tuple[Integers, Integers, Integers, Integers]:
    if not isinstance(shipped, Pairs):
        raise UsageError("sketch-strategy", "this strategy takes pairs from the low level, not sketches")
    sketch.check_keys(np.maximum(shipped.keys, FREE + 1))
    return readable(shipped.groups), readable(shipped.ends), readable(shipped.keys), readable(shipped.weights)


@dataclass(frozen=True, slots=True)
class HighSketch:
    """Adds up the sketches of the low level."""

    sketch: CountMin = PAPER

    def run(self, shipped: Shipped, group_count: int) -> Held:
        if not isinstance(shipped, Sketches) or shipped.cells.shape[1] != self.sketch.cells:
            raise UsageError("sketch-strategy", "this strategy takes sketches of its own shape from the low level")
        cells, totals = self.sketch.empty(group_count), np.zeros(group_count, np.int64)
        add_sketches(readable(shipped.groups), readable(shipped.cells), cells)
        add_by_slot(readable(shipped.groups), readable(shipped.totals), totals)
        return hold_sketches(self.sketch, cells, totals)


@dataclass(frozen=True, slots=True)
class Direct:
    """Updates the group's sketch by each pair."""

    sketch: CountMin = PAPER

    def run(self, shipped: Shipped, group_count: int) -> Held:
        sketch = self.sketch
        cells, totals = sketch.empty(group_count), np.zeros(group_count, np.int64)
        shape = sketch.multipliers, sketch.width_bits, sketch.step_bits
        update_directly(*pairs(shipped, sketch), *shape, cells, totals)
        return hold_sketches(sketch, cells, totals)


@dataclass(frozen=True, slots=True)
class Adaptive:
    """An exact list of up to `threshold` keys; a group with more gets a sketch."""

    sketch: CountMin = PAPER
    threshold: int = 64

    def run(self, shipped: Shipped, group_count: int) -> Held:
        sketch = self.sketch
        shape = sketch.multipliers, sketch.width_bits, sketch.step_bits, sketch.cells
        list_keys = np.empty((group_count, self.threshold), np.int64)
        list_weights = np.zeros((group_count, self.threshold), np.int64)
        sketches = np.full(group_count, -1, np.int64)
        sizes, totals = np.zeros(group_count, np.int64), np.zeros(group_count, np.int64)
        cells = update_adaptively(*pairs(shipped, sketch), *shape, sketches, list_keys, list_weights, sizes, totals)
        return Held(sketch, totals, sketches, cells, list_keys, list_weights, sizes)


HIGH: Mapping[str, HighStrategy] = {"low sketch": HighSketch(), "direct": Direct(), "adaptive": Adaptive()}
