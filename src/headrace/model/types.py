"""The types of the language: few, each with one meaning."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from headrace.model.stable_names import stored

MAX_DECIMAL_DIGITS = 38
MAX_TEXT_BYTES = 1 << 16
"""In UTF-8, of a text that an expression makes; texts of the input may be longer."""
MIN_BIGINT, MAX_BIGINT = -(2**63), 2**63 - 1

# A value inside: NULL is None, a TIMESTAMP is int microseconds since the epoch, an ADDRESS a 128-bit int, an ARRAY and
# a STRUCT are tuples.
Constant = None | bool | int | float | Decimal | str
Value = Constant | bytes | tuple[Any, ...]


@stored("DataType", "name", "precision", "scale", "fields")
@dataclass(frozen=True, slots=True)
class DataType:
    """A type by name. DECIMAL also has digits in all (`precision`) and digits after the point (`scale`); a STRUCT has
    named `fields`, and an ARRAY one, its item.
    """

    name: str
    precision: int = 0
    scale: int = 0
    fields: tuple[tuple[str, DataType], ...] = ()

    def __str__(self) -> str:
        if self.name == "DECIMAL":
            return f"DECIMAL({self.precision}, {self.scale})"
        if self.name == "ARRAY":
            return f"ARRAY<{self.fields[0][1]}>"
        if self.name == "STRUCT":
            return f"STRUCT<{', '.join(f'{name} {field}' for name, field in self.fields)}>"
        return self.name

    @property
    def is_numeric(self) -> bool:
        return self.name in ("BIGINT", "DOUBLE", "DECIMAL")

    @property
    def is_comparable(self) -> bool:
        """Whether values have an order; sketches and lists are only shown, stored and aggregated."""
        return self.name not in ("BINARY", "ARRAY", "STRUCT")


BOOLEAN = DataType("BOOLEAN")
BIGINT = DataType("BIGINT")
DOUBLE = DataType("DOUBLE")
STRING = DataType("STRING")
TIMESTAMP = DataType("TIMESTAMP")
ADDRESS = DataType("ADDRESS")
BINARY = DataType("BINARY")
NULL = DataType("NULL")
"""The type of a bare NULL, which fits every other type."""

# Other engines' names for the same thing. There is one integer and one floating type, both of 64 bits.
TYPE_NAMES = {
    **dict.fromkeys(("BOOLEAN", "BOOL"), BOOLEAN),
    **dict.fromkeys(("BIGINT", "LONG", "INT", "INTEGER", "SMALLINT", "TINYINT"), BIGINT),
    **dict.fromkeys(("DOUBLE", "FLOAT", "REAL"), DOUBLE),
    **dict.fromkeys(("STRING", "VARCHAR", "TEXT"), STRING),
    "TIMESTAMP": TIMESTAMP,
    **dict.fromkeys(("ADDRESS", "INET"), ADDRESS),
    "BINARY": BINARY,
}


def decimal(precision: int, scale: int) -> DataType:
    if not 1 <= precision <= MAX_DECIMAL_DIGITS or not 0 <= scale <= precision:
        raise ValueError(f"DECIMAL({precision}, {scale}) needs 1 to 38 digits, and no more after the point than in all")
    return DataType("DECIMAL", precision, scale)


def array(item: DataType) -> DataType:
    return DataType("ARRAY", fields=(("item", item),))


def struct(**fields: DataType) -> DataType:
    return DataType("STRUCT", fields=tuple(fields.items()))


def as_decimal(data_type: DataType) -> DataType:
    """Return the DECIMAL that holds every value of a BIGINT or DECIMAL."""
    return decimal(19, 0) if data_type == BIGINT else data_type


def common_type(left: DataType, right: DataType) -> DataType | None:
    """Return the type that both sides have in a comparison or a CASE, or None if they don't mix."""
    if not (left.is_comparable and right.is_comparable):
        return None
    if right in (left, NULL):
        return left
    if left == NULL:
        return right
    if not (left.is_numeric and right.is_numeric):
        return None
    if DOUBLE in (left, right):
        return DOUBLE
    first, second = as_decimal(left), as_decimal(right)
    scale = max(first.scale, second.scale)
    whole_digits = max(first.precision - first.scale, second.precision - second.scale)
    return decimal(max(1, min(MAX_DECIMAL_DIGITS, whole_digits + scale)), scale)
