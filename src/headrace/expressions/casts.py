"""Casts: what can't be converted fails. Arrow reads texts of a plain form; Python each distinct one of the others."""

from __future__ import annotations

import re
from base64 import b64decode
from collections.abc import Callable
from datetime import tzinfo
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headrace.expressions import addresses
from headrace.expressions.columns import (
    Evaluated,
    RowError,
    Values,
    build_column,
    by_distinct,
    column_type,
    holds,
    patch_by_distinct,
    patch_rows,
    raw,
    row_by_row,
    set_failed_null,
    unite_masks,
)
from headrace.expressions.decimals import (
    WIDE_DIGITS,
    decimal_as_written,
    fit_decimal_value,
    fit_type,
    scaled_as_written,
    widen,
    widen_precision,
)
from headrace.expressions.numbers import to_whole
from headrace.expressions.texts import text_bytes, text_offsets
from headrace.model.address import parse_address
from headrace.model.expressions import Call
from headrace.model.time import parse_timestamp
from headrace.model.types import DOUBLE, MAX_BIGINT, MIN_BIGINT, STRING, DataType

NUMBER = r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?"
WHOLE_TEXT = re.compile(r"\s*[+-]?[0-9]+\s*", re.ASCII)
DECIMAL_TEXT = re.compile(rf"\s*{NUMBER}\s*", re.ASCII)
PLAIN_DIGITS = 18
PLAIN_CHARACTERS = "0123456789.-"
DOUBLE_TEXT = re.compile(rf"\s*({NUMBER}|[+-]?(nan|inf|infinity))\s*", re.IGNORECASE | re.ASCII)


def cast(call: Call, values: Values, zone: tzinfo) -> Evaluated:
    source, target = call.arguments[0].type, call.type
    if source == target:
        return Evaluated(values)
    if source == STRING:
        return from_text(values, target, zone)
    return CASTS[source.name, target.name](values, source, target)


# From text


def from_text(values: pa.Array, target: DataType, zone: tzinfo) -> Evaluated:
    plain = PLAIN_FORMS.get(target.name)
    if plain is None:
        return by_distinct(reading(target, zone), values, STRING, target)
    if is_short(values, PLAIN_CHARACTERS):
        try:
            return Evaluated(values.cast(column_type(target)))
        except pa.ArrowInvalid:
            pass  # not all of them are numbers of this type: find out which
    is_plain = pc.match_substring_regex(values, rf"\A{plain(target)}\z")
    other = holds(is_plain, truth=False)
    if not other.any():
        return Evaluated(values.cast(column_type(target)))
    numbers = pc.if_else(is_plain, values, pa.scalar(None, pa.string())).cast(column_type(target))
    return patch_by_distinct(numbers, other, reading(target, zone), values, STRING, target)


def is_short(texts: pa.Array, characters: str) -> bool:
    """All of them have at most 18 characters, and only these."""
    offsets = text_offsets(texts)
    allowed = np.zeros(256, np.bool_)
    allowed[np.frombuffer(characters.encode(), np.uint8)] = True
    is_long = np.diff(offsets) > PLAIN_DIGITS
    return not is_long.any() and bool(allowed[text_bytes(texts)[offsets[0] : offsets[-1]]].all())


def plain_decimal(target: DataType) -> str:
    """Return the pattern of numbers with few enough digits to fit the type without rounding."""
    before, behind = target.precision - target.scale, target.scale
    fraction = rf"(\.[0-9]{{1,{behind}}})?" if behind else ""
    return rf"-?[0-9]{{1,{before}}}{fraction}" if before else rf"-?0{fraction}"


PLAIN_FORMS: dict[str, Callable[[DataType], str]] = {
    "BIGINT": lambda target: r"-?[0-9]{1,18}",
    "DOUBLE": lambda target: r"-?[0-9]{1,18}(\.[0-9]{1,18})?",
    "DECIMAL": plain_decimal,
}


def reading(target: DataType, zone: tzinfo) -> Callable[[str], Any]:
    read = READERS[target.name]

    def compute(text: str) -> Any:
        try:
            return read(text, target, zone)
        except (ValueError, ArithmeticError) as problem:
            raise RowError("the cast failed") from problem

    return compute


def read_boolean(text: str, _target: DataType, _zone: tzinfo) -> bool:
    word = text.strip().lower()
    if word not in ("true", "false"):
        raise ValueError("neither true nor false")
    return word == "true"


