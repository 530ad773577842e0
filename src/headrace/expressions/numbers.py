"""Numbers: arithmetic in 64 bits that notices overflow, DOUBLEs, functions of them, and times as numbers.

What is special about DECIMALs is in `decimals`.
"""

from __future__ import annotations

from collections.abc import Callable
from decimal import ROUND_HALF_UP, Context, Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from headrace.expressions import decimals
from headrace.expressions.columns import (
    ColumnFunction,
    Evaluated,
    Values,
    build_column,
    column_type,
    patch_rows,
    raw,
    row_by_row,
    set_failed_null,
)
from headrace.expressions.decimals import as_double, decimal_as_written, scaled_as_written, span
from headrace.model.arrays import Mask
from headrace.model.expressions import Call, Literal
from headrace.model.types import BIGINT, DOUBLE, MAX_BIGINT, MIN_BIGINT

LONG = Context(prec=400)
TWO_TO_63 = 2.0**63
OPERATIONS = {"+": pc.add, "-": pc.subtract, "*": pc.multiply}


def doubles(call: Call, values: list[Values]) -> list[Values]:
    return [as_double(one, argument.type) for one, argument in zip(values, call.arguments, strict=True)]


def arithmetic(call: Call, values: list[Values]) -> Evaluated:
    if call.type == DOUBLE:
        return Evaluated(OPERATIONS[call.function](*doubles(call, values)))
    if call.type != BIGINT:
        return decimals.arithmetic(call, values)
    return whole_arithmetic(call.function, *values)


def whole_arithmetic(operator: str, left: Values, right: Values) -> Evaluated:
    """Arrow's wrapping operation; where the ranges of the operands allow an overflow, with a look for it."""
    result = OPERATIONS[operator](left, right)
    if cannot_overflow(operator, span(left), span(right)):
        return Evaluated(result)
    return set_failed_null(result, OVERFLOWS[operator](raw(left), raw(right), raw(result)), left, right)


def cannot_overflow(operator: str, left: tuple[int, int], right: tuple[int, int]) -> bool:
    compute = {"+": int.__add__, "-": int.__sub__, "*": int.__mul__}[operator]
    corners = [compute(first, second) for first in left for second in right]
    return min(corners) >= MIN_BIGINT and max(corners) <= MAX_BIGINT


