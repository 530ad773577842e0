"""Compiled loops over strings: tables of them, and addresses that are written as text.

In a table each is a number of 64 bits, exact up to seven bytes and else compared byte by byte.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from headrace.kernel.jit import compiled

Bytes = npt.NDArray[np.uint8]
Offsets = npt.NDArray[np.int32]
Words = npt.NDArray[np.uint64]
Codes = npt.NDArray[np.int32]

FREE = np.uint64(0)
MIXING = np.uint64(0x9E3779B97F4A7C15)
SHORT_BYTES = 7
LENGTH_BITS = np.uint64(56)
ZERO, POINT = ord("0"), ord(".")
OCTETS = 4
LONG = np.uint64(0xFF)
"""The highest byte of a short string's number is its length; of a long one's, this."""


@compiled
def word_at(data: Bytes, place: int) -> np.uint64:
    """Eight bytes as one number, written so that it becomes one load."""
    return (
        np.uint64(data[place])
        | np.uint64(data[place + 1]) << np.uint64(8)
        | np.uint64(data[place + 2]) << np.uint64(16)
        | np.uint64(data[place + 3]) << np.uint64(24)
        | np.uint64(data[place + 4]) << np.uint64(32)
        | np.uint64(data[place + 5]) << np.uint64(40)
        | np.uint64(data[place + 6]) << np.uint64(48)
        | np.uint64(data[place + 7]) << np.uint64(56)
    )


@compiled
def number_of(data: Bytes, begin: int, end: int) -> np.uint64:
    """Of a short string the bytes and the length; of a long one a hash."""
    length = end - begin
    if length <= SHORT_BYTES:
        if begin + 8 <= len(data):
            word = word_at(data, begin) & ((np.uint64(1) << np.uint64(8 * length)) - np.uint64(1))
        else:
            word = np.uint64(0)
            for place in range(length):
                word |= np.uint64(data[begin + place]) << np.uint64(8 * place)
        return word | np.uint64(length) << LENGTH_BITS
    mixed = np.uint64(length)
    place = begin
    while place + 8 <= end:
        mixed = (mixed ^ word_at(data, place)) * MIXING
        mixed ^= mixed >> np.uint64(29)
        place += 8
    while place < end:
        mixed = (mixed ^ np.uint64(data[place])) * MIXING
        mixed ^= mixed >> np.uint64(29)
        place += 1
    return mixed | LONG << LENGTH_BITS


@compiled
def equal_bytes(data: Bytes, begin: int, end: int, other: Bytes, other_begin: int, other_end: int) -> bool:
    length = end - begin
    place = 0
    while place < length and other_end - other_begin == length and data[begin + place] == other[other_begin + place]:
        place += 1
    return other_end - other_begin == place == length


@compiled
def shift_of(places: int) -> np.uint64:
    """Return the shift that leaves the bits of a number that a table of 2 ** bits places needs."""
    bits = 0
    while 1 << bits < places:
        bits += 1
    return np.uint64(64 - bits)


@compiled
def fill_table(offsets: Offsets, data: Bytes, table: Words) -> None:
    """The number of each string, all different, and one more than its row, side by side; 0 marks a free place.

    There are 2 ** n places, at least two, more than strings.
    """
    mask = len(table) - 1
    shift = shift_of(len(table))
    for row in range(len(offsets) - 1):
        word = number_of(data, offsets[row], offsets[row + 1])
        place = np.int64((word * MIXING) >> shift)
        while table[place, 1] != FREE:
            place = (place + 1) & mask
        table[place, 0], table[place, 1] = word, np.uint64(row + 1)


@compiled
def find_strings(
    offsets: Offsets, data: Bytes, table: Words, known_offsets: Offsets, known_data: Bytes, rows: Codes
) -> None:
    """The row of each string among the known ones of a table, or -1."""
    mask = len(table) - 1
    shift = shift_of(len(table))
    for row in range(len(offsets) - 1):
        begin, end = offsets[row], offsets[row + 1]
        word = number_of(data, begin, end)
        place = np.int64((word * MIXING) >> shift)
        known = np.int64(table[place, 1]) - 1
        while known >= 0:
            if table[place, 0] == word and (
                word >> LENGTH_BITS != LONG
                or equal_bytes(data, begin, end, known_data, known_offsets[known], known_offsets[known + 1])
            ):
                break
            place = (place + 1) & mask
            known = np.int64(table[place, 1]) - 1
        rows[row] = known


@compiled
def number_strings(offsets: Offsets, data: Bytes, numbers: Words) -> None:
    """The number of each string."""
    for row in range(len(offsets) - 1):
        numbers[row] = number_of(data, offsets[row], offsets[row + 1])


@compiled
def read_octets(data: Bytes, offsets: Offsets, octets: Bytes) -> bool:
    """Four numbers for each text; False if one is anything but four numbers up to 255, as short as can be, and points
    between. An empty text is left: it may stand under a NULL.
    """
    for row in range(len(offsets) - 1):
        place, end = offsets[row], offsets[row + 1]
        if place == end:
            continue
        for octet in range(OCTETS):
            if octet > 0:
                if place >= end or data[place] != POINT:
                    return False
                place += 1
            begin, number = place, 0
            while place < end and place < begin + 3 and ZERO <= data[place] <= ZERO + 9:
                number = number * 10 + data[place] - ZERO
                place += 1
            if place == begin or number > 255 or (data[begin] == ZERO and place > begin + 1):
                return False
            octets[row, octet] = number
        if place != end:
            return False
    return True
