"""The border between Arrow columns and the loops: memory to read, and columns built from what the loops leave."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from headrace.expressions.columns import canonical, raw
from headrace.kernel.slot_loops import order_by_slot
from headrace.kernel.states.fold_loops import count_rows
from headrace.kernel.string_loops import Bytes, Offsets
from headrace.model.arrays import Integers, Mask

Slots = npt.NDArray[np.int64]
"""The slot of each row, from 0."""
Columns = tuple[pa.Array, ...]


def readable(data: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Return a read-only view. Numba compiles once for every form of its arguments, so all have this one."""
    view = np.ascontiguousarray(data).view()
    view.flags.writeable = False
    return view


def numbers(values: pa.Array, dtype: Any = np.int64, words: int = 1) -> npt.NDArray[Any]:
    return readable(raw(values, dtype, words))


def find_valid(values: pa.Array) -> Mask | None:
    """Return a mask of the rows that are not NULL; None if all are."""
    if not values.null_count:
        return None
    if pa.types.is_null(values.type):
        return readable(np.zeros(len(values), np.bool_))
    begin, skipped = divmod(values.offset, 8)
    bitmap = np.frombuffer(values.buffers()[0], np.uint8, offset=begin)
    bits = np.unpackbits(bitmap, count=skipped + len(values), bitorder="little")
    return readable(bits[skipped:].view(np.bool_))


def string_buffers(values: pa.Array) -> tuple[Offsets, Bytes]:
    """Return where each string begins and the last ends, and the bytes of all."""
    if not len(values):
        return np.zeros(1, dtype=np.int32), np.zeros(0, dtype=np.uint8)
    _, offsets, data = values.buffers()
    starts = np.frombuffer(offsets, dtype=np.int32)[values.offset : values.offset + len(values) + 1]
    return starts, np.zeros(0, dtype=np.uint8) if data is None else np.frombuffer(data, dtype=np.uint8)


def column(data: npt.NDArray[Any], arrow: pa.DataType, seen: Mask) -> pa.Array:
    """Build a column that is NULL in the slots that have seen nothing."""
    memory = pa.py_buffer(np.ascontiguousarray(data))
    bitmap = None if seen.all() else pa.array(seen).buffers()[1]
    return pa.Array.from_buffers(arrow, len(seen), [bitmap, memory])


def rank_values(values: pa.Array) -> tuple[npt.NDArray[np.int64], pa.Array]:
    """Return the rank of each row's value, and the distinct values in order. The rank of a NULL means nothing."""
    encoded = canonical(values).dictionary_encode()
    order = pc.array_sort_indices(encoded.dictionary).to_numpy()
    ranks = np.zeros(len(order) + 1, np.int64)
    ranks[order] = np.arange(len(order))
    return ranks[pc.fill_null(encoded.indices, len(order)).to_numpy()], encoded.dictionary.take(order)


def values_by_slot(
    slots: Slots, count: int, values: npt.NDArray[Any], valid: Mask | None = None
) -> tuple[npt.NDArray[Any], Integers]:
    """Return the values that are valid, those of a slot side by side, and where each slot begins and the last ends."""
    slots, counts = readable(slots), np.zeros(count, np.int64)
    count_rows(slots, valid, counts)
    starts = np.concatenate([[0], np.cumsum(counts)])
    ordered = np.empty(int(starts[-1]), values.dtype)
    order_by_slot(slots, readable(values), valid, starts[:-1].copy(), ordered)
    return readable(ordered), readable(starts)
