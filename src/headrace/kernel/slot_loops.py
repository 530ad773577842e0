"""Compiled loops that put codes together to keys and find a slot for each key."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from headrace.kernel.jit import compiled
from headrace.model.arrays import Integers, Mask

Codes = npt.NDArray[np.int32] | Integers

EMPTY = -1
GOLDEN = np.uint64(0x9E3779B97F4A7C15)
"""2 ** 64 divided by the golden ratio: spreads neighbouring keys over the table."""


@compiled
def extend_keys(keys: Integers, codes: Codes, size: int) -> None:
    """One code more in each key: keys * size + codes."""
    for row in range(len(keys)):
        keys[row] = keys[row] * size + codes[row]


@compiled
def extend_keys_by(keys: Integers, codes: Codes, table: npt.NDArray[np.int32], size: int) -> None:
    """The same through a table: keys * size + table[codes]."""
    for row in range(len(keys)):
        keys[row] = keys[row] * size + table[np.uint64(codes[row])]


@compiled
def dense_slots(keys: Integers, size: int, slots: Integers, first_rows: Integers) -> int:
    """Slots in order of first appearance, through an array of all keys below `size`; how many there are."""
    known = np.full(size, EMPTY, dtype=np.int32)
    count = 0
    for row in range(len(keys)):
        key = np.uint64(keys[row])  # without a sign it can't count from the end, which would be tested
        slot = known[key]
        if slot == EMPTY:
            slot = np.int32(count)
            known[key] = slot
            first_rows[count] = row
            count += 1
        slots[row] = slot
    return count


@compiled
def place_of(key: int, bits: int) -> int:
    """Where a key's search begins in a table of 2 ** bits places."""
    return np.int64((np.uint64(key) * GOLDEN) >> np.uint64(64 - bits))  # type: ignore[return-value]


@compiled
def hashed_slots(keys: Integers, bits: int, slots: Integers, first_rows: Integers) -> int:
    """The same through an open-addressing table of 2 ** bits places, doubled whenever it is half full.

    Equal keys often follow each other.
    """
    table = np.full(1 << bits, EMPTY, dtype=np.int64)
    mask = (1 << bits) - 1
    count = 0
    for row in range(len(keys)):
        key = keys[row]
        if row > 0 and key == keys[row - 1]:
            slots[row] = slots[row - 1]
            continue
        place = place_of(key, bits)
        slot = table[place]
        while slot != EMPTY and keys[first_rows[slot]] != key:
            place = (place + 1) & mask
            slot = table[place]
        if slot == EMPTY:
            slot = count
            table[place] = slot
            first_rows[slot] = row
            count += 1
            if 2 * count > mask:
                bits += 1
                mask = (1 << bits) - 1
                table = np.full(1 << bits, EMPTY, dtype=np.int64)
                for known in range(count):
                    place = place_of(keys[first_rows[known]], bits)
                    while table[place] != EMPTY:
                        place = (place + 1) & mask
                    table[place] = known
        slots[row] = slot
    return count


@compiled
def order_by_slot(
    slots: Integers, values: npt.NDArray[Any], valid: Mask | None, places: Integers, ordered: npt.NDArray[Any]
) -> None:
    """Put the values of a slot side by side; `places` is where the next one of each slot goes."""
    for row in range(len(slots)):
        if valid is None or valid[row]:
            slot = np.uint64(slots[row])
            ordered[np.uint64(places[slot])] = values[row]
            places[slot] += 1
