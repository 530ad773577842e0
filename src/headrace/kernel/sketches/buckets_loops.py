"""The loops of bucket sketches: values to buckets, rows of (bucket, count) to bytes and back.

Buckets are numbered in the order of values, from 0 for -infinity; the last are those of infinity and of NaN. A slot is
counted in one array over all of them, which each slot leaves as it found it: all 0.
"""

from __future__ import annotations

import math

import numpy as np

from headrace.kernel.jit import compiled
from headrace.kernel.sketches.packed_byte_loops import double, number, put_double, put_number, put_short, short
from headrace.kernel.sketches.packed_bytes import Bytes
from headrace.kernel.sketches.quantile_states import MOST_VALUES
from headrace.kernel.states.fold_loops import Flags
from headrace.model.arrays import Doubles, Integers

VERSION = 1
HEAD = 24
"""Bytes before the rows: version, a byte 0, parts of an octave (2 bytes), rows (4 bytes), least and greatest value."""
OCTAVES = 2098
"""From the least DOUBLE, 2^-1074, to the greatest, below 2^1024."""
FRACTION = (1 << 52) - 1
BLOCK = 6
"""Counts are searched for in blocks of 2^6 buckets."""


@compiled
def bucket_of(value: float, parts: int, bounds: Integers, guesses: Integers, shift: int) -> int:
    """The octave is the exponent; its part is looked up by the first bits of the fraction, and is that or the next."""
    side = OCTAVES * parts
    if value == 0.0:
        return side + 1
    if value != value:
        return 2 * side + 3
    if math.isinf(value):
        return 2 * side + 2 if value > 0 else 0
    octave, size = 51, abs(value)
    if size < 2.0**-1022:
        size *= 2.0**54
        octave -= 54
    bits = np.float64(size).view(np.int64)
    fraction = bits & FRACTION
    part = guesses[fraction >> shift]
    part += fraction >= bounds[part + 1]
    key = int((octave + (bits >> 52)) * parts + part)
    return side + 2 + key if value > 0 else side - key


@compiled
def exceeds(value: float, other: float) -> bool:
    """NaN is greater than every number."""
    return value > other or (value != value and other == other)


@compiled
def canonical(value: float) -> float:
    """One NaN and one zero, so that equal values have equal bytes."""
    return value + 0.0 if value == value else math.nan


# Rows of a slot together


@compiled
def count_values(slots: Integers, valid: Flags | None, counts: Integers) -> None:
    for row in range(len(slots)):
        if valid is None or valid[row]:
            counts[np.uint64(slots[row])] += 1


@compiled
def order_values(slots: Integers, values: Doubles, valid: Flags | None, places: Integers, ordered: Doubles) -> None:
    """`places` is where the next value of a slot goes."""
    for row in range(len(slots)):
        if valid is None or valid[row]:
            slot = np.uint64(slots[row])
            ordered[np.uint64(places[slot])] = canonical(values[row])
            places[slot] += 1


@compiled
def put_state(
    out: Bytes, at: int, parts: int, low: float, high: float, counts: Integers, marks: Flags, first: int, last: int
) -> int:
    """The counts of the marked blocks from the first to the last, which are 0 then; where the state ends."""
    head, before, rows = at, 0, 0
    at += HEAD
    for block in range(first, last + 1):
        if marks[block]:
            marks[block] = False
            for bucket in range(block << BLOCK, (block + 1) << BLOCK):
                if counts[bucket]:
                    at = put_short(out, at, bucket - before)
                    at = put_short(out, at, counts[bucket])
                    before, counts[bucket] = bucket, 0
                    rows += 1
    put_number(out, head, 2, VERSION)
    put_number(out, head + 2, 2, parts)
    put_number(out, head + 4, 4, rows)
    put_double(out, head + 8, low)
    put_double(out, head + 16, high)
    return at


