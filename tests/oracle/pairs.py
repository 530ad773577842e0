"""Random expressions, each written twice: for Headrace and, by hand, for DuckDB.

The two texts share nothing but the names of columns. Where the engines differ, the DuckDB side says what Headrace
means: whole numbers are computed with 128 bits and become NULL if they do not fit 64 (DuckDB raises); a divisor of zero
is NULL (DuckDB raises, or gives infinity); constants carry their type (DuckDB reads 1.5 as a DECIMAL).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeVar

from hypothesis import strategies as st

from headrace.model.time import format_timestamp
from headrace.model.types import MAX_BIGINT, MIN_BIGINT

WHOLE = [0, 1, -1, 2, 3, -3, 7, 2**53, 2**53 + 1, MAX_BIGINT, MAX_BIGINT - 1, MIN_BIGINT, MIN_BIGINT + 1]
TAME = [0.0, -0.0, 0.1, 0.5, 1.0, -1.5, 2.0, 3.0, 1e-3, 123456.789, -1e6, math.nan, math.inf, -math.inf]
"""Doubles whose squares can be summed without overflow."""
WILD = [*TAME, 5e-324, 1e-300, 1e300, -1e300, 1.7976931348623157e308, -1.7976931348623157e308, float(2**53), 2.0**63]
ASCII_TEXTS = ["", "a", "A", "ab", "b", "a%b", "a_b", "%", "it's", "back\\slash"]
TEXTS = [*ASCII_TEXTS, "\u00e9", "e\u0301", "\u65e5\u672c", "\U0001f600"]
PATTERNS = ["%", "_", "a%", "%b", "a_b", "%a%", "__", "\u00e9%", "_\u0301", "%'%", ""]
ESCAPED_PATTERNS = ["a!%b", "!_%", "a!_b", "%!%%"]
DECIMALS = ["0.00", "0.10", "-0.10", "1.50", "99999999.99", "-99999999.99"]


@dataclass(frozen=True, slots=True)
class Pair:
    ours: str
    duck: str


@dataclass(frozen=True, slots=True)
class Operation:
    """How an operation on operands of these kinds is written; `{}` are their places."""

    operands: tuple[str, ...]
    ours: str
    duck: str

    def write(self, *operands: Pair) -> Pair:
        ours = self.ours.format(*(operand.ours for operand in operands))
        return Pair(ours, self.duck.format(*(operand.duck for operand in operands)))


def operation(operands: str, ours: str, duck: str | None = None) -> Operation:
    return Operation(tuple(operands.split()), ours, duck or ours)


# Leaves


def same(text: str) -> Pair:
    return Pair(text, text)


def whole(value: int) -> Pair:
    return Pair(f"({value})", f"CAST('{value}' AS BIGINT)")


def real(value: float) -> Pair:
    ours = f"({value!r})" if math.isfinite(value) else f"CAST('{value}' AS DOUBLE)"
    return Pair(ours, f"CAST('{value!r}' AS DOUBLE)")


def text(value: str) -> Pair:
    quoted = value.replace("'", "''")
    return Pair("'" + quoted.replace("\\", "\\\\") + "'", f"'{quoted}'")


def exact(value: str) -> Pair:
    return Pair(f"DECIMAL '{value}'", f"CAST('{value}' AS DECIMAL(10, 2))")


def moment(time_us: int) -> Pair:
    return Pair(f"TIMESTAMP '{format_timestamp(time_us)}'", str(time_us))


CONSTANTS = {
    "whole": [whole(value) for value in WHOLE],
    "real": [real(value) for value in WILD],
    "tame": [real(value) for value in TAME],
    "text": [text(value) for value in TEXTS],
    "exact": [exact(value) for value in DECIMALS],
    "condition": [same("TRUE"), same("FALSE"), same("CAST(NULL AS BOOLEAN)")],
}
NULLS = {"whole": "BIGINT", "real": "DOUBLE", "text": "STRING", "exact": "DECIMAL(10, 2)"}
COLUMNS = {"whole": "ij", "real": "xy", "tame": "x", "text": "su", "exact": "d", "condition": "b", "moment": "t"}
LEAVES = {
    **{kind: [same(name) for name in names] * 3 + CONSTANTS.get(kind, []) for kind, names in COLUMNS.items()},
    **{f"{kind}_constant": constants for kind, constants in CONSTANTS.items()},
    "whole_column": [same("i"), same("j")],  # the constant -(-9223372036854775808) is refused when it is read
    "pattern": [text(value) for value in PATTERNS],
    "escaped": [text(value) for value in ESCAPED_PATTERNS],
}
for kind, name in NULLS.items():
    LEAVES[kind].append(Pair(f"CAST(NULL AS {name})", f"CAST(NULL AS {name.replace('STRING', 'VARCHAR')})"))

# Operations by the kind of their result

WIDE = "CAST({} AS HUGEINT)"
REAL = "CAST({} AS DOUBLE)"
CHOICES = {
    kind: [
        operation(f"condition {kind} {kind}", "(CASE WHEN {} THEN {} ELSE {} END)"),
        operation(f"condition {kind}", "(CASE WHEN {} THEN {} END)"),
        operation(f"{kind} {kind}", "coalesce({}, {})"),
    ]
    for kind in ("whole", "real", "tame", "text", "exact", "condition")
}
EXTREMES = {
    kind: [operation(f"{kind} {kind}", f"{name}({{}}, {{}})") for name in ("greatest", "least", "nullif")]
    for kind in ("whole", "real", "text", "exact")
}
WHOLES = [
    *(operation("whole whole", f"({{}} {sign} {{}})", f"TRY_CAST({WIDE} {sign} {WIDE} AS BIGINT)") for sign in "+-*"),
    operation("whole whole", "({} DIV {})", f"TRY_CAST({WIDE} // NULLIF({WIDE}, 0) AS BIGINT)"),
    operation("whole whole", "({} % {})", f"TRY_CAST({WIDE} % NULLIF({WIDE}, 0) AS BIGINT)"),
    operation("whole_column", "(-{})", f"TRY_CAST(-{WIDE} AS BIGINT)"),
    operation("whole", "abs({})", f"TRY_CAST(abs({WIDE}) AS BIGINT)"),
    operation("real", "floor({})", "TRY_CAST(floor({}) AS BIGINT)"),
    operation("real", "ceil({})", "TRY_CAST(ceil({}) AS BIGINT)"),
    operation("real", "CAST({} AS BIGINT)", "TRY_CAST(trunc({}) AS BIGINT)"),
    operation("condition", "CAST({} AS BIGINT)"),
    operation("text", "length({})"),
]
REALS = [
    *(operation("real real", f"({{}} {sign} {{}})") for sign in "+-*"),
    *(operation("real whole", f"({{}} {sign} {{}})", f"({{}} {sign} {REAL})") for sign in "+-*"),
    operation("real real", "({} / {})", "({} / NULLIF({}, 0))"),
    operation("whole whole", "({} / {})", f"({REAL} / NULLIF({REAL}, 0))"),
    operation("real real", "({} % {})", "({} % NULLIF({}, 0))"),
    operation("real", "sqrt({})", "(CASE WHEN {0} >= 0 THEN sqrt({0}) END)"),
    operation("real", "abs({})"),
    operation("real", "(-{})"),
    operation("whole", "CAST({} AS DOUBLE)"),
    operation("exact", "CAST({} AS DOUBLE)"),
]
TEXT_OPERATIONS = [
    operation("text text", "({} || {})"),
    *(operation("text", f"substring({{}}, {place}, 2)") for place in (1, 2)),
    operation("text", "left({}, 1)"),
    operation("text", "replace({}, 'a', 'xy')"),
    operation("whole", "CAST({} AS STRING)", "CAST({} AS VARCHAR)"),
]
SIGNS = ["=", "<>", "<", "<=", ">", ">="]
COMPARABLE = ("whole", "real", "text", "exact", "moment")
COMPARISONS = [operation(f"{kind} {kind}", f"({{}} {sign} {{}})") for kind in COMPARABLE for sign in SIGNS]
COMPARISONS += [operation("whole real", f"({{}} {sign} {{}})", f"({REAL} {sign} {{}})") for sign in SIGNS]
RANGES = [
    operation(f"{kind} {kind} {kind}", f"({{}} {word} {{}} AND {{}})")
    for kind in COMPARABLE
    for word in ("BETWEEN", "NOT BETWEEN")
]
MEMBERSHIPS = [
    operation(f"{kind} {kind}_constant {kind}_constant", f"({{}} {word} ({{}}, {rest}{{}}))")
    for kind in ("whole", "real", "text", "exact")
    for word in ("IN", "NOT IN")
    for rest in ("", "NULL, ")
]
MEMBERSHIPS += [operation(f"{kind} {kind}_constant", "({} IN ({}))") for kind in ("whole", "real", "text", "exact")]
TEXT_TESTS = [
    *(operation("text pattern", f"({{}} {word} {{}})") for word in ("LIKE", "NOT LIKE")),
    *(operation("text escaped", f"({{}} {word} {{}} ESCAPE '!')") for word in ("LIKE", "NOT LIKE")),
    operation("text text", "starts_with({}, {})"),
    operation("text text", "contains({}, {})"),
]
NULL_TESTS = [operation(kind, f"({{}} {test})") for kind in COMPARABLE for test in ("IS NULL", "IS NOT NULL")]
CONNECTIVES = [
    operation("condition condition", "({} AND {})"),
    operation("condition condition", "({} OR {})"),
    operation("condition condition condition", "({} AND {} AND {})"),
    operation("condition", "(NOT {})"),
    *(operation("condition", f"({{}} IS {word})") for word in ("TRUE", "FALSE", "NULL", "NOT TRUE", "NOT FALSE")),
]
ATOMS = [COMPARISONS, COMPARISONS, RANGES, MEMBERSHIPS, TEXT_TESTS, NULL_TESTS]
OPERATIONS: dict[str, list[list[Operation]]] = {
    "whole": [WHOLES, WHOLES, CHOICES["whole"], EXTREMES["whole"]],
    "real": [REALS, REALS, CHOICES["real"], EXTREMES["real"]],
    "tame": [CHOICES["tame"]],
    "text": [TEXT_OPERATIONS, CHOICES["text"], EXTREMES["text"]],
    "exact": [CHOICES["exact"], EXTREMES["exact"]],
    "condition": [*ATOMS, CONNECTIVES, CONNECTIVES, CONNECTIVES, CHOICES["condition"]],
}
"""Families of operations; each family is as likely as the others."""

Item = TypeVar("Item")


class Writer:
    """Draws expressions. `depth` says how many operations may stand above one another."""

    def __init__(self, draw: st.DrawFn, times_us: Sequence[int]) -> None:
        self.draw = draw
        self.moments = [same("t"), *(moment(time_us) for time_us in times_us)]

    def pick(self, options: Sequence[Item]) -> Item:
        return self.draw(st.sampled_from(options))

    def chance(self, parts: int) -> bool:
        """True once in `parts` times; shrinks to False."""
        return self.draw(st.integers(0, parts - 1)) == parts - 1

    def expression(self, kind: str, depth: int = 2) -> Pair:
        if depth == 0 or kind not in OPERATIONS or self.chance(3):
            return self.pick(self.moments if kind == "moment" else LEAVES[kind])
        chosen = self.pick(self.pick(OPERATIONS[kind]))
        return chosen.write(*(self.expression(operand, depth - 1) for operand in chosen.operands))

    def condition(self) -> Pair:
        return self.expression("condition", 3)
