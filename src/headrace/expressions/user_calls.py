"""User functions: called row by row, or with whole Arrow arrays. Whatever they do fails rows, never the batch."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headrace.expressions.columns import (
    Evaluated,
    RowError,
    Values,
    by_distinct,
    holds,
    null,
    patch_rows,
    present,
    repeat_value,
    row_by_row,
    set_failed_null,
)
from headrace.expressions.kernels_decimals import fit_decimal, fit_decimal_value
from headrace.model.address import BITS
from headrace.model.arrow import arrow_type, is_bytes, is_text
from headrace.model.expressions import Call
from headrace.model.schema import UserFunction
from headrace.model.types import ADDRESS, DOUBLE, MAX_BIGINT, MAX_TEXT_BYTES, MIN_BIGINT, STRING, DataType

PYTHON_TYPES: dict[str, type | tuple[type, ...]] = {
    "BOOLEAN": bool,
    "BIGINT": int,
    "DOUBLE": (int, float),
    "STRING": str,
    "TIMESTAMP": int,
    "ADDRESS": int,
    "DECIMAL": (int, Decimal),
    "BINARY": bytes,
}

RAISED = (Exception, SystemExit)
"""A user's function, and the values it returns, may raise anything, and must not stop the other queries. The text of
such an exception is not asked for: that may raise too.
"""


def call_user_function(function: UserFunction, call: Call, values: list[Values]) -> Evaluated:
    if function.vectorized:
        return call_with_arrays(function, values)
    types = [argument.type for argument in call.arguments]
    compute = check_results(function)
    if len(values) == 1 and types[0] != DOUBLE:
        return by_distinct(compute, values[0], types[0], function.returns)
    return row_by_row(compute, values, types, function.returns)


# One row at a time


def check_results(function: UserFunction) -> Callable[..., Any]:
    def compute(*arguments: Any) -> Any:
        try:
            value = function.implementation(*arguments)
            return None if value is None else of_type(value, function.returns)
        except RAISED as problem:
            raise RowError(type(problem).__name__) from problem

    return compute


def of_type(value: Any, data_type: DataType) -> Any:
    """The value as one of the declared type. To Python a bool is an int; to SQL it is not."""
    is_boolean = data_type.name == "BOOLEAN"
    if not isinstance(value, PYTHON_TYPES[data_type.name]) or isinstance(value, bool) != is_boolean:
        raise RowError(f"{type(value).__name__} is not {data_type}")
    try:
        return FITTING[data_type.name](value, data_type)
    except (OverflowError, UnicodeError) as problem:
        raise RowError(f"beyond {data_type}") from problem


def within(low: int, high: int) -> Callable[[int, DataType], int]:
    def check(value: int, data_type: DataType) -> int:
        if not low <= value <= high:
            raise RowError(f"beyond {data_type}")
        return value

    return check


def encodable(value: str, _type: DataType) -> str:
    if len(value.encode()) > MAX_TEXT_BYTES:
        raise RowError("the text is too long")
    return value


FITTING: dict[str, Callable[[Any, DataType], Any]] = {
    "BOOLEAN": lambda value, _type: bool(value),
    "BIGINT": within(MIN_BIGINT, MAX_BIGINT),
    "TIMESTAMP": within(MIN_BIGINT, MAX_BIGINT),
    "ADDRESS": within(0, 2**BITS - 1),
    "DOUBLE": lambda value, _type: float(value),
    "DECIMAL": lambda value, data_type: fit_decimal_value(Decimal(value), data_type),
    "STRING": encodable,
    "BINARY": lambda value, _type: value,
}


# Whole arrays


def call_with_arrays(function: UserFunction, values: list[Values]) -> Evaluated:
    """With the rows in which no argument is NULL. If the call fails, they all do."""
    length = max(len(one) for one in values if isinstance(one, pa.Array))
    arrays = [repeat_value(one, length) for one in values]
    rows = present(*arrays)
    if rows is not None:
        arrays = [array.filter(pa.array(rows)) for array in arrays]
    if len(arrays[0]) == 0:
        return Evaluated(null(function.returns))
    try:
        found = array_of_type(call_once(function, arrays), function.returns, len(arrays[0]))
    except RowError:
        return Evaluated(null(function.returns), np.ones(length, np.bool_) if rows is None else rows)
    return found if rows is None else patch_rows(pa.nulls(length, found.values.type), rows, found)


def call_once(function: UserFunction, arrays: list[pa.Array]) -> pa.Array:
    try:
        result = function.implementation(*arrays)
        if isinstance(result, np.ndarray):
            return pa.array(result)
        return result.combine_chunks() if isinstance(result, pa.ChunkedArray) else result
    except RAISED as problem:
        raise RowError(type(problem).__name__) from problem


def array_of_type(array: Any, data_type: DataType, length: int) -> Evaluated:
    """What a single value may be, an array may hold: whole numbers of any width, and those as DOUBLE or DECIMAL."""
    if not isinstance(array, pa.Array) or len(array) != length or not ARROW_KINDS[data_type.name](array.type):
        raise RowError(f"not {length} values of type {data_type}")
    if data_type.name == "DECIMAL":
        return fit_decimal(array.cast(pa.decimal128(20, 0)) if pa.types.is_integer(array.type) else array, data_type)
    try:
        found = array.cast(arrow_type(data_type), safe=data_type != DOUBLE)
    except pa.ArrowInvalid as problem:
        raise RowError(f"beyond {data_type}") from problem
    if data_type != STRING:
        return Evaluated(found)
    return set_failed_null(found, holds(pc.greater(pc.binary_length(found), MAX_TEXT_BYTES)))


ARROW_KINDS: dict[str, Callable[[pa.DataType], bool]] = {
    "BOOLEAN": pa.types.is_boolean,
    "BIGINT": pa.types.is_integer,
    "DOUBLE": lambda arrow: pa.types.is_floating(arrow) or pa.types.is_integer(arrow),
    "STRING": is_text,
    "TIMESTAMP": pa.types.is_timestamp,
    "ADDRESS": lambda arrow: arrow == arrow_type(ADDRESS),
    "DECIMAL": lambda arrow: pa.types.is_decimal128(arrow) or pa.types.is_integer(arrow),
    "BINARY": is_bytes,
}
