"""Attributes of group-bys as codes of fixed width, which tables keep side by side in as few words as hold them.

Whole numbers, times and DOUBLEs are coded as they are, less the lowest; other values get numbers from a table that is
bounded. A code space grows when a value needs it, and only while all tables are empty.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headrace.edge.tables.memory_layout import WORD_BITS
from headrace.expressions.columns import canonical, raw
from headrace.kernel.level1.rows import StreamRows
from headrace.kernel.states.columns import column, find_valid
from headrace.model.arrays import Integers
from headrace.model.arrow import arrow_type
from headrace.model.expressions import Expression
from headrace.model.types import MIN_BIGINT
from headrace.predicates import Dimension

MAX_BITS = 62
"""Of numbers less the lowest; beyond that they are taken whole."""
WORDS = frozenset(("BIGINT", "TIMESTAMP", "DOUBLE", "BOOLEAN"))
"""Types that fit a word."""


class Growing:
    """What must hold all rows that are in the tables."""

    def fits(self, source: StreamRows) -> bool:
        """Return whether it holds these rows as well."""
        return True

    def grow(self, source: StreamRows) -> None:
        """Make it hold them, if it can. All tables are empty."""

    def clear(self) -> None:
        """Forget what was only for the rows in the tables: all are empty."""


class Coder(Growing, ABC):
    """Gives one code for each row and field."""

    @property
    @abstractmethod
    def sizes(self) -> tuple[int | None, ...]:
        """The size of the code space of each field; None for a whole word."""

    @property
    def nbytes(self) -> int:
        return 0

    @property
    def is_full(self) -> bool:
        return False

    @abstractmethod
    def codes(self, source: StreamRows) -> tuple[Integers, ...]:
        """Return the codes of rows that fit."""


class GroupCoder(Coder):
    """Of a group-by expression."""

    @abstractmethod
    def decode(self, codes: Sequence[Integers]) -> pa.Array: ...


def coder_of(tree: Expression, most_values: int, most_bytes: int) -> GroupCoder:
    return WordCoder(tree) if tree.type.name in WORDS else ValueCoder(tree, most_values, most_bytes)


class CellCoder(Coder):
    """The cells of a dimension are numbers already, and there are no others."""

    sizes: tuple[int | None, ...] = ()

    def __init__(self, dimension: Dimension) -> None:
        self.dimension = dimension
        self.sizes = (dimension.size,)

    def codes(self, source: StreamRows) -> tuple[Integers, ...]:
        return (source.codes(self.dimension).astype(np.int64),)


class WordCoder(GroupCoder):
    """Values of 64 bits. The second field says which are NULL, once there was one. What is known of the range stays."""

    def __init__(self, tree: Expression) -> None:
        self.tree = tree
        self.base: int | None = None
        self.bits = 0
        self.has_null = False
        if tree.type.name == "DOUBLE":
            self.base, self.bits = 0, WORD_BITS

    @property
    def sizes(self) -> tuple[int | None, ...]:
        whole = None if self.bits == WORD_BITS else 1 << self.bits
        return (whole, 2) if self.has_null else (whole,)

    def values(self, source: StreamRows) -> pa.Array:
        values = source.evaluation.evaluate(self.tree).values
        return values.cast(pa.int64()) if pa.types.is_boolean(values.type) else canonical(values)

    def extent(self, source: StreamRows) -> tuple[int, int] | None:
        """The lowest and the highest number; None if all are NULL."""
        bounds = pc.min_max(self.values(source).view(pa.int64()))
        lowest, highest = (bound.as_py() for bound in bounds.values())
        return None if lowest is None else (lowest, highest)

    def fits(self, source: StreamRows) -> bool:
        if self.values(source).null_count and not self.has_null:
            return False
        if self.bits == WORD_BITS:
            return True
        extent = self.extent(source)
        if extent is None or self.base is None:
            return extent is None
        return self.base <= extent[0] and extent[1] - self.base < 1 << self.bits

    def grow(self, source: StreamRows) -> None:
        self.has_null = self.has_null or self.values(source).null_count > 0
        extent = self.extent(source)
        if self.bits < WORD_BITS and extent is not None and not self.fits(source):
            self.spread(*extent)

    def spread(self, lowest: int, highest: int) -> None:
        """From 0 on where that takes no more bits; else as much room below as above. The second time it is doubled."""
        is_new = self.base is None
        if self.base is not None:
            lowest, highest = min(lowest, self.base), max(highest, self.base + (1 << self.bits) - 1)
        self.bits = (highest - lowest).bit_length() + (not is_new)
        if self.bits > MAX_BITS:
            self.base, self.bits = 0, WORD_BITS
        elif lowest >= 0 and highest < 1 << self.bits:
            self.base = 0
        else:
            room = (1 << self.bits) - 1 - (highest - lowest)
            self.base = max(MIN_BIGINT, lowest - room // 2)

    def codes(self, source: StreamRows) -> tuple[Integers, ...]:
        values = self.values(source)
        words: Integers = raw(values) - (self.base or 0)
        if not self.has_null:
            return (words,)
        valid = find_valid(values)
        if valid is None:
            return words, np.zeros(len(words), dtype=np.int64)
        return np.where(valid, words, 0), (~valid).astype(np.int64)

    def decode(self, codes: Sequence[Integers]) -> pa.Array:
        words = codes[0] + (self.base or 0)
        valid = codes[1] == 0 if self.has_null else np.ones(len(words), dtype=np.bool_)
        if self.tree.type.name == "BOOLEAN":
            return pa.array(words != 0, mask=~valid)
        return column(words, arrow_type(self.tree.type), valid)


class ValueCoder(GroupCoder):
    """Values of any width, by numbers in the order in which they came; NULL has the number behind the last one.

    One piece of rows may bring more bytes than are allowed, but no more values.
    """

    sizes: tuple[int | None, ...] = ()

    def __init__(self, tree: Expression, most_values: int, most_bytes: int) -> None:
        self.tree = tree
        self.most_values = most_values
        self.most_bytes = most_bytes
        self.sizes = (most_values + 1,)
        self.clear()

    def clear(self) -> None:
        self.known = pa.array([], arrow_type(self.tree.type))

    @property
    def nbytes(self) -> int:
        return int(self.known.nbytes)

    @property
    def is_full(self) -> bool:
        """So full that the next rows may not find room."""
        return 8 * len(self.known) >= 7 * self.most_values or 8 * self.nbytes >= 7 * self.most_bytes

    def find_numbers(self, source: StreamRows) -> tuple[Integers, pa.Array]:
        """For each distinct value of the rows its number, or -1, and the values without one."""
        values = source.encode_values(self.tree).dictionary
        numbers = pc.index_in(values, value_set=self.known)
        return np.asarray(pc.fill_null(numbers, -1)).astype(np.int64), values.filter(pc.is_null(numbers))

    def fits(self, source: StreamRows) -> bool:
        _, new = self.find_numbers(source)
        has_room = not len(self.known) or self.nbytes + new.nbytes <= self.most_bytes or not len(new)
        return has_room and len(self.known) + len(new) <= self.most_values

    def codes(self, source: StreamRows) -> tuple[Integers, ...]:
        numbers, new = self.find_numbers(source)
        numbers[numbers < 0] = len(self.known) + np.arange(len(new))
        if len(new):
            self.known = pa.concat_arrays([self.known, new])
        return (np.take(np.append(numbers, self.most_values), source.encode_values(self.tree).codes),)

    def decode(self, codes: Sequence[Integers]) -> pa.Array:
        (numbers,) = codes
        return self.known.take(pa.array(numbers, mask=numbers == self.most_values))
