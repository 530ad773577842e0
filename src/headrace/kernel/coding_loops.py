"""Compiled searches: from values to cells."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from headrace.kernel.compiling import compiled


@compiled
def count_reached(values: npt.NDArray[Any], cuts: npt.NDArray[Any], real: int, cells: npt.NDArray[np.int32]) -> None:
    """One more than the number of cuts that each value has reached; NaN has reached all.

    `cuts` are sorted and filled up to 2 ** n - 1 of them, of which `real` count; the search has no branches.
    """
    for row in range(len(values)):
        value = values[row]
        place = 0
        step = (len(cuts) + 1) >> 1
        while step > 0:
            place += step * (not (value < cuts[place + step - 1]))
            step >>= 1
        cells[row] = 1 + min(place, real)
