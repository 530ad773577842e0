"""The loops of bucket sketches: values to buckets, rows of (bucket, count) to bytes and back.

Buckets are numbered in the order of values, from 0 for -infinity; the last are those of infinity and of NaN. A slot is
counted in one array over all of them, which each slot leaves as it found it: all 0.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from headrace.kernel.jit import compiled
from headrace.kernel.sketches.packed_byte_loops import double, number, put_double, put_number, put_short, short
from headrace.kernel.sketches.packed_bytes import Bytes
from headrace.kernel.sketches.quantile_states import MAX_VALUES
from headrace.model.arrays import Doubles, Integers, Mask

VERSION = 1
HEAD = 24
"""Bytes before the rows: version, a byte 0, parts of an octave (2 bytes), rows (4 bytes), least and greatest value."""
OCTAVES = 2098
"""From the least DOUBLE, 2^-1074, to the greatest, below 2^1024."""
FRACTION = (1 << 52) - 1
BLOCK = 6
"""Counts are searched for in blocks of 2^6 buckets."""


class OctaveCuts(NamedTuple):
    """Where an octave is cut: `bounds` as the fraction bits of DOUBLEs, found from their first bits by `guesses`."""

    parts: int
    bounds: Integers
    guesses: Integers
    shift: int


class BucketTally(NamedTuple):
    """Counts of all buckets, and marks on the blocks of buckets that have some."""

    counts: Integers
    marks: Mask


class BucketRows(NamedTuple):
    """What states hold: the rows (bucket, count) of each begin at `first_rows[i]`."""

    first_rows: Integers
    buckets: Integers
    counts: Integers
    extremes: Doubles


@compiled
def bucket_of(value: float, cuts: OctaveCuts) -> int:
    """The octave is the exponent; its part is looked up by the first bits of the fraction, and is that or the next."""
    side = OCTAVES * cuts.parts
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
    part = cuts.guesses[fraction >> cuts.shift]
    part += fraction >= cuts.bounds[part + 1]
    key = int((octave + (bits >> 52)) * cuts.parts + part)
    return side + 2 + key if value > 0 else side - key


@compiled
def exceeds(value: float, other: float) -> bool:
    """NaN is greater than every number."""
    return value > other or (value != value and other == other)


@compiled
def canonical(value: float) -> float:
    """One NaN and one zero, so that equal values have equal bytes."""
    return value + 0.0 if value == value else math.nan


# Written


@compiled
def put_state(
    out: Bytes, at: int, parts: int, low: float, high: float, tally: BucketTally, first: int, last: int
) -> int:
    """Write the counts of the marked blocks from the first to the last, which are 0 then; return where it ends."""
    counts, marks = tally
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
    starts: Integers, ordered: Doubles, cuts: OctaveCuts, tally: BucketTally, out: Bytes, offsets: Integers
) -> None:
    """Write the state of each slot's values."""
    counts, marks = tally
    for slot in range(len(starts) - 1):
        begin, end, offsets[slot + 1] = starts[slot], starts[slot + 1], offsets[slot]
        if begin == end:
            continue
        low = high = canonical(ordered[begin])
        first, last = len(marks), 0
        for row in range(begin, end):
            value = canonical(ordered[row])
            bucket = bucket_of(value, cuts)
            counts[bucket] += 1
            marks[bucket >> BLOCK] = True
            first, last = min(first, bucket >> BLOCK), max(last, bucket >> BLOCK)
            low = value if exceeds(low, value) else low
            high = value if exceeds(value, high) else high
        offsets[slot + 1] = put_state(out, offsets[slot], cuts.parts, low, high, tally, first, last)


@compiled
def combine_slots(
    starts: Integers, ordered: Integers, held: BucketRows, parts: int, tally: BucketTally, out: Bytes, offsets: Integers
) -> None:
    """Write the state of each slot's states; those in `ordered` have rows."""
    counts, marks = tally
    for slot in range(len(starts) - 1):
        begin, end, offsets[slot + 1] = starts[slot], starts[slot + 1], offsets[slot]
        if begin == end:
            continue
        low, high = held.extremes[ordered[begin], 0], held.extremes[ordered[begin], 1]
        first, last = len(marks), 0
        for state in ordered[begin:end]:
            for row in range(held.first_rows[state], held.first_rows[state + 1]):
                bucket = held.buckets[row]
                counts[bucket] += held.counts[row]
                marks[bucket >> BLOCK] = True
                first, last = min(first, bucket >> BLOCK), max(last, bucket >> BLOCK)
            low = held.extremes[state, 0] if exceeds(low, held.extremes[state, 0]) else low
            high = held.extremes[state, 1] if exceeds(held.extremes[state, 1], high) else high
        offsets[slot + 1] = put_state(out, offsets[slot], parts, low, high, tally, first, last)


# States that are read


@compiled
def measure(data: Bytes, offsets: Integers, cuts: OctaveCuts, rows: Integers, totals: Integers) -> int:
    """Count the rows and values of each state. Return the first that is no state of these buckets, or -1."""
    for row in range(len(rows)):
        at, end = offsets[row], offsets[row + 1]
        if at == end:
            continue
        if end - at < HEAD or number(data, at, 2) != VERSION or number(data, at + 2, 2) != cuts.parts:
            return row
        count = number(data, at + 4, 4)
        low, high = double(data, at + 8), double(data, at + 16)
        at += HEAD
        first = bucket = total = 0
        for place in range(count):
            gap, at = short(data, at, end)
            held, at = short(data, at, end)
            bucket += gap
            if gap < (place > 0) or held < 1 or bucket > 2 * OCTAVES * cuts.parts + 3 or total > MAX_VALUES - held:
                return row
            total += held
            first = first if place else bucket
        if count == 0 or at != end or exceeds(low, high) or (total == 1 and exceeds(high, low)):
            return row
        if first != bucket_of(low, cuts) or bucket != bucket_of(high, cuts):
            return row
        rows[row], totals[row] = count, total
    return -1


@compiled
def unpack(data: Bytes, offsets: Integers, held: BucketRows) -> None:
    """Read measured states."""
    for row in range(len(offsets) - 1):
        at, end, bucket = offsets[row], offsets[row + 1], 0
        if at == end:
            continue
        for place in range(2):
            held.extremes[row, place] = canonical(double(data, at + 8 + 8 * place))
        at += HEAD
        for place in range(held.first_rows[row], held.first_rows[row + 1]):
            gap, at = short(data, at, end)
            held.counts[place], at = short(data, at, end)
            bucket += gap
            held.buckets[place] = bucket


@compiled
def find_ranks(held: BucketRows, ranks: Integers, answers: Integers) -> None:
    """For each state with rows the buckets at its ranks, which ascend and are at most its count."""
    for row in range(len(held.first_rows) - 1):
        place, seen = held.first_rows[row], 0
        if place == held.first_rows[row + 1]:
            continue
        for column in range(ranks.shape[1]):
            while seen + held.counts[place] < ranks[row, column]:
                seen += held.counts[place]
                place += 1
            answers[row, column] = held.buckets[place]
