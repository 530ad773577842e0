"""Least and greatest values, in the order of SQL: NaN is greater than every number, and zero is always 0.0."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from headrace.kernel.states.columns import (
    Columns,
    Slots,
    column,
    find_valid,
    numbers,
    rank_values,
    readable,
)
from headrace.kernel.states.fold_loops import keep_greatest, keep_least
from headrace.kernel.states.state import StateFamily, lower_first_column
from headrace.model.arrays import Mask
from headrace.model.arrow import arrow_type
from headrace.model.types import MAX_BIGINT, MIN_BIGINT, DataType


@dataclass(frozen=True, slots=True)
class Extreme:
    """The states of min and max. Numbers and times are compared as they lie in memory, other values by rank."""

    keep: Callable[..., None]
    neutral_integer: int
    neutral_double: float

    def columns(self, argument: DataType | None = None) -> tuple[pa.DataType, ...]:
        assert argument is not None
        return (arrow_type(argument),)

    def lift(self, slots: Slots, count: int, argument: pa.Array | None = None) -> Columns:
        assert argument is not None
        if pa.types.is_floating(argument.type):
            best, seen = self.fold(slots, numbers(argument, np.float64), argument, np.full(count, self.neutral_double))
            return (column(best + 0.0, argument.type, seen),)
        neutral = np.full(count, self.neutral_integer, np.int64)
        if pa.types.is_int64(argument.type) or pa.types.is_timestamp(argument.type):
            best, seen = self.fold(slots, numbers(argument), argument, neutral)
            return (column(best, argument.type, seen),)
        ranks, ordered = rank_values(argument)
        best, seen = self.fold(slots, readable(ranks), argument, neutral)
        return (ordered.take(pa.array(best, mask=~seen)),)

    def combine(self, slots: Slots, count: int, states: Columns) -> Columns:
        return self.lift(slots, count, states[0])

    def fold(
        self, slots: Slots, values: NDArray[Any], argument: pa.Array, best: NDArray[Any]
    ) -> tuple[NDArray[Any], Mask]:
        seen = np.zeros(len(best), np.bool_)
        self.keep(readable(slots), values, find_valid(argument), best, seen)
        return best, seen


LEAST = Extreme(keep_least, MAX_BIGINT, np.nan)
GREATEST = Extreme(keep_greatest, MIN_BIGINT, -np.inf)

FAMILY = StateFamily(
    states={"min": LEAST, "max": GREATEST},
    lowerings={"min": lower_first_column, "max": lower_first_column},
)
