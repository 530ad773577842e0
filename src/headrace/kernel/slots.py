"""From codes to one key per row, and from keys to slots: an array while the key space is small, else a hash table."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from headrace.kernel.slot_loops import dense_slots, extend_keys, extend_keys_by, hashed_slots
from headrace.model.arrays import Integers

Codes = npt.NDArray[np.int32]

MAX_KEYS = 1 << 62
DENSE_KEYS = 1 << 20
"""A key space up to this size is an array, if the rows fill it at least by an eighth."""


FIRST_BITS = 10
"""Of a hash table, which grows as it fills."""


@dataclass(frozen=True, slots=True, eq=False)
class Slots:
    """The slot of each row, and for each slot the first row that has it."""

    of_row: Integers
    first_rows: Integers

    @property
    def count(self) -> int:
        return len(self.first_rows)


class Keys:
    """Keys that grow code by code; where they would not fit 64 bits, they are numbered again."""

    def __init__(self, rows: int) -> None:
        self.values = np.zeros(rows, dtype=np.int64)
        self.size = 1

    def extend(self, codes: Codes | Integers, size: int, table: Codes | None = None) -> None:
        """One code more; it, or what the table has for it, is below `size`."""
        if size <= 1:
            return
        if self.size > MAX_KEYS // size:
            numbered = self.slots()
            self.values, self.size = numbered.of_row, numbered.count
        if self.size == 1:
            self.values = (codes if table is None else np.take(table, codes)).astype(np.int64)
        elif table is None:
            extend_keys(self.values, codes, size)
        else:
            extend_keys_by(self.values, codes, table, size)
        self.size *= size

    def slots(self) -> Slots:
        return find_slots(self.values, self.size)


def is_dense(size: int, rows: int) -> bool:
    """Whether an array of all keys is worth its memory."""
    return size <= DENSE_KEYS and size <= 8 * rows + 64


class Scratch:
    """Arrays for the nodes of one source, one after the other: new memory costs more than what is done with it."""

    def __init__(self) -> None:
        self.arrays: dict[str, Integers] = {}

    def take(self, name: str, length: int) -> Integers:
        """What was in it is lost."""
        if name not in self.arrays or len(self.arrays[name]) < length:
            self.arrays[name] = np.empty(length, dtype=np.int64)
        return self.arrays[name][:length]


def find_slots(keys: Integers, size: int) -> Slots:
    """Slots in the order in which keys first appear; all keys are below `size`."""
    slots, first_rows = np.empty(len(keys), dtype=np.int64), np.empty(len(keys), dtype=np.int64)
    if is_dense(size, len(keys)):
        count = dense_slots(keys, size, slots, first_rows)
    else:
        count = hashed_slots(keys, FIRST_BITS, slots, first_rows)
    return Slots(slots, first_rows[:count].copy())
