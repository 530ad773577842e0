"""Expressions written down by hand, and what comes out of them over columns named c, d and e."""

from __future__ import annotations

import math
from typing import Any

from headrace.expressions.evaluation import Evaluation
from headrace.expressions.functions import FUNCTIONS
from headrace.model.expressions import Aggregate, Call, ColumnRef, Expression, Literal, columns_in
from headrace.model.types import (
    ADDRESS,
    BIGINT,
    BOOLEAN,
    DOUBLE,
    NULL,
    STRING,
    DataType,
    decimal,
)
from tests.expressions.batches import to_arrow, to_plain

NAN, INF = math.nan, math.inf
FAILED = object()
"""NULL, and it counts."""
MONEY, WIDE, FRACTION = decimal(4, 2), decimal(38, 0), decimal(38, 38)
TYPES_OF: dict[type, DataType] = {bool: BOOLEAN, int: BIGINT, float: DOUBLE, str: STRING, type(None): NULL}


def constant(value: Any) -> Expression:
    return value if isinstance(value, Literal | Call | ColumnRef | Aggregate) else Literal(value, TYPES_OF[type(value)])


def call(function: str, *arguments: Any) -> Call:
    built = tuple(constant(argument) for argument in arguments)
    return Call(function, built, FUNCTIONS[function](built))


def cast(value: Any, target: DataType) -> Call:
    return Call("cast", (constant(value),), target)


def column(data_type: DataType, name: str = "c") -> ColumnRef:
    return ColumnRef("s", name, data_type)


def results(tree: Expression, *columns: list[Any], **options: Any) -> list[Any]:
    """The values of `tree` over columns named c, d, e; FAILED where it failed, with the value if there is one."""
    refs = {ref.name: ref for ref in columns_in(tree)}
    arrays = {
        ("s", name): to_arrow(values, refs[name].type)
        for name, values in zip("cde", columns, strict=False)
        if name in refs
    }
    length = len(columns[0]) if columns else 1
    found = Evaluation(arrays, length, **options).evaluate(tree)
    failed = [False] * length if found.failed is None else found.failed.tolist()
    plain = to_plain(found.values, tree.type)
    return [
        (FAILED if value is None else (FAILED, value)) if bad else value
        for value, bad in zip(plain, failed, strict=True)
    ]


C, D = column(BIGINT), column(BIGINT, "d")
X, Y = column(DOUBLE), column(DOUBLE, "d")
S, T = column(STRING), column(STRING, "d")
B, B2 = column(BOOLEAN), column(BOOLEAN, "d")
A = column(ADDRESS)


def same(found: list[Any], expected: list[Any]) -> bool:
    """NaN equals NaN here too."""
    return repr([0.0 if value == 0 and isinstance(value, float) else value for value in found]) == repr(expected)
