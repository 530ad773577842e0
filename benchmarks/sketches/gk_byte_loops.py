"""The loops between the bytes of Greenwald-Khanna summaries and their rows."""

from __future__ import annotations

import math

import numpy as np

from headrace.kernel.jit import compiled
from headrace.kernel.sketches.packed_byte_loops import copy, number, put_number
from headrace.kernel.sketches.packed_bytes import Bytes
from headrace.kernel.sketches.quantile_states import MAX_VALUES
from headrace.model.arrays import Doubles, Integers

VERSION = 1
SUMMARY, BUFFER = 3, 1
"""The forms of a state, by the DOUBLEs in a row: a summary, or values as they came."""
HEAD = 16
"""Bytes before the rows: version and form (2 bytes each), rows (4 bytes), count of NaNs (8 bytes)."""


@compiled
def pack(form: int, ends: Integers, nans: Integers, words: Bytes, out: Bytes, offsets: Integers) -> None:
    """`words` are the bytes of all rows; those of a state end at its end."""
    begin = 0
    for state in range(len(ends)):
        at, end = offsets[state], ends[state] * 8 * form
        if end > begin or nans[state]:
            at = put_number(out, at, 2, VERSION)
            at = put_number(out, at, 2, form)
            at = put_number(out, at, 4, (end - begin) // (8 * form))
            at = put_number(out, at, 8, nans[state])
            at = copy(words, begin, end - begin, out, at)
        offsets[state + 1], begin = at, end


@compiled
def measure(data: Bytes, offsets: Integers, sizes: Integers, forms: Integers, nans: Integers) -> int:
    """Into the arrays: the rows of each state, its form and its NaNs. The first that is too short or long, or -1."""
    for state in range(len(sizes)):
        at, length = offsets[state], offsets[state + 1] - offsets[state]
        forms[state] = SUMMARY
        if length == 0:
            continue
        if length < HEAD or number(data, at, 2) != VERSION:
            return state
        forms[state], sizes[state], nans[state] = (
            number(data, at + 2, 2),
            number(data, at + 4, 4),
            number(data, at + 8, 8),
        )
        if forms[state] not in (SUMMARY, BUFFER) or length != HEAD + 8 * forms[state] * sizes[state]:
            return state
        if not 0 <= nans[state] <= MAX_VALUES or sizes[state] + nans[state] == 0:
            return state
    return -1


@compiled
def unpack(data: Bytes, offsets: Integers, states: Integers, forms: Integers, rows: Doubles) -> None:
    """Of measured states; each value of a buffer is a row, in no order yet."""
    words = rows.reshape(rows.size).view(np.uint8)
    for state in range(len(forms)):
        at, width = offsets[state] + HEAD, 8 * forms[state]
        for row in range(states[state], states[state + 1]):
            copy(data, at, width, words, 24 * row)
            if forms[state] == BUFFER:
                rows[row, 1], rows[row, 2] = 1.0, 0.0
            rows[row, 0] += 0.0
            at += width


@compiled
def inspect(states: Integers, rows: Doubles, counts: Doubles) -> int:
    """Into `counts` how many numbers each state stands for. The first state with rows that can't be, or -1."""
    for state in range(len(counts)):
        before, least = -math.inf, 0.0
        for row in range(states[state], states[state + 1]):
            value, g, delta = rows[row, 0], rows[row, 1], rows[row, 2]
            if not (before <= value and 1.0 <= g <= MAX_VALUES and 0.0 <= delta <= MAX_VALUES):
                return state
            if g != math.floor(g) or delta != math.floor(delta):
                return state
            if g > MAX_VALUES - least:
                return state
            before, least = value, least + g
        counts[state] = least
        least = 0.0
        for row in range(states[state], states[state + 1]):
            least += rows[row, 1]
            if rows[row, 2] > counts[state] - least:
                return state
    return -1
