"""Keys of joins that are strings, found by a compiled hash table."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from headrace.expressions.static_tables import NO_PARTNER, KeyValues, Positions
from headrace.kernel.string_loops import Bytes, Offsets, fill_table, find_strings


class StringValues(KeyValues):
    """Compiled where all keys are strings."""

    def __init__(self, columns: list[pa.Array], wanted: pa.DataType) -> None:
        super().__init__(columns, wanted)
        self.is_compiled = self.is_exact and pa.types.is_string(wanted)
        if self.is_compiled:
            places = 2 << (2 * len(self.known)).bit_length()
            self.table = np.zeros((places, 2), dtype=np.uint64)
            self.buffers = buffers(self.known)
            fill_table(*self.buffers, self.table)

    def numbers(self, values: pa.Array) -> Positions:
        if not self.is_compiled:
            return super().numbers(values)
        found = np.empty(len(values), dtype=np.int32)
        find_strings(*buffers(values), self.table, *self.buffers, found)
        if values.null_count:
            found[np.asarray(values.is_null())] = NO_PARTNER
        return found


def buffers(values: pa.Array) -> tuple[Offsets, Bytes]:
    """Where each string begins and the last ends, and the bytes of all."""
    if not len(values):
        return np.zeros(1, dtype=np.int32), np.zeros(0, dtype=np.uint8)
    _, offsets, data = values.buffers()
    starts = np.frombuffer(offsets, dtype=np.int32)[values.offset : values.offset + len(values) + 1]
    return starts, np.zeros(0, dtype=np.uint8) if data is None else np.frombuffer(data, dtype=np.uint8)
