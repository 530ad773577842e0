"""The compiled loops of fixed-memory tables: probe, fold, evict, sweep. They allocate nothing.

All data is in one array of words; `tables` has a row for each table: where its words are, and what it counted. An
entry is a tag, key words and states, side by side. A tag is 0 when the entry is empty; else its generation, an odd
number, less 1 until the group is seen again [UDAF 6]. Generations grow by 2 with each slice, so what is older is less.
`now` is the generation of the slice that comes in.

Places without a sign spare the test whether they count from the end. What runs for each row is written out rather than
called: a call that is not inlined counts the references to its arrays, which takes longer than a probe.
"""

from __future__ import annotations

import numpy as np

from headrace.kernel.jit import compiled
from headrace.model.arrays import Doubles, Integers

# The columns of `tables`. ENTRIES entries of STRIDE words begin at BASE. The table is fed the row at SOURCE, whose
# states begin after SOURCE_KEYS words; its own last evicted row is at EVICTED. What it feeds ends before the table
# AFTER. A query's output begins at OUTPUT, a side of it SIDE_WORDS after the other; OLDER is the side of old slices.
BASE, ENTRIES, STRIDE, SOURCE, SOURCE_KEYS, EVICTED, AFTER = range(7)
IS_QUERY, OUTPUT, BUFFERED, SIDE_WORDS, OLDER = range(7, 12)
# States that are folded in one way end before these.
INTEGERS_END, DOUBLES_END, LEAST_END, GREATEST_END = range(12, 16)
SECOND_CHANCE = 16
# What changes: how far a tree is swept and how many entries late, kept with its first table; rows in each of the two
# sides of the output; what is counted.
SWEPT_TABLE, SWEPT_ENTRY, OWED, FILL = 17, 18, 19, 20
PROBES, MISSES, COLLISIONS, EVICTIONS = range(22, 26)
# The number of key words, then for each its place in the row that is fed, and its mask.
KEYS, KEY = 26, 27

EMPTY = 1
"""What an empty entry has for a generation: it is older than all."""

MIX_FIRST = np.uint64(0xFF51AFD7ED558CCD)
MIX_SECOND = np.uint64(0xC4CEB9FE1A85EC53)
MIX_SHIFT = np.uint64(33)
"""The finalizer of MurmurHash3: each bit of a key changes each bit of the hash with probability 1/2."""

HALF = np.uint64(32)
LOW_HALF = np.uint64(0xFFFFFFFF)
LARGEST = 2**63 - 1
NAN_ORDERED = 0x7FF8000000000000


# From columns to rows


@compiled
def pack_codes(codes: Integers, first: int, count: int, words: Integers, width: int, fields: Integers) -> int:
    """Bit fields side by side; the first attribute that has a code out of its code space, or -1.

    `fields` has for each attribute in use its row of codes, its word, shift and bits.
    """
    for field in range(len(fields)):
        attribute, word, shift, bits = fields[field]
        column, beyond = codes[attribute], np.int64(0)
        keep = np.int64(0) if shift == 0 else np.int64(-1)
        for row in range(count):
            code = column[np.uint64(first + row)]
            beyond |= code >> min(bits, 63)
            place = np.uint64(row * width + word)
            words[place] = (words[place] & keep) | (code << shift)
        if beyond != 0 and bits < 64:
            return attribute  # type: ignore[no-any-return]
    return -1


@compiled
def copy_values(values: Integers, first: int, count: int, words: Integers, width: int, place: int) -> None:
    for row in range(count):
        words[np.uint64(row * width + place)] = values[np.uint64(first + row)]


@compiled
def copy_ordered(values: Doubles, first: int, count: int, words: Integers, width: int, place: int) -> None:
    """As whole numbers in the same order: those below zero have their other bits the other way."""
    for row in range(count):
        value = values[np.uint64(first + row)]
        word = np.float64(value).view(np.int64)
        word ^= (word >> 63) & LARGEST
        words[np.uint64(row * width + place)] = NAN_ORDERED if value != value else word


# Numbers


@compiled
def mix_hash(spread: np.uint64, key: int) -> np.uint64:
    """One word more in a hash, each half of which draws a place."""
    spread ^= np.uint64(key)
    spread = (spread ^ (spread >> MIX_SHIFT)) * MIX_FIRST
    spread = (spread ^ (spread >> MIX_SHIFT)) * MIX_SECOND
    return spread ^ (spread >> MIX_SHIFT)


