"""User functions: called row by row, or with whole Arrow arrays. Whatever they do fails rows, never the batch."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from typing import Any, NamedTuple

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
    row_count,
    set_failed_null,
)
from headrace.expressions.decimals import fit_decimal, fit_decimal_value
from headrace.model.address import BITS
from headrace.model.arrow import arrow_type, is_bytes, is_text
from headrace.model.expressions import Call
from headrace.model.schema import UserFunction
from headrace.model.types import ADDRESS, DOUBLE, MAX_BIGINT, MAX_TEXT_BYTES, MIN_BIGINT, STRING, DataType

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
    wanted = RESULT_TYPES[data_type.name]
    if not isinstance(value, wanted.python) or isinstance(value, bool) != (wanted.python is bool):
        raise RowError(f"{type(value).__name__} is not {data_type}")
    try:
        return wanted.fit(value, data_type)
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


# Whole arrays


def call_with_arrays(function: UserFunction, values: list[Values]) -> Evaluated:
    """With the rows in which no argument is NULL. If the call fails, they all do."""
    length = row_count(values)
    arrays = [repeat_value(one, length) for one in values]
    rows = present(*arrays)
    if rows is not None:
        arrays = [array.filter(pa.array(rows)) for array in arrays]
    if len(arrays[0]) == 0:
        return Evaluated(null(function.returns))
    try:
        result = array_of_type(call_once(function, arrays), function.returns, len(arrays[0]))
    except RowError:
        return Evaluated(null(function.returns), np.ones(length, np.bool_) if rows is None else rows)
    return result if rows is None else patch_rows(pa.nulls(length, result.values.type), rows, result)


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
    if not isinstance(array, pa.Array) or len(array) != length or not RESULT_TYPES[data_type.name].is_arrow(array.type):
        raise RowError(f"not {length} values of type {data_type}")
    if data_type.name == "DECIMAL":
        return fit_decimal(array.cast(pa.decimal128(20, 0)) if pa.types.is_integer(array.type) else array, data_type)
    try:
        values = array.cast(arrow_type(data_type), safe=data_type != DOUBLE)
    except pa.ArrowInvalid as problem:
        raise RowError(f"beyond {data_type}") from problem
    if data_type != STRING:
        return Evaluated(values)
    return set_failed_null(values, holds(pc.greater(pc.binary_length(values), MAX_TEXT_BYTES)))


def as_is(value: Any, _type: DataType) -> Any:
    return value


class ResultType(NamedTuple):
    """What a function may return for a declared type: Python values, which must fit, and Arrow arrays."""

    python: type | tuple[type, ...]
    fit: Callable[[Any, DataType], Any]
    is_arrow: Callable[[pa.DataType], bool]


RESULT_TYPES = {
    "BOOLEAN": ResultType(bool, as_is, pa.types.is_boolean),
    "BIGINT": ResultType(int, within(MIN_BIGINT, MAX_BIGINT), pa.types.is_integer),
    "DOUBLE": ResultType(
        (int, float),
        lambda value, _type: float(value),
        lambda arrow: pa.types.is_floating(arrow) or pa.types.is_integer(arrow),
    ),
    "STRING": ResultType(str, encodable, is_text),
    "TIMESTAMP": ResultType(int, within(MIN_BIGINT, MAX_BIGINT), pa.types.is_timestamp),
    "ADDRESS": ResultType(int, within(0, 2**BITS - 1), lambda arrow: arrow == arrow_type(ADDRESS)),
    "DECIMAL": ResultType(
        (int, Decimal),
        lambda value, data_type: fit_decimal_value(Decimal(value), data_type),
        lambda arrow: pa.types.is_decimal128(arrow) or pa.types.is_integer(arrow),
    ),
    "BINARY": ResultType(bytes, as_is, is_bytes),
}
