"""When two values of two engines are the same. Nothing here is shared with what is tested."""

from __future__ import annotations

import math
from typing import Any


def canonical(value: Any) -> tuple[str, Any]:
    """Equal, and printed alike, where SQL's values are equal: NaN equals NaN, -0.0 equals 0.0, 1 is not 1.0."""
    if isinstance(value, float):
        return "float", "NaN" if math.isnan(value) else value + 0.0
    return type(value).__name__, value


def canonical_row(row: tuple[Any, ...]) -> tuple[tuple[str, Any], ...]:
    return tuple(map(canonical, row))
