"""The cell of each value of a column: numbers by a compiled search, everything else as the dimension finds it."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from headrace.kernel.coding_loops import count_reached
from headrace.model.types import MAX_BIGINT
from headrace.predicates import Dimension, Kind
from headrace.predicates.dimensions import NULL_CELL, Codes


def codes_of(dimension: Dimension, values: pa.Array) -> Codes:
    """As `Dimension.codes`."""
    is_number = pa.types.is_int64(values.type) or pa.types.is_float64(values.type)
    if dimension.kind != Kind.INTERVAL or not is_number:
        return dimension.codes(values)
    numbers = np.asarray(pc.fill_null(values, 0))
    cells = np.empty(len(numbers), dtype=np.int32)
    cuts, real = padded_cuts(dimension, numbers.dtype)
    count_reached(numbers, cuts, real, cells)
    if values.null_count:
        cells[np.asarray(values.is_null())] = NULL_CELL
    return cells


def padded_cuts(dimension: Dimension, dtype: np.dtype[Any]) -> tuple[npt.NDArray[Any], int]:
    """The least value behind each cut; just above a DOUBLE begins the next one."""
    if dtype.kind == "f":
        reached = [np.nextafter(cut.value, np.inf) if cut.above else cut.value for cut in dimension.marks]
        filler: float = np.inf
    else:
        reached = [cut.value for cut in dimension.marks if cut.value <= MAX_BIGINT]
        filler = MAX_BIGINT
    cuts = np.full((1 << len(reached).bit_length()) - 1, filler, dtype=dtype)
    cuts[: len(reached)] = reached
    return cuts, len(reached)
