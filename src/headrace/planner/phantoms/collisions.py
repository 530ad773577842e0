"""How often a record finds another group in its bucket: the collision rate of a direct-mapped table [GS 4].

Every function takes numbers or arrays of any shapes that broadcast. Groups are equally frequent and hashed at random.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt

Numbers = npt.NDArray[np.float64]

SLOPE: Final = 0.354
"""The slope of the line of low rates [GS 4.4, equation 16], by which space is allocated [GS 5]."""


def precise(groups: npt.ArrayLike, buckets: npt.ArrayLike) -> Numbers:
    """The expectation over all ways to hash the groups [GS 4.2, equation 13].

    The paper adds up b/g * (k - 1) * P(k groups in a bucket) over k. The sum has a closed form: the mean of k is g/b,
    and only an empty bucket counts otherwise, so it is 1 - b/g * P(a bucket is not empty).
    """
    count, places = at_least_one(groups), at_least_one(buckets)
    return np.maximum(0.0, 1.0 - places / count * -np.expm1(count * log_missed(places)))


def precise_slope(groups: npt.ArrayLike, buckets: npt.ArrayLike) -> Numbers:
    """By how much the precise rate changes with one more bucket: never above zero, and less and less below."""
    count, places = at_least_one(groups), at_least_one(buckets)
    log_empty = count * log_missed(places)
    one_less = np.maximum(places - 1.0, 1e-9)
    return np.minimum(0.0, np.expm1(log_empty) / count + np.exp(log_empty) / one_less)


def clustered_rates(rate: npt.ArrayLike, flow_length: npt.ArrayLike) -> Numbers:
    """Records of one flow meet their own group; only the first of a flow can collide [GS 4.3, equation 15]."""
    return np.asarray(rate, dtype=np.float64) / at_least_one(flow_length)


def at_least_one(values: npt.ArrayLike) -> Numbers:
    """Sizes may be estimates: less than one group, or one bucket, is one."""
    return np.maximum(np.asarray(values, dtype=np.float64), 1.0)


def log_missed(buckets: Numbers) -> Numbers:
    """The logarithm of the chance that a group is hashed elsewhere; finite also for the only bucket."""
    return np.log1p(-1.0 / np.maximum(buckets, 1.0 + 1e-12))
