"""The aggregate functions that queries may name, with their typing rules (as in expressions.functions)."""

from __future__ import annotations

from collections.abc import Mapping

from headrace.expressions.functions import Arguments, Rule, check_count, numeric
from headrace.model.expressions import Aggregate, Expression, Literal
from headrace.model.types import (
    BIGINT,
    BINARY,
    BOOLEAN,
    DOUBLE,
    MAX_DECIMAL_DIGITS,
    NULL,
    DataType,
    array,
    decimal,
    struct,
)

MOST_QUANTILES = 1_000
MOST_ITEMS = 1_000
LEAST_PHI = 1 / MOST_ITEMS
MAX_ACCURACY = 10_000
"""Spark's default. A KLL sketch has at most 65,535 items in a level, and a state of this accuracy 1.2 MB."""
MIN_DEVIATION, MAX_DEVIATION = 0.001, 0.39
"""What an HLL sketch of 2 MB can do, and the most that Spark takes."""


def count(arguments: Arguments) -> DataType:
    check_count(arguments, 0, 1)
    return BIGINT


def total(arguments: Arguments) -> DataType:
    kind = numeric(arguments)[0]
    return decimal(MAX_DECIMAL_DIGITS, kind.scale) if kind.name == "DECIMAL" else kind


def extreme(arguments: Arguments) -> DataType:
    check_count(arguments, 1, 1)
    return comparable(arguments[0])


def comparable(argument: Expression) -> DataType:
    if argument.type == NULL:
        raise ValueError("takes a value, not a bare NULL")
    if not argument.type.is_comparable:
        raise ValueError(f"takes values that can be compared, not {argument.type}")
    return argument.type


def statistic(arguments: Arguments) -> DataType:
    numeric(arguments)
    return DOUBLE


def chosen(arguments: Arguments) -> DataType:
    """The first argument, where the second is least or greatest."""
    check_count(arguments, 2, 2)
    comparable(arguments[1])
    return comparable(arguments[0])


def condition(arguments: Arguments) -> DataType:
    check_count(arguments, 1, 1)
    if arguments[0].type not in (BOOLEAN, NULL):
        raise ValueError(f"takes conditions, not {arguments[0].type}")
    return BOOLEAN


# Constants behind the arguments


def constant(argument: Expression, what: str, least: float, most: float, *, whole: bool = False) -> None:
    value = argument.value if isinstance(argument, Literal) else None
    is_number = isinstance(value, int if whole else int | float) and not isinstance(value, bool)
    if not is_number or not least <= float(str(value)) <= most:
        raise ValueError(f"needs {what} as a {'whole number' if whole else 'constant'} from {least:g} to {most:g}")


# Sketches; each takes values, or stored sketches of its own kind, which are combined


def sketched(arguments: Arguments) -> DataType:
    """Numbers, or sketches of numbers."""
    check_count(arguments, 1, 1)
    return DOUBLE if arguments[0].type == BINARY else statistic(arguments)


def percentile(arguments: Arguments) -> DataType:
    """Exact over numbers; over stored sketches it reads them, as `percentile_approx` does."""
    check_count(arguments, 2, 2)
    constant(arguments[1], "the fraction", 0, 1)
    return sketched(arguments[:1])


def percentile_approx(arguments: Arguments) -> DataType:
    """The optional accuracy says that the error of the rank is at most 1 / accuracy."""
    check_count(arguments, 2, 3)
    check_not_stored(arguments[:1], arguments[2:], "accuracy")
    for accuracy in arguments[2:]:
        constant(accuracy, "the accuracy", 1, MAX_ACCURACY, whole=True)
    return percentile(arguments[:2])


def check_not_stored(arguments: Arguments, precision: Arguments, what: str) -> None:
    if precision and arguments[0].type == BINARY:
        raise ValueError(f"takes no {what} here: stored sketches have one already")


def quantiles(arguments: Arguments) -> DataType:
    check_count(arguments, 2, 2)
    constant(arguments[1], "the number of parts", 2, MOST_QUANTILES, whole=True)
    return array(sketched(arguments[:1]))


def distinct(arguments: Arguments) -> DataType:
    check_count(arguments, 1, 1)
    if arguments[0].type != BINARY:
        comparable(arguments[0])
    return BIGINT


def approx_count_distinct(arguments: Arguments) -> DataType:
    check_count(arguments, 1, 2)
    check_not_stored(arguments[:1], arguments[1:], "relative standard deviation")
    for deviation in arguments[1:]:
        constant(deviation, "the relative standard deviation", MIN_DEVIATION, MAX_DEVIATION)
    return distinct(arguments[:1])


def items(argument: Expression) -> DataType:
    return array(struct(item=comparable(argument), lower=BIGINT, upper=BIGINT))


def heavy_hitters(arguments: Arguments) -> DataType:
    check_count(arguments, 2, 3)
    constant(arguments[-1], "the share", LEAST_PHI, 1)
    if len(arguments) == 3 and arguments[1].type not in (BIGINT, NULL):
        raise ValueError(f"takes a BIGINT as weight, not {arguments[1].type}")
    return items(arguments[0])


def top_k(arguments: Arguments) -> DataType:
    check_count(arguments, 2, 2)
    constant(arguments[1], "the number of items", 1, MOST_ITEMS, whole=True)
    return items(arguments[0])


def bytes_of(rule: Rule) -> Rule:
    """The partial itself."""

    def typed(arguments: Arguments) -> DataType:
        rule(arguments)
        return BINARY

    return typed


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
    "min_by": chosen,
    "max_by": chosen,
    "bool_and": condition,
    "bool_or": condition,
    "median": statistic,
    "percentile": percentile,
    "approx_median": sketched,
    "percentile_approx": percentile_approx,
    "quantiles": quantiles,
    "quantile_sketch": bytes_of(sketched),
    "percentile_relative": percentile,
    "relative_sketch": bytes_of(sketched),
    "approx_count_distinct": approx_count_distinct,
    "distinct_sketch": bytes_of(distinct),
    "heavy_hitters": heavy_hitters,
    "top_k": top_k,
}
AGGREGATE_SYNONYMS = {
    "mean": "avg",
    "variance": "var_samp",
    "stddev": "stddev_samp",
    "std": "stddev_samp",
    "every": "bool_and",
    "approx_distinct": "approx_count_distinct",
    "approx_percentile": "percentile_approx",
    "percentile_exact": "percentile",
}
PARAMETERS = {
    "percentile": 1,
    "percentile_approx": 1,
    "percentile_relative": 1,
    "quantiles": 1,
    "approx_count_distinct": 1,
    "heavy_hitters": -1,
    "top_k": 1,
}
"""Where the constants begin that stand behind the arguments that each row gives."""
TAKE_DISTINCT = AGGREGATES.keys() - {"min_by", "max_by", "heavy_hitters", "top_k"}


def make_aggregate(function: str, given: Arguments, is_distinct: bool = False) -> Aggregate:
    """The aggregate as it is written, with its type; ValueError if the arguments do not fit."""
    result = AGGREGATES[function](given)
    behind = PARAMETERS.get(function, len(given))
    parameters = tuple(each for each in given[behind:] if isinstance(each, Literal))
    if is_distinct and not given[0].type.is_comparable:
        raise ValueError(f"takes no DISTINCT over {given[0].type}")
    if function == "percentile" and given[0].type == BINARY:
        function = "percentile_approx"
    return Aggregate(function, given[:behind], result, is_distinct, parameters=parameters)
