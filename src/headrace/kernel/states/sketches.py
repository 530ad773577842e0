"""States of sketches, and what is lowered from them. Values are folded in; stored sketches are combined."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from headrace.aggregates.distinct import DISTINCT
from headrace.aggregates.hitters import COUNTERS
from headrace.aggregates.partials import Partial, size_of
from headrace.expressions.columns import Evaluated
from headrace.kernel.sketches import buckets, counters, kll
from headrace.kernel.sketches.hll import Hll
from headrace.kernel.sketches.packed_bytes import STATE
from headrace.kernel.states.columns import Columns, Slots, column
from headrace.kernel.states.moments import to_doubles
from headrace.kernel.states.state import StateFamily, lower_with_parameters
from headrace.model.arrays import Doubles, Mask
from headrace.model.arrow import arrow_type, is_bytes
from headrace.model.errors import DataError
from headrace.model.expressions import Aggregate
from headrace.model.types import DataType


class ColumnSketch(Protocol):
    """A sketch of values of one column."""

    def lift(self, slots: Slots, count: int, values: pa.Array, /) -> Columns: ...

    def combine(self, slots: Slots, count: int, states: Columns) -> Columns: ...


@dataclass(frozen=True, slots=True)
class Sketch:
    """The states of a sketch of values as `convert` gives them. Stored bytes that are no state count as NULL."""

    summary: ColumnSketch
    check: Callable[[pa.Array], object]
    convert: Callable[[pa.Array], pa.Array] = lambda values: values

    def columns(self, *_arguments: DataType) -> tuple[pa.DataType, ...]:
        return (STATE,)

    def lift(self, slots: Slots, count: int, values: pa.Array) -> Columns:
        if not is_bytes(values.type):
            return self.summary.lift(slots, count, self.convert(values))
        bad = self.find_bad(values)
        stored = values.filter(pa.array(~bad)) if bad.any() else values
        return self.summary.combine(slots[~bad], count, (stored,))

    def combine(self, slots: Slots, count: int, states: Columns) -> Columns:
        return self.summary.combine(slots, count, states)

    def find_bad(self, states: pa.Array) -> Mask:
        """Return which bytes are of no such sketch; they are checked one by one only if some are."""
        bad = np.zeros(len(states), np.bool_)
        if self.is_bad(states):
            bad[:] = [self.is_bad(states[row : row + 1]) for row in range(len(states))]
        return bad

    def is_bad(self, states: pa.Array) -> bool:
        try:
            self.check(states)
        except DataError:
            return True
        return False


DEFAULT_HLL = Hll()
DEFAULT_SKETCHES = {
    "quantiles": Sketch(kll.Kll(), kll.parse, to_doubles),
    "buckets": Sketch(buckets.Buckets(), buckets.parse, to_doubles),
    "distinct": Sketch(DEFAULT_HLL, DEFAULT_HLL.estimates),
}
"""The kinds whose states queries may store, and read back as a column."""


def sketch_of(wanted: Partial) -> Sketch:
    """Return the sketch of a partial's states, which is larger where queries ask for more accuracy."""
    if wanted.size and wanted.kind in SIZED_SKETCHES:
        return SIZED_SKETCHES[wanted.kind](wanted.size, False)
    return DEFAULT_SKETCHES[wanted.kind]


def make_quantiles(size: int, _is_compressed: bool) -> Sketch:
    return Sketch(kll.Kll(size), kll.parse, to_doubles)


def make_distinct(size: int, _is_compressed: bool) -> Sketch:
    return Sketch(hll_of(size), hll_of(size).estimates)


