"""Quantiles of packet lengths by group: the paper's low levels over Greenwald-Khanna, beside KLL and bucket sketches.

A low level has room for some rows of 24 bytes in each group, `lite` for three times as many values of 8 bytes: the same
memory. It sees its packets group after group, as all sketches here do; the time to sort them so is part of it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from benchmarks.holistic.traffic import GK, Cost, Low, Traffic, batch_levels, by_power_law, time_levels
from benchmarks.sketches import gk
from headrace.datasets.random_values import generator
from headrace.kernel.sketches import buckets, kll
from headrace.kernel.states.columns import Columns, Slots
from headrace.kernel.states.sketches import ColumnSketch

Doubles = NDArray[np.float64]
ROOMS: Mapping[str, int] = {"small": 64, "medium": 128, "large": 256}
"""Scratchpads in rows. The paper's example has 2,800 bytes, which is 233 rows of its 12 bytes."""
TINY = "tiny"
"""A scratchpad of one row, for lite alone: 3 values to a flush."""
ROW_BYTES = 24
VARIANTS = (gk.LITE, gk.MEDIUM, gk.HEAVY)
SKETCHES: Mapping[str, ColumnSketch] = {"kll": kll.Kll(), "buckets": buckets.Buckets()}
MERGES = 1_000
STATE_ROWS = 200
FRACTIONS = np.arange(1, 100) / 100


# Times [UDAF table 3, figure 4]


def quantile_costs(traffic: Traffic) -> Iterator[Cost]:
    values, lows = traffic.values, {}
    for variant in VARIANTS:
        for name, room in ({TINY: 1, **ROOMS} if variant == gk.LITE else ROOMS).items():
            lows[f"{variant} {name}"] = low_level(traffic, values, variant, room)
    for name, sketch in SKETCHES.items():
        lows[name] = batch_levels(traffic, name, partial(lift_batch, traffic, values, sketch), sketch.combine)
    return time_levels(traffic, lows)


def low_level(traffic: Traffic, values: pa.Array, variant: str, room: int) -> Low:
    sketch, count = gk.Gk(), traffic.group_count
    places = 3 * room if variant == gk.LITE else room

    def combine(shipped: tuple[Slots, pa.Array]) -> pa.Array:
        slots, states = shipped
        return sketch.combine(slots, count, (states,))[0]

    return Low(
        run=lambda: sketch.lift_low(variant, places, traffic.groups, count, values),
        highs={GK: combine},
        low_bytes=lambda _: room * ROW_BYTES * count,
        shipped_bytes=lambda shipped: int(shipped[1].nbytes),
    )


def lift_batch(traffic: Traffic, values: pa.Array, sketch: ColumnSketch, batch: slice) -> Columns:
    return sketch.lift(traffic.groups[batch], traffic.group_count, values[batch])


# Errors after many merges


@dataclass(frozen=True, slots=True)
class Merged:
    """A state after a number of merges, one after the other, each with the state of 200 more values."""

    values: str
    sketch: str
    merges: int
    bytes: int
    rows: int | None
    """Of a Greenwald-Khanna summary."""
    proven_error: float | None
    """What the summary itself says of its rank error."""
    rank_error: float
    """The largest at 1%, 2%, ..., 99%, as a part of the number of values."""
    value_error: float
    """The largest there, relative to the exact value."""


def merged_errors(merges: int = MERGES, seed: int = 1) -> Iterator[Merged]:
    """Measure each sketch after the merges, then Greenwald-Khanna cut to the size that it has without merges."""
    for name, values in value_lists((merges + 1) * STATE_ROWS, seed).items():
        for sketch_name, sketch in SKETCHES.items():
            find = {"kll": kll.quantiles, "buckets": buckets.quantiles}[sketch_name]
            yield describe_state(name, sketch_name, merges, merge_all(sketch, values), values, find)
        summary = gk.Gk()
        (single,) = summary.lift(np.zeros(len(values), np.int64), 1, pa.array(values))
        merged = merge_all(summary, values)
        capped = gk.cap_states(merged, gk.sizes(single))
        for sketch_name, count, state in (
            ("gk not merged", 0, single),
            ("gk merged", merges, merged),
            ("gk merged, capped", merges, capped),
        ):
            yield describe_state(name, sketch_name, count, state, values, gk.quantiles)


def value_lists(rows: int, seed: int) -> Mapping[str, Doubles]:
    """Draw values; the second list has few small steps and a long tail, and all its values differ."""
    rng = generator(seed, 2)
    return {
        "uniform": rng.random(rows),
        "skewed": by_power_law(1_000_000 // 4).draw(rng, rows) + rng.random(rows) + 1.0,
        "sorted": np.sort(rng.random(rows)),
    }


def merge_all(sketch: ColumnSketch, values: Doubles) -> pa.Array:
    slots = np.arange(len(values)) // STATE_ROWS
    (states,) = sketch.lift(slots, len(values) // STATE_ROWS, pa.array(values))
    held, both = states[:1], np.zeros(2, np.int64)
    for place in range(1, len(states)):
        (held,) = sketch.combine(both, 1, (pa.concat_arrays([held, states[place : place + 1]]),))
    return held


def describe_state(
    values_name: str,
    sketch: str,
    merges: int,
    state: pa.Array,
    values: Doubles,
    find: Callable[[pa.Array, Doubles], Doubles],
) -> Merged:
    answers, ordered = find(state, FRACTIONS)[0], np.sort(values)
    is_summary = find is gk.quantiles
    exact = ordered[np.ceil(FRACTIONS * len(ordered)).astype(np.int64) - 1]
    return Merged(
        values_name,
        sketch,
        merges,
        int(pa.compute.binary_length(state)[0].as_py()),
        int(gk.sizes(state)[0]) if is_summary else None,
        float(gk.bounds(state)[0]) if is_summary else None,
        float(rank_errors(ordered, FRACTIONS, answers).max()),
        float(np.abs(answers / exact - 1.0).max()),
    )


def rank_errors(ordered: Doubles, fractions: Doubles, answers: Doubles) -> Doubles:
    """Return the distance of each answer's ranks from the wanted one, as a part of the number of values."""
    count = len(ordered)
    wanted = np.clip(np.ceil(fractions * count), 1, count)
    last = np.maximum(np.searchsorted(ordered, answers, side="right"), 1)
    first = np.minimum(np.searchsorted(ordered, answers, side="left") + 1, last)  # below, if no value is the answer
    errors: Doubles = np.maximum(np.maximum(first - wanted, wanted - last), 0.0) / count
    return errors
