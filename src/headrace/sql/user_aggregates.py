"""Calls of aggregates that users registered: by their own names, or by those of their extractors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from sqlglot import exp

from headrace.aggregates.user import DeclaredAggregate, Extractor
from headrace.model import types
from headrace.model.expressions import Aggregate, Call, Expression, Literal
from headrace.model.schema import Catalog

if TYPE_CHECKING:
    from headrace.sql.expressions import ExpressionBuilder


def find_aggregate(catalog: Catalog, name: str) -> tuple[DeclaredAggregate, Extractor] | None:
    for aggregate in catalog.aggregates:
        if aggregate.name.lower() == name:
            return aggregate, aggregate.result(None)
        for extractor in aggregate.extractors:
            if extractor.name.lower() == name:
                return aggregate, extractor
    return None


def user_aggregate(
    builder: ExpressionBuilder,
    found: tuple[DeclaredAggregate, Extractor],
    arguments: tuple[Expression, ...],
    node: exp.Expression,
) -> Aggregate:
    """Arguments of each row, then the extractor's parameters, which are constants."""
    aggregate, result = found
    wanted = (*aggregate.arguments, *result.parameters)
    fits = [fit(have.type, want) for have, want in zip(arguments, wanted, strict=False)]
    if len(arguments) != len(wanted) or not all(fits):
        given = ", ".join(str(argument.type) for argument in arguments)
        raise builder.fail("type", f"{result.name} takes ({', '.join(map(str, wanted))}), not ({given})", node)
    rows, behind = arguments[: len(aggregate.arguments)], arguments[len(aggregate.arguments) :]
    parameters = tuple(each for each in behind if isinstance(each, Literal))
    if len(parameters) != len(behind):
        raise builder.fail("type", f"{result.name} needs constants behind its {len(rows)} arguments", node)
    return Aggregate(result.name, widen_arguments(rows, aggregate.arguments), result.returns, parameters=parameters)


def fit(have: types.DataType, want: types.DataType) -> bool:
    """BIGINT and DECIMAL widen to DOUBLE."""
    return have in (want, types.NULL) or (want == types.DOUBLE and have.is_numeric)


def widen_arguments(arguments: Sequence[Expression], wanted: Sequence[types.DataType]) -> tuple[Expression, ...]:
    """Arguments that fit, as the types that are wanted."""
    return tuple(
        each if each.type in (want, types.NULL) else Call("cast", (each,), want)
        for each, want in zip(arguments, wanted, strict=True)
    )
