"""Counts and sums of whole numbers that surely fit 64 bits: added as plain numbers, without carry or NULL."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headrace.aggregates.partials import Partial
from headrace.expressions.columns import build_column
from headrace.kernel.states.columns import Columns, numbers, readable
from headrace.kernel.states.fold_loops import add_counts, count_rows
from headrace.kernel.states.sums import BIGINT_SUM
from headrace.model.arrays import Integers

MAX_TOTAL = 1 << 62


@dataclass(frozen=True, eq=False)
class IntegerTotals(Mapping[Partial, Columns]):
    """A number per row for each partial, and no NULL: there was a row for each, and none had a NULL.

    The magnitudes of all numbers of a partial add up to no more than the bound, so no sum of some leaves 64 bits.
    """

    numbers: Mapping[Partial, Integers]
    bound: int

    def __getitem__(self, partial: Partial) -> Columns:
        totals = self.numbers[partial]
        if partial.kind == "count":
            return (build_column(totals, pa.int64()),)
        return (build_column(np.stack([totals, totals >> 63], axis=1), BIGINT_SUM),)

    def __iter__(self) -> Iterator[Partial]:
        return iter(self.numbers)

    def __len__(self) -> int:
        return len(self.numbers)

    @property
    def nbytes(self) -> int:
        return sum(totals.nbytes for totals in self.numbers.values())

    def at(self, rows: Integers | slice) -> IntegerTotals:
        return IntegerTotals({partial: totals[rows] for partial, totals in self.numbers.items()}, self.bound)

    def addends(self, partial: Partial) -> Addends:
        return Addends(self.numbers[partial], self.bound)


@dataclass(frozen=True, eq=False)
class Addends:
    """What each row adds to a partial; None if every row counts once."""

    values: Integers | None
    bound: int

    def at(self, rows: Integers) -> Addends:
        return self if self.values is None else Addends(np.take(self.values, rows), self.bound)


def add_by_slot(values: Integers | None, slots: Integers, count: int) -> Integers:
    """Add up the values of each slot; None counts rows."""
    totals = np.zeros(count, dtype=np.int64)
    if values is None:
        count_rows(readable(slots), None, totals)
    else:
        add_counts(readable(slots), readable(values), totals)
    return totals


def concat_totals(parts: Sequence[IntegerTotals]) -> IntegerTotals | None:
    """Return totals one after the other; None if sums might not fit."""
    bound = sum(part.bound for part in parts)
    if bound > MAX_TOTAL:
        return None
    numbers = {partial: np.concatenate([part.numbers[partial] for part in parts]) for partial in parts[0]}
    return IntegerTotals(numbers, bound)


def addends(partial: Partial, columns: Columns, rows: int) -> Addends | None:
    """Return what rows add to a partial; None if that is no whole number, or might become too large."""
    if any(column.null_count for column in columns):
        return None
    if partial.kind == "count":
        return Addends(None, rows)
    if partial.kind != "sum" or not pa.types.is_int64(columns[0].type):
        return None
    extremes = [bound.as_py() or 0 for bound in pc.min_max(columns[0]).values()]
    bound = max(map(abs, extremes)) * rows
    return Addends(numbers(columns[0]), bound) if bound <= MAX_TOTAL else None


def sum_addends(addends: Mapping[Partial, Addends], slots: Integers, count: int) -> IntegerTotals:
    """Add up by slot; each slot has a row."""
    totals = {partial: add_by_slot(added.values, slots, count) for partial, added in addends.items()}
    return IntegerTotals(totals, max((added.bound for added in addends.values()), default=0))
