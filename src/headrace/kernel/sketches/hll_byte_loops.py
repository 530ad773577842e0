"""The loops between the bytes of HLL sketches, as Apache DataSketches has them, and coupons or registers.

All forms that DataSketches writes are checked and read. What is written is sorted coupons, or registers of a byte each,
so that equal sets are equal bytes. Where a loop is over registers their places have no sign, so that many are taken at
a time.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from headrace.kernel.jit import compiled
from headrace.kernel.sketches.murmur_loops import Bytes, Coupons
from headrace.model.arrays import Integers

Words = NDArray[np.uint32]
Number = int | np.int64

VERSION, FAMILY = 1, 7
LIST, SET, HLL = 0, 1, 2
HLL_4, HLL_6, HLL_8 = 0, 1, 2
LIST_START, SET_START, HLL_START = 8, 12, 40
LIST_WORDS, SET_WORDS, HLL_WORDS = 2, 3, 10
LIST_BITS, SET_BITS = 3, 5
"""The least sizes of the two forms' arrays, where they are not compact."""
COMPACT, OUT_OF_ORDER = 8, 16
KEY_BITS, KEY_MASK = 26, (1 << 26) - 1
ESCAPED = 15
"""In HLL_4 a register that does not fit is among the exceptions at the end."""
MAX_VALUE = 63
DENSE, REFUSED = -1, -2
"""Instead of the number of coupons: where registers are kept, and what is no sketch."""


@compiled
def word_in(data: Bytes, place: Number) -> Number:
    """Four bytes, wherever they begin; written so that it becomes one load."""
    low = np.int64(data[place]) | np.int64(data[place + 1]) << 8
    return low | np.int64(data[place + 2]) << 16 | np.int64(data[place + 3]) << 24


# Checked


@compiled
def check_coupons(
    data: Bytes, begin: Number, end: Number, count: Number, is_compact: bool, bits: Number
) -> tuple[Number, bool]:
    """How many, or REFUSED if they are not as many as they should be; and whether they are in order, without gaps."""
    if (end - begin) % 4 != 0 or bits > KEY_BITS or (end - begin) // 4 != (count if is_compact else 1 << bits):
        return REFUSED, False
    held, last, in_order = 0, np.int64(0), is_compact
    for place in range(begin, end, 4):
        coupon = word_in(data, place)
        if coupon != 0:
            if coupon >> KEY_BITS == 0:
                return REFUSED, False
            in_order = in_order and bool(coupon > last)
            last = np.int64(coupon)
            held += 1
    return (held, in_order) if held == count else (REFUSED, False)


