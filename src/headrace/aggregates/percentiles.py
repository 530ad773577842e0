"""Medians and percentiles: exact, by a KLL sketch (within a rank), and by a bucket sketch (within a value).

Sketches take numbers, or stored sketches of their own kind, which are combined.
"""

from __future__ import annotations

from headrace.aggregates.arguments import Parameter, binary_result, double_of_number, with_parameters
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
FRACTION = Parameter("fraction", 0, 1)
PARTS = Parameter("number of parts", 2, 1_000, whole=True)
ACCURACY = Parameter("accuracy", 1, 10_000, whole=True, is_precision=True)
"""The error of the rank is at most 1 / accuracy. The most is Spark's default: a KLL sketch has at most 65,535 items in
a level, and a state of this accuracy 1.2 MB.
"""


def sketch_type(arguments: Arguments) -> DataType:
    """Take numbers, or sketches of numbers, and return DOUBLE."""
    check_count(arguments, 1, 1)
    return DOUBLE if arguments[0].type == BINARY else double_of_number(arguments)


def list_type(arguments: Arguments) -> DataType:
    return array(sketch_type(arguments))


def size_for_accuracy(_fraction: float, accuracy: float = 1.0) -> float:
    return float(QUANTILES.default_size * (accuracy / DEFAULT_ACCURACY) ** (1 / ACCURACY_POWER))


AGGREGATES = (
    Specification("median", double_of_number, (MULTISET,)),
    Specification(
        "percentile",
        with_parameters(sketch_type, FRACTION),
        (MULTISET,),
        synonyms=("percentile_exact",),
        first_parameter=1,
        over_states="percentile_approx",
    ),
    Specification("approx_median", sketch_type, (QUANTILES,)),
    Specification(
        "percentile_approx",
        with_parameters(sketch_type, FRACTION, ACCURACY),
        (QUANTILES,),
        synonyms=("approx_percentile",),
        first_parameter=1,
        wanted_size=size_for_accuracy,
    ),
    Specification("quantiles", with_parameters(list_type, PARTS), (QUANTILES,), first_parameter=1),
    Specification("quantile_sketch", binary_result(sketch_type), (QUANTILES,)),
    Specification("percentile_relative", with_parameters(sketch_type, FRACTION), (BUCKETS,), first_parameter=1),
    Specification("relative_sketch", binary_result(sketch_type), (BUCKETS,)),
)
