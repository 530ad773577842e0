"""What each strict function gives for one row. Arguments are never NULL; ComputationError means NULL and counts."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from datetime import tzinfo
from decimal import ROUND_CEILING, ROUND_DOWN, ROUND_FLOOR, ROUND_HALF_UP, Context, Decimal
from typing import Any

from headrace.model.address import format_address, in_network, parse_address, parse_network, prefix
from headrace.model.time import parse_timestamp
from headrace.model.types import ADDRESS, MAX_BIGINT, MAX_TEXT_BYTES, MIN_BIGINT, DataType, Value

EXACT = Context(prec=100)
NUMBER = r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?"


class ComputationError(Exception):
    """Something that can't be computed for this row: a division by zero, an overflow, a bad cast."""


def fit(value: Any, target: DataType) -> Value:
    """The value as one of type `target`, or ComputationError if it does not fit."""
    if value is None:
        return None
    if target.name == "BIGINT" and not MIN_BIGINT <= value <= MAX_BIGINT:
        raise ComputationError("beyond 64 bits")
    if target.name == "DOUBLE":
        return fit_double(value)
    if target.name == "DECIMAL":
        return fit_decimal(Decimal(value), target)
    return value  # type: ignore[no-any-return]


def fit_double(value: Any) -> float:
    try:
        return float(value)
    except OverflowError:
        raise ComputationError("beyond what a DOUBLE holds") from None


def fit_decimal(value: Decimal, target: DataType) -> Decimal:
    limit = Decimal(10) ** (target.precision - target.scale)
    if value.is_finite() and value.copy_abs() < limit:
        rounded = value.quantize(Decimal(1).scaleb(-target.scale), ROUND_HALF_UP, EXACT)
        if rounded.copy_abs() < limit:
            return EXACT.plus(rounded)  # there is no -0.00
    raise ComputationError(f"beyond {target}")


def promote(left: Any, right: Any) -> tuple[Any, Any]:
    """If one side is a DOUBLE, both are."""
    if isinstance(left, float) or isinstance(right, float):
        return float(left), float(right)
    return left, right


def order_key(value: Any) -> Any:
    """Sorts and compares as SQL does: NaN equals NaN and is greater than every number; -0.0 equals 0.0."""
    if isinstance(value, float):
        return (1, 0.0) if math.isnan(value) else (0, value)
    return (0, value)


def compare(left: Any, right: Any) -> int:
    first, second = (order_key(side) for side in promote(left, right))
    return int(first > second) - int(first < second)


