"""Counts and sums, and the averages lowered from both.

Sums of BIGINT and DECIMAL are exact: DECIMAL(38, 0) in 128 bits, and 76 digits in 256 bits. Those of DOUBLE are
compensated (Neumaier): beside the sum is the sum of what its additions lost. The result is about as good as if twice
the digits had been carried, so it hardly depends on the order of rows or on how a plan cuts them; a plain sum's error
grows with the rows, and an exact sum's state has no fixed size. A sum that left the range of a DOUBLE may come
back: until it does it is kept divided by SCALE, and the compensation, of no use then, is infinite to say so.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from headrace.expressions.columns import (
    Evaluated,
    build_column,
    present,
    raw,
    set_failed_null,
)
from headrace.expressions.decimals import MAX_EXACT_DOUBLE, MAX_EXACT_POWER, WIDE_DIGITS, fit_decimal
from headrace.kernel.states.columns import Columns, Slots, column, find_valid, numbers, readable
from headrace.kernel.states.fold_loops import (
    SCALE,
    add_counts,
    add_doubles,
    add_integers,
    add_scaled,
    add_words,
    count_rows,
)
from headrace.kernel.states.state import StateFamily, lower_first_column
from headrace.model.arrays import Doubles, Integers, Mask
from headrace.model.expressions import Aggregate
from headrace.model.types import MAX_DECIMAL_DIGITS, DataType

BIGINT_SUM = pa.decimal128(MAX_DECIMAL_DIGITS, 0)


class Count:
    def columns(self, *_argument: DataType) -> tuple[pa.DataType, ...]:
        return (pa.int64(),)

    def lift(self, slots: Slots, count: int, argument: pa.Array | None = None) -> Columns:
        counts = np.zeros(count, np.int64)
        count_rows(readable(slots), None if argument is None else find_valid(argument), counts)
        return (pa.array(counts),)

    def combine(self, slots: Slots, count: int, states: Columns) -> Columns:
        counts = np.zeros(count, np.int64)
        add_counts(readable(slots), numbers(states[0]), counts)
        return (pa.array(counts),)


class Sum:
    """One column for exact numbers, two for DOUBLE: the sum and its compensation."""

    def columns(self, argument: DataType) -> tuple[pa.DataType, ...]:
        if argument.name == "DOUBLE":
            return (pa.float64(), pa.float64())
        return (pa.decimal256(WIDE_DIGITS, argument.scale) if argument.name == "DECIMAL" else BIGINT_SUM,)

    def lift(self, slots: Slots, count: int, argument: pa.Array) -> Columns:
        if pa.types.is_floating(argument.type):
            return sum_doubles(slots, count, argument)
        if pa.types.is_decimal(argument.type):
            return (sum_words(slots, count, argument, pa.decimal256(WIDE_DIGITS, argument.type.scale)),)
        return (sum_integers(slots, count, argument.cast(pa.int64())),)

    def combine(self, slots: Slots, count: int, states: Columns) -> Columns:
        if len(states) == 2:
            return sum_doubles(slots, count, *states)
        return (sum_words(slots, count, states[0], states[0].type),)


# Exact numbers


def sum_integers(slots: Slots, count: int, values: pa.Array) -> pa.Array:
    totals, seen = np.zeros((count, 2), np.int64), np.zeros(count, np.bool_)
    add_integers(readable(slots), numbers(values), find_valid(values), totals, seen)
    return column(totals, BIGINT_SUM, seen)


def sum_words(slots: Slots, count: int, values: pa.Array, result: pa.DataType) -> pa.Array:
    totals, seen = np.zeros((count, result.byte_width // 8), np.int64), np.zeros(count, np.bool_)
    add_words(readable(slots), words_of(values), find_valid(values), totals, seen)
    return column(totals, result, seen)


def words_of(values: pa.Array) -> Integers:
    return numbers(values, np.int64, values.type.byte_width // 8)


# DOUBLEs


def sum_doubles(slots: Slots, count: int, values: pa.Array, rests: pa.Array | None = None) -> Columns:
    """Add up rows, or sums with their compensations."""
    totals, seen = np.zeros((count, 2)), np.zeros(count, np.bool_)
    addends, rows = numbers(values, np.float64), find_valid(values)
    add_doubles(readable(slots), addends, rows, totals, seen)
    if rests is not None:
        add_doubles(readable(slots), numbers(rests, np.float64), rows, totals, seen)
    with np.errstate(over="ignore", invalid="ignore"):
        beyond = ~np.isfinite(totals[:, 0] + totals[:, 1])
    if beyond.any():
        scaled, special = np.zeros((count, 2)), np.zeros(count)
        lost = readable(np.zeros(len(addends))) if rests is None else numbers(rests, np.float64)
        add_scaled(readable(slots), addends, lost, rows, beyond, scaled, special)
        totals[beyond] = rescale(scaled[beyond], special[beyond])
    return column(totals[:, 0], pa.float64(), seen), column(totals[:, 1], pa.float64(), seen)


def rescale(scaled: Doubles, special: Doubles) -> Doubles:
    """Return scaled sums as (sum, compensation); one with numbers that are not finite is what these add up to."""
    with np.errstate(over="ignore", invalid="ignore"):
        back = scaled * SCALE
        still_beyond = np.stack([scaled.sum(axis=1), np.full(len(scaled), np.inf)], axis=1)
    sums = np.where(np.isfinite(back[:, :1]), back, still_beyond)
    is_special = special != 0.0
    sums[is_special, 0], sums[is_special, 1] = special[is_special], 0.0
    return sums


def total(states: Columns) -> pa.Array:
    """Return the values of sums of DOUBLEs."""
    sums, rests = (raw(state, np.float64) for state in states)
    with np.errstate(over="ignore", invalid="ignore"):
        return build_column(np.where(np.isinf(rests), sums * SCALE, sums + rests), pa.float64(), states[0])


# Results


def lower_bigint(states: Columns, target: DataType) -> Evaluated:
    low, fits = narrow(states[0])
    return set_failed_null(build_column(low, pa.int64(), states[0]), ~fits, states[0])


SUM_RESULTS: Mapping[str, Callable[[Columns, DataType], Evaluated]] = {
    "BIGINT": lower_bigint,
    "DECIMAL": lambda states, target: fit_decimal(states[0], target),
    "DOUBLE": lambda states, target: Evaluated(total(states)),
}


def lower_sum(aggregate: Aggregate, state: Columns) -> Evaluated:
    return SUM_RESULTS[aggregate.type.name](state, aggregate.type)


def lower_average(_aggregate: Aggregate, sums: Columns, counts: Columns) -> Evaluated:
    if len(sums) == 2:
        totals = total(sums)
        return Evaluated(build_column(raw(totals, np.float64) / np.maximum(raw(counts[0]), 1), pa.float64(), totals))
    return Evaluated(exact_average(sums[0], raw(counts[0])))


def exact_average(sums: pa.Array, counts: NDArray[Any]) -> pa.Array:
    """Divide with one rounding: dividend and divisor are exact as DOUBLEs, or else Python's integers."""
    low, fits = narrow(sums)
    power = 10 ** int(sums.type.scale)
    divisors = np.maximum(counts, 1) * float(power)
    small = fits & (np.abs(low) <= MAX_EXACT_DOUBLE) & (divisors <= MAX_EXACT_DOUBLE) & (power <= 10**MAX_EXACT_POWER)
    averages = low / divisors
    rows = present(sums)
    for row in np.flatnonzero(~small if rows is None else ~small & rows):
        averages[row] = read_unscaled(sums, int(row)) / (int(counts[row]) * power)
    return build_column(averages, pa.float64(), sums)


def narrow(values: pa.Array) -> tuple[Integers, Mask]:
    """Return exact numbers without their point in 64 bits, and where they fit."""
    words = words_of(values)
    low = words[:, 0]
    return low, (words[:, 1:] == (low >> 63)[:, None]).all(axis=1)


def read_unscaled(values: pa.Array, row: int) -> int:
    return int.from_bytes(words_of(values[row : row + 1]).tobytes(), "little", signed=True)


FAMILY = StateFamily(
    states={"count": Count(), "sum": Sum()},
    lowerings={"count": lower_first_column, "sum": lower_sum, "avg": lower_average},
)