def read_bigint(text: str, _target: DataType, _zone: tzinfo) -> int:
    number = int(matching(WHOLE_TEXT, text))
    if not MIN_BIGINT <= number <= MAX_BIGINT:
        raise ValueError("beyond 64 bits")
    return number


def read_double(text: str, _target: DataType, _zone: tzinfo) -> float:
    return float(matching(DOUBLE_TEXT, text))


def read_decimal(text: str, target: DataType, _zone: tzinfo) -> Decimal:
    return fit_decimal_value(Decimal(matching(DECIMAL_TEXT, text)), target)


def matching(pattern: re.Pattern[str], text: str) -> str:
    if pattern.fullmatch(text) is None:
        raise ValueError("not a number")
    return text


def read_base64(text: str, _target: DataType, _zone: tzinfo) -> bytes:
    """As text files hold bytes."""
    return b64decode(text, validate=True)


READERS: dict[str, Callable[[str, DataType, tzinfo], Any]] = {
    "BOOLEAN": read_boolean,
    "BIGINT": read_bigint,
    "DOUBLE": read_double,
    "DECIMAL": read_decimal,
    "TIMESTAMP": lambda text, _target, zone: parse_timestamp(text, zone),
    "ADDRESS": lambda text, _target, _zone: parse_address(text),
    "BINARY": read_base64,
}


# Between numbers


def by_arrow(values: Values, _source: DataType, target: DataType) -> Evaluated:
    return Evaluated(values.cast(column_type(target)))


def decimal_to_bigint(values: Values, _source: DataType, _target: DataType) -> Evaluated:
    """Towards zero."""
    wide = pa.decimal256(WIDE_DIGITS, 0)
    whole = pc.trunc(widen_precision(values)).cast(wide)
    low, high = (pa.scalar(Decimal(limit), wide) for limit in (MIN_BIGINT, MAX_BIGINT))
    fitting = set_failed_null(whole, holds(pc.or_(pc.less(whole, low), pc.greater(whole, high))))
    return Evaluated(fitting.values.cast(pa.int64()), fitting.failed)


def double_to_decimal(values: Values, _source: DataType, target: DataType) -> Evaluated:
    """As the number is written, rounded half up; number by number where it has too many digits."""
    scaled, right = scaled_as_written(raw(values, np.float64), target.scale)
    failed = right & ((scaled >= 10**target.precision) | (scaled <= -(10**target.precision)))
    result = set_failed_null(
        build_column(widen(np.where(failed, 0, scaled)), column_type(target), values), failed, values
    )
    if right.all():
        return result

    def convert(number: float) -> Decimal:
        return fit_decimal_value(decimal_as_written(number), target)

    rest = row_by_row(convert, [values.filter(pa.array(~right))], [DOUBLE], target)
    patch = patch_rows(result.values, ~right, rest)
    return Evaluated(patch.values, unite_masks([result.failed, patch.failed]))


# To text


def decimal_to_text(values: Values, source: DataType, _target: DataType) -> Evaluated:
    """Arrow writes small numbers with an exponent; those are written out."""
    text = values.cast(pa.string())
    short = holds(pc.match_substring(text, "E"))
    if not short.any():
        return Evaluated(text)
    return patch_by_distinct(text, short, lambda number: f"{number:f}", values, source, STRING)


CASTS: dict[tuple[str, str], Callable[[Values, DataType, DataType], Evaluated]] = {
    ("BOOLEAN", "BIGINT"): by_arrow,
    ("BOOLEAN", "STRING"): by_arrow,
    ("BIGINT", "BOOLEAN"): lambda values, _source, _target: Evaluated(pc.not_equal(values, pa.scalar(0, pa.int64()))),
    ("BIGINT", "DOUBLE"): fit_type,
    ("BIGINT", "DECIMAL"): fit_type,
    ("BIGINT", "STRING"): by_arrow,
    ("DOUBLE", "BIGINT"): lambda values, _source, _target: to_whole(values, np.trunc),
    ("DOUBLE", "DECIMAL"): double_to_decimal,
    ("DECIMAL", "BIGINT"): decimal_to_bigint,
    ("DECIMAL", "DOUBLE"): fit_type,
    ("DECIMAL", "DECIMAL"): fit_type,
    ("DECIMAL", "STRING"): decimal_to_text,
    ("ADDRESS", "STRING"): lambda values, _source, _target: Evaluated(addresses.to_text(values)),
}
"""Between other types than STRING, by the names of both."""
