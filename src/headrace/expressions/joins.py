"""Rows and their partners in static tables: a look-up by equal keys, whole columns at once."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from headrace.expressions.columns import canonical

Positions = npt.NDArray[np.int64]

NO_PARTNER = -1
EXACT_NUMBER = pa.decimal256(76, 38)
"""Holds every BIGINT and every DECIMAL that a query may name."""


class DuplicateKeyError(Exception):
    """Two rows of a table, by their positions, have the same key."""

    def __init__(self, first: int, second: int) -> None:
        super().__init__(f"rows {first} and {second} have the same key")
        self.rows = first, second


def partners(keys: Sequence[pa.Array], table_keys: Sequence[pa.Array]) -> Positions:
    """For each row the position of the table's row with the same keys, or -1; a NULL key has no partner.

    Keys may come as dictionaries, so that what several joins look up is encoded once.
    """
    rows, table, distinct = coded(keys[0], table_keys[0])
    for key, table_key in zip(keys[1:], table_keys[1:], strict=True):
        more_rows, more_table, more = coded(key, table_key)
        rows, table = narrowed(rows, more_rows, more), narrowed(table, more_table, more)
        present = np.unique(table[table != NO_PARTNER])
        rows, table, distinct = places(rows, present), places(table, present), len(present)
    return np.take(positions_of(table, distinct), rows)


def coded(key: pa.Array, table_key: pa.Array) -> tuple[Positions, Positions, int]:
    """Both columns as places among the table's distinct values, and how many those are."""
    encoded = key if isinstance(key, pa.DictionaryArray) else key.dictionary_encode()
    known, wanted = comparable(table_key, encoded.dictionary)
    distinct = pc.drop_null(known.unique())
    of_value = np.append(index_in(wanted, distinct), NO_PARTNER)
    of_row = np.take(of_value, np.asarray(pc.fill_null(encoded.indices, len(encoded.dictionary))))
    return of_row, index_in(known, distinct), len(distinct)


def index_in(values: pa.Array, distinct: pa.Array) -> Positions:
    found = pc.index_in(values, value_set=distinct, skip_nulls=True)
    return np.asarray(pc.fill_null(found, NO_PARTNER)).astype(np.int64)


def comparable(left: pa.Array, right: pa.Array) -> tuple[pa.Array, pa.Array]:
    """Both as one type in which equal values are equal bytes."""
    if left.type != right.type:
        return pc.cast(left, EXACT_NUMBER), pc.cast(right, EXACT_NUMBER)
    return canonical(left), canonical(right)


def narrowed(keys: Positions, more: Positions, distinct: int) -> Positions:
    """Keys so far and one part more; what has no partner in one part has none."""
    return np.where((keys == NO_PARTNER) | (more == NO_PARTNER), NO_PARTNER, keys * distinct + more)


def places(keys: Positions, present: Positions) -> Positions:
    """The place of each key among those present, so that keys stay small whatever the number of their parts."""
    if not len(present):
        return np.full(len(keys), NO_PARTNER, dtype=np.int64)
    nearest = np.minimum(np.searchsorted(present, keys), len(present) - 1)
    return np.where(present[nearest] == keys, nearest, NO_PARTNER)


def positions_of(table: Positions, distinct: int) -> Positions:
    """The row of each key in the table, and behind them, where -1 leads, none."""
    rows = np.flatnonzero(table != NO_PARTNER)
    positions = np.full(distinct + 1, NO_PARTNER, dtype=np.int64)
    positions[table[rows]] = rows
    twice = rows[positions[table[rows]] != rows]
    if len(twice):
        raise DuplicateKeyError(int(twice[0]), int(positions[table[twice[0]]]))
    return positions
