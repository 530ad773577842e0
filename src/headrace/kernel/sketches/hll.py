"""Distinct counts by HyperLogLog, in the bytes of Apache DataSketches' HLL sketch.

A state is the compact form that DataSketches, and with it Spark's hll_sketch_estimate and hll_union_agg, reads: a LIST
or SET of coupons while they are few, then HLL_8, out of order. It reads back all forms that DataSketches writes, HLL_4,
HLL_6 and the updatable ones of Spark's hll_sketch_agg among them, if lg_k is the same.

Values are hashed as DataSketches hashes them, so a value counts once whichever side saw it: BIGINT, BOOLEAN (0 or 1),
TIMESTAMP (microseconds) and a DECIMAL whose digits fit 64 bits as a long, DOUBLE as a double (one zero, one NaN),
STRING as its UTF-8 bytes, a longer DECIMAL as 16 bytes, the least significant first, and ADDRESS as its 16 bytes.
DataSketches leaves out the empty string; here it counts, for it is not NULL.

There is one estimator whatever way a state came about. With registers it is Ertl's improved raw estimator (O. Ertl, New
cardinality estimation algorithms for HyperLogLog sketches, 2017), which needs no tables of bias; its relative standard
error is 1.04 / sqrt(2 ** lg_k), which is 1.6 % at 12: 5 % holds in 99.7 of 100 cases.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from headrace.expressions.columns import canonical
from headrace.kernel.sketches.hll_form import DENSE, HLL_START, LIST_BITS, MAX_VALUE, SET_START
from headrace.kernel.sketches.hll_loops import count_coupons, fold_coupons, merge_states, order_coupons
from headrace.kernel.sketches.hll_read_loops import check_states, count_registers
from headrace.kernel.sketches.murmur_loops import Bytes, Coupons, long_coupons, string_coupons, wide_coupons
from headrace.kernel.sketches.packed_bytes import STATE, Offsets, expect_good, open_states, pack_states
from headrace.kernel.states.columns import Columns, Slots, find_valid, numbers, readable
from headrace.kernel.strings import buffers
from headrace.model.arrays import Doubles, Integers
from headrace.model.types import DataType

LEAST_LG_K, MOST_LG_K = 4, 21
LEAST_LG_K_OF_SETS = 8
SIGMAS = 3
COLLISIONS = 6 * 2.0**26
"""Two values have the same coupon once in half as many pairs: the same key, and as many zeros in one of three cases."""


@dataclass(frozen=True, slots=True)
class Hll:
    """A sketch of 2 ** lg_k registers, a byte each."""

    lg_k: int = 12

    def __post_init__(self) -> None:
        if not LEAST_LG_K <= self.lg_k <= MOST_LG_K:
            raise ValueError(f"lg_k is from {LEAST_LG_K} to {MOST_LG_K}, not {self.lg_k}")

    @property
    def relative_error(self) -> float:
        """What estimates stay within, but for 3 in 1,000."""
        return SIGMAS * 1.04 / math.sqrt(1 << self.lg_k)

    @property
    def most_coupons(self) -> int:
        """As DataSketches has it: three quarters of an array of 2 ** (lg_k - 3), or a list less one."""
        return (1 << LIST_BITS) - 1 if self.lg_k < LEAST_LG_K_OF_SETS else 3 << (self.lg_k - 5)

    def columns(self, argument: DataType | None) -> tuple[pa.DataType, ...]:
        return (STATE,)

    def lift(self, slots: Slots, count: int, argument: pa.Array | None) -> Columns:
        assert argument is not None
        coupons = readable(coupons_of(argument))
        ordered, starts = in_slots(slots, count, coupons)
        writing = Writing(self, np.diff(starts))
        fold_coupons(ordered, starts, self.lg_k, *writing.scratch, *writing.result)
        return (writing.states(),)

    def combine(self, slots: Slots, count: int, states: Columns) -> Columns:
        data, offsets, sizes, _ = self.check_states(states[0])
        rows = np.where(sizes == 0, 0, np.arange(1, len(sizes) + 1)).astype(np.uint32)
        ordered, starts = in_slots(slots, count, readable(rows))
        weights = np.zeros(count, np.int64)
        np.add.at(weights, slots, np.where(sizes == DENSE, self.most_coupons + 1, sizes))
        writing = Writing(self, weights)
        coupons = np.empty(sizes.max(initial=0), np.uint32)
        merging = readable(sizes), ordered, starts, self.lg_k, coupons
        merge_states(data, offsets, *merging, *writing.scratch, *writing.result)
        return (writing.states(),)

    def estimates(self, states: pa.Array) -> Doubles:
        """How many distinct values each state has seen."""
        data, offsets, sizes, all_ours = self.check_states(states)
        if not all_ours:
            (states,) = self.combine(np.arange(len(states)), len(states), (states,))
            data, offsets, sizes, _ = self.check_states(states)
        dense = sizes == DENSE
        counts = np.zeros((int(dense.sum()), 2, MAX_VALUE + 1), np.int64)
        count_registers(data, offsets, readable(sizes), counts)
        found = sizes + sizes * (sizes - 1) / COLLISIONS
        found[dense] = estimates_of(counts.sum(axis=1))
        return found

    def check_states(self, states: pa.Array) -> tuple[Bytes, Offsets, Integers, bool]:
        """The bytes, where states begin, their numbers of coupons or DENSE, and whether they lie as in ours."""
        data, offsets = open_states(states)
        sizes = np.zeros(len(states), np.int64)
        bad, all_ours = check_states(data, offsets, self.lg_k, self.most_coupons, sizes)
        expect_good(f"HLL sketch with lg_k {self.lg_k}", int(bad))
        return data, offsets, sizes, all_ours


class Writing:
    """Memory for one sketch at a time, and for the bytes of all, given how many coupons each has at most."""

    def __init__(self, sketch: Hll, coupons: Integers) -> None:
        most, registers = sketch.most_coupons, 1 << sketch.lg_k
        places = 1 << (2 * most).bit_length()
        self.scratch = np.empty(most, np.uint32), np.zeros(places, np.uint32), np.empty(registers, np.uint8)
        largest = max(HLL_START + registers, SET_START + 4 * most)
        room = np.where(coupons > most, largest, np.where(coupons > 0, SET_START + 4 * coupons, 0)).sum()
        words = np.empty(int(room) // 4, np.uint32)
        self.result = words, words.view(np.uint8), np.zeros(len(coupons) + 1, np.int64)

    def states(self) -> pa.Array:
        _, data, offsets = self.result
        return pack_states(data[: offsets[-1]].copy(), offsets)


def coupons_of(values: pa.Array) -> Coupons:
    """One for each row, 0 for NULL."""
    if pa.types.is_dictionary(values.type):
        of_values = np.append(coupons_of(values.dictionary), np.zeros(1, np.uint32))
        found: Coupons = of_values[values.indices.fill_null(len(values.dictionary)).to_numpy()]
        return found
    coupons, valid, kind = np.zeros(len(values), np.uint32), find_valid(values), values.type
    if pa.types.is_null(kind) or not len(values):
        return coupons
    if pa.types.is_string(kind):
        offsets, data = buffers(values)
        string_coupons(readable(offsets), readable(data), valid, coupons)
    elif pa.types.is_decimal(kind) or pa.types.is_fixed_size_binary(kind):
        wide_coupons(numbers(values, np.int64, 2), valid, bool(pa.types.is_decimal(kind)), coupons)
    else:
        longs = values.cast(pa.int64()) if pa.types.is_boolean(kind) else canonical(values)
        long_coupons(numbers(longs), valid, coupons)
    return coupons


def in_slots(slots: Slots, count: int, coupons: Coupons) -> tuple[Coupons, Integers]:
    """The coupons, those of a slot side by side, and where each slot's begin."""
    slots, starts = readable(slots), np.zeros(count + 1, np.int64)
    count_coupons(slots, coupons, starts)
    starts = np.cumsum(starts)
    ordered = np.empty(int(starts[-1]), np.uint32)
    order_coupons(slots, coupons, starts[:-1].copy(), ordered)
    return readable(ordered), readable(starts)


