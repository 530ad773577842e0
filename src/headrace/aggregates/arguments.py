"""Typing rules that several families of aggregates share; each raises ValueError with the reason in plain words."""

from __future__ import annotations

from typing import NamedTuple

from headrace.expressions.functions import Arguments, Rule, check_count, numeric
from headrace.model.expressions import Expression, Literal
from headrace.model.types import BINARY, DOUBLE, NULL, DataType


def double_of_number(arguments: Arguments) -> DataType:
    """Take one number and return DOUBLE."""
    numeric(arguments)
    return DOUBLE


def comparable_type(argument: Expression) -> DataType:
    """Return the argument's type, which must be one whose values can be compared."""
    if argument.type == NULL:
        raise ValueError("takes a value, not a bare NULL")
    if not argument.type.is_comparable:
        raise ValueError(f"takes values that can be compared, not {argument.type}")
    return argument.type


def check_constant(argument: Expression, what: str, low: float, high: float, *, whole: bool = False) -> None:
    """Require a constant number from `low` to `high`."""
    value = argument.value if isinstance(argument, Literal) else None
    is_number = isinstance(value, int if whole else int | float) and not isinstance(value, bool)
    if not is_number or not low <= float(str(value)) <= high:
        raise ValueError(f"needs {what} as a {'whole number' if whole else 'constant'} from {low:g} to {high:g}")


class Parameter(NamedTuple):
    """A constant behind the argument: what it is, and its bounds. One that may be left out is a precision, which
    stored sketches have already.
    """

    what: str
    low: float
    high: float
    whole: bool = False
    is_precision: bool = False


def with_parameters(rule: Rule, *parameters: Parameter) -> Rule:
    """Return a rule that checks one argument as `rule` does, and the parameters behind it."""
    least = 1 + sum(not parameter.is_precision for parameter in parameters)

    def check(arguments: Arguments) -> DataType:
        check_count(arguments, least, 1 + len(parameters))
        for argument, parameter in zip(arguments[1:], parameters, strict=False):
            if parameter.is_precision and arguments[0].type == BINARY:
                raise ValueError(f"takes no {parameter.what} here: stored sketches have one already")
            check_constant(argument, f"the {parameter.what}", parameter.low, parameter.high, whole=parameter.whole)
        return rule(arguments[:1])

    return check


def binary_result(rule: Rule) -> Rule:
    """Return a rule that checks as `rule` does and gives BINARY: the state itself is the result."""

    def check(arguments: Arguments) -> DataType:
        rule(arguments)
        return BINARY

    return check
