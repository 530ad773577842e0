"""Loops of HLL sketches: coupons and states into slots.

A sketch keeps distinct coupons while they are few, and then one register for each of 2 ** lg_k places: the greatest
first one that the second halves of the hashes had there. What is kept is determined by the set of values alone. Arrays
are filled by loops: a slice that is assigned takes numba ten times as long to compile.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from headrace.kernel.jit import compiled
from headrace.kernel.sketches.hll_byte_loops import (
    DENSE,
    ESCAPED,
    HLL_4,
    HLL_8,
    HLL_START,
    KEY_BITS,
    Number,
    Words,
    read_coupons,
    register_in,
    word_in,
    write_coupons,
    write_registers,
)
from headrace.kernel.sketches.murmur_loops import Bytes, Coupons
from headrace.model.arrays import Integers

MIXING = np.uint64(0x9E3779B97F4A7C15)


class HllScratch(NamedTuple):
    """One sketch in the making: held coupons, a table of them with the places they took, and registers."""

    held: Coupons
    table: Coupons
    places: NDArray[np.uint64]
    registers: Bytes


class HllOutput(NamedTuple):
    """The bytes of all states, once more as words in the same memory, and where each state begins."""

    words: Words
    data: Bytes
    offsets: Integers


@compiled
def raise_register(registers: Bytes, coupon: np.uint32) -> None:
    place, value = np.uint64(coupon) & np.uint64(len(registers) - 1), np.uint8(coupon >> KEY_BITS)
    registers[place] = max(registers[place], value)


@compiled
def release(size: Number, scratch: HllScratch) -> None:
    for index in range(size):
        scratch.table[scratch.places[index]] = 0


@compiled
def make_dense(size: Number, scratch: HllScratch) -> Number:
    if size != DENSE:
        for place in range(len(scratch.registers)):
            scratch.registers[place] = 0
        for index in range(size):
            raise_register(scratch.registers, scratch.held[index])
        release(size, scratch)
    return DENSE


@compiled
def add_coupons(coupons: Coupons, begin: Number, end: Number, size: Number, scratch: HllScratch) -> Number:
    """Return the number of coupons with these, or DENSE. Many at once: a call costs more than what it does for one."""
    held, table, places, registers = scratch
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
            size = make_dense(size, scratch)
    for rest in range(row, end):
        raise_register(registers, coupons[rest])
    return size


@compiled
def write_state(slot: int, size: Number, scratch: HllScratch, lg_k: Number, output: HllOutput) -> None:
    """Write the state of a slot; the table is free again."""
    at = output.offsets[slot] // 4
    if size == DENSE:
        end = np.int64(write_registers(scratch.registers, lg_k, output.words, output.data, at))
    else:
        release(size, scratch)
        end = np.int64(write_coupons(size, scratch.held, lg_k, output.words, at))
    output.offsets[slot + 1] = 4 * end


@compiled
def fold_coupons(ordered: Coupons, starts: Integers, lg_k: Number, scratch: HllScratch, output: HllOutput) -> None:
    """Write the state of each slot's coupons."""
    for slot in range(len(starts) - 1):
        size = add_coupons(ordered, starts[slot], starts[slot + 1], 0, scratch)
        write_state(slot, size, scratch, lg_k, output)


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
    data: Bytes,
    offsets: Integers,
    sizes: Integers,
    ordered: Integers,
    starts: Integers,
    lg_k: Number,
    coupons: Coupons,
    scratch: HllScratch,
    output: HllOutput,
) -> None:
    """Write the union of each slot's checked states, which `ordered` names. `coupons` has room for those of one."""
    for slot in range(len(starts) - 1):
        size: Number = 0
        for row in ordered[starts[slot] : starts[slot + 1]]:
            begin, end = offsets[row], offsets[row + 1]
            if sizes[row] == DENSE:
                size = make_dense(size, scratch)
                merge_registers(data, begin, end, np.int64(data[begin + 7]) >> 2, scratch.registers)
            else:
                count = read_coupons(data, begin + 4 * np.int64(data[begin]), end, coupons)
                size = add_coupons(coupons, 0, count, size, scratch)
        write_state(slot, size, scratch, lg_k, output)
