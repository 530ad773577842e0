"""Compiled loops that put the rows of slices into the windows that hold them.

A slice is in `held_by` windows from its `first_window` on. Rows are visited group by group, so that a window meets the
groups in order and each only once: no search is needed, and nothing is sorted.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from headrace.kernel.compiling import compiled

Integers = npt.NDArray[np.int64]


@compiled
def order_by_group(groups: Integers, ends: Integers, order: Integers) -> None:
    """Rows group by group; `ends` says where the rows of each group end."""
    for row in range(len(groups) - 1, -1, -1):
        ends[groups[row]] -= 1
        order[ends[groups[row]]] = row


@compiled
def count_groups(
    groups: Integers, slices: Integers, first_window: Integers, held_by: Integers, counts: Integers
) -> None:
    """How many groups each window has; rows come group by group."""
    latest = np.full(len(counts), -1, dtype=np.int64)
    for row in range(len(groups)):
        group, first = groups[row], first_window[slices[row]]
        for window in range(first, first + held_by[slices[row]]):
            counts[window] += latest[window] != group
            latest[window] = group


@compiled
def find_window_slots(
    groups: Integers,
    slices: Integers,
    first_window: Integers,
    held_by: Integers,
    next_slots: Integers,
    slots: Integers,
    group_of_slot: Integers,
) -> None:
    """A slot for each window and group. Those of a window lie together, in the order of groups.

    `next_slots` says where they begin. Rows come group by group, and their slots, one for each window that holds them.
    """
    latest = np.full(len(next_slots), -1, dtype=np.int64)
    place = 0
    for row in range(len(groups)):
        group, first = groups[row], first_window[slices[row]]
        for window in range(first, first + held_by[slices[row]]):
            slot = next_slots[window] - (latest[window] == group)
            latest[window] = group
            next_slots[window] = slot + 1
            group_of_slot[slot] = group
            slots[place] = slot
            place += 1


@compiled
def add_to_windows(
    groups: Integers,
    slices: Integers,
    order: Integers,
    first_window: Integers,
    held_by: Integers,
    next_slots: Integers,
    numbers: Integers,
    group_of_slot: Integers,
    totals: Integers,
) -> None:
    """The same slots, into which the numbers of each row are added at once. Those of one kind lie together."""
    latest = np.full(len(next_slots), -1, dtype=np.int64)
    for row in range(len(groups)):
        group, held, place = groups[row], np.uint64(slices[row]), np.uint64(order[row])
        first = first_window[held]
        for each in range(first, first + held_by[held]):
            window = np.uint64(each)
            slot = np.uint64(next_slots[window] - (latest[window] == group))
            latest[window] = group
            next_slots[window] = slot + np.uint64(1)
            group_of_slot[slot] = group
            for kind in range(len(numbers)):
                totals[kind, slot] += numbers[kind, place]