# Ertl's estimator


def estimates_of(counts: NDArray[np.int64]) -> Doubles:
    """From the number of registers with each value; all have the same number of registers."""
    registers = counts.sum(axis=1).astype(np.float64)
    found = registers * tau(1.0 - counts[:, MAX_VALUE] / registers)
    for value in range(MAX_VALUE - 1, 0, -1):
        found = (found + counts[:, value]) / 2
    found += registers * sigma(counts[:, 0] / registers)
    estimates: Doubles = registers * registers / (2 * math.log(2) * found)
    return estimates


def sigma(share: Doubles) -> Doubles:
    """Share + the sum of share ** (2 ** n) * 2 ** (n - 1), for the registers that saw nothing."""
    power, found, factor = share, share, 1.0
    while True:
        power = power * power
        more = found + power * factor
        if np.array_equal(more, found):
            return found
        found, factor = more, factor * 2


def tau(share: Doubles) -> Doubles:
    """A third of 1 - share - the sum of (1 - share ** (2 ** -n)) ** 2 * 2 ** -n, for the registers that are full."""
    root, found, factor = share, 1.0 - share, 1.0
    while True:
        root, factor = np.sqrt(root), factor / 2
        more = found - (1.0 - root) ** 2 * factor
        if np.array_equal(more, found):
            return np.where((share == 0.0) | (share == 1.0), 0.0, found / 3)
        found = more
