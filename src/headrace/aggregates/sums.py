"""Counts and sums, the averages lowered from both, and variances and standard deviations."""

from __future__ import annotations

from headrace.aggregates.arguments import double_of_number
from headrace.aggregates.specification import PartialKind, Specification
from headrace.expressions.functions import Arguments, check_count, numeric
from headrace.model.types import BIGINT, MAX_DECIMAL_DIGITS, DataType, decimal

COUNT = PartialKind("count", fold=1, combine=1, state_bytes=8)
SUM = PartialKind("sum", fold=1, combine=3, state_bytes=16, equality="close")
MOMENTS = PartialKind("moments", fold=4, combine=6, state_bytes=24, equality="close")


def count_type(arguments: Arguments) -> DataType:
    check_count(arguments, 0, 1)
    return BIGINT


def sum_type(arguments: Arguments) -> DataType:
    (argument,) = numeric(arguments)
    return decimal(MAX_DECIMAL_DIGITS, argument.scale) if argument.name == "DECIMAL" else argument


AGGREGATES = (
    Specification("count", count_type, (COUNT,)),
    Specification("sum", sum_type, (SUM,)),
    Specification("avg", double_of_number, (SUM, COUNT), synonyms=("mean",)),
    Specification("var_pop", double_of_number, (MOMENTS,)),
    Specification("var_samp", double_of_number, (MOMENTS,), synonyms=("variance",)),
    Specification("stddev_pop", double_of_number, (MOMENTS,)),
    Specification("stddev_samp", double_of_number, (MOMENTS,), synonyms=("stddev", "std")),
)
