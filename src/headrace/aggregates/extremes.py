"""The least and the greatest value."""

from __future__ import annotations

from headrace.aggregates.arguments import comparable_type
from headrace.aggregates.specification import PartialKind, Specification
from headrace.expressions.functions import Arguments, check_count
from headrace.model.types import DataType

MIN = PartialKind("min", fold=1, combine=1, state_bytes=8)
MAX = PartialKind("max", fold=1, combine=1, state_bytes=8)


def extreme_type(arguments: Arguments) -> DataType:
    check_count(arguments, 1, 1)
    return comparable_type(arguments[0])


AGGREGATES = (
    Specification("min", extreme_type, (MIN,)),
    Specification("max", extreme_type, (MAX,)),
)
