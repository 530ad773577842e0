"""Comparisons and what rests on them: IN, NULLIF, GREATEST, LEAST. NaN equals NaN and is greater than every number."""

from __future__ import annotations

import math
from collections.abc import Sequence
from decimal import Decimal
from functools import reduce
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headrace.expressions.columns import Evaluated, RowError, Values, from_plain, is_null, null, one_row, raw
from headrace.expressions.decimals import align_decimals, as_double, fit_decimal, fit_decimal_value, fit_type
from headrace.expressions.normal import MIRRORED
from headrace.model.expressions import Call, Literal
from headrace.model.types import BIGINT, BOOLEAN, DOUBLE, MAX_BIGINT, MIN_BIGINT, DataType, Value

OPERATIONS = {
    "=": pc.equal,
    "<>": pc.not_equal,
    "<": pc.less,
    "<=": pc.less_equal,
    ">": pc.greater,
    ">=": pc.greater_equal,
}
FEW_TEXTS, FEW_NUMBERS = 3, 8
"""Up to this many constants, comparing with each is faster than looking each row up in a hash table."""


def comparison(call: Call, values: list[Values]) -> Evaluated:
    return Evaluated(compare(call.function, values, [argument.type for argument in call.arguments]))


def compare(operator: str, values: Sequence[Values], types: Sequence[DataType]) -> Values:
    return compare_alike(operator, *alike(values, types))


def compare_alike(operator: str, left: Values, right: Values) -> Values:
    if pa.types.is_floating(left.type):
        return compare_doubles(operator, left, right)
    return OPERATIONS[operator](left, right)


def alike(values: Sequence[Values], types: Sequence[DataType]) -> Sequence[Values]:
    """The operands in one Arrow type in which they compare as they should: as DOUBLE if one is, else exactly."""
    if all(kind == types[0] for kind in types):
        return values
    if DOUBLE in types:
        return [as_double(one, kind) for one, kind in zip(values, types, strict=True)]
    return align_decimals(values, types)


def compare_doubles(operator: str, left: Values, right: Values) -> Values:
    if not may_hold_nan(right):
        return compare_with_numbers(operator, left, right)
    if not may_hold_nan(left):
        return compare_with_numbers(MIRRORED[operator], right, left)
    left_nan, right_nan = pc.is_nan(left), pc.is_nan(right)
    if operator in ("=", "<>"):
        equal = pc.or_(pc.equal(left, right), pc.and_(left_nan, right_nan))
        return equal if operator == "=" else pc.invert(equal)
    if operator in (">", "<="):
        left, right, left_nan, right_nan = right, left, right_nan, left_nan
    less = pc.or_(pc.less(left, right), pc.and_(right_nan, pc.invert(left_nan)))
    return less if operator in ("<", ">") else pc.invert(less)


def compare_with_numbers(operator: str, left: Values, right: Values) -> Values:
    """With nothing but numbers on the right: a NaN on the left, of which Arrow says it is not less, is greater."""
    if operator == ">":
        return pc.invert(pc.less_equal(left, right))
    if operator == ">=":
        return pc.invert(pc.less(left, right))
    return OPERATIONS[operator](left, right)


def may_hold_nan(values: Values) -> bool:
    numbers = raw(values, np.float64)
    return len(numbers) > 0 and math.isnan(numbers.max())


# IN


def membership(call: Call, values: list[Values]) -> Evaluated:
    """TRUE if one candidate equals the subject; else NULL if one is NULL. Constants are not among the `values`."""
    subject, kind = values[0], call.arguments[0].type
    if is_null(subject):
        return Evaluated(null(BOOLEAN))
    computed = [argument.type for argument in call.arguments[1:] if not isinstance(argument, Literal)]
    constants = [(argument.value, argument.type) for argument in call.arguments[1:] if isinstance(argument, Literal)]
    numbers = [float(value) for value, other in constants if DOUBLE in (kind, other) and value is not None]
    others = [as_member(value, kind) for value, other in constants if DOUBLE not in (kind, other) and value is not None]
    members = [member for member in others if member is not None]
    answers = [
        null(BOOLEAN) if is_null(one) else compare("=", (subject, one), (kind, other))
        for one, other in zip(values[1:], computed, strict=True)
    ]
    if numbers:
        answers.append(one_of_doubles(as_double(subject, kind), numbers))
    if members or not answers:
        answers.append(one_of(subject, from_plain(members, kind)))
    if any(value is None for value, _ in constants):
        answers.append(null(BOOLEAN))
    return Evaluated(reduce(pc.or_kleene, answers))


def as_member(value: Any, kind: DataType) -> Value:
    """The value of type `kind` that equals a constant; None if there is none."""
    if kind == BIGINT:
        return int(value) if value == int(value) and MIN_BIGINT <= value <= MAX_BIGINT else None
    if kind.name != "DECIMAL":
        return value  # type: ignore[no-any-return]
    try:
        fitting = fit_decimal_value(Decimal(value), kind)
    except RowError:
        return None
    return fitting if fitting == value else None


def one_of(subject: Values, members: pa.Array) -> Values:
    few = FEW_TEXTS if pa.types.is_string(subject.type) else FEW_NUMBERS
    if 0 < len(members) <= few:
        return reduce(pc.or_, [pc.equal(subject, member) for member in members])
    answer = pc.is_in(subject, value_set=members)
    return pc.if_else(pc.is_valid(subject), answer, null(BOOLEAN)) if one_row(subject).null_count else answer


def one_of_doubles(subject: Values, numbers: list[float]) -> Values:
    members = list(dict.fromkeys(number for number in numbers if not math.isnan(number)))
    if 0.0 in members and len(members) > FEW_NUMBERS:
        members += [0.0, -0.0]  # Arrow's hash table distinguishes them
    answer = one_of(subject, pa.array(members, pa.float64()))
    return pc.or_(answer, pc.is_nan(subject)) if any(map(math.isnan, numbers)) else answer


# NULLIF, GREATEST, LEAST


def null_if(call: Call, values: list[Values]) -> Evaluated:
    if any(is_null(one) for one in values):
        return Evaluated(fit_type(values[0], call.arguments[0].type, call.type).values)
    equal = compare("=", values, [argument.type for argument in call.arguments])
    return Evaluated(pc.if_else(pc.fill_null(equal, False), null(call.type), values[0]))


def extreme(call: Call, values: list[Values]) -> Evaluated:
    """NULLs do not take part. Only the number that is chosen must fit the type of the result."""
    taking_part = [
        (one, argument.type) for one, argument in zip(values, call.arguments, strict=True) if not is_null(one)
    ]
    if not taking_part:
        return Evaluated(null(call.type))
    operator = ">" if call.function == "greatest" else "<"
    if call.type == DOUBLE:
        taking_part = [(as_double(one, kind), DOUBLE) for one, kind in taking_part]
    chosen, *others = alike([one for one, _ in taking_part], [kind for _, kind in taking_part])
    for other in others:
        better = compare_alike(operator, other, chosen)
        chosen = pc.if_else(pc.coalesce(better, pc.is_valid(other)), other, chosen)
    if pa.types.is_decimal(chosen.type):
        return fit_decimal(chosen, call.type)
    return fit_type(chosen, taking_part[0][1], call.type)


STRICT = dict.fromkeys(OPERATIONS, comparison)
LENIENT = {"in": membership, "nullif": null_if, "greatest": extreme, "least": extreme}
