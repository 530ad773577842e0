"""Which instances of a window are closed: those that are due and complete, and some empty ones between them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from headrace.kernel.close.leaf_rows import LeafRows
from headrace.model.arrays import Integers, Mask
from headrace.model.errors import TooManyRowsError
from headrace.model.windows import AnyWindow, Interval
from headrace.windows import Boundaries, bounds_of

MAX_EMPTY = 1_000
MAX_RESULT_ROWS = 10_000_000


class ResultLimits(NamedTuple):
    """How many empty windows are answered in a row, and how many rows in all."""

    max_empty: int = MAX_EMPTY
    max_rows: int = MAX_RESULT_ROWS


class Due(NamedTuple):
    """Which windows to close: those that end later than `after_us` and no later than `until_us`.

    Empty windows of a query without groups follow the one with rows that came before, which ended at `last_end_us`.
    `skipped` are numbers [first, end) of instances that were due before and not complete: they are not empty.
    """

    after_us: int
    until_us: int
    last_end_us: int | None = None
    skipped: tuple[tuple[int, int], ...] = ()


class Foreign(NamedTuple):
    """Slices with the boundaries of others, over a span in which rows were counted: a window must not cut through one.

    Whether a slice has rows does not matter: another reducer may have some.
    """

    boundaries: tuple[Boundaries, ...]
    span: Interval


class Unknown(NamedTuple):
    """Times that were not counted for a query, and slices with the boundaries of others."""

    missed: Sequence[Interval] = ()
    foreign: Sequence[Foreign] = ()


def instances_between(first: Integers, last: Integers, max_count: int) -> Integers:
    """The numbers from the first to the last one of each slice, each once, in order."""
    some = np.flatnonzero(first <= last)
    if not len(some):
        return np.zeros(0, dtype=np.int64)
    some = some[np.argsort(first[some], kind="stable")]
    begins, reached = first[some], np.maximum.accumulate(last[some])
    is_apart = begins[1:] > reached[:-1] + 1
    begins, ends = begins[np.append(True, is_apart)], np.append(reached[:-1][is_apart], reached[-1])
    counts = ends - begins + 1
    if counts.sum() > max_count:
        raise TooManyRowsError(max_count)
    return concat_ranges(begins, counts)


def fill_empty(present: Integers, limits: ResultLimits, before: int | None = None) -> tuple[Integers, int]:
    """With the empty instances between those that have rows, up to a number of them in a row; and how many more.

    The instance `before` them had rows too.
    """
    if before is not None and len(present):
        whole, left_out = fill_empty(np.concatenate([[before], present]), limits)
        return whole[1:], left_out
    gaps = np.diff(present) - 1
    if not gaps.any():
        return present, 0
    shown = np.minimum(gaps, limits.max_empty)
    if len(present) + shown.sum() > limits.max_rows:
        raise TooManyRowsError(limits.max_rows)
    empty = concat_ranges(present[:-1] + 1, shown)
    return np.sort(np.concatenate([present, empty])), int((gaps - shown).sum())


def concat_ranges(first: Integers, counts: Integers) -> Integers:
    """Concatenate ranges: as many numbers as `counts` says, from each number in `first` on."""
    numbers: Integers = np.repeat(first - np.cumsum(counts) + counts, counts)
    return numbers + np.arange(len(numbers))


def is_complete(window: AnyWindow, instances: Integers, leaf: LeafRows, unknown: Unknown) -> Mask:
    """Return whether no slice crosses the bounds of an instance, and no span that was missed meets it."""
    starts_us, ends_us = bounds_of(window, instances)
    by_start = np.argsort(leaf.starts_us)
    slice_starts_us, reached_us = leaf.starts_us[by_start], np.maximum.accumulate(leaf.ends_us[by_start])

    def is_crossed(times_us: Integers) -> Mask:
        before = np.searchsorted(slice_starts_us, times_us, side="left")
        crossed: Mask = (before > 0) & (reached_us[np.maximum(before, 1) - 1] > times_us)
        return crossed

    complete: Mask = ~(is_crossed(starts_us) | is_crossed(ends_us)) & is_known(window, instances, unknown)
    return complete


def is_known(window: AnyWindow, instances: Integers, unknown: Unknown) -> Mask:
    """Return whether no span that was missed meets an instance, and its bounds cut no foreign slice."""
    starts_us, ends_us = bounds_of(window, instances)
    known = np.ones(len(instances), dtype=np.bool_)
    for span in unknown.missed:
        known &= (ends_us <= span.start_us) | (span.end_us <= starts_us)
    for foreign in unknown.foreign:
        known &= ~(is_cut(foreign, starts_us) | is_cut(foreign, ends_us))
    return known


def is_cut(foreign: Foreign, times_us: Integers) -> Mask:
    """Return whether a time lies inside the span, but at no boundary."""
    inside: Mask = (foreign.span.start_us < times_us) & (times_us < foreign.span.end_us)
    for part in foreign.boundaries:
        inside &= ~np.isin(times_us % part.period_us, part.residues_us)
    return inside
