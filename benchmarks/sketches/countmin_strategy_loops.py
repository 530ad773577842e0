"""The loops of the low and the high level [UDAF 4.2]. A pair is a key and its weight; a free place has the key -1.

Pairs go up in flushes: `ends` says where each one ends among the pairs, `groups` of which group it is. What a flush
needs is there before it: the arrays double.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from benchmarks.sketches.countmin_loops import Multipliers, update
from headrace.kernel.jit import compiled
from headrace.kernel.sketches.counters_loops import add_up
from headrace.kernel.slot_loops import place_of

Integers = NDArray[np.int64]

PLACES_BITS = 7
PLACES = 1 << PLACES_BITS
PROBES = 8
FREE = -1
FIRST_SKETCHES = 16


@compiled
def copy(source: Integers, size: int, target: Integers, begin: int) -> None:
    """By a loop: of slices that are set, numba compiles the checks for longer than all the rest."""
    for place in range(size):
        target[begin + place] = source[place]


@compiled
def double(array: Integers) -> Integers:
    longer = np.empty(2 * len(array), np.int64)
    copy(array, len(array), longer, 0)
    return longer


@compiled
def buffer_pairs(
    groups: Integers, keys: Integers, weights: Integers, group_count: int
) -> tuple[Integers, Integers, Integers, Integers]:
    """Pairs as they come, flushed when the places of their group are full."""
    held_keys, held_weights = np.empty((group_count, PLACES), np.int64), np.empty((group_count, PLACES), np.int64)
    sizes = np.zeros(group_count, np.int64)
    up_keys, up_weights = np.empty(len(keys), np.int64), np.empty(len(keys), np.int64)
    up_groups = np.empty(len(keys) // PLACES + group_count, np.int64)
    ends = np.empty(len(up_groups), np.int64)
    filled, flushes = 0, 0
    for row in range(len(keys)):
        if weights[row] <= 0:
            continue
        group = np.uint64(groups[row])
        at = np.uint64(sizes[group])
        held_keys[group, at], held_weights[group, at] = keys[row], weights[row]
        sizes[group] += 1
        if sizes[group] == PLACES:
            copy(held_keys[group], PLACES, up_keys, filled)
            copy(held_weights[group], PLACES, up_weights, filled)
            filled += PLACES
            up_groups[flushes], ends[flushes] = groups[row], filled
            flushes += 1
            sizes[group] = 0
    for rest in range(group_count):
        size = sizes[rest]
        if size > 0:
            copy(held_keys[rest], size, up_keys, filled)
            copy(held_weights[rest], size, up_weights, filled)
            filled += size
            up_groups[flushes], ends[flushes] = rest, filled
            flushes += 1
    return up_groups[:flushes], ends[:flushes], up_keys[:filled], up_weights[:filled]


@compiled
def is_added(table: Integers, key: int, weight: int) -> bool:
    """Whether a pair found its key, or a free place for it, before too many places were searched."""
    place = np.uint64(place_of(key, PLACES_BITS))
    for _ in range(PROBES):
        held = table[place, 0]
        if held == key:
            table[place, 1] = add_up(table[place, 1], weight)
            return True
        if held == FREE:
            table[place, 0], table[place, 1] = key, weight
            return True
        place = (place + np.uint64(1)) & np.uint64(PLACES - 1)
    return False


@compiled
def move_up(table: Integers, compress_below: int, up_keys: Integers, up_weights: Integers, filled: int) -> int:
    """A table with its free places, or only its pairs if they are few; where they end. The table is free then."""
    size = 0
    for place in range(PLACES):
        size += table[place, 0] != FREE
    for place in range(PLACES):
        if size >= compress_below or table[place, 0] != FREE:
            up_keys[filled], up_weights[filled] = table[place, 0], table[place, 1]
            filled += 1
        table[place, 0], table[place, 1] = FREE, 0
    return filled


@compiled
def hash_pairs(
    groups: Integers, keys: Integers, weights: Integers, group_count: int, compress_below: int
) -> tuple[Integers, Integers, Integers, Integers]:
    """Pairs added up in a table for each group, flushed when a key is not found near its place, and at the end."""
    tables = np.empty((group_count, PLACES, 2), np.int64)
    for group in range(group_count):
        for place in range(PLACES):
            tables[group, place, 0], tables[group, place, 1] = FREE, 0
    room = len(keys) + PLACES
    up_keys, up_weights = np.empty(room, np.int64), np.empty(room, np.int64)
    up_groups, ends = np.empty(room, np.int64), np.empty(room, np.int64)
    filled, flushes = 0, 0
    used = np.zeros(group_count, np.bool_)
    for row in range(len(keys) + group_count):
        if row < len(keys):
            group = groups[row]
            used[group] |= weights[row] > 0
            if weights[row] <= 0 or is_added(tables[group], keys[row], weights[row]):
                continue
        else:
            group = row - len(keys)
            if not used[group]:
                continue
        if filled + PLACES > len(up_keys):
            up_keys, up_weights = double(up_keys), double(up_weights)
        filled = move_up(tables[group], compress_below, up_keys, up_weights, filled)
        up_groups[flushes], ends[flushes] = group, filled
        flushes += 1
        if row < len(keys):
            is_added(tables[group], keys[row], weights[row])
    return up_groups[:flushes], ends[:flushes], up_keys[:filled], up_weights[:filled]


@compiled
def update_directly(
    groups: Integers,
    ends: Integers,
    keys: Integers,
    weights: Integers,
    multipliers: Multipliers,
    width_bits: int,
    step_bits: int,
    cells: Integers,
    totals: Integers,
) -> None:
    """Every pair into the sketch of its group."""
    begin = 0
    for flush in range(len(groups)):
        group = groups[flush]
        for pair in range(begin, ends[flush]):
            if keys[pair] != FREE:
                totals[group] = add_up(totals[group], weights[pair])
                update(cells[group], multipliers, width_bits, step_bits, keys[pair], weights[pair])
        begin = ends[flush]


@compiled
def is_listed(list_keys: Integers, list_weights: Integers, sizes: Integers, group: int, key: int, weight: int) -> bool:
    """Whether the list of a group has the key, or room for it, and so takes the pair."""
    at = 0
    while at < sizes[group] and list_keys[group, at] != key:
        at += 1
    if at == list_keys.shape[1]:
        return False
    list_keys[group, at] = key
    list_weights[group, at] = add_up(list_weights[group, at], weight)
    sizes[group] = max(sizes[group], at + 1)
    return True


@compiled
def with_room(cells: Integers, used: int) -> Integers:
    """The same sketches, and at least one more."""
    if used < len(cells):
        return cells
    more = np.zeros((2 * used, cells.shape[1]), np.int64)
    for sketch in range(used):
        copy(cells[sketch], cells.shape[1], more[sketch], 0)
    return more


@compiled
def update_adaptively(
    groups: Integers,
    ends: Integers,
    keys: Integers,
    weights: Integers,
    multipliers: Multipliers,
    width_bits: int,
    step_bits: int,
    cell_count: int,
    sketches: Integers,
    list_keys: Integers,
    list_weights: Integers,
    sizes: Integers,
    totals: Integers,
) -> Integers:
    """Every pair into the list of its group, which becomes a sketch when it is too short; the sketches."""
    cells = np.zeros((FIRST_SKETCHES, cell_count), np.int64)
    begin, used = 0, 0
    for flush in range(len(groups)):
        group = groups[flush]
        for pair in range(begin, ends[flush]):
            key, weight = keys[pair], weights[pair]
            if key == FREE:
                continue
            totals[group] = add_up(totals[group], weight)
            if sketches[group] < 0:
                if is_listed(list_keys, list_weights, sizes, group, key, weight):
                    continue
                cells = with_room(cells, used)
                for at in range(sizes[group]):
                    listed, amount = list_keys[group, at], list_weights[group, at]
                    update(cells[used], multipliers, width_bits, step_bits, listed, amount)
                sketches[group], sizes[group] = used, 0
                used += 1
            update(cells[sketches[group]], multipliers, width_bits, step_bits, key, weight)
        begin = ends[flush]
    return cells[:used]
