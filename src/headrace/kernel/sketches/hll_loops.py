"""Loops of HLL sketches: coupons and states into slots, written as Apache DataSketches writes its sketches.

A sketch keeps distinct coupons while they are few, and then one register for each of 2 ** lg_k places: the greatest
first one that the second halves of the hashes had there. What is kept is determined by the set of values alone, and
coupons are sorted, so equal sets are equal bytes. Arrays are filled by loops: a slice that is assigned takes numba ten
times as long to compile. Where the loop is over registers their places have no sign, so that many are taken at a time.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from headrace.kernel.compiling import compiled
from headrace.kernel.fold_loops import Integers
from headrace.kernel.sketches.murmur_loops import Bytes, Coupons

Words = NDArray[np.uint32]
Places = NDArray[np.uint64]
Number = int | np.int64

VERSION, FAMILY = 1, 7
LIST, SET, HLL = 0, 1, 2
HLL_4, HLL_6, HLL_8 = 0, 1, 2
LIST_START, SET_START, HLL_START = 8, 12, 40
LIST_WORDS, SET_WORDS, HLL_WORDS = 2, 3, 10
LIST_BITS, SET_BITS = 3, 5
"""The least sizes of the two forms' arrays, where they are not compact."""
COMPACT, OUT_OF_ORDER = 8, 16
KEY_BITS, KEY_MASK = 26, (1 << 26) - 1
MIXING = np.uint64(0x9E3779B97F4A7C15)
ESCAPED = 15
"""In HLL_4 a register that does not fit is among the exceptions at the end."""
MAX_VALUE = 63
DENSE, REFUSED = -1, -2
"""Instead of the number of coupons: where registers are kept, and what is no sketch."""


@compiled
def word_in(data: Bytes, place: Number) -> Number:
    """Four bytes, wherever they begin; written so that it becomes one load."""
    low = np.int64(data[place]) | np.int64(data[place + 1]) << 8
    return low | np.int64(data[place + 2]) << 16 | np.int64(data[place + 3]) << 24


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


# Written


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


# Checked and read


@compiled
def check_coupons(
    data: Bytes, begin: Number, end: Number, count: Number, is_compact: bool, bits: Number
) -> tuple[Number, bool]:
    """How many, or REFUSED if they are not as many as they should be; and whether they are in order, without gaps."""
    if (end - begin) % 4 != 0 or bits > KEY_BITS or (end - begin) // 4 != (count if is_compact else 1 << bits):
        return REFUSED, False
    found, last, in_order = 0, np.int64(0), is_compact
    for place in range(begin, end, 4):
        coupon = word_in(data, place)
        if coupon != 0:
            if coupon >> KEY_BITS == 0:
                return REFUSED, False
            in_order = in_order and bool(coupon > last)
            last = np.int64(coupon)
            found += 1
    return (found, in_order) if found == count else (REFUSED, False)


