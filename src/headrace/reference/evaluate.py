"""Expressions over one row, by plain recursion: SQL's three-valued logic, and errors that become NULL and count.

An error counts only where it could matter: not in a CASE branch that was not taken, not beside a FALSE in AND or a
TRUE in OR, not behind the value that COALESCE picks. So the count does not depend on the order of operands.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import tzinfo
from decimal import Decimal
from typing import Any, NamedTuple

import pyarrow as pa

from headrace.model.arrow import plain_values, to_array
from headrace.model.expressions import Call, ColumnRef, Expression, Literal
from headrace.model.schema import UserFunction
from headrace.model.types import DataType, Value
from headrace.reference.functions import (
    STRICT,
    ComputationError,
    cast,
    check_text_bytes,
    compare,
    count_bytes,
    fit,
    order_key,
)

Row = Mapping[str, Mapping[str, Value]]
"""Column values by relation and column name."""


class Result(NamedTuple):
    value: Value
    failed: bool = False


class Evaluator:
    """`known` values stand for whole subtrees: group-by expressions and aggregates once they have been computed."""

    def __init__(self, functions: Mapping[str, UserFunction], zone: tzinfo) -> None:
        self.functions = functions
        self.zone = zone

    def evaluate(self, tree: Expression, row: Row, known: Mapping[Expression, Value] | None = None) -> Result:
        if known is not None and tree in known:
            return Result(known[tree])
        if isinstance(tree, Literal):
            return Result(tree.value)
        if isinstance(tree, ColumnRef):
            return Result(row[tree.relation][tree.name])
        if not isinstance(tree, Call):
            raise TypeError(f"{tree} is only known when a window closes")
        if tree.function in ("case", "coalesce"):
            return self.first_match(tree, row, known)
        results = [self.evaluate(argument, row, known) for argument in tree.arguments]
        if tree.function in ("and", "or"):
            return connective(results, decisive=tree.function == "or")
        return self.apply(tree, [result.value for result in results], any(result.failed for result in results))

    def first_match(self, tree: Call, row: Row, known: Mapping[Expression, Value] | None) -> Result:
        """CASE and COALESCE stop at the first branch that holds."""
        failed = False
        if tree.function == "coalesce":
            for argument in tree.arguments:
                value, argument_failed = self.evaluate(argument, row, known)
                failed = failed or argument_failed
                if value is not None:
                    return self.fit(value, tree.type, failed)
            return Result(None, failed)
        chosen = tree.arguments[-1]
        for test, branch in zip(tree.arguments[:-1:2], tree.arguments[1::2], strict=True):
            value, test_failed = self.evaluate(test, row, known)
            failed = failed or test_failed
            if value is True:
                chosen = branch
                break
        value, chosen_failed = self.evaluate(chosen, row, known)
        return self.fit(value, tree.type, failed or chosen_failed)

    def fit(self, value: Any, target: DataType, failed: bool) -> Result:
        try:
            return Result(fit(value, target), failed)
        except ComputationError:
            return Result(None, True)

    def apply(self, tree: Call, values: list[Any], failed: bool) -> Result:
        name = tree.function
        if name in LENIENT:
            return self.fit(LENIENT[name](values), tree.type, failed)
        if None in values:
            return Result(None, failed)
        try:
            if name == "cast":
                value = cast(values[0], tree.arguments[0].type, tree.type, self.zone)
            elif name in STRICT:
                value = STRICT[name](*values)
            else:
                value = self.call_user_function(name, values, tree.type)
            return Result(fit(value, tree.type), failed)
        except ComputationError:
            return Result(None, True)

    def call_user_function(self, name: str, values: list[Any], returns: DataType) -> Any:
        function = self.functions[name.lower()]
        try:
            value = call_with_arrays(function, values) if function.vectorized else function.implementation(*values)
        except Exception as problem:  # a user's function may raise anything, and must not stop the other queries
            raise ComputationError(str(problem)) from problem
        if value is not None and not has_type(value, returns):
            raise ComputationError(f"{name} gave {type(value).__name__}, not {returns}")
        if isinstance(value, str):
            check_text_bytes(count_bytes(value))
        return value


def call_with_arrays(function: UserFunction, values: list[Any]) -> Any:
    """A vectorised function gets columns of one row and gives one."""
    arrays = [to_array([value], parameter) for value, parameter in zip(values, function.parameters, strict=True)]
    (value,) = plain_values(pa.array(function.implementation(*arrays)), function.returns)
    return value


def has_type(value: object, data_type: DataType) -> bool:
    """To Python a bool is an int; to SQL it is not."""
    return isinstance(value, PYTHON_TYPES[data_type.name]) and isinstance(value, bool) == (data_type.name == "BOOLEAN")


def connective(results: list[Result], *, decisive: bool) -> Result:
    """OR is decided by one TRUE, AND by one FALSE, whatever the others are, and whether they failed."""
    deciding = [result for result in results if result.value is decisive]
    if deciding:
        return Result(decisive, all(result.failed for result in deciding))
    unknown = any(result.value is None for result in results)
    return Result(None if unknown else not decisive, any(result.failed for result in results))


def membership(values: list[Any]) -> bool | None:
    subject, *candidates = values
    if subject is None:
        return None
    if any(candidate is not None and compare(subject, candidate) == 0 for candidate in candidates):
        return True
    return None if None in candidates else False


def extreme(values: list[Any], *, greatest: bool) -> Any:
    """NULLs do not take part."""
    present = [value for value in values if value is not None]
    chosen = max if greatest else min
    return chosen(present, key=order_key) if present else None


LENIENT: dict[str, Callable[[list[Any]], Any]] = {
    "is_null": lambda values: values[0] is None,
    "is_not_null": lambda values: values[0] is not None,
    "is_true": lambda values: values[0] is True,
    "is_false": lambda values: values[0] is False,
    "in": membership,
    "nullif": lambda values: None if None not in values and compare(*values) == 0 else values[0],
    "greatest": lambda values: extreme(values, greatest=True),
    "least": lambda values: extreme(values, greatest=False),
}
PYTHON_TYPES: dict[str, type | tuple[type, ...]] = {
    "BOOLEAN": bool,
    "BIGINT": int,
    "DOUBLE": (int, float),
    "STRING": str,
    "TIMESTAMP": int,
    "ADDRESS": int,
    "DECIMAL": (int, Decimal),
    "BINARY": bytes,
}