def hll_of(size: int) -> Hll:
    """Return a sketch with twice the registers for twice the default size; 0 is the default size."""
    return Hll(DEFAULT_HLL.lg_k + (size // DISTINCT.default_size).bit_length() - 1) if size else DEFAULT_HLL


def make_counters(size: int, is_compressed: bool) -> counters.Counters:
    return counters.Counters(size or COUNTERS.default_size, is_compressed)


SIZED_SKETCHES = {"quantiles": make_quantiles, "distinct": make_distinct}


# Results


def lower_quantiles(
    states: pa.Array,
    fractions: list[float],
    find: Callable[[pa.Array, Doubles], Doubles] = kll.quantiles,
    count: Callable[[pa.Array], NDArray[np.int64]] = kll.counts,
) -> tuple[Doubles, Mask]:
    """Return the values of each state at the fractions, and whether it has any."""
    return find(states, np.array(fractions)), count(states) > 0


def lower_quantile(states: pa.Array, fraction: float, _accuracy: int = 0) -> pa.Array:
    quantiles, has_values = lower_quantiles(states, [fraction])
    return column(quantiles[:, 0], pa.float64(), has_values)


def lower_relative(states: pa.Array, fraction: float) -> pa.Array:
    quantiles, has_values = lower_quantiles(states, [fraction], buckets.quantiles, buckets.counts)
    return column(quantiles[:, 0], pa.float64(), has_values)


def lower_parts(states: pa.Array, parts: int) -> pa.Array:
    """Return the values that cut the others into `parts` parts of equal size."""
    quantiles, has_values = lower_quantiles(states, [part / parts for part in range(1, parts)])
    return build_lists(np.where(has_values, parts - 1, 0), pa.array(quantiles[has_values].reshape(-1)), has_values)


def lower_sketch(states: pa.Array) -> pa.Array:
    """Return the states, NULL for those without values: other readers know no sketch without bytes."""
    is_empty = byte_lengths(states) == 0
    return pa.array(states.to_pylist(), STATE, mask=is_empty) if is_empty.any() else states


def lower_distinct(aggregate: Aggregate, state: Columns) -> Evaluated:
    estimates = hll_of(size_of(aggregate)).estimates(state[0])
    return Evaluated(pa.array(np.rint(estimates).astype(np.int64)))


def lower_items(
    find: Callable[[pa.Array, Any, pa.DataType], counters.Hitters],
) -> Callable[[Aggregate, Columns], Evaluated]:
    """Return a lowering to a list of items, which have the type of the first argument; NULL without rows."""

    def lower(aggregate: Aggregate, state: Columns) -> Evaluated:
        (parameter,) = aggregate.parameters
        hits = find(state[0], parameter.value, arrow_type(aggregate.arguments[0].type))
        items = pa.StructArray.from_arrays(
            [hits.items, pa.array(hits.lower), pa.array(hits.upper)], ["item", "lower", "upper"]
        )
        return Evaluated(build_lists(np.diff(hits.offsets), items, byte_lengths(state[0]) > 0))

    return lower


def build_lists(lengths: NDArray[np.int64], items: pa.Array, has_values: Mask) -> pa.Array:
    offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)
    return pa.ListArray.from_arrays(pa.array(offsets), items, mask=pa.array(~has_values))


def byte_lengths(states: pa.Array) -> NDArray[np.int64]:
    return np.asarray(pa.compute.binary_length(states))


FAMILY = StateFamily(
    states={**DEFAULT_SKETCHES, "counters": counters.Counters()},
    lowerings={
        "approx_median": lower_with_parameters(partial(lower_quantile, fraction=0.5)),
        "percentile_approx": lower_with_parameters(lower_quantile),
        "quantiles": lower_with_parameters(lower_parts),
        "quantile_sketch": lower_with_parameters(lower_sketch),
        "percentile_relative": lower_with_parameters(lower_relative),
        "relative_sketch": lower_with_parameters(lower_sketch),
        "approx_count_distinct": lower_distinct,
        "distinct_sketch": lower_with_parameters(lower_sketch),
        "heavy_hitters": lower_items(counters.hitters),
        "top_k": lower_items(counters.top),
    },
    sized={**SIZED_SKETCHES, "counters": make_counters},
)
