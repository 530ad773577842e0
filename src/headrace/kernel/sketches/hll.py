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
from headrace.kernel.sketches.hll_byte_loops import (
    DENSE,
    HLL_START,
    LIST_BITS,
    MAX_VALUE,
    SET_START,
    check_states,
    count_registers,
)
from headrace.kernel.sketches.hll_loops import HllOutput, HllScratch, fold_coupons, merge_states
from headrace.kernel.sketches.murmur_loops import Bytes, Coupons, long_coupons, string_coupons, wide_coupons
from headrace.kernel.sketches.packed_bytes import STATE, Offsets, expect_good, open_states, pack_states
from headrace.kernel.states.columns import Columns, Slots, find_valid, numbers, readable, string_buffers, values_by_slot
from headrace.model.arrays import Doubles, Integers
from headrace.model.types import DataType

MIN_LG_K, MAX_LG_K = 4, 21
MIN_LG_K_OF_SETS = 8
SIGMAS = 3
COLLISIONS = 6 * 2.0**26
"""Two values have the same coupon once in half as many pairs: the same key, and as many zeros in one of three cases."""


@dataclass(frozen=True, slots=True)
class Hll:
    """A sketch of 2 ** lg_k registers, a byte each."""

    lg_k: int = 12

    def __post_init__(self) -> None:
        if not MIN_LG_K <= self.lg_k <= MAX_LG_K:
            raise ValueError(f"lg_k is from {MIN_LG_K} to {MAX_LG_K}, not {self.lg_k}")

    @property
    def relative_error(self) -> float:
        """What estimates stay within, but for 3 in 1,000."""
        return SIGMAS * 1.04 / math.sqrt(1 << self.lg_k)

    @property
    def max_coupons(self) -> int:
        """As DataSketches has it: three quarters of an array of 2 ** (lg_k - 3), or a list less one."""
        return (1 << LIST_BITS) - 1 if self.lg_k < MIN_LG_K_OF_SETS else 3 << (self.lg_k - 5)

    def columns(self, *_arguments: DataType) -> tuple[pa.DataType, ...]:
        return (STATE,)

    def lift(self, slots: Slots, count: int, values: pa.Array) -> Columns:
        coupons = coupons_of(values)
        valid = None if coupons.all() else readable(coupons != 0)
        ordered, starts = values_by_slot(slots, count, coupons, valid)
        output = self.allocate_output(np.diff(starts))
        fold_coupons(ordered, starts, self.lg_k, self.allocate_scratch(), output)
        return (pack_states(output.data, output.offsets),)

    def combine(self, slots: Slots, count: int, states: Columns) -> Columns:
        data, offsets, sizes, _ = self.check_states(states[0])
        ordered, starts = values_by_slot(slots, count, np.arange(len(sizes)), readable(sizes != 0))
        weights = np.zeros(count, np.int64)
        np.add.at(weights, slots, np.where(sizes == DENSE, self.max_coupons + 1, sizes))
        output = self.allocate_output(weights)
        coupons = np.empty(sizes.max(initial=0), np.uint32)
        read = data, offsets, readable(sizes), ordered, starts
        merge_states(*read, self.lg_k, coupons, self.allocate_scratch(), output)
        return (pack_states(output.data, output.offsets),)

    def allocate_scratch(self) -> HllScratch:
        size = self.max_coupons
        held, table = np.empty(size, np.uint32), np.zeros(1 << (2 * size).bit_length(), np.uint32)
        return HllScratch(held, table, np.empty(size, np.uint64), np.empty(1 << self.lg_k, np.uint8))

    def allocate_output(self, coupons: Integers) -> HllOutput:
        """Return memory for the bytes of all states, given how many coupons each has at most."""
        largest = max(HLL_START + (1 << self.lg_k), SET_START + 4 * self.max_coupons)
        few = np.where(coupons > 0, SET_START + 4 * coupons, 0)
        words = np.empty(int(np.where(coupons > self.max_coupons, largest, few).sum()) // 4, np.uint32)
        return HllOutput(words, words.view(np.uint8), np.zeros(len(coupons) + 1, np.int64))

    def estimates(self, states: pa.Array) -> Doubles:
        """How many distinct values each state has seen."""
        data, offsets, sizes, all_ours = self.check_states(states)
        if not all_ours:
            (states,) = self.combine(np.arange(len(states)), len(states), (states,))
            data, offsets, sizes, _ = self.check_states(states)
        dense = sizes == DENSE
        counts = np.zeros((int(dense.sum()), 2, MAX_VALUE + 1), np.int64)
        count_registers(data, offsets, readable(sizes), counts)
        estimates = sizes + sizes * (sizes - 1) / COLLISIONS
        estimates[dense] = estimates_of(counts.sum(axis=1))
        return estimates

    def check_states(self, states: pa.Array) -> tuple[Bytes, Offsets, Integers, bool]:
        """The bytes, where states begin, their numbers of coupons or DENSE, and whether they lie as in ours."""
        data, offsets = open_states(states)
        sizes = np.zeros(len(states), np.int64)
        bad, all_ours = check_states(data, offsets, self.lg_k, self.max_coupons, sizes)
        expect_good(f"HLL sketch with lg_k {self.lg_k}", int(bad))
        return data, offsets, sizes, all_ours


def coupons_of(values: pa.Array) -> Coupons:
    """One for each row, 0 for NULL."""
    if pa.types.is_dictionary(values.type):
        of_values = np.append(coupons_of(values.dictionary), np.zeros(1, np.uint32))
        coupons: Coupons = of_values[values.indices.fill_null(len(values.dictionary)).to_numpy()]
        return coupons
    coupons, valid, kind = np.zeros(len(values), np.uint32), find_valid(values), values.type
    if pa.types.is_null(kind) or not len(values):
        return coupons
    if pa.types.is_string(kind):
        offsets, data = string_buffers(values)
        string_coupons(readable(offsets), readable(data), valid, coupons)
    elif pa.types.is_decimal(kind) or pa.types.is_fixed_size_binary(kind):
        wide_coupons(numbers(values, np.int64, 2), valid, bool(pa.types.is_decimal(kind)), coupons)
    else:
        longs = values.cast(pa.int64()) if pa.types.is_boolean(kind) else canonical(values)
        long_coupons(numbers(longs), valid, coupons)
    return coupons


# Ertl's estimator


def estimates_of(counts: NDArray[np.int64]) -> Doubles:
    """From the number of registers with each value; all have the same number of registers."""
    registers = counts.sum(axis=1).astype(np.float64)
    harmonic = registers * tau(1.0 - counts[:, MAX_VALUE] / registers)
    for value in range(MAX_VALUE - 1, 0, -1):
        harmonic = (harmonic + counts[:, value]) / 2
    harmonic += registers * sigma(counts[:, 0] / registers)
    estimates: Doubles = registers * registers / (2 * math.log(2) * harmonic)
    return estimates


def sigma(share: Doubles) -> Doubles:
    """Return share + the sum of share ** (2 ** n) * 2 ** (n - 1), for the registers that saw nothing."""
    power, total, factor = share, share, 1.0
    while True:
        power = power * power
        more = total + power * factor
        if np.array_equal(more, total):
            return total
        total, factor = more, factor * 2


def tau(share: Doubles) -> Doubles:
    """Return a third of 1 - share - the sum of (1 - share ** (2 ** -n)) ** 2 * 2 ** -n, for registers that are full."""
    root, total, factor = share, 1.0 - share, 1.0
    while True:
        root, factor = np.sqrt(root), factor / 2
        less = total - (1.0 - root) ** 2 * factor
        if np.array_equal(less, total):
            return np.where((share == 0.0) | (share == 1.0), 0.0, total / 3)
        total = less
