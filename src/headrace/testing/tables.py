"""Equality of result tables: rows come in no order, and sums of floats depend on it in their last digits."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any, TypeAlias

import pyarrow as pa

Rows: TypeAlias = pa.Table | Iterable[Any]


def assert_same_rows(actual: Rows, expected: Rows, *, tolerance: float = 1e-9) -> None:
    """Raise an AssertionError unless both have the same rows, in any order.

    Args:
        actual: An Arrow table, or rows as mappings or tuples.
        expected: The same.
        tolerance: The relative difference that two floats may have.
    """
    ours, theirs = sort_rows(actual), sort_rows(expected)
    if len(ours) != len(theirs):
        raise AssertionError(f"{len(ours):,} rows instead of {len(theirs):,}{first_difference(ours, theirs)}")
    for our_row, their_row in zip(ours, theirs, strict=True):
        if not is_close(our_row, their_row, tolerance):
            raise AssertionError(f"the row {our_row} instead of {their_row}")


def sort_rows(rows: Rows) -> list[Any]:
    """Return the rows in an order that depends on nothing but their values."""
    return sorted(rows.to_pylist() if isinstance(rows, pa.Table) else rows, key=sort_key)


def sort_key(row: Any) -> tuple[str, str]:
    """Return texts to sort by, values that are no floats first: two rows that are close have neighbouring places."""
    values = list(row.values()) if isinstance(row, Mapping) else list(row)
    return repr([value for value in values if not isinstance(value, float)]), repr(values)


def first_difference(ours: list[Any], theirs: list[Any]) -> str:
    known = list(map(repr, theirs))
    for row in ours:
        if repr(row) not in known:
            return f"; the first that is not expected: {row}"
    return f"; the first that is missing: {next(row for row in theirs if ours.count(row) < theirs.count(row))}"


def is_close(ours: Any, theirs: Any, tolerance: float) -> bool:
    match ours, theirs:
        case float(), float():
            if math.isnan(ours) or math.isnan(theirs):
                return math.isnan(ours) and math.isnan(theirs)
            return math.isclose(ours, theirs, rel_tol=tolerance, abs_tol=tolerance)
        case Mapping(), Mapping():
            return list(ours) == list(theirs) and is_close(list(ours.values()), list(theirs.values()), tolerance)
        case ((list() | tuple()), (list() | tuple())):
            return len(ours) == len(theirs) and all(
                is_close(our, their, tolerance) for our, their in zip(ours, theirs, strict=True)
            )
    return bool(ours == theirs)
