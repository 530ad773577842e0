"""What the quantile sketches have in common: nearest ranks, answers in the order of the question, and a limit."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from headrace.kernel.sketches.packed_bytes import refuse
from headrace.kernel.states.columns import Slots
from headrace.model.arrays import Doubles, Integers

MOST_VALUES = 1 << 53
"""In one state: up to here counts are exact as DOUBLEs too."""


def nearest_ranks(totals: Integers, fractions: Doubles) -> Integers:
    """From 1 to the total, whatever the fraction is."""
    last = np.maximum(totals, 1)[:, None]
    return np.clip(np.ceil(totals[:, None] * fractions), 1, last).astype(np.int64)


def answers_at(totals: Integers, fractions: Doubles, find: Callable[[Integers], Doubles]) -> Doubles:
    """A row for each state; `find` is given its nearest ranks in ascending order."""
    order = np.argsort(fractions)
    found = find(nearest_ranks(totals, fractions[order]))
    placed = np.empty_like(found)
    placed[:, order] = found
    return placed


def check_totals(what: str, slots: Slots, count: int, totals: Integers | Doubles) -> None:
    """Whether no slot gets more values than a state may have."""
    sums = np.zeros(count)
    np.add.at(sums, slots, totals.astype(np.float64))
    if (sums > MOST_VALUES).any():
        refuse(what, int(np.flatnonzero(sums[slots] > MOST_VALUES)[0]))
