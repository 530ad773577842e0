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
    """For each row the position of the table's row with the same keys, or -1; a NULL key has no partner."""
    rows, table = np.zeros(len(keys[0]), dtype=np.int64), np.zeros(len(table_keys[0]), dtype=np.int64)
    for key, table_key in zip(keys, table_keys, strict=True):
        known, wanted = comparable(table_key, key)
        distinct = pc.drop_null(known.unique())
        table = narrowed(table, codes(known, distinct), len(distinct))
        rows = narrowed(rows, codes(wanted, distinct), len(distinct))
        present = np.unique(table[table != NO_PARTNER])
        table, rows = places(table, present), places(rows, present)
    return positions_of(table)[rows]


def comparable(left: pa.Array, right: pa.Array) -> tuple[pa.Array, pa.Array]:
    """Both as one type in which equal values are equal bytes."""
    if left.type != right.type:
        return pc.cast(left, EXACT_NUMBER), pc.cast(right, EXACT_NUMBER)
    return canonical(left), canonical(right)


def codes(values: pa.Array, distinct: pa.Array) -> Positions:
    """The place of each value among the distinct ones, looked up once for each value that occurs."""
    encoded = values.dictionary_encode()
    found = pc.index_in(encoded.dictionary, value_set=distinct, skip_nulls=True)
    places: Positions = np.append(np.asarray(pc.fill_null(found, NO_PARTNER)), NO_PARTNER).astype(np.int64)
    return np.take(places, np.asarray(pc.fill_null(encoded.indices, len(encoded.dictionary))))


def narrowed(keys: Positions, more: Positions, distinct: int) -> Positions:
    """Keys so far and one part more; what has no partner in one part has none."""
    return np.where((keys == NO_PARTNER) | (more == NO_PARTNER), NO_PARTNER, keys * distinct + more)


def places(keys: Positions, present: Positions) -> Positions:
    """The place of each key among those present, so that keys stay small whatever the number of their parts."""
    if not len(present):
        return np.full(len(keys), NO_PARTNER, dtype=np.int64)
    nearest = np.minimum(np.searchsorted(present, keys), len(present) - 1)
    return np.where(present[nearest] == keys, nearest, NO_PARTNER)


def positions_of(table: Positions) -> Positions:
    """The row of each key in the table, and behind them, where -1 leads, none."""
    rows = np.flatnonzero(table != NO_PARTNER)
    positions = np.full(int(table.max(initial=NO_PARTNER)) + 2, NO_PARTNER, dtype=np.int64)
    positions[table[rows]] = rows
    twice = rows[positions[table[rows]] != rows]
    if len(twice):
        raise DuplicateKeyError(int(twice[0]), int(positions[table[twice[0]]]))
    return positions