def product_overflows(left: NDArray[Any], right: NDArray[Any], product: NDArray[Any]) -> Mask:
    """The product divided by a factor gives the other one only if nothing was lost."""
    by_minus_one = right == -1
    factor = np.where((right == 0) | by_minus_one, 1, right)
    overflows: Mask = np.where(by_minus_one, left == MIN_BIGINT, (product // factor != left) & (right != 0))
    return overflows


OVERFLOWS: dict[str, Callable[[NDArray[Any], NDArray[Any], NDArray[Any]], Mask]] = {
    "+": lambda left, right, total: ((left ^ total) & (right ^ total)) < 0,
    "-": lambda left, right, difference: ((left ^ right) & (left ^ difference)) < 0,
    "*": product_overflows,
}


def divide(call: Call, values: list[Values]) -> Evaluated:
    """Always a DOUBLE."""
    left, right = doubles(call, values)
    return set_failed_null(pc.divide(left, right), raw(right, np.float64) == 0, left, right)


def integer_divide(call: Call, values: list[Values]) -> Evaluated:
    """Towards zero. The smallest BIGINT divided by -1 is too large."""
    left, right = values
    divisor = raw(right)
    failed = divisor == 0
    if (divisor == -1).any():
        failed = failed | ((divisor == -1) & (raw(left) == MIN_BIGINT))
    if not failed.any():
        return Evaluated(pc.divide(left, right))
    safe = np.where(failed | np.zeros_like(raw(left), np.bool_), 1, divisor)
    return set_failed_null(pc.divide(left, build_column(safe, pa.int64(), right)), failed, left, right)


def remainder(call: Call, values: list[Values]) -> Evaluated:
    """With the sign of the dividend."""
    if call.type.name == "DECIMAL":
        return decimals.remainder(call, values)
    left, right = doubles(call, values) if call.type == DOUBLE else values
    dtype = np.float64 if call.type == DOUBLE else np.int64
    divisor = raw(right, dtype)
    by_zero = divisor == 0
    # by -1 nothing remains, as by 1, and the smallest BIGINT has no quotient by -1
    safe = np.where(by_zero | (divisor == -1), 1, divisor)
    with np.errstate(invalid="ignore"):
        remaining = np.fmod(raw(left, dtype), safe)
    return set_failed_null(build_column(remaining, left.type, left, right), by_zero, left, right)


def without_smallest(operation: Callable[[Values], Values]) -> ColumnFunction:
    """A change of sign: the smallest BIGINT has no counterpart."""

    def compute(call: Call, values: list[Values]) -> Evaluated:
        changed = operation(values[0])
        if call.type != BIGINT:
            return Evaluated(changed)
        return set_failed_null(changed, raw(values[0]) == MIN_BIGINT, values[0])

    return compute


def sign(call: Call, values: list[Values]) -> Evaluated:
    signs = pc.sign(values[0])
    if call.type.name == "DECIMAL":
        return decimals.fit_decimal(signs.cast(pa.decimal128(19, 0)), call.type)
    return Evaluated(signs.cast(values[0].type))


def whole(call: Call, values: list[Values]) -> Evaluated:
    """Ceil and floor."""
    kind = call.arguments[0].type
    if kind == BIGINT:
        return Evaluated(values[0])
    if kind == DOUBLE:
        return to_whole(values[0], np.ceil if call.function == "ceil" else np.floor)
    operation = pc.ceil if call.function == "ceil" else pc.floor
    return Evaluated(operation(decimals.widen_precision(values[0])).cast(column_type(call.type)))


def to_whole(values: Values, rounding: Callable[[NDArray[Any]], NDArray[Any]]) -> Evaluated:
    """DOUBLE to BIGINT; what is infinite, NaN or beyond 64 bits fails."""
    rounded = rounding(raw(values, np.float64))
    failed = ~((rounded >= -TWO_TO_63) & (rounded < TWO_TO_63))
    if failed.any():
        rounded = np.where(failed, 0.0, rounded)
    return set_failed_null(build_column(rounded.astype(np.int64), pa.int64(), values), failed, values)


def round_half_up(call: Call, values: list[Values]) -> Evaluated:
    digits = literal_int(call, 1) if len(call.arguments) > 1 else 0
    if call.type == BIGINT:
        return Evaluated(values[0])
    if call.type != DOUBLE:
        return decimals.round_decimal(call, values[0], digits)
    numbers = raw(values[0], np.float64)
    scaled, right = scaled_as_written(numbers, digits)
    unchanged = (np.floor(numbers) == numbers) | np.isnan(numbers)
    rounded = build_column(np.where(unchanged, numbers, scaled / 10.0**digits), pa.float64(), values[0])
    rest = ~(right | unchanged)
    if not rest.any():
        return Evaluated(rounded)
    unit = Decimal(1).scaleb(-digits)

    def round_half_up(number: float) -> float:
        return float(decimal_as_written(number).quantize(unit, ROUND_HALF_UP, LONG))

    return patch_rows(rounded, rest, row_by_row(round_half_up, [values[0].filter(pa.array(rest))], [DOUBLE], DOUBLE))


def literal_int(call: Call, position: int) -> int:
    argument = call.arguments[position]
    if not isinstance(argument, Literal) or not isinstance(argument.value, int):
        raise TypeError(f"argument {position + 1} of {call.function} is a constant")
    return argument.value


# Functions of DOUBLEs: outside their domain they fail, too large a result is infinite


def real(operation: Callable[..., Values], outside: Callable[..., Mask]) -> ColumnFunction:
    def compute(call: Call, values: list[Values]) -> Evaluated:
        operands = doubles(call, values)
        with np.errstate(all="ignore"):
            failed = outside(*(raw(operand, np.float64) for operand in operands))
            return set_failed_null(operation(*operands), failed, *operands)

    return compute


def exponential(values: Values) -> Values:
    return build_column(np.exp(raw(values, np.float64)), pa.float64(), values)


def outside_power(base: NDArray[Any], exponent: NDArray[Any]) -> Mask:
    fractional = np.isfinite(exponent) & (np.trunc(exponent) != exponent)
    root_of_negative = np.isfinite(base) & (base < 0) & fractional
    division_by_zero = (base == 0) & (exponent < 0) & np.isfinite(exponent)
    outside: Mask = root_of_negative | division_by_zero
    return outside


def not_positive(numbers: NDArray[Any]) -> Mask:
    outside: Mask = numbers <= 0
    return outside


# Times as numbers since the epoch, rounded down also before it


def since_epoch(unit_us: int) -> ColumnFunction:
    def compute(call: Call, values: list[Values]) -> Evaluated:
        return Evaluated(build_column(np.floor_divide(raw(values[0]), unit_us), pa.int64(), values[0]))

    return compute


STRICT: dict[str, ColumnFunction] = {
    **dict.fromkeys(OPERATIONS, arithmetic),
    "/": divide,
    "div": integer_divide,
    "%": remainder,
    "negate": without_smallest(pc.negate),
    "abs": without_smallest(pc.abs),
    "sign": sign,
    "ceil": whole,
    "floor": whole,
    "round": round_half_up,
    "sqrt": real(pc.sqrt, lambda numbers: numbers < 0),
    "exp": real(exponential, lambda numbers: np.zeros(1, np.bool_)),
    "ln": real(pc.ln, not_positive),
    "log2": real(pc.log2, not_positive),
    "log10": real(pc.log10, not_positive),
    "power": real(pc.power, outside_power),
    "unix_seconds": since_epoch(1_000_000),
    "unix_millis": since_epoch(1_000),
    "unix_micros": lambda call, values: Evaluated(values[0].cast(pa.int64())),
}
