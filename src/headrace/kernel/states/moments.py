"""Count, mean and sum of squared deviations (m2), from which variances are lowered.

A row is the state (1, value, 0). States combine as in Chan, Golub and LeVeque, but all those of a slot at once: first
their common mean, then the deviations from it, with what rounding left in the mean taken out again. So a mean that is
large beside the deviations does no harm, and equal values have no variance. NaN as mean stands for values that are not
finite. Beyond a DOUBLE m2 is infinite.
"""

from __future__ import annotations

from functools import partial

import numpy as np
import pyarrow as pa

from headrace.expressions.columns import Evaluated, raw
from headrace.expressions.decimals import as_double
from headrace.kernel.states.columns import Columns, Slots, column, find_valid, numbers, readable
from headrace.kernel.states.fold_loops import add_counts, add_deviations
from headrace.kernel.states.state import StateFamily
from headrace.kernel.states.sums import sum_doubles, total
from headrace.model.arrays import Doubles, Integers
from headrace.model.expressions import Aggregate
from headrace.model.types import BIGINT, DOUBLE, DataType, decimal

LARGEST = float(np.finfo(np.float64).max)


class Moments:
    def columns(self, _argument: DataType) -> tuple[pa.DataType, ...]:
        return (pa.int64(), pa.float64(), pa.float64())

    def lift(self, slots: Slots, count: int, argument: pa.Array) -> Columns:
        rows = find_valid(argument)
        ones = np.ones(len(argument), np.int64) if rows is None else rows.astype(np.int64)
        return combine_moments(slots, count, ones, raw(to_doubles(argument), np.float64), np.zeros(len(argument)))

    def combine(self, slots: Slots, count: int, states: Columns) -> Columns:
        counts, means, squares = states
        return combine_moments(slots, count, numbers(counts), raw(means, np.float64), raw(squares, np.float64))


def to_doubles(values: pa.Array) -> pa.Array:
    if pa.types.is_decimal(values.type):
        return as_double(values, decimal(values.type.precision, values.type.scale))
    return as_double(values, DOUBLE if pa.types.is_floating(values.type) else BIGINT)


def combine_moments(slots: Slots, count: int, counts: Integers, means: Doubles, squares: Doubles) -> Columns:
    totals = np.zeros(count, np.int64)
    add_counts(readable(slots), readable(counts), totals)
    divisors = np.maximum(totals, 1)
    with np.errstate(all="ignore"):
        centers = common_means(slots, count, means, counts / divisors[slots])
        for _ in range(2):  # the second time from means that are right to the last bit
            sums = np.zeros((count, 2))
            add_deviations(readable(slots), readable(counts), readable(means), readable(squares), centers, sums)
            rests = sums[:, 1] / divisors
            centers = np.where(np.isfinite(rests), centers + rests, centers)
        m2 = sums[:, 0]
        m2 = np.where(np.isfinite(m2), np.maximum(m2 - divisors * rests * rests, 0.0), m2)
    unknown = ~np.isfinite(centers)
    centers[unknown] = m2[unknown] = np.nan
    return pa.array(totals), pa.array(centers), pa.array(m2)


def common_means(slots: Slots, count: int, means: Doubles, shares: Doubles) -> Doubles:
    """Return the mean of means, from halves, which can't add up to more than a DOUBLE holds."""
    halves = column(means * (shares / 2), pa.float64(), shares > 0)
    half = raw(total(sum_doubles(slots, count, halves)), np.float64)
    return np.where(np.isfinite(half), 2 * np.clip(half, -LARGEST / 2, LARGEST / 2), half)


def lower_variance(_aggregate: Aggregate, state: Columns, *, sample: bool, root: bool) -> Evaluated:
    """Return the variance, or its `root`; NULL for too few values."""
    divisors = raw(state[0]) - sample
    variances = raw(state[2], np.float64) / np.maximum(divisors, 1)
    return Evaluated(column(np.sqrt(variances) if root else variances, pa.float64(), divisors > 0))


FAMILY = StateFamily(
    states={"moments": Moments()},
    lowerings={
        "var_pop": partial(lower_variance, sample=False, root=False),
        "var_samp": partial(lower_variance, sample=True, root=False),
        "stddev_pop": partial(lower_variance, sample=False, root=True),
        "stddev_samp": partial(lower_variance, sample=True, root=True),
    },
)
