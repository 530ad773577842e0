"""From values back to text. It is canonical: equal values give equal text, and parsing it gives the value back."""

from __future__ import annotations

import hashlib
from collections.abc import Callable

from headrace.expressions.functions import FUNCTIONS, OPERATORS
from headrace.model.address import format_address
from headrace.model.expressions import Aggregate, Call, ColumnRef, Expression, Literal, is_window_bound
from headrace.model.query import Join, Order, Output, Query
from headrace.model.time import format_duration, format_timestamp
from headrace.model.types import ADDRESS, BIGINT, DOUBLE, TIMESTAMP
from headrace.model.windows import AnyWindow, SlicedWindow
from headrace.sql.names import quote

PRECEDENCE = {"or": 1, "and": 2, "not": 3}
PRECEDENCE |= dict.fromkeys(
    ("=", "<>", "<", "<=", ">", ">=", "in", "like", "is_null", "is_not_null", "is_true", "is_false"), 4
)
PRECEDENCE |= {"+": 5, "-": 5, "*": 6, "/": 6, "div": 6, "%": 6, "negate": 7}
ATOM = 8
SIGNS = {"not": "NOT ", "negate": "-"}
SUFFIXES = {"is_null": "IS NULL", "is_not_null": "IS NOT NULL", "is_true": "IS TRUE", "is_false": "IS FALSE"}


def digest(query: Query) -> str:
    """The identity of a query: stable over runs, machines and the way it was written."""
    return hashlib.blake2b(format_query(query).encode(), digest_size=16).hexdigest()


def format_query(query: Query) -> str:
    return " ".join(format_clauses(query))


def format_clauses(query: Query) -> list[str]:
    """SELECT, FROM, each JOIN, and what else there is, one by one."""
    text = ExpressionPrinter(qualified=bool(query.joins)).text
    result_text = ExpressionPrinter(qualified=bool(query.joins), hidden=hidden_names(query)).text
    parts = [
        "SELECT " + ", ".join(format_output(output, text) for output in query.outputs),
        f"FROM {quote(query.stream)} {format_window(query.window)}",
        *(format_join(join, text) for join in query.joins),
    ]
    if query.where is not None:
        parts.append(f"WHERE {text(query.where)}")
    if query.group_by:
        parts.append("GROUP BY " + ", ".join(format_item(tree, text) for tree in query.group_by))
    if query.having is not None:
        parts.append(f"HAVING {result_text(query.having)}")
    if query.order_by:
        parts.append("ORDER BY " + ", ".join(format_order(order, result_text) for order in query.order_by))
    if query.limit is not None:
        parts.append(f"LIMIT {query.limit}")
    return parts


def hidden_names(query: Query) -> frozenset[str]:
    """In HAVING and ORDER BY an output's name hides a column of the same name."""
    renamed = (output for output in query.outputs if own_name(output.expression) != output.name)
    return frozenset(output.name.lower() for output in renamed)


def own_name(tree: Expression) -> str | None:
    if isinstance(tree, ColumnRef):
        return tree.name
    return tree.function if isinstance(tree, Call) and is_window_bound(tree) else None


def format_window(window: AnyWindow) -> str:
    if isinstance(window, SlicedWindow):
        words = ["SLICES " + ", ".join(f"'{format_duration(length)}'" for length in window.slices_us)]
    else:
        words = [f"RANGE '{format_duration(window.range_us)}'", f"SLIDE '{format_duration(window.slide_us)}'"]
    if window.offset_us:
        words.append(f"OFFSET '{format_duration(window.offset_us)}'")
    return f"[{' '.join(words)}]"


def format_output(output: Output, text: Callable[[Expression], str]) -> str:
    tree = output.expression
    return text(tree) if own_name(tree) == output.name else f"{text(tree)} AS {quote(output.name)}"


def format_join(join: Join, text: Callable[[Expression], str]) -> str:
    alias = "" if join.relation == join.table else f" AS {quote(join.relation)}"
    keys = " AND ".join(f"{text(key.expression)} = {quote(join.relation)}.{quote(key.column)}" for key in join.keys)
    return f"{'LEFT ' if join.outer else ''}JOIN {quote(join.table)}{alias} ON {keys}"


