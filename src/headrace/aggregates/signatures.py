"""The aggregate functions that queries may name, with their typing rules (as in expressions.functions)."""

from __future__ import annotations

from collections.abc import Mapping

from headrace.expressions.functions import Arguments, Rule, check_count, numeric
from headrace.model.expressions import Literal
from headrace.model.types import BIGINT, DOUBLE, MAX_DECIMAL_DIGITS, NULL, DataType, decimal


def count(arguments: Arguments) -> DataType:
    check_count(arguments, 0, 1)
    return BIGINT


def total(arguments: Arguments) -> DataType:
    kind = numeric(arguments)[0]
    return decimal(MAX_DECIMAL_DIGITS, kind.scale) if kind.name == "DECIMAL" else kind


def extreme(arguments: Arguments) -> DataType:
    check_count(arguments, 1, 1)
    if arguments[0].type == NULL:
        raise ValueError("takes a value, not a bare NULL")
    return arguments[0].type


def statistic(arguments: Arguments) -> DataType:
    numeric(arguments)
    return DOUBLE


def percentile(arguments: Arguments) -> DataType:
    check_count(arguments, 2, 2)
    numeric(arguments[:1])
    fraction = arguments[1].value if isinstance(arguments[1], Literal) else None
    if not isinstance(fraction, int | float) or isinstance(fraction, bool) or not 0 <= fraction <= 1:
        raise ValueError("needs the fraction as a constant from 0 to 1")
    return DOUBLE


AGGREGATES: Mapping[str, Rule] = {
    "count": count,
    "sum": total,
    "min": extreme,
    "max": extreme,
    "avg": statistic,
    "var_pop": statistic,
    "var_samp": statistic,
    "stddev_pop": statistic,
    "stddev_samp": statistic,
    "percentile": percentile,
}
AGGREGATE_SYNONYMS = {"mean": "avg", "variance": "var_samp", "stddev": "stddev_samp", "std": "stddev_samp"}
