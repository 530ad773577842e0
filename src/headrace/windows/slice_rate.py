"""How often a stream is cut, for people: boundaries per hour."""

from __future__ import annotations

from collections.abc import Sequence

from headrace.windows.boundaries import Boundaries, boundaries_between

HOUR_US = 3_600_000_000
DAY_US = 24 * HOUR_US
MOST_COUNTED = 1_000_000
"""A day with more boundaries is not counted to its end."""


def slices_per_hour(parts: Sequence[Boundaries]) -> float:
    """Exact for one period. The union of several is counted over the first day of the epoch, divided by 24; a period
    longer than that adds its own pace, as if it met no other.
    """
    if len(parts) == 1:
        return pace(parts[0]) * HOUR_US
    span_us = min(DAY_US, int(MOST_COUNTED / sum(pace(part) for part in parts))) if parts else DAY_US
    counted = [part for part in parts if part.period_us <= span_us]
    longer = sum(pace(part) for part in parts if part.period_us > span_us)
    return (len(boundaries_between(counted, 0, span_us)) / span_us + longer) * HOUR_US


def pace(part: Boundaries) -> float:
    """Boundaries per microsecond."""
    return len(part.residues_us) / part.period_us
