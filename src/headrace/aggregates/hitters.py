"""The items that come most often, or that weigh most, by a summary of counters."""

from __future__ import annotations

from headrace.aggregates.arguments import Parameter, check_constant, comparable_type, with_parameters
from headrace.aggregates.specification import FoldChoice, FoldCost, ItemTraits, PartialKind, Specification
from headrace.expressions.functions import Arguments, check_count
from headrace.model.types import BIGINT, NULL, DataType, array, struct

COUNTERS = PartialKind(
    "counters",
    fold=FoldChoice(buffer=FoldCost(repeated=8, new=33), compress=FoldCost(repeated=2, new=38)),
    combine=400,
    state_bytes=24,
    equality="bounded",
    error=0.004,
    items=ItemTraits(are_distinct=True, max_count=256, combine=80, size=20),
    default_size=256,
)
MEETING_PLACES = 1 << 16
"""The places of the table in which equal rows meet, if there are as many rows."""
MAX_ITEMS = 1_000
MIN_PHI = 1 / MAX_ITEMS


def items_type(arguments: Arguments) -> DataType:
    """Take the item, and return a list of items with bounds of their counts."""
    check_count(arguments, 1, 1)
    return array(struct(item=comparable_type(arguments[0]), lower=BIGINT, upper=BIGINT))


def heavy_hitters_type(arguments: Arguments) -> DataType:
    """Take the item, an optional weight, and the share."""
    check_count(arguments, 2, 3)
    check_constant(arguments[-1], "the share", MIN_PHI, 1)
    if len(arguments) == 3 and arguments[1].type not in (BIGINT, NULL):
        raise ValueError(f"takes a BIGINT as weight, not {arguments[1].type}")
    return items_type(arguments[:1])


AGGREGATES = (
    Specification(
        "heavy_hitters",
        heavy_hitters_type,
        (COUNTERS,),
        first_parameter=-1,
        takes_distinct=False,
        wanted_size=lambda phi: 2 / phi,
    ),
    Specification(
        "top_k",
        with_parameters(items_type, Parameter("number of items", 1, MAX_ITEMS, whole=True)),
        (COUNTERS,),
        first_parameter=1,
        takes_distinct=False,
        wanted_size=lambda k: 8 * k,
    ),
)
