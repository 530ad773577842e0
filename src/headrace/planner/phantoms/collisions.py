"""How often a record finds another group in its bucket: the collision rate of a direct-mapped table [GS 4].

Every function takes numbers or arrays of any shapes that broadcast. Groups are equally frequent and hashed at random.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt

Numbers = npt.NDArray[np.float64]
Rates = Numbers

INTERCEPT: Final = 0.0267
SLOPE: Final = 0.354
"""The line of low rates [GS 4.4, equation 16]; space is allocated by its slope alone [GS 5]."""
FEWEST_TERMS: Final = 10
"""At less than one group per bucket five deviations above the mean are two or three groups, and cut off too much."""


def rough(groups: npt.ArrayLike, buckets: npt.ArrayLike) -> Rates:
    """As if every bucket had the same number of groups [GS 4.1, equation 10]; too low where groups are few."""
    found, places = at_least_one(groups), at_least_one(buckets)
    return np.maximum(0.0, 1.0 - places / found)


def precise(groups: npt.ArrayLike, buckets: npt.ArrayLike) -> Rates:
    """The expectation over all ways to hash the groups [GS 4.2, equation 13].

    The paper adds up b/g * (k - 1) * P(k groups in a bucket) over k. The sum has a closed form: the mean of k is g/b,
    and only an empty bucket counts otherwise, so it is 1 - b/g * P(a bucket is not empty).
    """
    found, places = at_least_one(groups), at_least_one(buckets)
    return np.maximum(0.0, 1.0 - places / found * -np.expm1(found * log_missed(places)))


def precise_slope(groups: npt.ArrayLike, buckets: npt.ArrayLike) -> Rates:
    """By how much the precise rate changes with one more bucket: never above zero, and less and less below."""
    found, places = at_least_one(groups), at_least_one(buckets)
    log_empty = found * log_missed(places)
    one_less = np.maximum(places - 1.0, 1e-9)
    return np.minimum(0.0, np.expm1(log_empty) / found + np.exp(log_empty) / one_less)


def precise_by_terms(groups: npt.ArrayLike, buckets: npt.ArrayLike, deviations: float = 5.0) -> Rates:
    """The sum itself, up to so many standard deviations above the mean number of groups in a bucket [GS 4.4].

    What `precise` is checked against, and what shows how good the paper's cut-off is.
    """
    found, places = np.broadcast_arrays(at_least_one(groups), at_least_one(buckets))
    mean = found / places
    last = np.ceil(mean + deviations * np.sqrt(mean * (1.0 - 1.0 / places)))
    last = np.minimum(found, np.maximum(last, FEWEST_TERMS))
    k = np.arange(1, int(last.max()) + 1, dtype=np.float64).reshape(-1, *(1,) * found.ndim)
    with np.errstate(divide="ignore"):
        steps = np.log(np.maximum(found - k + 1.0, 0.0) / k) - np.log(np.maximum(places - 1.0, 1e-12))
    likelihood = np.exp(found * log_missed(places) + np.cumsum(steps, axis=0))
    terms = np.where(k <= last, likelihood * (k - 1.0), 0.0)
    # All groups are in the only bucket: one term, of which the logarithm of what is left over says nothing.
    return np.where(places > 1.0, terms.sum(axis=0) / mean, 1.0 - 1.0 / found)


def clustered(rate: npt.ArrayLike, flow_length: npt.ArrayLike) -> Rates:
    """Records of one flow meet their own group; only the first of a flow can collide [GS 4.3, equation 15]."""
    return np.asarray(rate, dtype=np.float64) / at_least_one(flow_length)


def low_rate(groups: npt.ArrayLike, buckets: npt.ArrayLike) -> Rates:
    """The line through the rates below 0.4, that is up to about one group per bucket [GS 4.4, equation 16]."""
    return INTERCEPT + SLOPE * at_least_one(groups) / at_least_one(buckets)


def crowded(groups: npt.ArrayLike, buckets: npt.ArrayLike) -> Rates:
    """The part of the groups that share their bucket with another: only those are ever pushed out."""
    return -np.expm1((at_least_one(groups) - 1.0) * log_missed(at_least_one(buckets)))


def at_least_one(values: npt.ArrayLike) -> Numbers:
    """Sizes may be estimates: less than one group, or one bucket, is one."""
    return np.maximum(np.asarray(values, dtype=np.float64), 1.0)


def log_missed(buckets: Numbers) -> Numbers:
    """The logarithm of the chance that a group is hashed elsewhere; finite also for the only bucket."""
    return np.log1p(-1.0 / np.maximum(buckets, 1.0 + 1e-12))
