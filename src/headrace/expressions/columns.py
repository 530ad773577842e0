"""Columns while an expression is computed: Arrow values, and beside them the rows on which something failed.

A value that is the same for every row is an Arrow scalar, and its mask has one element; NumPy and Arrow spread both.
Functions that look under the values reach Arrow's buffers without a copy; what lies there under a NULL means nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import reduce
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from headrace.model.arrays import Mask
from headrace.model.arrow import address_bytes, arrow_type, plain_values
from headrace.model.expressions import Call
from headrace.model.types import NULL, DataType, Value

Values: TypeAlias = pa.Array | pa.Scalar


MAX_HELD_BYTES = 256 << 20
"""What the columns on the way to the values of expressions may take; beyond that, rows are evaluated in pieces."""


class RowError(Exception):
    """Something that can't be computed for this row."""


class TooManyBytesError(Exception):
    """Columns that would take too much memory for all these rows; they fit if the rows are split into `pieces`."""

    def __init__(self, count: int) -> None:
        super().__init__(f"{count} bytes")
        self.pieces = 2 * count // MAX_HELD_BYTES


def check_held(count: int) -> None:
    if count > MAX_HELD_BYTES:
        raise TooManyBytesError(count)


@dataclass(frozen=True, slots=True, eq=False)
class Evaluated:
    """The values of an expression, NULL where it failed, and the rows on which it failed; None if on none."""

    values: Values
    failed: Mask | None = None


ColumnFunction: TypeAlias = Callable[[Call, list[Values]], Evaluated]
"""Takes the tree and its arguments, at least one of them a column; the failures it returns are its own."""


def column_type(data_type: DataType) -> pa.DataType:
    return pa.null() if data_type == NULL else arrow_type(data_type)


def null(data_type: DataType) -> pa.Scalar:
    return pa.scalar(None, column_type(data_type))


def constant(value: Value, data_type: DataType) -> pa.Scalar:
    return from_plain([value], data_type)[0]


def from_plain(values: list[Any], data_type: DataType) -> pa.Array:
    """A column of plain values: times as microseconds, addresses as numbers."""
    if data_type.name == "ADDRESS":
        return pa.array([None if value is None else address_bytes(value) for value in values], arrow_type(data_type))
    if data_type.name == "TIMESTAMP":
        return pa.array(values, pa.int64()).cast(arrow_type(data_type))
    if data_type.name == "DOUBLE":
        return pa.array([None if value is None else float(value) for value in values], pa.float64())
    return pa.array(values, column_type(data_type))


def is_null(values: Values) -> bool:
    """NULL for every row, by its form."""
    return bool(pa.types.is_null(values.type)) or (isinstance(values, pa.Scalar) and not values.is_valid)


def one_row(values: Values) -> pa.Array:
    return pa.repeat(values, 1) if isinstance(values, pa.Scalar) else values


def repeat_value(values: Values, length: int) -> pa.Array:
    if not isinstance(values, pa.Scalar):
        return values
    check_held(text_bytes_of(values) * length)
    return pa.repeat(values, length)


def row_count(operands: Iterable[Values]) -> int:
    """How many rows the operands have; constants alone have one."""
    return max((len(operand) for operand in operands if isinstance(operand, pa.Array)), default=1)


def text_bytes_of(values: Values) -> int:
    """What the texts of a column take, or one text that is the same for every row; 0 for other types."""
    if not pa.types.is_string(values.type):
        return 0
    if isinstance(values, pa.Scalar):
        return int(pc.binary_length(values).as_py() or 0)
    return int(values.nbytes)


def spread(column: Evaluated, length: int) -> Evaluated:
    """Written out, one value for each row."""
    failed = None if column.failed is None else np.broadcast_to(column.failed, (length,))
    return Evaluated(repeat_value(column.values, length), failed if failed is not None and failed.any() else None)


# Masks


def unite_masks(masks: Iterable[Mask | None]) -> Mask | None:
    present = [mask for mask in masks if mask is not None]
    return reduce(np.logical_or, present) if present else None


def holds(values: Values, truth: bool = True) -> Mask:
    """Where a condition is TRUE, or FALSE."""
    if isinstance(values, pa.Scalar):
        return np.array([values.as_py() is truth])
    certain: Mask = pc.fill_null(values, not truth).to_numpy(zero_copy_only=False)
    return certain if truth else ~certain


def present(*operands: Values) -> Mask | None:
    """The rows in which no operand is NULL; None if that is all of them."""
    valid = validity(*operands)
    return None if valid is None else valid.to_numpy(zero_copy_only=False)


def validity(*operands: Values) -> pa.BooleanArray | None:
    valid = [pc.is_valid(operand) for operand in operands if isinstance(operand, pa.Array) and operand.null_count]
    return reduce(pc.and_, valid) if valid else None


