"""Numbers in the bytes of states, the least significant byte first; those of 8 bytes have a sign.

Functions that write return where they ended.
"""

from __future__ import annotations

import numpy as np

from headrace.kernel.jit import compiled
from headrace.kernel.sketches.packed_bytes import Bytes
from headrace.model.arrays import Doubles


@compiled
def number(data: Bytes, at: int, size: int) -> int:
    word = np.uint64(0)
    for place in range(size):
        word |= np.uint64(data[at + place]) << np.uint64(8 * place)
    return int(np.int64(word))


@compiled
def put_number(data: Bytes, at: int, size: int, value: int) -> int:
    for place in range(size):
        data[at + place] = (value >> (8 * place)) & 255
    return at + size


@compiled
def double(data: Bytes, at: int) -> float:
    return float(np.int64(number(data, at, 8)).view(np.float64))


@compiled
def put_double(data: Bytes, at: int, value: float) -> int:
    return put_number(data, at, 8, int(np.float64(value).view(np.int64)))


@compiled
def copy(source: Bytes | Doubles, begin: int, count: int, target: Bytes | Doubles, at: int) -> int:
    """An assignment of slices would do the same and take seconds to compile."""
    for place in range(count):
        target[at + place] = source[begin + place]
    return at + count


@compiled
def put_doubles(data: Bytes, at: int, values: Doubles, count: int) -> int:
    return copy(values.view(np.uint8), 0, 8 * count, data, at)


# Short numbers: 7 bits in a byte, the least significant first; the first bit is set if another byte follows


@compiled
def put_short(out: Bytes, at: int, value: int) -> int:
    while value > 127:
        out[at] = (value & 127) | 128
        value >>= 7
        at += 1
    out[at] = value
    return at + 1


@compiled
def short(data: Bytes, at: int, end: int) -> tuple[int, int]:
    """A number and where it ends; -1 if there is none, or in more bytes than it needs."""
    value = 0
    for place in range(8):
        if at + place >= end:
            break
        byte = int(data[at + place])
        value |= (byte & 127) << (7 * place)
        if byte < 128:
            return (value if byte > 0 or place == 0 else -1), at + place + 1
    return -1, at
