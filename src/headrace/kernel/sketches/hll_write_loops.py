"""Loops that write HLL sketches: sorted coupons, or registers of a byte each, so that equal sets are equal bytes."""

from __future__ import annotations

import numpy as np

from headrace.kernel.jit import compiled
from headrace.kernel.sketches.hll_form import (
    COMPACT,
    FAMILY,
    HLL,
    HLL_8,
    HLL_START,
    HLL_WORDS,
    LIST,
    LIST_BITS,
    LIST_WORDS,
    MAX_VALUE,
    OUT_OF_ORDER,
    SET,
    SET_BITS,
    SET_WORDS,
    VERSION,
    Number,
    Words,
)
from headrace.kernel.sketches.murmur_loops import Bytes, Coupons


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
        for each in range(gap, size):
            coupon, place = held[each], each
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
    for each in range(size):
        words[at + each] = held[each]
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
