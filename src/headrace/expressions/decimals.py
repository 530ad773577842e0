"""Exact numbers: DECIMAL arithmetic, what fits a type, and the way to DOUBLE.

Arrow's rules for the digits of sums and products are ours as long as they stay within 38. Beyond, and where numbers of
different scale meet, the work is done in 256 bits: 38 digits before and 38 behind the point always find room there.
"""

from __future__ import annotations

from collections.abc import Sequence
from decimal import ROUND_HALF_UP, Context, Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from headrace.expressions.columns import (
    Evaluated,
    RowError,
    Values,
    build_column,
    column_type,
    holds,
    is_null,
    null,
    one_row,
    patch_rows,
    raw,
    row_by_row,
    set_failed_null,
)
from headrace.expressions.functions import product_digits, sum_digits
from headrace.model.arrays import Mask
from headrace.model.expressions import Call
from headrace.model.types import BIGINT, DOUBLE, MAX_DECIMAL_DIGITS, DataType, as_decimal, decimal

EXACT = Context(prec=100)
WIDE_DIGITS = 76
MAX_EXACT_DOUBLE = 2**53
MAX_EXACT_POWER = 22
"""The highest power of ten that is a DOUBLE; up to it one division rounds as it should."""
SHORT_DIGITS = 15
"""Every number of up to this many digits is below 2^53."""
MAX_WHOLE = 10.0**14 - 1
MAX_DIGITS = 21
"""Powers of ten up to the 22nd are DOUBLEs, and one more digit than asked for is looked at."""
AWAY_FROM_ZERO = "half_towards_infinity"
OPERATIONS = {"+": (pc.add, sum_digits), "-": (pc.subtract, sum_digits), "*": (pc.multiply, product_digits)}


def decimal_type(digits: int, scale: int) -> pa.DataType:
    return pa.decimal128(digits, scale) if digits <= MAX_DECIMAL_DIGITS else pa.decimal256(digits, scale)


def exact(values: Values, data_type: DataType) -> Values:
    """A BIGINT or DECIMAL as Arrow's decimal."""
    return values.cast(pa.decimal128(19, 0)) if data_type == BIGINT else values


def align_decimals(operands: Sequence[Values], types: Sequence[DataType]) -> list[Values]:
    """BIGINTs and DECIMALs as decimals of one Arrow type that holds them all."""
    kinds = [
        tight(values, kind) if isinstance(values, pa.Scalar) else as_decimal(kind)
        for values, kind in zip(operands, types, strict=True)
    ]
    scale = max(kind.scale for kind in kinds)
    arrow = decimal_type(max(kind.precision - kind.scale for kind in kinds) + scale or 1, scale)
    return [exact(values, kind).cast(arrow) for values, kind in zip(operands, types, strict=True)]


def tight(values: Values, data_type: DataType) -> DataType:
    """The DECIMAL with as many digits as these numbers have."""
    scale = as_decimal(data_type).scale
    if data_type == BIGINT:
        largest = max(abs(end) for end in span(values))
    elif isinstance(values, pa.Scalar):
        largest = abs(int(values.as_py().scaleb(scale, EXACT)))
    else:
        ends = pc.min_max(values)
        largest = max(abs(int((end.as_py() or Decimal(0)).scaleb(scale, EXACT))) for end in ends.values())
    return decimal(max(len(str(largest)), scale), scale)


def span(values: Values) -> tuple[int, int]:
    """The least and the greatest of BIGINTs, and of what lies under NULLs."""
    numbers = raw(values)
    return (int(numbers.min()), int(numbers.max())) if len(numbers) else (0, 0)


# What fits


def fit_type(values: Values, source: DataType, target: DataType) -> Evaluated:
    """The values as `target`, a type that theirs mixes with; a number that does not fit fails."""
    if is_null(values):
        return Evaluated(null(target))
    if source == target:
        return Evaluated(values)
    if target == DOUBLE:
        return Evaluated(as_double(values, source))
    return fit_decimal(exact(values, source), target)


