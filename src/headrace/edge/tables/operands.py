"""What partials are of, as columns of numbers that fixed-memory tables add up or compare, and the way back.

Tables know no NULL and no number beyond 64 bits. So beside values that may be NULL the others are counted, and sums
that might not fit are kept as those of their halves of 32 bits.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial as bound_to
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from headrace.aggregates.partials import Partial
from headrace.edge.tables.coders import Growing
from headrace.edge.tables.memory_layout import StateKind
from headrace.edge.tables.tables import Values
from headrace.expressions.columns import raw
from headrace.kernel.level1.rows import StreamRows
from headrace.kernel.states.columns import Columns, column, find_valid
from headrace.kernel.states.kinds import state_of
from headrace.kernel.states.sums import words_of
from headrace.model.arrays import Integers
from headrace.model.arrow import arrow_type
from headrace.model.types import MAX_BIGINT, MIN_BIGINT

MAX_SUM = 1 << 62
"""Magnitudes that add up to no more surely fit a word."""
MAX_DOUBLES = 1 << 22
"""This many DOUBLEs added up one by one lose less than 1e-9 of their magnitudes."""
MAX_DOUBLE = 1e300
"""That many DOUBLEs of this magnitude do not overflow."""
HALF_BITS = 32
LOW_HALF = (1 << HALF_BITS) - 1
TABULAR = {
    "sum": frozenset(("BIGINT", "DECIMAL", "DOUBLE")),
    "min": frozenset(("BIGINT", "TIMESTAMP", "DOUBLE")),
    "max": frozenset(("BIGINT", "TIMESTAMP", "DOUBLE")),
}
"""Which types the tables can take, by the kind of the partial; a count is of any."""


def is_tabular(partial: Partial) -> bool:
    if partial.kind == "count":
        return True
    return partial.kind in TABULAR and partial.arguments[0].type.name in TABULAR[partial.kind]


class Operand(Growing):
    """Values under a filter, and what is known of them: whether any is NULL, and how large their sum may be."""

    def __init__(self, partial: Partial) -> None:
        """The partial is any of those that are of these values."""
        self.partial = partial
        self.type = partial.arguments[0].type if partial.arguments else None
        self.has_null = partial.filter is not None
        self.is_summed = False
        self.is_wide = False
        self.bound = 0

    @property
    def is_double(self) -> bool:
        return self.type is not None and self.type.name == "DOUBLE"

    def values(self, source: StreamRows) -> pa.Array:
        return source.columns(self.partial)[0]

    def fits(self, source: StreamRows) -> bool:
        values = self.values(source)
        if values.null_count and not self.has_null:
            return False
        if not self.is_summed or self.is_wide:
            return True
        return self.bound + self.weight(values) <= (MAX_DOUBLES if self.is_double else MAX_SUM)

    def grow(self, source: StreamRows) -> None:
        """Until it fits. All tables are empty."""
        self.has_null = self.has_null or self.values(source).null_count > 0
        self.is_wide = self.is_wide or not (self.is_double or self.fits(source))

    def clear(self) -> None:
        """All tables are empty."""
        if not self.is_double and self.bound > MAX_SUM >> 1:
            self.is_wide = True
        self.bound = 0

    def take(self, source: StreamRows) -> None:
        """These rows go into the tables."""
        if self.is_summed and not self.is_wide:
            self.bound += self.weight(self.values(source))

    def weight(self, values: pa.Array) -> int:
        """What the values might add to the magnitude of a sum; of DOUBLEs it is their number."""
        if self.is_double:
            return len(values)
        extremes = [abs(bound.as_py() or 0) for bound in pc.min_max(values).values()]
        scale = 0 if self.type is None else self.type.scale
        return (int(max(extremes)) + int(scale > 0)) * int(10**scale) * len(values)

    def is_plain(self, source: StreamRows) -> bool:
        """Whether tables may add the values up: the kernel knows what infinite ones, and very large ones, come to."""
        if not (self.is_summed and self.is_double):
            return True
        return bool(np.abs(doubles(self.values(source))).max(initial=0.0) <= MAX_DOUBLE)


# Columns of numbers, one for each row


Make = Callable[[pa.Array], Values]


@dataclass(frozen=True, slots=True)
class TableColumn:
    """What the tables are fed of an operand, and what they do with it."""

    operand: Operand
    kind: StateKind
    make: Make


def validity_words(values: pa.Array) -> Integers:
    valid = find_valid(values)
    return np.ones(len(values), dtype=np.int64) if valid is None else valid.astype(np.int64)


def without_null(values: pa.Array, numbers: npt.NDArray[Any], neutral: Any) -> npt.NDArray[Any]:
    valid = find_valid(values)
    return numbers.copy() if valid is None else np.where(valid, numbers, neutral)


def whole(values: pa.Array) -> Integers:
    """Numbers that fit a word, without their point."""
    return without_null(values, words_of(values)[:, 0] if pa.types.is_decimal(values.type) else raw(values), 0)


def half(values: pa.Array, place: int) -> Integers:
    """The last has the sign."""
    words = words_of(values) if pa.types.is_decimal(values.type) else raw(values).reshape(-1, 1)
    word = words[:, place // 2]
    is_last = place == 2 * words.shape[1] - 1
    shifted = word if place % 2 == 0 else word >> HALF_BITS
    return without_null(values, shifted if is_last else shifted & LOW_HALF, 0)


def fill_nulls(values: pa.Array, neutral: int) -> Integers:
    return without_null(values, raw(values), neutral)


def doubles(values: pa.Array, neutral: float = 0.0) -> npt.NDArray[np.float64]:
    return without_null(values, raw(values, np.float64), neutral)


HALVES: tuple[Make, ...] = tuple(bound_to(half, place=place) for place in range(4))
EXTREMES: dict[tuple[str, bool], tuple[StateKind, Make]] = {
    ("min", False): (StateKind.LEAST, bound_to(fill_nulls, neutral=MAX_BIGINT)),
    ("max", False): (StateKind.GREATEST, bound_to(fill_nulls, neutral=MIN_BIGINT)),
    ("min", True): (StateKind.LEAST_DOUBLE, bound_to(doubles, neutral=np.nan)),
    ("max", True): (StateKind.GREATEST_DOUBLE, bound_to(doubles, neutral=-np.inf)),
}


def table_columns_of(partial: Partial, operand: Operand | None) -> tuple[TableColumn | None, ...]:
    """What a partial's state is made of, at last how many values there were; None is the number of rows."""
    if operand is None:
        return (None,)
    count = TableColumn(operand, StateKind.SUM, validity_words) if operand.has_null else None
    if partial.kind == "count":
        return (count,)
    if partial.kind != "sum":
        return TableColumn(operand, *EXTREMES[partial.kind, operand.is_double]), count
    if operand.is_double:
        return TableColumn(operand, StateKind.DOUBLE_SUM, doubles), count
    if not operand.is_wide:
        return TableColumn(operand, StateKind.SUM, whole), count
    halves = HALVES if operand.type is not None and operand.type.name == "DECIMAL" else HALVES[:2]
    return *(TableColumn(operand, StateKind.SUM, make) for make in halves), count


