"""The compiled loop from rows to slots by slice and kind."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from headrace.kernel.coding_loops import last_reached
from headrace.kernel.compiling import compiled
from headrace.kernel.slot_loops import EMPTY

Integers = npt.NDArray[np.int64]


@compiled
def slots_by_slice(
    times_us: Integers,
    starts_us: Integers,
    rows: Integers | None,
    codes: npt.NDArray[np.int32],
    size: int,
    slots: Integers,
    keys: Integers,
) -> int:
    """Slots of slice and code in order of first appearance, through an array of all; how many there are.

    The code of a row is at its place in `rows`. A slot's key has slice and code as digits.
    """
    known = np.full(len(starts_us) * size, EMPTY, dtype=np.int32)
    current, first, slot_count = 0, 0, 0
    count = len(starts_us)
    for row in range(len(times_us)):
        time_us = times_us[row]
        if time_us < starts_us[current] or (current + 1 < count and time_us >= starts_us[current + 1]):
            current = last_reached(starts_us, time_us)
            first = current * size
        key = first + (codes[row] if rows is None else codes[rows[row]])
        slot = known[key]
        if slot == EMPTY:
            slot = slot_count
            known[key] = slot
            keys[slot] = key
            slot_count += 1
        slots[row] = slot
    return slot_count
