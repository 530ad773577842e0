"""Everything written like a function call: functions, casts, aggregates, and what users registered."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from sqlglot import exp

from headrace.aggregates.registry import AGGREGATE_SYNONYMS, AGGREGATES, make_aggregate
from headrace.aggregates.user import DeclaredAggregate, Extractor
from headrace.expressions.functions import FUNCTIONS, OPERATORS, SYNONYMS, check_cast, numeric
from headrace.model import types
from headrace.model.errors import QueryError, nearest
from headrace.model.expressions import Aggregate, Call, Expression, Literal, aggregates_in, is_window_bound, walk
from headrace.model.schema import Catalog, UserFunction
from headrace.sql.constants import CONSTANT_CASTS
from headrace.sql.scope import BOUNDS_HINT, NOT_REPLAYABLE, WINDOW_NAMES
from headrace.sql.stock import allow

if TYPE_CHECKING:
    from headrace.sql.expressions import ExpressionBuilder

NO_SUCH_WINDOW = {"session_window": "session", "session": "session", "count_window": "count"}
INSIDE_GROUP_BY = {"window", "hop", "tumble"}
TRUNCATIONS = {"date_trunc", "trunc", "time_bucket", "date_bin"}
OPERATOR_CALLS = {"if": ("case", 3), "iff": ("case", 3), "mod": ("%", 2)}
RESERVED = (
    FUNCTIONS.keys() | SYNONYMS.keys() | AGGREGATES.keys() | AGGREGATE_SYNONYMS.keys() | OPERATOR_CALLS.keys()
    | NOT_REPLAYABLE | NO_SUCH_WINDOW.keys() | INSIDE_GROUP_BY | WINDOW_NAMES.keys() | {"cast", "try_cast", "table"}
)  # fmt: skip
"""Names with a meaning of their own, which no user function takes over."""


def function(builder: ExpressionBuilder, node: exp.Expression) -> Expression:
    index = builder.spots.index(node)
    written = builder.spots.source[index].text
    name = written.lower()
    if index in builder.casts:
        return cast(builder, node, builder.casts[index])
    if name in AGGREGATES or name in AGGREGATE_SYNONYMS:
        return aggregate(builder, node, name)
    if name in OPERATOR_CALLS:
        return operator_call(builder, name, node)
    called = SYNONYMS.get(name, name)
    if called in FUNCTIONS and called not in OPERATORS:
        return builder.call(called, arguments_of(builder, node), node)
    if name not in RESERVED:
        user = builder.scope.catalog.function(name)
        if user is not None:
            return user_call(builder, user, node)
        declared = find_aggregate(builder.scope.catalog, name)
        if declared is not None:
            return user_aggregate(builder, *declared, node)
    raise unknown_function(builder, written, node)


def operator_call(builder: ExpressionBuilder, name: str, node: exp.Expression) -> Expression:
    operator, count = OPERATOR_CALLS[name]
    if len(node.expressions) != count:
        raise builder.fail("type", f"{name} takes {count} arguments, not {len(node.expressions)}", node)
    return builder.call(operator, arguments_of(builder, node), node)


def arguments_of(builder: ExpressionBuilder, node: exp.Expression) -> tuple[Expression, ...]:
    return tuple(builder.build(argument) for argument in node.expressions)


def unknown_function(builder: ExpressionBuilder, written: str, node: exp.Expression) -> QueryError:
    name = written.lower()
    if name in NOT_REPLAYABLE:
        return builder.scope.not_replayable(f"{written}()", node)
    if name in NO_SUCH_WINDOW:
        hint = "use [RANGE r SLIDE s], window(t, size, slide), HOP or TUMBLE"
        return builder.fail("unsupported", f"{NO_SUCH_WINDOW[name]} windows are not supported", node, hint)
    if name in TRUNCATIONS:
        hint = "GROUP BY window(t, '1 hour') makes a window of each hour"
        return builder.fail("unknown-name", f"no function '{written}'", node, hint)
    if name == "array":
        hint = "write a call for each: percentile(x, 0.5), percentile(x, 0.9); they share one state"
        return builder.fail("unsupported", "an array can't be written here", node, hint)
    if name in INSIDE_GROUP_BY:
        hint = "the window's bounds are window_start and window_end"
        return builder.fail("window", f"{name}(...) belongs into GROUP BY, on the event time", node, hint)
    known = [*(FUNCTIONS.keys() - OPERATORS), *SYNONYMS, *AGGREGATES, *AGGREGATE_SYNONYMS]
    known += [function.name for function in builder.scope.catalog.functions]
    known += [aggregate.name for aggregate in builder.scope.catalog.aggregates]
    hint = nearest(written, sorted(known)) or "a Python function can be registered under this name"
    return builder.fail("unknown-name", f"no function '{written}'", node, hint)


def cast(builder: ExpressionBuilder, node: exp.Expression, target: types.DataType) -> Expression:
    if len(node.expressions) != 1:
        raise builder.fail("syntax", "CAST takes one value and a type", node)
    value = builder.build(node.expressions[0])
    if isinstance(value, Literal) and isinstance(value.value, str) and target.name in CONSTANT_CASTS:
        return builder.cast_constant(value, target, node)
    if value.type == target:
        return value
    try:
        check_cast(value.type, target)
    except ValueError as problem:
        raise builder.fail("type", str(problem), node) from None
    return Call("cast", (value,), target)


def aggregate(builder: ExpressionBuilder, node: exp.Expression, name: str) -> Aggregate:
    function = AGGREGATE_SYNONYMS.get(name, name)
    arguments = list(node.expressions)
    distinct = len(arguments) == 1 and isinstance(arguments[0], exp.Distinct)
    if distinct:
        allow(builder.spots, arguments[0], "expressions")
        arguments = list(arguments[0].expressions)
    if len(arguments) == 1 and isinstance(arguments[0], exp.Star):
        if function != "count" or distinct or any(arguments[0].args.values()):
            message = f"{name} takes a value; only count takes *" if not distinct else "DISTINCT needs a value, not *"
            raise builder.fail("type", message, node)
        arguments = []
    elif function == "count" and len(arguments) != 1:
        raise builder.fail("type", "count takes * or one value", node)
    built = row_arguments(builder, node, arguments)
    try:
        if name == "percentile_exact":
            numeric(built[:1])  # over stored sketches percentile reads them, and they are not exact
        return make_aggregate(function, built, distinct)
    except ValueError as problem:
        raise builder.fail("type", f"{name} {problem}", node) from None


def row_arguments(
    builder: ExpressionBuilder, node: exp.Expression, arguments: list[exp.Expression]
) -> tuple[Expression, ...]:
    """What stands inside an aggregate."""
    if any(isinstance(argument, exp.Star | exp.Distinct) for argument in arguments):
        raise builder.fail("type", "an aggregate of your own takes values, not * or DISTINCT", node)
    with builder.scope.of_one_row():
        built = tuple(builder.build(argument) for argument in arguments)
    for tree, argument in zip(built, arguments, strict=True):
        check_row_level(builder, tree, argument)
    return built


def check_row_level(builder: ExpressionBuilder, tree: Expression, node: exp.Expression) -> None:
    """What stands inside an aggregate must be known row by row; a name may have brought in more."""
    if any(True for _ in aggregates_in(tree)):
        raise builder.fail("aggregate", "an aggregate can't stand inside another one", node)
    if any(map(is_window_bound, walk(tree))):
        raise builder.fail("aggregate", "a row lies in several windows", node, BOUNDS_HINT)


def build_filter(builder: ExpressionBuilder, node: exp.Expression) -> Expression:
    tree = builder.build(node.this)
    if not isinstance(tree, Aggregate) or tree.filter is not None:
        raise builder.fail("syntax", "FILTER belongs behind an aggregate", node)
    with builder.scope.of_one_row():
        condition = builder.row_condition(node.expression.this, "FILTER")
    check_row_level(builder, condition, node.expression)
    return replace(tree, filter=condition)


# What users registered


def user_call(builder: ExpressionBuilder, user: UserFunction, node: exp.Expression) -> Call:
    arguments = arguments_of(builder, node)
    check_types(builder, user.name, arguments, user.parameters, node)
    return Call(user.name, widen_arguments(arguments, user.parameters), user.returns)


def find_aggregate(catalog: Catalog, name: str) -> tuple[DeclaredAggregate, Extractor] | None:
    """Find an aggregate by its own name, or by that of one of its extractors."""
    for aggregate in catalog.aggregates:
        if aggregate.name.lower() == name:
            return aggregate, aggregate.result(None)
        for extractor in aggregate.extractors:
            if extractor.name.lower() == name:
                return aggregate, extractor
    return None


def user_aggregate(
    builder: ExpressionBuilder, aggregate: DeclaredAggregate, result: Extractor, node: exp.Expression
) -> Aggregate:
    """Arguments of each row, then the extractor's parameters, which are constants."""
    arguments = row_arguments(builder, node, list(node.expressions))
    check_types(builder, result.name, arguments, (*aggregate.arguments, *result.parameters), node)
    rows, behind = arguments[: len(aggregate.arguments)], arguments[len(aggregate.arguments) :]
    parameters = tuple(argument for argument in behind if isinstance(argument, Literal))
    if len(parameters) != len(behind):
        raise builder.fail("type", f"{result.name} needs constants behind its {len(rows)} arguments", node)
    return Aggregate(result.name, widen_arguments(rows, aggregate.arguments), result.returns, parameters=parameters)


def check_types(
    builder: ExpressionBuilder,
    name: str,
    arguments: Sequence[Expression],
    wanted: Sequence[types.DataType],
    node: exp.Expression,
) -> None:
    """NULL fits every type, and BIGINT and DECIMAL widen to DOUBLE."""
    present = [argument.type for argument in arguments]
    fits = [
        have in (want, types.NULL) or (want == types.DOUBLE and have.is_numeric)
        for have, want in zip(present, wanted, strict=False)
    ]
    if len(present) != len(wanted) or not all(fits):
        raise builder.fail(
            "type", f"{name} takes ({', '.join(map(str, wanted))}), not ({', '.join(map(str, present))})", node
        )


def widen_arguments(arguments: Sequence[Expression], wanted: Sequence[types.DataType]) -> tuple[Expression, ...]:
    """Arguments that fit, as the types that are wanted."""
    return tuple(
        argument if argument.type in (want, types.NULL) else Call("cast", (argument,), want)
        for argument, want in zip(arguments, wanted, strict=True)
    )
