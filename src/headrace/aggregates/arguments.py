"""Typing rules that several families of aggregates share; each raises ValueError with the reason in plain words."""

from __future__ import annotations

from headrace.expressions.functions import Arguments, Rule, numeric
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


def check_not_stored(argument: Expression, precision: Arguments, what: str) -> None:
    """Refuse a precision over stored sketches."""
    if precision and argument.type == BINARY:
        raise ValueError(f"takes no {what} here: stored sketches have one already")


def binary_result(rule: Rule) -> Rule:
    """Return a rule that checks as `rule` does and gives BINARY: the state itself is the result."""

    def check(arguments: Arguments) -> DataType:
        rule(arguments)
        return BINARY

    return check
