"""Compiled loops that put the rows of slices into the windows that hold them.

A slice is in `held_by` windows from its `first_window` on. Rows are visited group by group, so that a window meets the
groups in order, and in a group by the ends of slices, so that no slice's first window is before that of the one before:
up to the last window that was reached, all from there on have met the group. No search is needed, and no sort.

Places without a sign spare the test whether they count from the end.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from headrace.kernel.jit import compiled
from headrace.model.arrays import Integers


class HeldRows(NamedTuple):
    """The group and the slice of each row, and the windows that hold each slice."""

    groups: Integers
    slices: Integers
    first_window: Integers
    held_by: Integers


@compiled
def order_by_group(groups: Integers, ends: Integers, order: Integers) -> None:
    """Rows group by group; `ends` says where the rows of each group end."""
    for row in range(len(groups) - 1, -1, -1):
        ends[groups[row]] -= 1
        order[ends[groups[row]]] = row


@compiled
def count_groups(rows: HeldRows, counts: Integers) -> None:
    """Count the groups in each window."""
    groups, slices, first_window, held_by = rows
    changes = np.zeros(len(counts) + 1, dtype=np.int64)
    latest, reached = np.int64(-1), np.int64(0)
    for row in range(len(groups)):
        if groups[row] != latest:
            latest, reached = groups[row], np.int64(0)
        held = np.uint64(slices[row])
        first, behind = first_window[held], first_window[held] + held_by[held]
        if behind > max(first, reached):
            changes[np.uint64(max(first, reached))] += 1
            changes[np.uint64(behind)] -= 1
            reached = behind
    count = np.int64(0)
    for window in range(len(counts)):
        count += changes[window]
        counts[window] = count


@compiled
def find_window_slots(rows: HeldRows, next_slots: Integers, slots: Integers, group_of_slot: Integers) -> None:
    """A slot for each window and group. Those of a window lie together, in the order of groups.

    `next_slots` says where they begin. Rows come group by group, and their slots, one for each window that holds them.
    """
    groups, slices, first_window, held_by = rows
    latest, reached, place = np.int64(-1), np.int64(0), 0
    for row in range(len(groups)):
        if groups[row] != latest:
            latest, reached = groups[row], np.int64(0)
        held = np.uint64(slices[row])
        first, behind = first_window[held], first_window[held] + held_by[held]
        for window in range(first, behind):
            if window >= reached:
                group_of_slot[next_slots[window]] = latest
                next_slots[window] += 1
            slots[place] = next_slots[window] - 1
            place += 1
        reached = max(reached, behind)


@compiled
def add_to_windows(
    rows: HeldRows, next_slots: Integers, numbers: Integers, group_of_slot: Integers, totals: Integers
) -> None:
    """The same slots, in which the numbers of rows are added up at once. Those of one kind lie together.

    There is one kind at least: a loop over kinds alone would cost more than what it does. Whether a window has met the
    group can't be foreseen, so nothing branches on it.
    """
    groups, slices, first_window, held_by = rows
    first_kind, first_totals = numbers[0], totals[0]
    latest = np.full(len(next_slots), -1, dtype=np.int64)
    for row in range(len(groups)):
        group, held = groups[row], np.uint64(slices[row])
        first = first_window[held]
        for number in range(first, first + held_by[held]):
            window = np.uint64(number)
            slot = np.uint64(next_slots[window] - (latest[window] == group))
            latest[window] = group
            next_slots[window] = slot + np.uint64(1)
            group_of_slot[slot] = group
            first_totals[slot] += first_kind[row]
            for kind in range(1, len(numbers)):
                totals[kind, slot] += numbers[kind, row]