def set_failed_null(values: pa.Array, failed: Mask, *operands: Values) -> Evaluated:
    """NULL where it failed. A row with a NULL among the operands was not computed, so it did not fail."""
    rows = present(*operands) if failed.any() else None
    failed = failed if rows is None else failed & rows
    if not failed.any():
        return Evaluated(values)
    failed = np.broadcast_to(failed, (len(values),))
    return Evaluated(pc.if_else(pa.array(failed), pa.scalar(None, values.type), values), failed)


# Under the values


def raw(values: Values, dtype: Any = np.int64, words: int = 1) -> NDArray[Any]:
    """The numbers of a column as they lie in memory; `words` of them make up one value."""
    array = one_row(values)
    item = np.dtype(dtype)
    if len(array) == 0:
        return np.empty((0, words) if words > 1 else 0, item)
    offset = array.offset * words * item.itemsize
    numbers = np.frombuffer(array.buffers()[1], item, len(array) * words, offset)
    return numbers.reshape(-1, words) if words > 1 else numbers


def build_column(data: NDArray[Any], arrow: pa.DataType, *operands: Values) -> pa.Array:
    """A column over memory, NULL where one of the operands is."""
    memory = pa.py_buffer(np.ascontiguousarray(data))
    return pa.Array.from_buffers(arrow, len(data), [validity_bitmap(*operands), memory])


def validity_bitmap(*operands: Values) -> pa.Buffer | None:
    valid = validity(*operands)
    if valid is not None and valid.offset:
        valid = pa.array(valid.to_numpy(zero_copy_only=False))
    return None if valid is None else valid.buffers()[1]


def booleans(data: Mask, *operands: Values) -> pa.BooleanArray:
    valid = validity(*operands)
    answers = pa.array(data)
    return answers if valid is None else pc.if_else(valid, answers, pa.scalar(None, pa.bool_()))


# Value by value, where Arrow and NumPy have nothing that is right


def row_by_row(
    compute: Callable[..., Any], operands: list[Values], types: list[DataType], gives: DataType
) -> Evaluated:
    """`compute` for each row without a NULL; RowError fails the row."""
    length = row_count(operands)
    lists = [plain_values(repeat_value(operand, length), kind) for operand, kind in zip(operands, types, strict=True)]
    return collect_outcomes([attempt(compute, row) for row in (zip(*lists, strict=True) if lists else [()])], gives)


def by_distinct(compute: Callable[[Any], Any], array: pa.Array, takes: DataType, gives: DataType) -> Evaluated:
    """`compute` for each distinct value, once; RowError fails its rows. Not for DOUBLE, where 0.0 equals -0.0."""
    encoded = one_row(array).dictionary_encode()
    distinct = collect_outcomes(
        [attempt(compute, (value,)) for value in plain_values(encoded.dictionary, takes)], gives
    )
    failed = None
    if distinct.failed is not None:
        failed = np.append(distinct.failed, False)[pc.fill_null(encoded.indices, len(distinct.failed)).to_numpy()]
    return Evaluated(distinct.values.take(encoded.indices), failed)


def attempt(compute: Callable[..., Any], row: tuple[Any, ...]) -> tuple[Any, bool]:
    if None in row:
        return None, False
    try:
        return compute(*row), False
    except RowError:
        return None, True


def collect_outcomes(outcomes: list[tuple[Any, bool]], gives: DataType) -> Evaluated:
    values = from_plain([value for value, _ in outcomes], gives)
    failed = np.fromiter((bad for _, bad in outcomes), np.bool_, len(outcomes))
    return Evaluated(values, failed if failed.any() else None)


def patch_rows(values: pa.Array, rows: Mask, patch: Evaluated) -> Evaluated:
    """The values with those of `rows` replaced by the `patch`, one for each of them."""
    failed = None
    if patch.failed is not None:
        failed = np.zeros(len(values), np.bool_)
        failed[rows] = patch.failed
    return Evaluated(pc.replace_with_mask(values, pa.array(rows), patch.values), failed)


def patch_by_distinct(
    values: pa.Array, rows: Mask, compute: Callable[[Any], Any], source: pa.Array, takes: DataType, gives: DataType
) -> Evaluated:
    """The values with those of `rows` computed from the `source`, once for each distinct value of it."""
    return patch_rows(values, rows, by_distinct(compute, source.filter(pa.array(rows)), takes, gives))


def canonical(values: pa.Array) -> pa.Array:
    """Equal DOUBLEs in one form: 0.0 for -0.0, and one NaN. So equal values are equal bytes."""
    if not pa.types.is_floating(values.type):
        return values
    doubles = raw(values, np.float64)
    with np.errstate(invalid="ignore"):
        return build_column(np.where(np.isnan(doubles), np.nan, doubles) + 0.0, values.type, values)
