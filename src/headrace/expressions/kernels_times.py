"""Times as numbers since the epoch, rounded down also before it."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pyarrow as pa

from headrace.expressions.columns import Evaluated, Values, build_column, raw
from headrace.model.expressions import Call


def since_epoch(unit_us: int) -> Callable[[Call, list[Values]], Evaluated]:
    def kernel(call: Call, values: list[Values]) -> Evaluated:
        return Evaluated(build_column(np.floor_divide(raw(values[0]), unit_us), pa.int64(), values[0]))

    return kernel


STRICT = {
    "unix_seconds": since_epoch(1_000_000),
    "unix_millis": since_epoch(1_000),
    "unix_micros": lambda call, values: Evaluated(values[0].cast(pa.int64())),
}
