"""Rows and their partners in static tables: a look-up by equal keys, whole columns at once."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from headrace.expressions.columns import canonical

Positions = npt.NDArray[np.int32 | np.int64]

NO_PARTNER = -1
EXACT_NUMBER = pa.decimal256(76, 38)
"""Holds every BIGINT and every DECIMAL that a query may name."""


class DuplicateKeyError(Exception):
    """Two rows of a table, by their positions, have the same key."""

    def __init__(self, first: int, second: int) -> None:
        super().__init__(f"rows {first} and {second} have the same key")
        self.rows = first, second


class Values:
    """The distinct values of a key in static tables, each with a number."""

    def __init__(self, columns: Sequence[pa.Array], wanted: pa.DataType) -> None:
        """`wanted` is the type of the rows' keys."""
        self.is_exact = all(column.type == wanted for column in columns)
        self.known = pc.drop_null(pa.concat_arrays([self.comparable(column) for column in columns]).unique())

    def numbers(self, values: pa.Array) -> Positions:
        """The number of each row's key; -1 where it is NULL or not known."""
        if self.is_exact:
            return self.numbers_of_known(values)
        encoded = values.dictionary_encode()
        of_value = np.append(self.numbers_of_known(encoded.dictionary), NO_PARTNER)
        return np.take(of_value, np.asarray(pc.fill_null(encoded.indices, len(encoded.dictionary))))

    def numbers_of_known(self, column: pa.Array) -> Positions:
        """The same for a column of a static table."""
        found = pc.index_in(self.comparable(column), value_set=self.known, skip_nulls=True)
        return np.asarray(pc.fill_null(found, NO_PARTNER))

    def comparable(self, values: pa.Array) -> pa.Array:
        """In a type in which equal values are equal bytes."""
        return canonical(values) if self.is_exact else pc.cast(values, EXACT_NUMBER)


class Lookup:
    """Rows of a static table by their keys, which are numbers."""

    def __init__(self, table_keys: Sequence[Positions], distinct: Sequence[int]) -> None:
        """`distinct` says how many numbers each key has."""
        table, count = table_keys[0], distinct[0]
        self.parts: list[tuple[int, Positions]] = []
        for more, size in zip(table_keys[1:], distinct[1:], strict=True):
            table = narrow_keys(table, more, size)
            present = np.unique(table[table != NO_PARTNER])
            table, count = places(table, present), len(present)
            self.parts.append((size, present))
        self.row_of_key = positions_of(table, count)

    def partners(self, keys: Sequence[Positions]) -> Positions:
        """For each row the position of the table's row with the same keys, or -1; a NULL key has no partner."""
        rows = keys[0]
        for more, (size, present) in zip(keys[1:], self.parts, strict=True):
            rows = places(narrow_keys(rows, more, size), present)
        return np.take(self.row_of_key, rows, mode="wrap")


def narrow_keys(keys: Positions, more: Positions, distinct: int) -> Positions:
    """Keys so far and one part more; what has no partner in one part has none."""
    return np.where((keys == NO_PARTNER) | (more == NO_PARTNER), NO_PARTNER, keys * np.int64(distinct) + more)


def places(keys: Positions, present: Positions) -> Positions:
    """The place of each key among those present, so that keys stay small whatever the number of their parts."""
    if not len(present):
        return np.full(len(keys), NO_PARTNER, dtype=np.int64)
    nearest = np.minimum(np.searchsorted(present, keys), len(present) - 1)
    return np.where(present[nearest] == keys, nearest, NO_PARTNER)


def positions_of(table: Positions, distinct: int) -> Positions:
    """The row of each key in the table, and behind them, where -1 leads, none."""
    rows = np.flatnonzero(table != NO_PARTNER)
    positions = np.full(distinct + 1, NO_PARTNER, dtype=np.int32)
    positions[table[rows]] = rows
    twice = rows[positions[table[rows]] != rows]
    if len(twice):
        raise DuplicateKeyError(int(twice[0]), int(positions[table[twice[0]]]))
    return positions
