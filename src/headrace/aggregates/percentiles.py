"""Medians and percentiles: exact, by a KLL sketch (within a rank), and by a bucket sketch (within a value).

Sketches take numbers, or stored sketches of their own kind, which are combined.
"""

from __future__ import annotations

from headrace.aggregates.arguments import binary_result, check_constant, check_not_stored, double_of_number
from headrace.aggregates.specification import ItemTraits, PartialKind, Specification
from headrace.expressions.functions import Arguments, check_count
from headrace.model.types import BINARY, DOUBLE, DataType, array

MULTISET = PartialKind(
    "multiset",
    fold=20,
    combine=50,
    state_bytes=16,
    equality="close",
    items=ItemTraits(are_distinct=True, max_count=1e9, combine=30, size=20),
)
QUANTILES = PartialKind(
    "quantiles",
    fold=15,
    combine=600,
    state_bytes=40,
    equality="bounded",
    error=0.01,
    items=ItemTraits(are_distinct=False, max_count=1_200, combine=16, size=8),
    default_size=400,
)
"""The size is the sketch's k."""
BUCKETS = PartialKind(
    "buckets",
    fold=12,
    combine=400,
    state_bytes=50,
    equality="bounded",
    error=0.01,
    items=ItemTraits(are_distinct=True, max_count=300, combine=8, size=3),
)
DEFAULT_ACCURACY, ACCURACY_POWER = 100, 0.9723
"""A KLL sketch of the default size errs by at most 1 / accuracy of the rank; the error falls with this power of k."""
MAX_ACCURACY = 10_000
"""Spark's default. A KLL sketch has at most 65,535 items in a level, and a state of this accuracy 1.2 MB."""
MAX_QUANTILES = 1_000


def sketch_type(arguments: Arguments) -> DataType:
    """Take numbers, or sketches of numbers, and return DOUBLE."""
    check_count(arguments, 1, 1)
    return DOUBLE if arguments[0].type == BINARY else double_of_number(arguments)


def percentile_type(arguments: Arguments) -> DataType:
    check_count(arguments, 2, 2)
    check_constant(arguments[1], "the fraction", 0, 1)
    return sketch_type(arguments[:1])


def percentile_approx_type(arguments: Arguments) -> DataType:
    """Take an optional accuracy too: the error of the rank is at most 1 / accuracy."""
    check_count(arguments, 2, 3)
    check_not_stored(arguments[0], arguments[2:], "accuracy")
    for accuracy in arguments[2:]:
        check_constant(accuracy, "the accuracy", 1, MAX_ACCURACY, whole=True)
    return percentile_type(arguments[:2])


def quantiles_type(arguments: Arguments) -> DataType:
    check_count(arguments, 2, 2)
    check_constant(arguments[1], "the number of parts", 2, MAX_QUANTILES, whole=True)
    return array(sketch_type(arguments[:1]))


def size_for_accuracy(_fraction: float, accuracy: float = 1.0) -> float:
    return float(QUANTILES.default_size * (accuracy / DEFAULT_ACCURACY) ** (1 / ACCURACY_POWER))


AGGREGATES = (
    Specification("median", double_of_number, (MULTISET,)),
    Specification(
        "percentile",
        percentile_type,
        (MULTISET,),
        synonyms=("percentile_exact",),
        first_parameter=1,
        over_states="percentile_approx",
    ),
    Specification("approx_median", sketch_type, (QUANTILES,)),
    Specification(
        "percentile_approx",
        percentile_approx_type,
        (QUANTILES,),
        synonyms=("approx_percentile",),
        first_parameter=1,
        wanted_size=size_for_accuracy,
    ),
    Specification("quantiles", quantiles_type, (QUANTILES,), first_parameter=1),
    Specification("quantile_sketch", binary_result(sketch_type), (QUANTILES,)),
    Specification("percentile_relative", percentile_type, (BUCKETS,), first_parameter=1),
    Specification("relative_sketch", binary_result(sketch_type), (BUCKETS,)),
)
