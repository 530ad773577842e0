"""Distinct values: all of them, for aggregates with DISTINCT, or their number by an HLL sketch."""

from __future__ import annotations

from headrace.aggregates.arguments import Parameter, binary_result, comparable_type, with_parameters
from headrace.aggregates.specification import ItemTraits, PartialKind, Specification
from headrace.expressions.functions import Arguments, check_count
from headrace.model.types import BIGINT, BINARY, DataType

VALUES = PartialKind(
    "values",
    fold=20,
    combine=50,
    state_bytes=8,
    items=ItemTraits(are_distinct=True, max_count=1e9, combine=20, size=12),
)
"""What every aggregate with DISTINCT is computed from."""
DISTINCT = PartialKind(
    "distinct",
    fold=12,
    combine=120,
    state_bytes=12,
    equality="bounded",
    error=0.05,
    items=ItemTraits(are_distinct=True, max_count=384, combine=16, size=10),
    default_size=384,
)
"""The size is the number of hashes that are kept before 2 ** 12 registers, or as many times more, take their place."""
DEFAULT_DEVIATION = 1.04 / 2**6
"""The relative standard deviation of a sketch of the default size; it falls with the square root of the size."""
DEVIATION = Parameter("relative standard deviation", 0.001, 0.39, is_precision=True)
"""What an HLL sketch of 2 MB can do, and the most that Spark takes."""


def count_type(arguments: Arguments) -> DataType:
    """Take values that can be compared, or stored sketches, and return BIGINT."""
    check_count(arguments, 1, 1)
    if arguments[0].type != BINARY:
        comparable_type(arguments[0])
    return BIGINT


def size_for_deviation(deviation: float = 1.0) -> float:
    return DISTINCT.default_size * (DEFAULT_DEVIATION / deviation) ** 2


AGGREGATES = (
    Specification(
        "approx_count_distinct",
        with_parameters(count_type, DEVIATION),
        (DISTINCT,),
        synonyms=("approx_distinct",),
        first_parameter=1,
        wanted_size=size_for_deviation,
    ),
    Specification("distinct_sketch", binary_result(count_type), (DISTINCT,)),
)
