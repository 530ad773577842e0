"""The coupons of an HLL sketch: MurmurHash3 (x64, 128 bits) of values, cut as Apache DataSketches cuts it.

A coupon has 26 bits of the hash's first half, which say where the value counts, and above them 6 bits for the place of
the first one in the second half. None is 0, so 0 stands for a row that does not count. Everything is unsigned: with a
sign, numba would make a DOUBLE of the sum.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from headrace.kernel.jit import compiled
from headrace.kernel.string_loops import word_at
from headrace.model.arrays import Integers, Mask

Bytes = NDArray[np.uint8]
Coupons = NDArray[np.uint32]
Word = np.uint64

SEED = Word(9001)
FIRST = Word(0x87C37B91114253D5)
SECOND = Word(0x4CF5AD432745937F)
ZERO, ONE = Word(0), Word(1)
KEY_BITS = Word(26)
KEY_MASK = Word((1 << 26) - 1)
MAX_ZEROS = Word(62)
LONG_BYTES, BLOCK_BYTES = Word(8), Word(16)


@compiled
def rotate(word: Word, bits: Word) -> Word:
    return (word << bits) | (word >> (Word(64) - bits))


@compiled
def first_half(word: Word) -> Word:
    return rotate(word * FIRST, Word(31)) * SECOND


@compiled
def second_half(word: Word) -> Word:
    return rotate(word * SECOND, Word(33)) * FIRST


@compiled
def scatter_bits(word: Word) -> Word:
    """Every bit of the result depends on every bit of the word."""
    word = (word ^ (word >> Word(33))) * Word(0xFF51AFD7ED558CCD)
    word = (word ^ (word >> Word(33))) * Word(0xC4CEB9FE1A85EC53)
    return word ^ (word >> Word(33))


@compiled
def coupon_of(low: Word, high: Word, length: Word) -> np.uint32:
    """From the two halves after all bytes."""
    low ^= length
    high ^= length
    low += high
    high += low
    low, high = scatter_bits(low), scatter_bits(high)
    low += high
    high += low
    bits = ZERO
    while high != ZERO:  # becomes one instruction
        high >>= ONE
        bits += ONE
    zeros = min(Word(64) - bits, MAX_ZEROS)
    return np.uint32(((zeros + ONE) << KEY_BITS) | (low & KEY_MASK))


@compiled
def coupon_of_long(value: int) -> np.uint32:
    return coupon_of(SEED ^ first_half(Word(value)), SEED, LONG_BYTES)


@compiled
def after_block(low: Word, high: Word, first: Word, second: Word) -> tuple[Word, Word]:
    """The halves after sixteen bytes more."""
    low = (rotate(low ^ first_half(first), Word(27)) + high) * Word(5) + Word(0x52DCE729)
    high = (rotate(high ^ second_half(second), Word(31)) + low) * Word(5) + Word(0x38495AB5)
    return low, high


@compiled
def last_bytes(data: Bytes, begin: int, end: int) -> Word:
    """At most eight bytes as a number."""
    if begin + 8 <= len(data):
        left = Word(8 * (8 - (end - begin)))
        return (word_at(data, begin) << left) >> left
    word = ZERO
    for place in range(begin, end):
        word |= Word(data[place]) << Word(8 * (place - begin))
    return word


@compiled
def coupon_of_bytes(data: Bytes, begin: int, end: int) -> np.uint32:
    low, high, place = SEED, SEED, begin
    while place + 16 <= end:
        low, high = after_block(low, high, word_at(data, place), word_at(data, place + 8))
        place += 16
    if place + 8 < end:
        high ^= second_half(last_bytes(data, place + 8, end))
    if place < end:
        low ^= first_half(last_bytes(data, place, min(place + 8, end)))
    return coupon_of(low, high, Word(end - begin))


# One loop for each form that values have in memory


@compiled
def long_coupons(values: Integers, valid: Mask | None, coupons: Coupons) -> None:
    for row in range(len(values)):
        coupons[row] = coupon_of_long(values[row]) if valid is None or valid[row] else np.uint32(0)


@compiled
def wide_coupons(words: Integers, valid: Mask | None, narrow: bool, coupons: Coupons) -> None:
    """Values of two words: as their sixteen bytes, or if `narrow` as one long where they fit that."""
    for row in range(len(words)):
        low, high = words[row, 0], words[row, 1]
        if valid is not None and not valid[row]:
            coupons[row] = 0
        elif narrow and high == low >> 63:
            coupons[row] = coupon_of_long(low)
        else:
            first, second = after_block(SEED, SEED, Word(low), Word(high))
            coupons[row] = coupon_of(first, second, BLOCK_BYTES)


@compiled
def string_coupons(offsets: NDArray[np.int32], data: Bytes, valid: Mask | None, coupons: Coupons) -> None:
    for row in range(len(coupons)):
        if valid is None or valid[row]:
            coupons[row] = coupon_of_bytes(data, offsets[row], offsets[row + 1])
        else:
            coupons[row] = 0