@compiled
def register_in(data: Bytes, begin: Number, place: Number, target: Number) -> Number:
    """A register as it is stored, from where the registers begin."""
    if target == HLL_8:
        return np.int64(data[begin + place])
    if target == HLL_6:
        byte, shift = begin + place * 6 // 8, place * 6 % 8
        return ((np.int64(data[byte]) | np.int64(data[byte + 1]) << 8) >> shift) & MAX_VALUE
    return (np.int64(data[begin + place // 2]) >> 4 * (place & 1)) & ESCAPED


@compiled
def register_bytes(target: Number, lg_k: Number) -> Number:
    if target == HLL_8:
        return 1 << lg_k
    return (3 << lg_k) // 4 + 1 if target == HLL_6 else 1 << (lg_k - 1)


@compiled
def check_exceptions(data: Bytes, begin: Number, end: Number, lg_k: Number, escaped: Number) -> bool:
    """Of HLL_4: one for each escaped register, and each of such a register."""
    is_compact, least = bool(data[begin + 5] & COMPACT), np.int64(data[begin + 6]) + ESCAPED
    count, first = word_in(data, begin + 36), begin + HLL_START + register_bytes(HLL_4, lg_k)
    if count != escaped or (end - first) % 4 != 0 or (is_compact and end - first != 4 * count):
        return False
    found = 0
    for place in range(first, end, 4):
        coupon = word_in(data, place)
        if coupon != 0:
            where = coupon & KEY_MASK
            if where >> lg_k != 0 or coupon >> KEY_BITS < least:
                return False
            if register_in(data, begin + HLL_START, where, HLL_4) != ESCAPED:
                return False
            found += 1
    return found == count


@compiled
def check_registers(data: Bytes, begin: Number, end: Number, lg_k: Number, target: Number) -> Number:
    """DENSE, or 0 where all registers are, or REFUSED."""
    length = HLL_START + register_bytes(target, lg_k)
    if data[begin] != HLL_WORDS or end - begin < length or (target != HLL_4 and end - begin != length):
        return REFUSED
    least = np.int64(data[begin + 6]) if target == HLL_4 else 0
    bits = escaped = np.int64(0)
    if target == HLL_8:
        found, first = np.uint8(0), np.uint64(begin + HLL_START)
        for place in range(1 << lg_k):
            found |= data[first + np.uint64(place)]
        return REFUSED if found > MAX_VALUE else DENSE if found > 0 else 0
    for place in range(1 << lg_k):
        value = register_in(data, begin + HLL_START, place, target)
        is_escaped = target == HLL_4 and value == ESCAPED
        escaped += is_escaped
        bits |= 0 if is_escaped else value + least
    if bits > MAX_VALUE or (target == HLL_4 and not check_exceptions(data, begin, end, lg_k, escaped)):
        return REFUSED
    return DENSE if bits + escaped > 0 else 0


@compiled
def check_state(data: Bytes, begin: Number, end: Number, lg_k: Number) -> tuple[Number, bool]:
    """How many coupons it has, DENSE or REFUSED; and whether they, or its registers, lie as in ours."""
    if begin == end:
        return 0, True
    if end - begin < LIST_START or data[begin + 1] != VERSION or data[begin + 2] != FAMILY or data[begin + 3] != lg_k:
        return REFUSED, False
    bits, is_compact = np.int64(data[begin + 4]), bool(data[begin + 5] & COMPACT)
    mode, target = data[begin + 7] & 3, np.int64(data[begin + 7]) >> 2
    if mode == LIST and data[begin] == LIST_WORDS and data[begin + 6] <= 1 << LIST_BITS and target <= HLL_8:
        return check_coupons(data, begin + LIST_START, end, np.int64(data[begin + 6]), is_compact, bits)
    if mode == SET and data[begin] == SET_WORDS and end - begin >= SET_START and target <= HLL_8:
        return check_coupons(data, begin + SET_START, end, word_in(data, begin + 8), is_compact, bits)
    if mode == HLL and end - begin >= HLL_START and target <= HLL_8:
        return check_registers(data, begin, end, lg_k, target), target == HLL_8
    return REFUSED, False


@compiled
def check_states(data: Bytes, offsets: Integers, lg_k: Number, most: Number, sizes: Integers) -> tuple[Number, bool]:
    """The first state that is no sketch, or -1; and whether all lie as in ours, with at most as many coupons."""
    all_ours = True
    for row in range(len(sizes)):
        size, is_ours = check_state(data, offsets[row], offsets[row + 1], lg_k)
        if size == REFUSED:
            return row, False
        sizes[row] = size
        all_ours = all_ours and is_ours and bool(size <= most)
    return -1, all_ours


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
def read_coupons(data: Bytes, begin: Number, end: Number, coupons: Coupons) -> Number:
    count = 0
    for place in range(begin, end, 4):
        coupon = word_in(data, place)
        if coupon != 0:
            coupons[count] = coupon
            count += 1
    return count


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


# Lowered


@compiled
def count_registers(data: Bytes, offsets: Integers, sizes: Integers, counts: Integers) -> None:
    """How many registers of each state have each value; two by two, since equal ones would wait for each other."""
    row = 0
    for state in range(len(sizes)):
        if sizes[state] == DENSE:
            for place in range(offsets[state] + HLL_START, offsets[state + 1], 2):
                counts[row, 0, np.uint64(data[place])] += 1
                counts[row, 1, np.uint64(data[place + 1])] += 1
            row += 1
