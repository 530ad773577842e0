"""DOUBLEs rounded as they are written: half up on the shortest decimal text that reads back as the number.

Let t be a text of at most 15 digits half way between two results, and T the DOUBLE nearest to it. Whatever is written
above t reads as T or more, and below t as T or less; and T itself is written as t, since no two texts of 15 digits read
as the same DOUBLE. So comparing with T decides, without writing the number down.
"""

from __future__ import annotations

from decimal import Decimal

import numpy as np
from numpy.typing import NDArray

from headrace.model.arrays import Mask

MAX_WHOLE = 10.0**14 - 1
MAX_DIGITS = 21
"""Powers of ten up to the 22nd are DOUBLEs, and one more digit than asked for is looked at."""


def scaled_as_written(numbers: NDArray[np.float64], digits: int) -> tuple[NDArray[np.int64], Mask]:
    """The numbers times 10^digits, rounded to whole ones, and where that is right: finite, and not too large."""
    if digits > MAX_DIGITS:
        return np.zeros(len(numbers), np.int64), np.zeros(len(numbers), np.bool_)
    with np.errstate(over="ignore", invalid="ignore"):
        size = np.abs(numbers)
        scaled = size * 10.0**digits
        right = scaled < MAX_WHOLE
        # the comparison corrects a product that came out one too high or too low
        lower = np.floor(np.where(right, scaled, 0.0))
        upwards = size >= (lower * 10 + 5) / 10.0 ** (digits + 1)
    whole = (lower + upwards).astype(np.int64)
    return np.where(numbers < 0, -whole, whole), right


def decimal_as_written(number: float) -> Decimal:
    return Decimal(repr(number))