def fit_decimal(values: Values, target: DataType) -> Evaluated:
    """Rounded half up to the scale of `target`; fails beyond its digits."""
    if isinstance(values, pa.Scalar):
        row = fit_decimal(one_row(values), target)
        return Evaluated(row.values[0], row.failed)
    arrow = column_type(target)
    if values.type.scale > target.scale:
        values = pc.round(widen_precision(values), ndigits=target.scale, round_mode=AWAY_FROM_ZERO)
    if values.type.precision - values.type.scale <= target.precision - target.scale:
        same_words = pa.types.is_decimal128(values.type) and values.type.scale == target.scale
        return Evaluated(relabel_type(values, arrow) if same_words else values.cast(arrow))
    wide = values.cast(pa.decimal256(WIDE_DIGITS, values.type.scale))
    limit = pa.scalar(Decimal(10) ** (target.precision - target.scale), wide.type)
    beyond = pc.greater_equal(pc.abs(wide), limit)
    fitting = set_failed_null(wide, holds(beyond))
    return Evaluated(fitting.values.cast(arrow), fitting.failed)


def widen_precision(values: Values) -> Values:
    """With room for one more digit before the point, which rounding may bring."""
    return values.cast(decimal_type(values.type.precision + 1, values.type.scale))


def fit_decimal_value(value: Decimal, target: DataType) -> Decimal:
    """`fit_decimal` for one number."""
    limit = Decimal(10) ** (target.precision - target.scale)
    if value.is_finite() and value.copy_abs() < limit:
        rounded = value.quantize(Decimal(1).scaleb(-target.scale), ROUND_HALF_UP, EXACT)
        if rounded.copy_abs() < limit:
            return EXACT.plus(rounded)
    raise RowError(f"beyond {target}")


# Arithmetic


def arithmetic(call: Call, values: list[Values]) -> Evaluated:
    """In 128 bits if the types, or else the numbers that are there, leave no doubt that the result fits."""
    operation, result_digits = OPERATIONS[call.function]
    kinds = [as_decimal(argument.type) for argument in call.arguments]
    left, right = (exact(one, argument.type) for one, argument in zip(values, call.arguments, strict=True))
    if result_digits(*kinds)[0] <= MAX_DECIMAL_DIGITS:
        return Evaluated(operation(left, right))
    kinds = [tight(one, argument.type) for one, argument in zip(values, call.arguments, strict=True)]
    if result_digits(*kinds)[0] <= MAX_DECIMAL_DIGITS:
        return fit_decimal(
            operation(relabel_type(left, column_type(kinds[0])), relabel_type(right, column_type(kinds[1]))), call.type
        )
    return fit_decimal(operation(*widest(call.function, left, right)), call.type)