def format_order(order: Order, text: Callable[[Expression], str]) -> str:
    direction = " DESC" if order.descending else ""
    nulls = "" if order.nulls_first != order.descending else f" NULLS {'FIRST' if order.nulls_first else 'LAST'}"
    return f"{format_item(order.expression, text)}{direction}{nulls}"


def format_item(tree: Expression, text: Callable[[Expression], str]) -> str:
    """A bare number in GROUP BY or ORDER BY would be a position in the SELECT list."""
    is_number = isinstance(tree, Literal) and tree.type in (BIGINT, DOUBLE)
    return f"({text(tree)})" if is_number else text(tree)


class ExpressionPrinter:
    """Prints expressions with the fewest parentheses; columns are qualified if `hidden`, and where there are joins."""

    def __init__(self, *, qualified: bool, hidden: frozenset[str] = frozenset()) -> None:
        self.qualified = qualified
        self.hidden = hidden

    def text(self, tree: Expression) -> str:
        if isinstance(tree, Literal):
            return format_literal(tree)
        if isinstance(tree, ColumnRef):
            qualified = self.qualified or tree.name.lower() in self.hidden
            return f"{quote(tree.relation)}.{quote(tree.name)}" if qualified else quote(tree.name)
        if isinstance(tree, Aggregate):
            return self.aggregate(tree)
        return self.call(tree)

    def join_list(self, trees: tuple[Expression, ...]) -> str:
        return ", ".join(self.text(tree) for tree in trees)

    def inside(self, tree: Expression, level: int) -> str:
        """The text of an operand, in parentheses if it binds less than `level`."""
        return self.text(tree) if binding(tree) >= level else f"({self.text(tree)})"

    def aggregate(self, tree: Aggregate) -> str:
        inside = ExpressionPrinter(qualified=self.qualified)
        listed = inside.join_list((*tree.arguments, *tree.parameters))
        arguments = f"{'DISTINCT ' if tree.distinct else ''}{listed}" if listed else "*"
        condition = f" FILTER (WHERE {inside.text(tree.filter)})" if tree.filter is not None else ""
        return f"{tree.function}({arguments}){condition}"

    def call(self, tree: Call) -> str:
        name, arguments = tree.function, tree.arguments
        if is_window_bound(tree):
            return name
        if name == "cast":
            return f"CAST({self.text(arguments[0])} AS {tree.type})"
        if name == "case":
            branches = zip(arguments[:-1:2], arguments[1::2], strict=True)
            whens = " ".join(f"WHEN {self.text(condition)} THEN {self.text(value)}" for condition, value in branches)
            return f"CASE {whens} ELSE {self.text(arguments[-1])} END"
        if name not in OPERATORS:
            return f"{name if name in FUNCTIONS else quote(name)}({self.join_list(arguments)})"
        return self.operator(name, arguments)

    def operator(self, name: str, arguments: tuple[Expression, ...]) -> str:
        level = PRECEDENCE[name]
        if name in ("and", "or"):
            return f" {name.upper()} ".join(self.inside(argument, level + 1) for argument in arguments)
        if name in SIGNS:
            return f"{SIGNS[name]}{self.inside(arguments[0], ATOM)}"
        first = self.inside(arguments[0], level if level in (5, 6) else level + 1)
        if name in SUFFIXES:
            return f"{first} {SUFFIXES[name]}"
        if name == "in":
            return f"{first} IN ({self.join_list(arguments[1:])})"
        return f"{first} {name.upper()} {self.inside(arguments[1], level + 1)}"


def binding(tree: Expression) -> int:
    if isinstance(tree, Literal) and isinstance(tree.value, int | float) and tree.type.is_numeric and tree.value < 0:
        return PRECEDENCE["negate"]
    return PRECEDENCE.get(tree.function, ATOM) if isinstance(tree, Call) else ATOM


def format_literal(literal: Literal) -> str:
    value = literal.value
    if value is None:
        return "NULL"
    if isinstance(value, bool):
        return "TRUE" if value else "FALSE"
    if literal.type == TIMESTAMP:
        return f"TIMESTAMP '{format_timestamp(int(value))}'"
    if literal.type == ADDRESS:
        return f"ADDRESS '{format_address(int(value))}'"
    if literal.type.name == "DECIMAL":
        return f"CAST('{value:f}' AS {literal.type})"
    if isinstance(value, str):
        return "'" + value.replace("\\", "\\\\").replace("'", "\\'") + "'"
    return repr(value)
