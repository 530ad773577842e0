"""Sketches as kinds of partials, and what is lowered from them. Values are folded in; stored sketches are combined."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from headrace.aggregates.partials import SIZES, Partial
from headrace.kernel.sketches import buckets, counters, kll
from headrace.kernel.sketches.hll import Hll
from headrace.kernel.sketches.packed_bytes import STATE
from headrace.kernel.states.columns import Columns, Slots, column
from headrace.kernel.states.fold_loops import Doubles
from headrace.kernel.states.moments import doubles
from headrace.model.arrays import Mask
from headrace.model.arrow import arrow_type, is_bytes
from headrace.model.errors import DataError
from headrace.model.types import DataType


class Summary(Protocol):
    """A sketch of values of one column."""

    def lift(self, slots: Slots, count: int, values: pa.Array, /) -> Columns: ...

    def combine(self, slots: Slots, count: int, states: Columns) -> Columns: ...


@dataclass(frozen=True, slots=True)
class Sketch:
    """`made` of the values as they are, or of numbers as DOUBLEs. Stored bytes that are no state count as NULL."""

    summary: Summary
    check: Callable[[pa.Array], object]
    made: Callable[[pa.Array], pa.Array] = lambda values: values

    def columns(self, *_arguments: DataType) -> tuple[pa.DataType, ...]:
        return (STATE,)

    def lift(self, slots: Slots, count: int, values: pa.Array) -> Columns:
        if not is_bytes(values.type):
            return self.summary.lift(slots, count, self.made(values))
        bad = self.bad(values)
        stored = values.filter(pa.array(~bad)) if bad.any() else values
        return self.summary.combine(slots[~bad], count, (stored,))

    def combine(self, slots: Slots, count: int, states: Columns) -> Columns:
        return self.summary.combine(slots, count, states)

    def bad(self, states: pa.Array) -> Mask:
        """Which bytes are of no such sketch. Looked at one by one only if some are."""
        found = np.zeros(len(states), np.bool_)
        if self.is_bad(states):
            found[:] = [self.is_bad(states[row : row + 1]) for row in range(len(states))]
        return found

    def is_bad(self, states: pa.Array) -> bool:
        try:
            self.check(states)
        except DataError:
            return True
        return False


def hll_of(size: int) -> Hll:
    """Twice the registers for twice the usual size."""
    return Hll(DISTINCT.lg_k + (size // SIZES["distinct"]).bit_length() - 1) if size else DISTINCT


DISTINCT = Hll()
QUANTILES = Sketch(kll.Kll(), kll.check, doubles)
BUCKETS = Sketch(buckets.Buckets(), buckets.check, doubles)
DISTINCTS = Sketch(DISTINCT, DISTINCT.estimates)
STORED = {"quantiles": QUANTILES, "buckets": BUCKETS, "distinct": DISTINCTS}
"""The kinds whose states may be stored by queries, and read back as a column."""


def sketch_of(partial: Partial) -> Sketch:
    """The sketch that the partial's states are of; where queries ask for more accuracy it has another size."""
    if partial.size and partial.kind == "quantiles":
        return Sketch(kll.Kll(partial.size), kll.check, doubles)
    if partial.size and partial.kind == "distinct":
        return Sketch(hll_of(partial.size), hll_of(partial.size).estimates)
    return STORED[partial.kind]


# Results


def lower_quantiles(
    states: pa.Array,
    fractions: list[float],
    find: Callable[[pa.Array, Doubles], Doubles] = kll.quantiles,
    count: Callable[[pa.Array], NDArray[np.int64]] = kll.counts,
) -> tuple[Doubles, Mask]:
    """Of each state the values at the fractions, and whether it has any."""
    return find(states, np.array(fractions)), count(states) > 0


def lower_quantile(states: pa.Array, fraction: float, _accuracy: int = 0) -> pa.Array:
    found, there = lower_quantiles(states, [fraction])
    return column(found[:, 0], pa.float64(), there)


def lower_relative(states: pa.Array, fraction: float) -> pa.Array:
    found, there = lower_quantiles(states, [fraction], buckets.quantiles, buckets.counts)
    return column(found[:, 0], pa.float64(), there)


def lower_parts(states: pa.Array, parts: int) -> pa.Array:
    """The values that cut the others into so many parts of equal size."""
    found, there = lower_quantiles(states, [part / parts for part in range(1, parts)])
    return lists(np.where(there, parts - 1, 0), pa.array(found[there].reshape(-1)), there)


def lower_sketch(states: pa.Array) -> pa.Array:
    """NULL if it has seen nothing: other readers know no sketch without bytes."""
    return pa.array(states.to_pylist(), STATE, mask=sizes(states) == 0) if (sizes(states) == 0).any() else states


def lower_distinct(states: pa.Array, size: int) -> pa.Array:
    return pa.array(np.rint(hll_of(size).estimates(states)).astype(np.int64))


def lower_hitters(states: pa.Array, phi: float, item: DataType) -> pa.Array:
    return named(states, counters.hitters(states, phi, arrow_type(item)))


def lower_top(states: pa.Array, k: int, item: DataType) -> pa.Array:
    return named(states, counters.top(states, k, arrow_type(item)))


def named(states: pa.Array, found: counters.Hitters) -> pa.Array:
    """NULL without rows."""
    items = pa.StructArray.from_arrays(
        [found.items, pa.array(found.lower), pa.array(found.upper)], ["item", "lower", "upper"]
    )
    return lists(np.diff(found.offsets), items, sizes(states) > 0)


def lists(lengths: NDArray[np.int64], items: pa.Array, there: Mask) -> pa.Array:
    offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)
    return pa.ListArray.from_arrays(pa.array(offsets), items, mask=pa.array(~there))


def sizes(states: pa.Array) -> NDArray[np.int64]:
    return np.asarray(pa.compute.binary_length(states))
