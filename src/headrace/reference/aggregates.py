"""What each aggregate gives for the values of one group: the exact answer, computed at once from all of them."""

from __future__ import annotations

import math
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from typing import Any

from headrace.model.expressions import Aggregate
from headrace.model.types import Value
from headrace.reference.functions import EXACT, fit, order_key

UNSUPPORTED = {"percentile": "the reference interpreter has no sketches"}


def lower(aggregate: Aggregate, values: list[Any]) -> Value:
    """The result over `values`, which hold no NULL. RowError if it does not fit its type: checked here, once."""
    if aggregate.distinct:
        values = list({order_key(value): value for value in values}.values())
    return fit(LOWER[aggregate.function](values), aggregate.type)


def total(values: list[Any]) -> Any:
    if not values:
        return None
    if isinstance(values[0], float):
        return float_total(values)
    if isinstance(values[0], Decimal):
        result = Decimal(0)
        for value in values:
            result = EXACT.add(result, value)
        return result
    return sum(values)


def float_total(values: list[float]) -> float:
    """The exact sum, rounded once."""
    special = [value for value in values if not math.isfinite(value)]
    if special:
        return sum(special)
    try:
        return math.fsum(values)
    except OverflowError:  # on the way, and perhaps not at the end
        return rounded(sum(map(Fraction, values), start=Fraction(0)))


def rounded(exact: Fraction) -> float:
    try:
        return float(exact)
    except OverflowError:
        return math.inf if exact > 0 else -math.inf


def mean(values: list[Any]) -> float | None:
    if not values:
        return None
    sum_of_values = total(values)
    if isinstance(sum_of_values, float):
        return sum_of_values / len(values)
    return rounded(Fraction(sum_of_values) / len(values))


def variance(values: list[Any], *, sample: bool) -> float | None:
    """Of the values as DOUBLEs; in between nothing is rounded, so a far-off mean does no harm."""
    if len(values) < (2 if sample else 1):
        return None
    reals = [float(value) for value in values]
    if not all(map(math.isfinite, reals)):
        return math.nan
    exact = [Fraction(value) for value in reals]
    center = sum(exact, start=Fraction(0)) / len(exact)
    squares = sum(((value - center) ** 2 for value in exact), start=Fraction(0))
    return rounded(squares / (len(exact) - sample))


def deviation(values: list[Any], *, sample: bool) -> float | None:
    result = variance(values, sample=sample)
    return None if result is None else math.sqrt(result)


def extreme(choose: Callable[..., Any]) -> Callable[[list[Any]], Any]:
    def compute(values: list[Any]) -> Any:
        chosen = choose(values, key=order_key) if values else None
        return chosen + 0.0 if isinstance(chosen, float) else chosen  # -0.0 equals 0.0, so always show the latter

    return compute


LOWER: dict[str, Callable[[list[Any]], Any]] = {
    "count": len,
    "sum": total,
    "min": extreme(min),
    "max": extreme(max),
    "avg": mean,
    "var_pop": lambda values: variance(values, sample=False),
    "var_samp": lambda values: variance(values, sample=True),
    "stddev_pop": lambda values: deviation(values, sample=False),
    "stddev_samp": lambda values: deviation(values, sample=True),
}