def widest(operator: str, left: Values, right: Values) -> tuple[Values, Values]:
    """The operands in 256 bits, labelled so that Arrow, which counts one digit more than can be needed, takes them."""
    if operator == "*":
        first, second = (
            pa.decimal256(WIDE_DIGITS // 2, left.type.scale),
            pa.decimal256(WIDE_DIGITS // 2 - 1, right.type.scale),
        )
    else:
        scale = max(left.type.scale, right.type.scale)
        first = second = pa.decimal256(WIDE_DIGITS - 1, scale)
    wide = (side.cast(pa.decimal256(WIDE_DIGITS, arrow.scale)) for side, arrow in ((left, first), (right, second)))
    return relabel_type(next(wide), first), relabel_type(next(wide), second)


def relabel_type(values: Values, arrow: pa.DataType) -> Values:
    """The same words in memory under a type of another precision."""
    if isinstance(values, pa.Scalar):
        return relabel_type(one_row(values), arrow)[0]
    return pa.Array.from_buffers(arrow, len(values), values.buffers(), offset=values.offset)


def remainder(call: Call, values: list[Values]) -> Evaluated:
    """In 64 bits where both sides fit; Python's integers for the other rows."""
    kinds = [argument.type for argument in call.arguments]
    left, right = align_decimals(values, kinds)
    if pa.types.is_decimal256(left.type):
        return row_by_row(remainder_value, values, kinds, call.type)
    (dividend, small_dividend), (divisor, small_divisor) = narrow(left), narrow(right)
    small = small_dividend & small_divisor
    by_zero = small_divisor & (divisor == 0)
    # the remainder by -1 is 0, as by 1, and the smallest BIGINT has no quotient by -1
    safe = np.where((divisor == 0) | (divisor == -1), 1, divisor)
    remaining = build_column(widen(np.fmod(dividend, safe)), left.type, left, right)
    if not small.all():
        rows = np.broadcast_to(~small, len(remaining))
        rest = [one if isinstance(one, pa.Scalar) else one.filter(pa.array(rows)) for one in (left, right)]
        scaled = decimal(left.type.precision, left.type.scale)
        remaining = patch_rows(remaining, rows, row_by_row(remainder_value, rest, [scaled, scaled], scaled)).values
    # no larger than either operand, so the cast loses nothing
    return set_failed_null(remaining.cast(column_type(call.type)), by_zero, left, right)


def remainder_value(left: Any, right: Any) -> Decimal:
    if right == 0:
        raise RowError("division by zero")
    return EXACT.remainder(Decimal(left), Decimal(right))


def round_decimal(call: Call, values: Values, digits: int) -> Evaluated:
    if digits >= call.type.scale:
        return Evaluated(values)
    return fit_decimal(pc.round(widen_precision(values), ndigits=digits, round_mode=AWAY_FROM_ZERO), call.type)


# DOUBLE and 64 bits


def as_double(values: Values, source: DataType) -> Values:
    """The nearest DOUBLE."""
    if source == DOUBLE or is_null(values):
        return values.cast(pa.float64())
    if source == BIGINT:
        return values.cast(pa.float64(), safe=False)
    if isinstance(values, pa.Scalar):
        return pa.scalar(float(values.as_py()), pa.float64())
    unscaled, small = narrow(values)
    if source.scale > MAX_EXACT_POWER:
        small = np.zeros(len(unscaled), np.bool_)
    elif source.precision > SHORT_DIGITS:
        small = small & (unscaled <= MAX_EXACT_DOUBLE) & (unscaled >= -MAX_EXACT_DOUBLE)
    doubles = build_column(unscaled / 10.0 ** min(source.scale, MAX_EXACT_POWER), pa.float64(), values)
    if small.all():
        return doubles
    # through text, where Arrow reads and writes exactly
    nearest = values.filter(pa.array(~small)).cast(pa.string()).cast(pa.float64())
    return patch_rows(doubles, ~small, Evaluated(nearest)).values


def narrow(values: Values) -> tuple[NDArray[np.int64], Mask]:
    """The unscaled numbers of a decimal128 in 64 bits, and where they fit."""
    words = raw(values, np.int64, 2)
    low, high = words[:, 0], words[:, 1]
    return low, high == low >> 63


def widen(unscaled: NDArray[np.int64]) -> NDArray[np.int64]:
    return np.stack([unscaled, unscaled >> 63], axis=1)


# DOUBLEs rounded as they are written: half up on the shortest decimal text that reads back as the number.
#
# Let t be a text of at most 15 digits half way between two results, and T the DOUBLE nearest to it. Whatever is written
# above t reads as T or more, and below t as T or less; and T itself is written as t, since no two texts of 15 digits
# read as the same DOUBLE. So comparing with T decides, without writing the number down.


def scaled_as_written(numbers: NDArray[np.float64], digits: int) -> tuple[NDArray[np.int64], Mask]:
    """The numbers times 10^digits, rounded to whole ones, and where that is right: finite, and not too large."""
    if digits > MAX_DIGITS:
        return np.zeros(len(numbers), np.int64), np.zeros(len(numbers), np.bool_)
    with np.errstate(over="ignore", invalid="ignore"):
        size = np.abs(numbers)
        scaled = size * 10.0**digits
        right = scaled < MAX_WHOLE
        # the comparison corrects a product that came out one too high or too low
        lower = np.floor(np.where(right, scaled, 0.0))
        upwards = size >= (lower * 10 + 5) / 10.0 ** (digits + 1)
    whole = (lower + upwards).astype(np.int64)
    return np.where(numbers < 0, -whole, whole), right


def decimal_as_written(number: float) -> Decimal:
    return Decimal(repr(number))