@compiled
def lift_slots(
    ends: Integers,
    ordered: Doubles,
    parts: int,
    bounds: Integers,
    guesses: Integers,
    shift: int,
    counts: Integers,
    marks: Flags,
    out: Bytes,
    offsets: Integers,
) -> None:
    begin = 0
    for slot in range(len(ends)):
        offsets[slot + 1] = offsets[slot]
        if ends[slot] == begin:
            continue
        low = high = ordered[begin]
        first, last = len(marks), 0
        for row in range(begin, ends[slot]):
            value = ordered[row]
            bucket = bucket_of(value, parts, bounds, guesses, shift)
            counts[bucket] += 1
            marks[bucket >> BLOCK] = True
            first, last = min(first, bucket >> BLOCK), max(last, bucket >> BLOCK)
            low = value if exceeds(low, value) else low
            high = value if exceeds(value, high) else high
        offsets[slot + 1] = put_state(out, offsets[slot], parts, low, high, counts, marks, first, last)
        begin = ends[slot]


# States that are read


@compiled
def measure(
    data: Bytes,
    offsets: Integers,
    parts: int,
    bounds: Integers,
    guesses: Integers,
    shift: int,
    rows: Integers,
    totals: Integers,
) -> int:
    """Into the arrays: how many rows and values each state has. The first that is no state of these buckets, or -1."""
    for row in range(len(rows)):
        at, end = offsets[row], offsets[row + 1]
        if at == end:
            continue
        if end - at < HEAD or number(data, at, 2) != VERSION or number(data, at + 2, 2) != parts:
            return row
        count = number(data, at + 4, 4)
        low, high = double(data, at + 8), double(data, at + 16)
        at += HEAD
        first = bucket = total = 0
        for place in range(count):
            gap, at = short(data, at, end)
            held, at = short(data, at, end)
            bucket += gap
            if gap < (place > 0) or held < 1 or bucket > 2 * OCTAVES * parts + 3 or total > MOST_VALUES - held:
                return row
            total += held
            first = first if place else bucket
        if count == 0 or at != end or exceeds(low, high) or (total == 1 and exceeds(high, low)):
            return row
        if first != bucket_of(low, parts, bounds, guesses, shift):
            return row
        if bucket != bucket_of(high, parts, bounds, guesses, shift):
            return row
        rows[row], totals[row] = count, total
    return -1


@compiled
def unpack(
    data: Bytes, offsets: Integers, first_rows: Integers, buckets: Integers, counts: Integers, extremes: Doubles
) -> None:
    """Of measured states."""
    for row in range(len(first_rows) - 1):
        at, end, bucket = offsets[row], offsets[row + 1], 0
        if at == end:
            continue
        for place in range(2):
            extremes[row, place] = canonical(double(data, at + 8 + 8 * place))
        at += HEAD
        for place in range(first_rows[row], first_rows[row + 1]):
            gap, at = short(data, at, end)
            counts[place], at = short(data, at, end)
            bucket += gap
            buckets[place] = bucket


@compiled
def combine_slots(
    order: Integers,
    ends: Integers,
    first_rows: Integers,
    buckets: Integers,
    held: Integers,
    extremes: Doubles,
    parts: int,
    counts: Integers,
    marks: Flags,
    out: Bytes,
    offsets: Integers,
) -> None:
    """Those states of a slot that have rows, which stand together in `order`, up to its end."""
    begin = 0
    for slot in range(len(ends)):
        offsets[slot + 1] = offsets[slot]
        if ends[slot] == begin:
            continue
        low, high = extremes[order[begin], 0], extremes[order[begin], 1]
        first, last = len(marks), 0
        for place in range(begin, ends[slot]):
            state = order[place]
            for row in range(first_rows[state], first_rows[state + 1]):
                block = buckets[row] >> BLOCK
                counts[buckets[row]] += held[row]
                marks[block] = True
                first, last = min(first, block), max(last, block)
            low = extremes[state, 0] if exceeds(low, extremes[state, 0]) else low
            high = extremes[state, 1] if exceeds(extremes[state, 1], high) else high
        offsets[slot + 1] = put_state(out, offsets[slot], parts, low, high, counts, marks, first, last)
        begin = ends[slot]


@compiled
def find_ranks(first_rows: Integers, buckets: Integers, counts: Integers, ranks: Integers, answers: Integers) -> None:
    """For each state with rows the buckets at its ranks, which ascend and are at most its count."""
    for row in range(len(first_rows) - 1):
        place, seen = first_rows[row], 0
        if place == first_rows[row + 1]:
            continue
        for column in range(ranks.shape[1]):
            while seen + counts[place] < ranks[row, column]:
                seen += counts[place]
                place += 1
            answers[row, column] = buckets[place]
