"""States of sketches as one column of bytes. A state without values has no bytes; no state is NULL."""

from __future__ import annotations

from typing import NoReturn

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from headrace.kernel.states.columns import readable
from headrace.model.errors import DataError

Bytes = NDArray[np.uint8]
Offsets = NDArray[np.int64]
STATE = pa.large_binary()


def open_states(states: pa.Array) -> tuple[Bytes, Offsets]:
    """All bytes, and where in them each state begins and the last one ends. NULL, of foreign data, has no bytes."""
    if states.null_count:
        states = states.fill_null(b"")
    buffers = states.buffers()
    offsets = np.frombuffer(buffers[1], np.int64, len(states) + 1, states.offset * 8)
    data = np.frombuffer(buffers[2], np.uint8) if buffers[2] is not None else np.zeros(0, np.uint8)
    return readable(data), readable(offsets)


def offsets_of(sizes: Offsets) -> Offsets:
    """Where each of some things begins that follow one another, and where the last one ends."""
    return np.concatenate([[0], np.cumsum(sizes)])


def pack_states(data: Bytes, offsets: Offsets) -> pa.Array:
    """Return states that lie one after the other in `data`; memory behind the last one is given back."""
    if offsets[-1] < len(data):
        data = data[: offsets[-1]].copy()
    buffers = [None, pa.py_buffer(np.ascontiguousarray(offsets)), pa.py_buffer(np.ascontiguousarray(data))]
    return pa.Array.from_buffers(STATE, len(offsets) - 1, buffers)


def refuse(what: str, row: int) -> NoReturn:
    """For bytes that no sketch of ours wrote."""
    raise DataError("sketch-state", f"the bytes of state {row} are not those of a {what}")


def expect_good(what: str, bad: int) -> None:
    """`bad` is the first state that a loop found to be none, or -1."""
    if bad >= 0:
        refuse(what, bad)
