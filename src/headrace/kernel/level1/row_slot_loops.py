"""The compiled loop from rows to slots by slice and kind.

Places without a sign spare the test whether they count from the end.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from headrace.kernel.jit import compiled
from headrace.kernel.level1.cell_loops import last_reached
from headrace.kernel.slot_loops import EMPTY
from headrace.model.arrays import Integers

LATEST = np.int64(2**63 - 1)


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
    slot_count, last = 0, len(starts_us) - 1
    first, begin_us, end_us = np.uint64(0), np.int64(0), np.int64(0)
    for row in range(len(times_us)):
        time_us = times_us[row]
        if time_us < begin_us or time_us >= end_us:
            current = last_reached(starts_us, time_us)
            first = np.uint64(current * size)
            begin_us = starts_us[current]
            end_us = starts_us[current + 1] if current < last else LATEST
        key = first + np.uint64(codes[row] if rows is None else codes[np.uint64(rows[row])])
        slot = known[key]
        if slot == EMPTY:
            slot = np.int32(slot_count)
            known[key] = slot
            keys[slot_count] = key
            slot_count += 1
        slots[row] = slot
    return slot_count