@compiled
def draw_place(half: np.uint64, entries: int) -> int:
    """32 bits of a hash as a fraction of a table: no division, and any number of entries."""
    return np.int64((half * np.uint64(entries)) >> HALF)  # type: ignore[return-value]


@compiled
def fold_states(state: int, integers: int, doubles: int, least: int, held: int, added: int) -> int:
    """Two states of a group as one."""
    if state < integers:
        return held + added
    if state < doubles:
        total = np.int64(held).view(np.float64) + np.int64(added).view(np.float64)
        return np.float64(total).view(np.int64)  # type: ignore[return-value]
    if state < least:
        return min(held, added)
    return max(held, added)


# Entries


@compiled
def key_of(words: Integers, tables: Integers, number: int, source: int, key: int) -> int:
    place, mask = tables[number, KEY + 2 * key], tables[number, KEY + 2 * key + 1]
    return words[np.uint64(source + place)] & mask  # type: ignore[no-any-return]


@compiled
def holds(words: Integers, tables: Integers, number: int, at: int, source: int, generation: int) -> bool:
    """Whether an entry is of the row's group and slice."""
    if words[np.uint64(at)] | 1 != generation:
        return False
    for key in range(tables[number, KEYS]):
        if words[np.uint64(at + 1 + key)] != key_of(words, tables, number, source, key):
            return False
    return True


@compiled
def loser(words: Integers, at: int, other: int, generation: int) -> int:
    """Which of two places to use: the first if it has nothing of this slice, for it is found sooner; else the older.

    Of two that are equally old it is the first, but a group seen again gets a second chance [UDAF 6].
    """
    first, second = words[np.uint64(at)], words[np.uint64(other)]
    if first | 1 < generation:
        return at
    if first | 1 != second | 1:
        return at if first < second else other
    if first & 1 == 0:
        return at
    words[np.uint64(at)] = first - 1
    if second & 1 == 0:
        return other
    words[np.uint64(other)] = second - 1
    return at


@compiled
def put_out(words: Integers, tables: Integers, full: Integers, number: int, now: int) -> None:
    """What a query evicted, into the output; rows of old slices have a side of their own."""
    evicted = tables[number, EVICTED]
    side = 0 if words[np.uint64(evicted)] | 1 == now else tables[number, OLDER]
    fill, width = tables[number, FILL + side], tables[number, STRIDE] - 1
    to = tables[number, OUTPUT] + side * tables[number, SIDE_WORDS] + fill * width
    for word in range(width):
        words[np.uint64(to + word)] = words[np.uint64(evicted + 1 + word)]
    tables[number, FILL + side] = fill + 1
    if fill + 1 == tables[number, BUFFERED]:
        full[side] += 1


# Rows


@compiled
def put(
    words: Integers,
    tables: Integers,
    full: Integers,
    number: int,
    after: int,
    source: int,
    generation: int,
    now: int,
) -> None:
    """A row into a table, what that evicts into its children, and so on; below a table that evicts nothing, none.

    A table gets at most one row by this, so a query puts out at most one. An older row does not displace a newer one:
    it moves on at once.
    """
    while number < after:
        tables[number, PROBES] += 1
        base, stride, keys = tables[number, BASE], tables[number, STRIDE], tables[number, KEYS]
        spread = np.uint64(0)
        for key in range(keys):
            spread = mix_hash(spread, key_of(words, tables, number, source, key))
        at = base + draw_place(spread >> HALF, tables[number, ENTRIES]) * stride
        is_held = holds(words, tables, number, at, source, generation)
        if not is_held and tables[number, SECOND_CHANCE] != 0:
            other = base + draw_place(spread & LOW_HALF, tables[number, ENTRIES]) * stride
            is_held = holds(words, tables, number, other, source, generation)
            at = other if is_held else loser(words, at, other, generation)
        states, added = tables[number, GREATEST_END], source + tables[number, SOURCE_KEYS]
        if is_held:
            words[np.uint64(at)] = generation
            integers, doubles, least = (
                tables[number, INTEGERS_END],
                tables[number, DOUBLES_END],
                tables[number, LEAST_END],
            )
            for state in range(states):
                place = np.uint64(at + 1 + keys + state)
                words[place] = fold_states(
                    state, integers, doubles, least, words[place], words[np.uint64(added + state)]
                )
            number = tables[number, AFTER]
        else:
            tables[number, MISSES] += 1
            held, evicted = words[np.uint64(at)] | 1, tables[number, EVICTED]
            if held >= generation:
                tables[number, COLLISIONS] += 1
            if held > generation:
                at = evicted
            elif held != EMPTY:
                for word in range(stride):
                    words[np.uint64(evicted + word)] = words[np.uint64(at + word)]
            words[np.uint64(at)] = generation - 1
            for key in range(keys):
                words[np.uint64(at + 1 + key)] = key_of(words, tables, number, source, key)
            for state in range(states):
                words[np.uint64(at + 1 + keys + state)] = words[np.uint64(added + state)]
            if held == EMPTY:
                number = tables[number, AFTER]
            else:
                tables[number, EVICTIONS] += 1
                if tables[number, IS_QUERY] != 0:
                    put_out(words, tables, full, number, now)
                number += 1
        if number < after:
            source = tables[number, SOURCE]
            generation = words[np.uint64(source - 1)] | 1


