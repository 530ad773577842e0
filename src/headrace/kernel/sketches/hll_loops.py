"""Loops of HLL sketches: coupons and states into slots.

A sketch keeps distinct coupons while they are few, and then one register for each of 2 ** lg_k places: the greatest
first one that the second halves of the hashes had there. What is kept is determined by the set of values alone. Arrays
are filled by loops: a slice that is assigned takes numba ten times as long to compile.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from headrace.kernel.jit import compiled
from headrace.kernel.sketches.hll_form import DENSE, ESCAPED, HLL_4, HLL_8, HLL_START, KEY_BITS, Number, Words
from headrace.kernel.sketches.hll_read_loops import read_coupons, register_in, word_in
from headrace.kernel.sketches.hll_write_loops import write_coupons, write_registers
from headrace.kernel.sketches.murmur_loops import Bytes, Coupons
from headrace.model.arrays import Integers

Places = NDArray[np.uint64]

MIXING = np.uint64(0x9E3779B97F4A7C15)


# Into slots, by counting


@compiled
def count_coupons(slots: Integers, coupons: Coupons, starts: Integers) -> None:
    """How many each slot has, one place up."""
    for row in range(len(slots)):
        starts[np.uint64(slots[row]) + np.uint64(1)] += np.int64(coupons[row] != 0)


@compiled
def order_coupons(slots: Integers, coupons: Coupons, ends: Integers, ordered: Coupons) -> None:
    """Those of a slot side by side; `ends` are the slots' beginnings and move up."""
    for row in range(len(slots)):
        if coupons[row] != 0:
            slot = np.uint64(slots[row])
            ordered[np.uint64(ends[slot])] = coupons[row]
            ends[slot] += 1


# One sketch in the making: held coupons, a table of them with the places they took, and registers


@compiled
def raise_register(registers: Bytes, coupon: np.uint32) -> None:
    place, value = np.uint64(coupon) & np.uint64(len(registers) - 1), np.uint8(coupon >> KEY_BITS)
    registers[place] = max(registers[place], value)


@compiled
def release(size: Number, table: Coupons, places: Places) -> None:
    for each in range(size):
        table[places[each]] = 0


@compiled
def make_dense(size: Number, held: Coupons, table: Coupons, places: Places, registers: Bytes) -> Number:
    if size != DENSE:
        for place in range(len(registers)):
            registers[place] = 0
        for each in range(size):
            raise_register(registers, held[each])
        release(size, table, places)
    return DENSE


@compiled
def add_coupons(
    coupons: Coupons,
    begin: Number,
    end: Number,
    size: Number,
    held: Coupons,
    table: Coupons,
    places: Places,
    registers: Bytes,
) -> Number:
    """The number of coupons with these, or DENSE. Many at once: a call costs more than what it does for one."""
    mask, row = np.uint64(len(table) - 1), begin
    while row < end and size != DENSE:
        coupon = coupons[row]
        place = ((np.uint64(coupon) * MIXING) >> np.uint64(32)) & mask
        while table[place] != 0 and table[place] != coupon:
            place = (place + np.uint64(1)) & mask
        if table[place] == coupon:
            row += 1
        elif size < len(held):
            table[place], held[size], places[size] = coupon, coupon, place
            size, row = size + 1, row + 1
        else:
            size = make_dense(size, held, table, places, registers)
    for rest in range(row, end):
        raise_register(registers, coupons[rest])
    return size


@compiled
def write_state(
    size: Number,
    held: Coupons,
    table: Coupons,
    places: Places,
    registers: Bytes,
    lg_k: Number,
    words: Words,
    data: Bytes,
    at: Number,
) -> Number:
    """Where the next one begins; the table is free again."""
    if size == DENSE:
        return write_registers(registers, lg_k, words, data, at)
    release(size, table, places)
    return write_coupons(size, held, lg_k, words, at)


@compiled
def fold_coupons(
    ordered: Coupons,
    starts: Integers,
    lg_k: Number,
    held: Coupons,
    table: Coupons,
    registers: Bytes,
    words: Words,
    data: Bytes,
    offsets: Integers,
) -> None:
    """The state of each slot's coupons; `words` and `data` are the same memory."""
    places, at = np.empty(len(held), np.uint64), np.int64(0)
    for slot in range(len(starts) - 1):
        size = add_coupons(ordered, starts[slot], starts[slot + 1], 0, held, table, places, registers)
        at = np.int64(write_state(size, held, table, places, registers, lg_k, words, data, at))
        offsets[slot + 1] = 4 * at


# Merged


@compiled
def merge_registers(data: Bytes, begin: Number, end: Number, target: Number, registers: Bytes) -> None:
    if target == HLL_8:
        first = np.uint64(begin + HLL_START)
        for place in range(len(registers)):
            registers[np.uint64(place)] = max(registers[np.uint64(place)], data[first + np.uint64(place)])
        return
    least = np.int64(data[begin + 6]) if target == HLL_4 else 0
    for place in range(len(registers)):
        value = register_in(data, begin + HLL_START, place, target)
        level = 0 if target == HLL_4 and value == ESCAPED else value + least
        registers[place] = max(registers[place], np.uint8(level))
    if target == HLL_4:
        for place in range(begin + HLL_START + len(registers) // 2, end, 4):
            coupon = word_in(data, place)
            if coupon != 0:
                raise_register(registers, np.uint32(coupon))


@compiled
def merge_states(
    states: Bytes,
    state_offsets: Integers,
    sizes: Integers,
    ordered: Coupons,
    starts: Integers,
    lg_k: Number,
    coupons: Coupons,
    held: Coupons,
    table: Coupons,
    registers: Bytes,
    words: Words,
    data: Bytes,
    offsets: Integers,
) -> None:
    """The union of each slot's states, which `ordered` counts from 1; they were checked. `coupons` has room for one."""
    places, at = np.empty(len(held), np.uint64), np.int64(0)
    for slot in range(len(starts) - 1):
        size: Number = 0
        for each in range(starts[slot], starts[slot + 1]):
            row = np.int64(ordered[each]) - 1
            begin, end = state_offsets[row], state_offsets[row + 1]
            if sizes[row] == DENSE:
                size = make_dense(size, held, table, places, registers)
                merge_registers(states, begin, end, np.int64(states[begin + 7]) >> 2, registers)
            else:
                count = read_coupons(states, begin + 4 * np.int64(states[begin]), end, coupons)
                size = add_coupons(coupons, 0, count, size, held, table, places, registers)
        at = np.int64(write_state(size, held, table, places, registers, lg_k, words, data, at))
        offsets[slot + 1] = 4 * at