@compiled
def register_in(data: Bytes, begin: Number, place: Number, target: Number) -> Number:
    """A register as it is stored, from where the registers begin."""
    if target == HLL_8:
        return np.int64(data[begin + place])
    if target == HLL_6:
        byte, shift = begin + place * 6 // 8, place * 6 % 8
        return ((np.int64(data[byte]) | np.int64(data[byte + 1]) << 8) >> shift) & MAX_VALUE
    return (np.int64(data[begin + place // 2]) >> 4 * (place & 1)) & ESCAPED


@compiled
def register_bytes(target: Number, lg_k: Number) -> Number:
    if target == HLL_8:
        return 1 << lg_k
    return (3 << lg_k) // 4 + 1 if target == HLL_6 else 1 << (lg_k - 1)


@compiled
def check_exceptions(data: Bytes, begin: Number, end: Number, lg_k: Number, escaped: Number) -> bool:
    """Of HLL_4: one for each escaped register, and each of such a register."""
    is_compact, least = bool(data[begin + 5] & COMPACT), np.int64(data[begin + 6]) + ESCAPED
    count, first = word_in(data, begin + 36), begin + HLL_START + register_bytes(HLL_4, lg_k)
    if count != escaped or (end - first) % 4 != 0 or (is_compact and end - first != 4 * count):
        return False
    exceptions = 0
    for place in range(first, end, 4):
        coupon = word_in(data, place)
        if coupon != 0:
            where = coupon & KEY_MASK
            if where >> lg_k != 0 or coupon >> KEY_BITS < least:
                return False
            if register_in(data, begin + HLL_START, where, HLL_4) != ESCAPED:
                return False
            exceptions += 1
    return exceptions == count


@compiled
def check_registers(data: Bytes, begin: Number, end: Number, lg_k: Number, target: Number) -> Number:
    """DENSE, or 0 where all registers are, or REFUSED."""
    length = HLL_START + register_bytes(target, lg_k)
    if data[begin] != HLL_WORDS or end - begin < length or (target != HLL_4 and end - begin != length):
        return REFUSED
    least = np.int64(data[begin + 6]) if target == HLL_4 else 0
    bits = escaped = np.int64(0)
    if target == HLL_8:
        united, first = np.uint8(0), np.uint64(begin + HLL_START)
        for place in range(1 << lg_k):
            united |= data[first + np.uint64(place)]
        return REFUSED if united > MAX_VALUE else DENSE if united > 0 else 0
    for place in range(1 << lg_k):
        value = register_in(data, begin + HLL_START, place, target)
        is_escaped = target == HLL_4 and value == ESCAPED
        escaped += is_escaped
        bits |= 0 if is_escaped else value + least
    if bits > MAX_VALUE or (target == HLL_4 and not check_exceptions(data, begin, end, lg_k, escaped)):
        return REFUSED
    return DENSE if bits + escaped > 0 else 0


@compiled
def check_state(data: Bytes, begin: Number, end: Number, lg_k: Number) -> tuple[Number, bool]:
    """How many coupons it has, DENSE or REFUSED; and whether they, or its registers, lie as in ours."""
    if begin == end:
        return 0, True
    if end - begin < LIST_START or data[begin + 1] != VERSION or data[begin + 2] != FAMILY or data[begin + 3] != lg_k:
        return REFUSED, False
    bits, is_compact = np.int64(data[begin + 4]), bool(data[begin + 5] & COMPACT)
    mode, target = data[begin + 7] & 3, np.int64(data[begin + 7]) >> 2
    if mode == LIST and data[begin] == LIST_WORDS and data[begin + 6] <= 1 << LIST_BITS and target <= HLL_8:
        return check_coupons(data, begin + LIST_START, end, np.int64(data[begin + 6]), is_compact, bits)
    if mode == SET and data[begin] == SET_WORDS and end - begin >= SET_START and target <= HLL_8:
        return check_coupons(data, begin + SET_START, end, word_in(data, begin + 8), is_compact, bits)
    if mode == HLL and end - begin >= HLL_START and target <= HLL_8:
        return check_registers(data, begin, end, lg_k, target), target == HLL_8
    return REFUSED, False


@compiled
def check_states(
    data: Bytes, offsets: Integers, lg_k: Number, max_coupons: Number, sizes: Integers
) -> tuple[Number, bool]:
    """The first state that is no sketch, or -1; and whether all lie as in ours, with at most as many coupons."""
    all_ours = True
    for row in range(len(sizes)):
        size, is_ours = check_state(data, offsets[row], offsets[row + 1], lg_k)
        if size == REFUSED:
            return row, False
        sizes[row] = size
        all_ours = all_ours and is_ours and bool(size <= max_coupons)
    return -1, all_ours


# Read


@compiled
def read_coupons(data: Bytes, begin: Number, end: Number, coupons: Coupons) -> Number:
    count = 0
    for place in range(begin, end, 4):
        coupon = word_in(data, place)
        if coupon != 0:
            coupons[count] = coupon
            count += 1
    return count


@compiled
def count_registers(data: Bytes, offsets: Integers, sizes: Integers, counts: Integers) -> None:
    """How many registers of each state have each value; two by two, since equal ones would wait for each other."""
    row = 0
    for state in range(len(sizes)):
        if sizes[state] == DENSE:
            for place in range(offsets[state] + HLL_START, offsets[state + 1], 2):
                counts[row, 0, np.uint64(data[place])] += 1
                counts[row, 1, np.uint64(data[place + 1])] += 1
            row += 1


# Written


@compiled
def write_first(
    words: Words, at: Number, length: Number, lg_k: Number, bits: Number, flags: Number, count: Number, mode: Number
) -> None:
    """What all forms begin with; the sketch's type, for when coupons become too many, is always HLL_8."""
    words[at] = length | VERSION << 8 | FAMILY << 16 | lg_k << 24
    words[at + 1] = bits | flags << 8 | count << 16 | (mode | HLL_8 << 2) << 24


@compiled
def sort_coupons(held: Coupons, size: Number) -> None:
    """Shell's sort: NumPy's would take most of the time that this module compiles."""
    gap = 1
    while gap < size:
        gap = 3 * gap + 1
    while gap > 0:
        for index in range(gap, size):
            coupon, place = held[index], index
            while place >= gap and held[place - gap] > coupon:
                held[place] = held[place - gap]
                place -= gap
            held[place] = coupon
        gap //= 3


@compiled
def write_coupons(size: Number, held: Coupons, lg_k: Number, words: Words, at: Number) -> Number:
    if size == 0:
        return at
    sort_coupons(held, size)
    if size < 1 << LIST_BITS:
        write_first(words, at, LIST_WORDS, lg_k, LIST_BITS, COMPACT, size, LIST)
        at += LIST_WORDS
    else:
        bits = SET_BITS
        while 4 * size > 3 << bits:
            bits += 1
        write_first(words, at, SET_WORDS, lg_k, bits, COMPACT, 0, SET)
        words[at + 2] = size
        at += SET_WORDS
    for index in range(size):
        words[at + index] = held[index]
    return at + size


@compiled
def write_double(words: Words, at: Number, bits: Number) -> None:
    words[at], words[at + 1] = bits & 0xFFFFFFFF, bits >> 32


@compiled
def write_registers(registers: Bytes, lg_k: Number, words: Words, data: Bytes, at: Number) -> Number:
    """With the sums of 2 ** -register below and from 32 that its readers expect, exact as whole numbers."""
    low = high = zeros = np.int64(0)
    for place in range(len(registers)):
        value = np.int64(registers[place])
        low += (1 << 31) >> value if value < 32 else 0
        high += 1 << (MAX_VALUE - value) if value >= 32 else 0
        zeros += value == 0
    write_first(words, at, HLL_WORDS, lg_k, 0, COMPACT | OUT_OF_ORDER, 0, HLL)
    write_double(words, at + 2, np.int64(0))
    write_double(words, at + 4, np.float64(low * 2.0**-31).view(np.int64))
    write_double(words, at + 6, np.float64(high * 2.0**-63).view(np.int64))
    words[at + 8], words[at + 9] = zeros, 0
    first = np.uint64(4 * at + HLL_START)
    for place in range(len(registers)):
        data[first + np.uint64(place)] = registers[np.uint64(place)]
    return at + HLL_WORDS + len(registers) // 4
