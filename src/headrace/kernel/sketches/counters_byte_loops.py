"""The loops between the bytes of summaries and arrays of items.

A state is a header of 24 bytes, its counts (8 bytes each), for items of different lengths those (4 bytes each), and the
items in ascending order. The header: version, three bytes for the type, the number of items (4 bytes), total and error
(8 bytes each).
"""

from __future__ import annotations

from typing import NamedTuple

from headrace.kernel.jit import compiled
from headrace.kernel.sketches.counters_loops import add_up
from headrace.kernel.sketches.packed_byte_loops import copy, number, put_number
from headrace.kernel.sketches.packed_bytes import Bytes, Offsets
from headrace.model.arrays import Integers
from headrace.model.types import MAX_BIGINT

VERSION = 1
HEADER = 24


class Summaries(NamedTuple):
    """The states of a column in arrays: of each state total, error and first item; of each item its count and bytes.

    All items have the type `label`. They are `width` bytes each; 0 if each has its own length.
    """

    label: int
    width: int
    firsts: Integers
    totals: Integers
    errors: Integers
    counts: Integers
    items: Bytes
    item_offsets: Offsets


@compiled
def is_below(data: Bytes, first: int, first_length: int, second: int, second_length: int) -> bool:
    """Whether one item comes before another, byte by byte."""
    for place in range(min(first_length, second_length)):
        if data[first + place] != data[second + place]:
            return bool(data[first + place] < data[second + place])
    return first_length < second_length


@compiled
def length_at(data: Bytes, counts_end: int, item: int, width: int) -> int:
    return width if width > 0 else number(data, counts_end + 4 * item, 4)


@compiled
def are_items(data: Bytes, counts_end: int, size: int, width: int, end: int) -> bool:
    """Whether items fill the bytes up to `end`, each one greater than the one before."""
    at = counts_end if width > 0 else counts_end + 4 * size
    before, before_length = -1, 0
    for item in range(size):
        length = length_at(data, counts_end, item, width)
        if length > end - at:
            return False
        if before >= 0 and not is_below(data, before, before_length, at, length):
            return False
        before, before_length = at, length
        at += length
    return at == end


@compiled
def are_counts(data: Bytes, begin: int, size: int) -> bool:
    """Whether counts, error and total can go together: what was cut, was cut from more items than are left."""
    total, error = number(data, begin + 8, 8), number(data, begin + 16, 8)
    if total <= 0 or error < 0:
        return False
    held = 0
    for item in range(size):
        count = number(data, begin + HEADER + 8 * item, 8)
        if count <= 0:
            return False
        held = add_up(held, count)
    if error == 0:
        return held == total
    return total == MAX_BIGINT or (held <= total and error <= (total - held) // (size + 1))


@compiled
def check_states(data: Bytes, offsets: Offsets, label: int, width: int, sizes: Integers, lengths: Integers) -> int:
    """The first state that is none of this type, or -1; of each, how many items and how many bytes of them it has."""
    for row in range(len(offsets) - 1):
        begin, end = offsets[row], offsets[row + 1]
        sizes[row] = lengths[row] = 0
        if begin == end:
            continue
        if end - begin < HEADER or data[begin] != VERSION or number(data, begin + 1, 3) != label:
            return row
        size = number(data, begin + 4, 4)
        item_bytes = 8 if width > 0 else 12
        if size > (end - begin - HEADER) // item_bytes:
            return row
        counts_end = begin + HEADER + 8 * size
        if not are_counts(data, begin, size) or not are_items(data, counts_end, size, width, end):
            return row
        sizes[row], lengths[row] = size, end - begin - HEADER - item_bytes * size
    return -1


@compiled
def read_states(data: Bytes, offsets: Offsets, held: Summaries) -> None:
    """Fill in what checked states hold, but for their first items; `item_offsets` begins with 0."""
    filled, item_offsets = 0, held.item_offsets
    for row in range(len(offsets) - 1):
        begin, end = offsets[row], offsets[row + 1]
        if begin == end:
            continue
        held.totals[row], held.errors[row] = number(data, begin + 8, 8), number(data, begin + 16, 8)
        first, size = held.firsts[row], held.firsts[row + 1] - held.firsts[row]
        counts_end = begin + HEADER + 8 * size
        for item in range(size):
            held.counts[first + item] = number(data, begin + HEADER + 8 * item, 8)
            length = length_at(data, counts_end, item, held.width)
            item_offsets[first + item + 1] = item_offsets[first + item] + length
        at = counts_end if held.width > 0 else counts_end + 4 * size
        filled = copy(data, at, end - at, held.items, filled)


@compiled
def write_states(held: Summaries, offsets: Offsets, data: Bytes) -> None:
    item_offsets = held.item_offsets
    for row in range(len(held.totals)):
        begin = offsets[row]
        if begin == offsets[row + 1]:
            continue
        first, size = held.firsts[row], held.firsts[row + 1] - held.firsts[row]
        data[begin] = VERSION
        put_number(data, begin + 1, 3, held.label)
        put_number(data, begin + 4, 4, size)
        put_number(data, begin + 8, 8, held.totals[row])
        put_number(data, begin + 16, 8, held.errors[row])
        at = begin + HEADER
        for item in range(first, first + size):
            at = put_number(data, at, 8, held.counts[item])
        if held.width == 0:
            for item in range(first, first + size):
                at = put_number(data, at, 4, item_offsets[item + 1] - item_offsets[item])
        source = item_offsets[first]
        copy(held.items, source, item_offsets[first + size] - source, data, at)
