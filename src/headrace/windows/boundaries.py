"""Where a stream is cut. A window's boundaries are periodic; several windows share the union of theirs.

The union is never written out over the least common multiple of the periods, which explodes with a few dozen windows:
it is kept as one set of residues per period, and made explicit only for a given span of time [OTF 3.3].
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from headrace.model.stable_names import stored
from headrace.model.windows import AnyWindow, SlicedWindow

Times = npt.NDArray[np.int64]
HOUR_US = 3_600_000_000
DAY_US = 24 * HOUR_US
MAX_COUNTED = 1_000_000
"""A span with more boundaries is not looked at to its end."""


@stored("Boundaries", "period_us", "residues_us")
@dataclass(frozen=True, slots=True)
class Boundaries:
    """The instants `k * period + residue`, for all k and all residues; residues are sorted, in [0, period)."""

    period_us: int
    residues_us: tuple[int, ...]

    def __post_init__(self) -> None:
        numbers = (self.period_us, *self.residues_us)
        if not self.residues_us or any(type(number) is not int for number in numbers) or self.period_us <= 0:
            raise ValueError(f"no boundaries: a period of {self.period_us} with {self.residues_us}")
        object.__setattr__(
            self, "residues_us", tuple(sorted({residue % self.period_us for residue in self.residues_us}))
        )

    @property
    def pace(self) -> float:
        """Boundaries per microsecond."""
        return len(self.residues_us) / self.period_us


def paired_boundaries(window: AnyWindow) -> Boundaries:
    """The fewest boundaries that every instance can be put together from [OTF 3.1]: its ends and its starts."""
    if isinstance(window, SlicedWindow):
        ends = np.cumsum(window.slices_us).tolist()
        return Boundaries(window.period_us, tuple(window.offset_us + end for end in ends))
    return Boundaries(window.slide_us, (window.offset_us, window.offset_us - window.range_us))


def slice_vector(boundaries: Boundaries, period_us: int, start_us: int = 0) -> tuple[int, ...]:
    """The slices of one period that begins at the boundary `start_us`: (12, 3) for a paired W[18, 15]."""
    ends = boundaries_between([boundaries], start_us, start_us + period_us).tolist()
    return tuple(end - begin for begin, end in pairwise([start_us, *ends]))


def compose(parts: Iterable[Boundaries]) -> tuple[Boundaries, ...]:
    """The union, as one entry per period: equal unions of equal periods are equal values."""
    residues: dict[int, set[int]] = {}
    for part in parts:
        residues.setdefault(part.period_us, set()).update(part.residues_us)
    return tuple(Boundaries(period, tuple(residues[period])) for period in sorted(residues))


def boundaries_between(parts: Sequence[Boundaries], after_us: int, until_us: int) -> Times:
    """All boundaries later than `after_us` and no later than `until_us`, sorted, each once."""
    runs = []
    for part in parts:
        for residue in part.residues_us:
            first = after_us + 1 + (residue - after_us - 1) % part.period_us
            runs.append(np.arange(first, until_us + 1, part.period_us, dtype=np.int64))
    return np.unique(np.concatenate(runs)) if runs else np.empty(0, dtype=np.int64)


def slices_per_hour(parts: Sequence[Boundaries]) -> float:
    """Count the slices of an hour: exactly for one period.

    The union of several is counted over the first day of the epoch, divided by 24; a period longer than that adds its
    own pace, as if it met no other.
    """
    if len(parts) == 1:
        return parts[0].pace * HOUR_US
    span_us = min(DAY_US, int(MAX_COUNTED / sum(part.pace for part in parts))) if parts else DAY_US
    counted = [part for part in parts if part.period_us <= span_us]
    longer = sum(part.pace for part in parts if part.period_us > span_us)
    return (len(boundaries_between(counted, 0, span_us)) / span_us + longer) * HOUR_US