def arithmetic(operation: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    def compute(left: Any, right: Any) -> Any:
        first, second = promote(left, right)
        if isinstance(first, Decimal) or isinstance(second, Decimal):
            first, second = Decimal(first), Decimal(second)
        return operation(first, second)

    return compute


def divide(left: Any, right: Any) -> float:
    if right == 0:
        raise ComputationError("division by zero")
    return float(left) / float(right)


def integer_divide(left: int, right: int) -> int:
    """Towards zero, as in SQL, not down, as in Python."""
    if right == 0:
        raise ComputationError("division by zero")
    return abs(left) // abs(right) * (1 if (left < 0) == (right < 0) else -1)


def remainder(left: Any, right: Any) -> Any:
    """The sign is that of the dividend."""
    if right == 0:
        raise ComputationError("division by zero")
    if isinstance(left, float):
        return math.fmod(left, right) if math.isfinite(left) else math.nan
    if isinstance(left, Decimal):
        return EXACT.remainder(left, right)
    return left - right * integer_divide(left, right)


def whole(rounding: str) -> Callable[[Any], int]:
    def compute(value: Any) -> int:
        if isinstance(value, float) and not math.isfinite(value):
            raise ComputationError("not a number that can be rounded")
        return int(Decimal(value).to_integral_value(rounding))

    return compute


def round_half_up(value: Any, digits: int = 0) -> Any:
    if isinstance(value, int) or (isinstance(value, float) and not math.isfinite(value)):
        return value
    shown = Decimal(repr(value)) if isinstance(value, float) else value
    return type(value)(shown.quantize(Decimal(1).scaleb(-digits), ROUND_HALF_UP, Context(prec=400)))


def real(function: Callable[..., float]) -> Callable[..., float]:
    """A function of DOUBLEs: outside its domain it fails, too large a result is infinite."""

    def compute(*values: Any) -> float:
        try:
            return function(*(float(value) for value in values))
        except ValueError:
            raise ComputationError("outside the function's domain") from None
        except OverflowError:
            return math.inf

    return compute


def power(base: float, exponent: float) -> float:
    try:
        return math.pow(base, exponent)
    except OverflowError:
        return math.copysign(math.inf, base) if exponent % 2 == 1 else math.inf


def sign(value: Any) -> Any:
    return value if value != value else type(value)((value > 0) - (value < 0))


def simple_case(text: str, change: Callable[[str], str]) -> str:
    """One character for one character: the German sharp s keeps its form."""
    return "".join(change(char) if len(change(char)) == 1 else char for char in text)


def substring(text: str, position: int, length: int | None = None) -> str:
    """Positions count from 1, negative ones from the end."""
    start = position - 1 if position > 0 else len(text) + position if position < 0 else 0
    end = len(text) if length is None else start + length
    return text[max(0, start) : max(0, end)]


def concat(*texts: str) -> str:
    check_text_bytes(sum(map(count_bytes, texts)))
    return "".join(texts)


def replace(text: str, old: str, new: str) -> str:
    """Counted first, since the text could be larger than the memory."""
    if not old:
        check_text_bytes(count_bytes(text))
        return text
    check_text_bytes(count_bytes(text) + text.count(old) * (count_bytes(new) - count_bytes(old)))
    return text.replace(old, new)


def count_bytes(text: str) -> int:
    return len(text.encode())


def check_text_bytes(count: int) -> None:
    if count > MAX_TEXT_BYTES:
        raise ComputationError(f"a text longer than {MAX_TEXT_BYTES} bytes")


def like(text: str, pattern: str) -> bool:
    """Behind a % the first match is as good as any later one: an atomic group keeps `re` from trying them all."""
    between = [""]
    for part in re.findall(r"\\.|.", pattern, re.DOTALL):
        if part == "%":
            between.append("")
        else:
            between[-1] += "." if part == "_" else re.escape(part[-1])
    first, *others = between
    middle = "".join(f"(?>.*?{part})" for part in others[:-1])
    expression = first + middle + (f".*{others[-1]}" if others else "")
    return re.fullmatch(expression, text, re.DOTALL) is not None


def cast(value: Any, source: DataType, target: DataType, zone: tzinfo) -> Any:
    try:
        if source == ADDRESS and target.name == "STRING":
            return format_address(value)
        return CASTS[target.name](value, target, zone)
    except (ValueError, ArithmeticError):
        raise ComputationError("the cast failed") from None


def to_bigint(value: Any, _target: DataType, _zone: tzinfo) -> int:
    if isinstance(value, str):
        if re.fullmatch(r"\s*[+-]?[0-9]+\s*", value, re.ASCII) is None:
            raise ValueError
        return int(value)
    return int(Decimal(value).to_integral_value(ROUND_DOWN))


def to_double(value: Any, _target: DataType, _zone: tzinfo) -> float:
    text = rf"\s*({NUMBER}|[+-]?(nan|inf|infinity))\s*"
    if isinstance(value, str) and re.fullmatch(text, value, re.IGNORECASE | re.ASCII) is None:
        raise ValueError
    return float(value)


def to_decimal(value: Any, target: DataType, _zone: tzinfo) -> Decimal:
    if isinstance(value, str) and re.fullmatch(rf"\s*{NUMBER}\s*", value, re.ASCII) is None:
        raise ValueError
    return fit_decimal(Decimal(repr(value) if isinstance(value, float) else value), target)


def to_boolean(value: Any, _target: DataType, _zone: tzinfo) -> bool:
    if not isinstance(value, str):
        return bool(value != 0)
    if value.strip().lower() not in ("true", "false"):
        raise ValueError
    return value.strip().lower() == "true"


def to_string(value: Any, _target: DataType, _zone: tzinfo) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return f"{value:f}" if isinstance(value, Decimal) else str(value)


CASTS: dict[str, Callable[[Any, DataType, tzinfo], Any]] = {
    "BIGINT": to_bigint,
    "DOUBLE": to_double,
    "DECIMAL": to_decimal,
    "BOOLEAN": to_boolean,
    "STRING": to_string,
    "TIMESTAMP": lambda value, target, zone: parse_timestamp(value, zone),
    "ADDRESS": lambda value, target, zone: parse_address(value),
}

STRICT: dict[str, Callable[..., Any]] = {
    "+": arithmetic(lambda left, right: EXACT.add(left, right) if isinstance(left, Decimal) else left + right),
    "-": arithmetic(lambda left, right: EXACT.subtract(left, right) if isinstance(left, Decimal) else left - right),
    "*": arithmetic(lambda left, right: EXACT.multiply(left, right) if isinstance(left, Decimal) else left * right),
    "/": divide,
    "div": integer_divide,
    "%": arithmetic(remainder),
    "negate": lambda value: EXACT.minus(value) if isinstance(value, Decimal) else -value,
    "=": lambda left, right: compare(left, right) == 0,
    "<>": lambda left, right: compare(left, right) != 0,
    "<": lambda left, right: compare(left, right) < 0,
    "<=": lambda left, right: compare(left, right) <= 0,
    ">": lambda left, right: compare(left, right) > 0,
    ">=": lambda left, right: compare(left, right) >= 0,
    "not": lambda value: not value,
    "like": like,
    "abs": lambda value: EXACT.abs(value) if isinstance(value, Decimal) else abs(value),
    "sign": sign,
    "ceil": whole(ROUND_CEILING),
    "floor": whole(ROUND_FLOOR),
    "round": round_half_up,
    "sqrt": real(math.sqrt),
    "exp": real(math.exp),
    "ln": real(math.log),
    "log2": real(math.log2),
    "log10": real(math.log10),
    "power": real(power),
    "concat": concat,
    "lower": lambda text: simple_case(text, str.lower),
    "upper": lambda text: simple_case(text, str.upper),
    "length": len,
    "trim": lambda text: text.strip(" "),
    "ltrim": lambda text: text.lstrip(" "),
    "rtrim": lambda text: text.rstrip(" "),
    "substring": substring,
    "left": lambda text, count: text[: max(0, count)],
    "right": lambda text, count: text[max(0, len(text) - count) :],
    "replace": replace,
    "instr": lambda text, part: text.find(part) + 1,
    "starts_with": str.startswith,
    "ends_with": str.endswith,
    "contains": lambda text, part: part in text,
    "unix_seconds": lambda time_us: time_us // 1_000_000,
    "unix_millis": lambda time_us: time_us // 1_000,
    "unix_micros": lambda time_us: time_us,
    "ip_in": lambda address, network: in_network(address, parse_network(network)),
    "ip_prefix": prefix,
}
