"""Rows to try the laws with: drawn ones, simple ones, and cases of them in three parts."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from random import Random
from typing import Any

from headrace.aggregates.user import DeclaredAggregate, UserAggregate
from headrace.model.address import MAPPED
from headrace.model.types import DataType

NEW_YEAR_US = 1_767_225_600_000_000
Row = tuple[Any, ...]
Rows = tuple[Row, ...]


@dataclass(frozen=True, slots=True)
class Case:
    """Rows in three parts, each of which may be empty."""

    parts: tuple[Rows, Rows, Rows]

    @property
    def whole(self) -> Rows:
        return self.parts[0] + self.parts[1] + self.parts[2]

    def __str__(self) -> str:
        return " | ".join(", ".join(map(format_row, part)) or "none" for part in self.parts)


def format_row(row: Row) -> str:
    return repr(row[0] if len(row) == 1 else row)


# Random rows


def draw_row(aggregate: DeclaredAggregate, random: Random) -> Row:
    return tuple(
        draw_value(aggregate.first_level.implementation, data_type, random) for data_type in aggregate.arguments
    )


def draw_value(implementation: UserAggregate, data_type: DataType, random: Random) -> Any:
    if implementation.takes_null and random.random() < 0.1:
        return None
    if implementation.takes_nan and data_type.name == "DOUBLE" and random.random() < 0.1:
        return math.nan
    return DRAW[data_type.name](random, data_type)


def draw_double(random: Random, _type: DataType) -> float:
    """Draw a quarter, a price, or a number that sums must round."""
    candidates = (
        random.randint(-8, 40) / 4,
        round(random.uniform(0, 100), random.randint(1, 4)),
        random.uniform(-9, 99),
    )
    return random.choice(candidates)


def draw_decimal(random: Random, data_type: DataType) -> Decimal:
    largest = 10 ** min(data_type.precision, 6) - 1
    return Decimal(random.randint(-largest, largest)).scaleb(-data_type.scale)


DRAW: Mapping[str, Callable[[Random, DataType], Any]] = {
    "BOOLEAN": lambda random, _type: random.random() < 0.5,
    "BIGINT": lambda random, _type: random.choice((random.randint(-4, 12), random.randint(-9, 9_999))),
    "DOUBLE": draw_double,
    "DECIMAL": draw_decimal,
    "STRING": lambda random, _type: "".join(random.choices("abAB \u00e9", k=random.randint(0, 4))),
    "BINARY": lambda random, _type: random.randbytes(random.randint(0, 4)),
    "TIMESTAMP": lambda random, _type: NEW_YEAR_US + random.randrange(86_400_000_000),
    "ADDRESS": lambda random, _type: MAPPED | (10 << 24) + random.randrange(1_024),
}
SIMPLE: Mapping[str, Sequence[Any]] = {
    "BOOLEAN": (False, True),
    "BIGINT": (0, 2, 1),
    "DOUBLE": (0.0, 1.0, 2.0, 0.5),
    "DECIMAL": (Decimal(0), Decimal(1)),
    "STRING": ("", "a"),
    "BINARY": (b"", b"a"),
    "TIMESTAMP": (NEW_YEAR_US,),
    "ADDRESS": (MAPPED | (10 << 24),),
}
"""Values that replace those of a counter-example. Extractors are called with the last one."""
