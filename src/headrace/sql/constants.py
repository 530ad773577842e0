"""Constants: texts that become numbers, times, addresses and patterns while a statement is read."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from datetime import tzinfo
from decimal import Context, Decimal

from headrace.model import types
from headrace.model.address import parse_address
from headrace.model.expressions import Literal
from headrace.model.time import parse_timestamp

REAL = re.compile(r"(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")
DECIMAL = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]{1,9})?")
EXACT = Context(prec=types.MAX_DECIMAL_DIGITS)


def number(text: str) -> Literal:
    """A whole number is BIGINT, one with a point or an exponent DOUBLE. 2^63 passes: a minus may stand before it."""
    if re.fullmatch(r"[0-9]+", text):
        value = int(text.lstrip("0")[:40] or "0")
        if value > types.MAX_BIGINT + 1:
            raise ValueError("this whole number has more than 64 bits; write it as 1e19, or as DECIMAL '...'")
        return Literal(value, types.BIGINT)
    if not REAL.fullmatch(text):
        raise ValueError(f"'{text}' is not a number")
    if math.isinf(float(text)):
        raise ValueError(f"{text} is beyond what a DOUBLE holds")
    return Literal(float(text), types.DOUBLE)


def with_backslash_escapes(pattern: str, escape: str) -> str:
    """Return a LIKE pattern with `escape` replaced by a backslash."""
    result, position = "", 0
    while position < len(pattern):
        char = pattern[position]
        if char == escape:
            position += 1
            if position == len(pattern) or pattern[position] not in ("%", "_", escape):
                raise ValueError(f"in a LIKE pattern {escape} must stand before %, _ or {escape}")
            char = "\\" + pattern[position] if pattern[position] in "%_\\" else pattern[position]
        elif char == "\\":
            char = "\\\\"
        result += char
        position += 1
    return result


def decimal_constant(text: str, target: types.DataType, _zone: tzinfo) -> Literal:
    if not DECIMAL.fullmatch(text.strip()):
        raise ValueError("write it like 12.50")
    value = Decimal(text.strip())
    _, digits, exponent = value.as_tuple()
    scale = max(0, -int(exponent))
    precision = max(len(digits) + max(0, int(exponent)), scale, 1)
    if target.precision == 0:
        target = types.decimal(precision, scale)
    elif scale > target.scale or precision - scale > target.precision - target.scale:
        raise ValueError(f"it does not fit {target}")
    return Literal(value.quantize(Decimal(1).scaleb(-target.scale), context=EXACT), target)


CONSTANT_CASTS: dict[str, Callable[[str, types.DataType, tzinfo], Literal]] = {
    "TIMESTAMP": lambda text, target, zone: Literal(parse_timestamp(text, zone), target),
    "ADDRESS": lambda text, target, zone: Literal(parse_address(text), target),
    "DECIMAL": decimal_constant,
}
