"""Loops that check and read HLL sketches in all forms that DataSketches writes.

Where the loop is over registers their places have no sign, so that many are taken at a time.
"""

from __future__ import annotations

import numpy as np

from headrace.kernel.jit import compiled
from headrace.kernel.sketches.hll_form import (
    COMPACT,
    DENSE,
    ESCAPED,
    FAMILY,
    HLL,
    HLL_4,
    HLL_6,
    HLL_8,
    HLL_START,
    HLL_WORDS,
    KEY_BITS,
    KEY_MASK,
    LIST,
    LIST_BITS,
    LIST_START,
    LIST_WORDS,
    MAX_VALUE,
    REFUSED,
    SET,
    SET_START,
    SET_WORDS,
    VERSION,
    Number,
)
from headrace.kernel.sketches.murmur_loops import Bytes, Coupons
from headrace.model.arrays import Integers


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
    found, last, in_order = 0, np.int64(0), is_compact
    for place in range(begin, end, 4):
        coupon = word_in(data, place)
        if coupon != 0:
            if coupon >> KEY_BITS == 0:
                return REFUSED, False
            in_order = in_order and bool(coupon > last)
            last = np.int64(coupon)
            found += 1
    return (found, in_order) if found == count else (REFUSED, False)


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
    found = 0
    for place in range(first, end, 4):
        coupon = word_in(data, place)
        if coupon != 0:
            where = coupon & KEY_MASK
            if where >> lg_k != 0 or coupon >> KEY_BITS < least:
                return False
            if register_in(data, begin + HLL_START, where, HLL_4) != ESCAPED:
                return False
            found += 1
    return found == count


@compiled
def check_registers(data: Bytes, begin: Number, end: Number, lg_k: Number, target: Number) -> Number:
    """DENSE, or 0 where all registers are, or REFUSED."""
    length = HLL_START + register_bytes(target, lg_k)
    if data[begin] != HLL_WORDS or end - begin < length or (target != HLL_4 and end - begin != length):
        return REFUSED
    least = np.int64(data[begin + 6]) if target == HLL_4 else 0
    bits = escaped = np.int64(0)
    if target == HLL_8:
        found, first = np.uint8(0), np.uint64(begin + HLL_START)
        for place in range(1 << lg_k):
            found |= data[first + np.uint64(place)]
        return REFUSED if found > MAX_VALUE else DENSE if found > 0 else 0
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
def check_states(data: Bytes, offsets: Integers, lg_k: Number, most: Number, sizes: Integers) -> tuple[Number, bool]:
    """The first state that is no sketch, or -1; and whether all lie as in ours, with at most as many coupons."""
    all_ours = True
    for row in range(len(sizes)):
        size, is_ours = check_state(data, offsets[row], offsets[row + 1], lg_k)
        if size == REFUSED:
            return row, False
        sizes[row] = size
        all_ours = all_ours and is_ours and bool(size <= most)
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