# The way back


def state_from(partial: Partial, columns: Sequence[Values]) -> Columns:
    """The columns of the partial's state, from what the tables have for it."""
    *parts, counts = columns
    if partial.kind == "count":
        return (pa.array(counts),)
    has_value = counts > 0
    argument = partial.arguments[0].type
    if argument.name == "DOUBLE":
        best = column(parts[0] + 0.0, pa.float64(), has_value)
        return (best, column(np.zeros(len(counts)), pa.float64(), has_value)) if partial.kind == "sum" else (best,)
    if partial.kind != "sum":
        return (column(parts[0], arrow_type(argument), has_value),)
    (exact,) = state_of(partial).columns(argument)
    words = exact.byte_width // 8
    whole_parts = [part.astype(np.int64, copy=False) for part in parts]
    totals = spread_sign(whole_parts[0], words) if len(parts) == 1 else joined_halves(whole_parts, words)
    return (column(totals, exact, has_value),)


def spread_sign(totals: Integers, words: int) -> Integers:
    return np.stack([totals, *[totals >> (2 * HALF_BITS - 1)] * (words - 1)], axis=1)


def joined_halves(halves: Sequence[Integers], words: int) -> Integers:
    """Sums of halves as numbers of several words, the least significant first: what is beyond a half is carried."""
    carried = np.zeros_like(halves[0])
    parts = []
    for place in range(2 * words):
        total = carried if place >= len(halves) else halves[place] + carried
        parts.append(total & LOW_HALF)
        carried = total >> HALF_BITS
    return np.stack([low | (high << HALF_BITS) for low, high in zip(parts[::2], parts[1::2], strict=True)], axis=1)
