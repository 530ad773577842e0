"""What each aggregate gives for the values of one group: the exact answer, computed at once from all of them."""

from __future__ import annotations

import math
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np

from headrace.model.expressions import Aggregate
from headrace.model.types import BINARY, MAX_BIGINT, Value
from headrace.reference.functions import EXACT, ComputationError, fit, order_key

SKETCHES = {"quantile_sketch", "relative_sketch", "distinct_sketch"}


def why_unsupported(aggregate: Aggregate) -> str | None:
    """Why the aggregate can't be computed here, if it can't."""
    if aggregate.function in SKETCHES or any(argument.type == BINARY for argument in aggregate.arguments):
        return "the reference interpreter has no sketches"
    return None


def lower(aggregate: Aggregate, values: list[Any]) -> Value:
    """The result over `values`, which hold no NULL; of several arguments they are tuples, whose last one is no NULL.
    ComputationError if it does not fit its type: checked here, once.
    """
    if aggregate.distinct:
        values = list({order_key(value): value for value in values}.values())
    compute = LOWER[aggregate.function]
    return fit(compute(values, *(parameter.value for parameter in aggregate.parameters)), aggregate.type)


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
        return round_fraction(sum(map(Fraction, values), start=Fraction(0)))


def round_fraction(exact: Fraction) -> float:
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
    return round_fraction(Fraction(sum_of_values) / len(values))


def variance(values: list[Any], *, sample: bool) -> float | None:
    """Take the values as DOUBLEs; in between nothing is rounded, so a far-off mean does no harm."""
    if len(values) < (2 if sample else 1):
        return None
    reals = [float(value) for value in values]
    if not all(map(math.isfinite, reals)):
        return math.nan
    exact = [Fraction(value) for value in reals]
    center = sum(exact, start=Fraction(0)) / len(exact)
    squares = sum(((value - center) ** 2 for value in exact), start=Fraction(0))
    return round_fraction(squares / (len(exact) - sample))


def deviation(values: list[Any], *, sample: bool) -> float | None:
    result = variance(values, sample=sample)
    return None if result is None else math.sqrt(result)


def extreme(choose: Callable[..., Any]) -> Callable[[list[Any]], Any]:
    def compute(values: list[Any]) -> Any:
        chosen = choose(values, key=order_key) if values else None
        return chosen + 0.0 if isinstance(chosen, float) else chosen  # -0.0 equals 0.0, so always show the latter

    return compute


def choose_by(choose: Callable[..., Any]) -> Callable[[list[Any]], Any]:
    """The value beside the least or greatest one; of several the least, and NULL only if there is no other."""

    def compute(pairs: list[tuple[Any, Any]]) -> Any:
        if not pairs:
            return None
        best = choose((by for _, by in pairs), key=order_key)
        values = [value for value, by in pairs if order_key(by) == order_key(best) and value is not None]
        return extreme(min)(values)

    return compute


# Quantiles: the value at the nearest rank, or between the two values around a place


def nearest_rank(values: list[Any], fraction: float, _accuracy: int = 0) -> float | None:
    if not values:
        return None
    ordered = sorted(values, key=order_key)
    return float(ordered[max(math.ceil(fraction * len(ordered)), 1) - 1]) + 0.0


def parts(values: list[Any], count: int) -> tuple[float | None, ...] | None:
    return tuple(nearest_rank(values, part / count) for part in range(1, count)) if values else None


def interpolate(values: list[Any], fraction: float = 0.5) -> float | None:
    if not values:
        return None
    ordered = sorted(map(float, values), key=order_key)
    below, share = divmod(fraction * (len(ordered) - 1), 1)
    low, high = ordered[int(below)], ordered[min(int(below) + 1, len(ordered) - 1)]
    return (low if share == 0 or low == high else low * (1 - share) + high * share) + 0.0


# Items and their weights


def weigh_items(values: list[Any], is_weighted: bool) -> tuple[list[tuple[Any, int, int]], int] | None:
    """Items with their weights, the heaviest first, and the weight of all; none is beyond 64 bits."""
    pairs = values if is_weighted else [(value, 1) for value in values]
    counted = [(value, weight) for value, weight in pairs if value is not None and weight > 0]
    if not counted:
        return None
    weights: dict[Any, int] = {}
    shown = {order_key(value): value for value, _ in counted}
    for value, weight in counted:
        weights[order_key(value)] = min(weights.get(order_key(value), 0) + weight, MAX_BIGINT)
    ordered = sorted(weights, key=lambda key: (-weights[key], key))
    return [(shown[key], weights[key], weights[key]) for key in ordered], min(sum(weights.values()), MAX_BIGINT)


def heavy_hitters(values: list[Any], phi: float) -> Any:
    weighed = weigh_items(values, bool(values) and isinstance(values[0], tuple))
    return None if weighed is None else tuple(item for item in weighed[0] if item[1] >= phi * weighed[1])


def top_k(values: list[Any], k: int) -> Any:
    weighed = weigh_items(values, is_weighted=False)
    return None if weighed is None else tuple(weighed[0][:k])


LOWER: dict[str, Callable[..., Any]] = {
    "count": len,
    "sum": total,
    "min": extreme(min),
    "max": extreme(max),
    "avg": mean,
    "var_pop": lambda values: variance(values, sample=False),
    "var_samp": lambda values: variance(values, sample=True),
    "stddev_pop": lambda values: deviation(values, sample=False),
    "stddev_samp": lambda values: deviation(values, sample=True),
    "bool_and": lambda values: all(values) if values else None,
    "bool_or": lambda values: any(values) if values else None,
    "min_by": choose_by(min),
    "max_by": choose_by(max),
    "median": interpolate,
    "percentile": interpolate,
    "approx_median": lambda values: nearest_rank(values, 0.5),
    "percentile_approx": nearest_rank,
    "percentile_relative": nearest_rank,
    "quantiles": parts,
    "approx_count_distinct": lambda values, _deviation=0.0: len(set(map(order_key, values))),
    "heavy_hitters": heavy_hitters,
    "top_k": top_k,
}


# Aggregates of users, plainly: one state for each window and group, row by row, and no merge


def lower_user(declared: Any, aggregate: Aggregate, rows: list[tuple[Value, ...]]) -> Value:
    """The result over the rows that the class takes. ComputationError if its code raises."""
    made = declared.implementation
    taken = [row for row in rows if is_taken(made, row)]
    extractors = {extractor.name: extractor.method for extractor in declared.extractors}
    try:
        state = made.initialize()
        if declared.has_method("update"):
            for row in taken:
                state = made.update(state, *row)
        elif taken:
            state = made.update_batch(state, *(np.array(column) for column in zip(*taken, strict=True)))
        parameters = [parameter.value for parameter in aggregate.parameters]
        value = getattr(made, extractors.get(aggregate.function, "output"))(state, *parameters)
    except Exception as problem:  # a user's class may raise anything, and must not stop the other queries
        raise ComputationError(str(problem)) from problem
    return fit(value, aggregate.type)


def is_taken(made: Any, row: tuple[Value, ...]) -> bool:
    has_nan = any(isinstance(value, float) and math.isnan(value) for value in row)
    return (made.takes_null or None not in row) and (made.takes_nan or not has_nan)
