"""The loops that fold rows, or partials, into slots. All decisions are made before a loop.

`valid` says which rows count; None means all, for which numba compiles a second form without the test. `seen` marks the
slots that got something. Sums of whole numbers are several 64-bit words each, the least significant first, as in Arrow.
Slots lose their sign: with it, each would be tested whether it counts from the end.
"""

from __future__ import annotations

import math

import numpy as np

from headrace.kernel.jit import compiled
from headrace.model.arrays import Doubles, Integers, Mask

SIGN = -(2**63)
SCALE = 2.0**128
"""Sums beyond a DOUBLE are kept divided by this."""


@compiled
def count_rows(slots: Integers, valid: Mask | None, counts: Integers) -> None:
    for row in range(len(slots)):
        if valid is None or valid[row]:
            counts[np.uint64(slots[row])] += 1


@compiled
def add_counts(slots: Integers, values: Integers, counts: Integers) -> None:
    for row in range(len(slots)):
        counts[np.uint64(slots[row])] += values[row]


# Whole numbers


@compiled
def add_word(totals: Integers, slot: np.uint64, place: int, word: int, carry: int) -> int:
    """Add to one word of a number and return the carry. Flipping the first bit compares as without a sign."""
    before = totals[slot, place] + word
    after = before + carry
    totals[slot, place] = after
    return int((before ^ SIGN) < (word ^ SIGN)) + int((after ^ SIGN) < (carry ^ SIGN))


@compiled
def add_integers(slots: Integers, values: Integers, valid: Mask | None, totals: Integers, seen: Mask) -> None:
    for row in range(len(slots)):
        if valid is None or valid[row]:
            slot, value = np.uint64(slots[row]), values[row]
            totals[slot, 1] += (value >> 63) + add_word(totals, slot, 0, value, 0)
            seen[slot] = True


@compiled
def add_words(slots: Integers, words: Integers, valid: Mask | None, totals: Integers, seen: Mask) -> None:
    """Add numbers of as many words as the totals have, or fewer: then their sign fills the others."""
    last = words.shape[1] - 1
    for row in range(len(slots)):
        if valid is None or valid[row]:
            slot, carry = np.uint64(slots[row]), 0
            for place in range(totals.shape[1]):
                word = words[row, place] if place <= last else words[row, last] >> 63
                carry = add_word(totals, slot, place, word, carry)
            seen[slot] = True


# DOUBLEs


@compiled
def add_to(totals: Doubles, slot: np.uint64, value: float) -> None:
    """Add by Knuth's TwoSum, which keeps what the addition loses, without a branch."""
    before = totals[slot, 0]
    after = before + value
    added = after - before
    totals[slot, 0] = after
    totals[slot, 1] += (before - (after - added)) + (value - added)


@compiled
def add_doubles(slots: Integers, values: Doubles, valid: Mask | None, totals: Doubles, seen: Mask) -> None:
    for row in range(len(slots)):
        if valid is None or valid[row]:
            slot = np.uint64(slots[row])
            add_to(totals, slot, values[row])
            seen[slot] = True


@compiled
def add_scaled(
    slots: Integers,
    values: Doubles,
    rests: Doubles,
    valid: Mask | None,
    wanted: Mask,
    totals: Doubles,
    special: Doubles,
) -> None:
    """Add to `wanted` slots: finite numbers divided by SCALE, others apart. An infinite rest marks a scaled sum."""
    for row in range(len(slots)):
        slot, value, rest = np.uint64(slots[row]), values[row], rests[row]
        if not wanted[slot] or (valid is not None and not valid[row]):
            continue
        if math.isinf(rest):
            add_to(totals, slot, value)
        elif math.isfinite(value):
            add_to(totals, slot, value / SCALE)
            add_to(totals, slot, rest / SCALE)
        else:
            special[slot] += value


@compiled
def add_deviations(
    slots: Integers, counts: Integers, means: Doubles, squares: Doubles, centers: Doubles, sums: Doubles
) -> None:
    """Add up each slot's squared deviations from its center, and the deviations, which are 0 if it is exact."""
    for row in range(len(slots)):
        slot, count = np.uint64(slots[row]), counts[row]
        if count > 0:
            deviation = means[row] - centers[slot]
            sums[slot, 0] += squares[row] + count * deviation * deviation
            sums[slot, 1] += count * deviation


# Extremes, where NaN is the greatest. Which one is kept can't be foreseen, so nothing branches on it


@compiled
def precedes(value: float, other: float) -> bool:
    return (value < other) | (other != other)


@compiled
def keep_extreme(
    slots: Integers,
    values: Integers | Doubles,
    valid: Mask | None,
    is_least: bool,
    best: Integers | Doubles,
    seen: Mask,
) -> None:
    """Keep the least value of each slot, or else the greatest."""
    for row in range(len(slots)):
        if valid is None or valid[row]:
            slot, value = np.uint64(slots[row]), values[row]
            held = best[slot]
            is_better = precedes(value, held) if is_least else precedes(held, value)
            best[slot] = value if is_better else held
            seen[slot] = True
