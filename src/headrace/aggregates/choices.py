"""The least and the greatest value, the x of the row with the least or greatest y, whether all or any rows are true."""

from __future__ import annotations

from headrace.aggregates.arguments import comparable_type
from headrace.aggregates.specification import PartialKind, Specification
from headrace.expressions.functions import Arguments, check_count
from headrace.model.types import BOOLEAN, NULL, DataType

MIN = PartialKind("min", fold=1, combine=1, state_bytes=8)
MAX = PartialKind("max", fold=1, combine=1, state_bytes=8)
MIN_BY = PartialKind("least_by", fold=20, combine=20, state_bytes=17)
MAX_BY = PartialKind("greatest_by", fold=20, combine=20, state_bytes=17)
ALL = PartialKind("all", fold=1, combine=1, state_bytes=1)
ANY = PartialKind("any", fold=1, combine=1, state_bytes=1)


def extreme_type(arguments: Arguments) -> DataType:
    check_count(arguments, 1, 1)
    return comparable_type(arguments[0])


def choice_type(arguments: Arguments) -> DataType:
    """Take x and y, and return the type of x."""
    check_count(arguments, 2, 2)
    comparable_type(arguments[1])
    return comparable_type(arguments[0])


def condition_type(arguments: Arguments) -> DataType:
    check_count(arguments, 1, 1)
    if arguments[0].type not in (BOOLEAN, NULL):
        raise ValueError(f"takes conditions, not {arguments[0].type}")
    return BOOLEAN


AGGREGATES = (
    Specification("min", extreme_type, (MIN,)),
    Specification("max", extreme_type, (MAX,)),
    Specification("min_by", choice_type, (MIN_BY,), takes_distinct=False),
    Specification("max_by", choice_type, (MAX_BY,), takes_distinct=False),
    Specification("bool_and", condition_type, (ALL,), synonyms=("every",)),
    Specification("bool_or", condition_type, (ANY,)),
)