@compiled
def sweep(words: Integers, tables: Integers, full: Integers, tree: int, entries: int, now: int) -> int:
    """Evict old ones among the next `entries` until the output is full; return how many are left to look at.

    A table is swept after its parent, so it has got all of the old slice by then.
    """
    side, after = tables[tree, OLDER], tables[tree, AFTER]
    number, entry = tables[tree, SWEPT_TABLE], tables[tree, SWEPT_ENTRY]
    while entries > 0 and number < after and full[side] == 0:
        stride, evicted = tables[number, STRIDE], tables[number, EVICTED]
        at = tables[number, BASE] + entry * stride
        held = words[np.uint64(at)] | 1
        if held != EMPTY and held < now:
            for word in range(stride):
                words[np.uint64(evicted + word)] = words[np.uint64(at + word)]
            words[np.uint64(at)] = 0
            tables[number, EVICTIONS] += 1
            if tables[number, IS_QUERY] != 0:
                put_out(words, tables, full, number, now)
            put(words, tables, full, number + 1, tables[number, AFTER], evicted + 1, held, now)
        entry += 1
        entries -= 1
        if entry == tables[number, ENTRIES]:
            number += 1
            entry = 0
    tables[tree, SWEPT_TABLE], tables[tree, SWEPT_ENTRY] = number, entry
    return entries if number < after else 0


@compiled
def feed_rows(
    words: Integers,
    tables: Integers,
    full: Integers,
    tree: int,
    first: int,
    last: int,
    width: int,
    swept: int,
    now: int,
) -> int:
    """Rows of the stream into a table, with each some entries of the old slice out; the row after the last one.

    It stops when some output is full, and makes up for entries later.
    Most rows find their group, so this much is written out, for keys of one word. Both places are looked at whatever
    the first has: in which one a group is can't be foreseen, and a wrong guess costs more than a look.
    """
    base, entries, stride = tables[tree, BASE], tables[tree, ENTRIES], tables[tree, STRIDE]
    place, mask, is_one_word = tables[tree, KEY], tables[tree, KEY + 1], tables[tree, KEYS] == 1
    integers, doubles, least = tables[tree, INTEGERS_END], tables[tree, DOUBLES_END], tables[tree, LEAST_END]
    states, source_keys, after = tables[tree, GREATEST_END], tables[tree, SOURCE_KEYS], tables[tree, AFTER]
    hits, row, is_second_chance = 0, first, tables[tree, SECOND_CHANCE] != 0
    owed = sweep(words, tables, full, tree, tables[tree, OWED], now)
    is_swept = tables[tree, SWEPT_TABLE] == after
    while row < last and full[0] == 0 and full[1] == 0:
        source = row * width
        row += 1
        key = words[np.uint64(source + place)] & mask
        spread = mix_hash(np.uint64(0), key)
        at = base + draw_place(spread >> HALF, entries) * stride
        is_held = (words[np.uint64(at)] | 1 == now) & (words[np.uint64(at + 1)] == key)
        if is_second_chance:
            other = base + draw_place(spread & LOW_HALF, entries) * stride
            is_there = (words[np.uint64(other)] | 1 == now) & (words[np.uint64(other + 1)] == key)
            at = other if is_there else at
            is_held |= is_there
        if is_held and is_one_word:
            words[np.uint64(at)] = now
            for state in range(states):
                held, added = np.uint64(at + 2 + state), np.uint64(source + source_keys + state)
                words[held] = fold_states(state, integers, doubles, least, words[held], words[added])
            hits += 1
        else:
            put(words, tables, full, tree, after, source, now, now)
        if not is_swept:
            owed = sweep(words, tables, full, tree, owed + swept, now)
            is_swept = tables[tree, SWEPT_TABLE] == after
    tables[tree, PROBES] += hits
    tables[tree, OWED] = owed
    return row
