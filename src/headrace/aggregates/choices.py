"""The x of the row with the least or greatest y, and whether all or any conditions are true."""

from __future__ import annotations

from headrace.aggregates.arguments import comparable_type
from headrace.aggregates.specification import PartialKind, Specification
from headrace.expressions.functions import Arguments, check_count
from headrace.model.types import BOOLEAN, NULL, DataType

LEAST_BY = PartialKind("least_by", fold=20, combine=20, state_bytes=17)
GREATEST_BY = PartialKind("greatest_by", fold=20, combine=20, state_bytes=17)
ALL = PartialKind("all", fold=1, combine=1, state_bytes=1)
ANY = PartialKind("any", fold=1, combine=1, state_bytes=1)


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
    Specification("min_by", choice_type, (LEAST_BY,), takes_distinct=False),
    Specification("max_by", choice_type, (GREATEST_BY,), takes_distinct=False),
    Specification("bool_and", condition_type, (ALL,), synonyms=("every",)),
    Specification("bool_or", condition_type, (ANY,)),
)
