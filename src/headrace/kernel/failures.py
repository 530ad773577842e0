"""Errors that belong to some queries: they are raised with the names of these, so that the others can continue."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import pyarrow as pa

from headrace.kernel.row_errors import expressions_of
from headrace.model.errors import ExpressionFailure, QueryFailure, TooManyRowsError
from headrace.model.expressions import Call, Expression, walk
from headrace.model.query import Query

UNFORESEEN = (pa.ArrowException, ArithmeticError, MemoryError, RecursionError)
"""What the values of a query may cause, apart from mistakes in our code."""


def queries_using(queries: Mapping[str, Query], expression: Expression) -> tuple[str, ...]:
    """Return the names of the queries for which level 1 evaluates an expression, or one that it is part of. An
    expression that was put together from parts of queries is known by the calls in it.
    """
    parts = {
        name: {part for tree in (*query.expressions(), *expressions_of(query)) for part in walk(tree)}
        for name, query in queries.items()
    }
    calls = {part for part in walk(expression) if isinstance(part, Call)}
    return tuple(name for name in parts if expression in parts[name]) or tuple(
        name for name in parts if not calls.isdisjoint(parts[name])
    )


@contextmanager
def failures_named(queries: Mapping[str, Query]) -> Iterator[None]:
    """Raise a QueryFailure that names the queries of an expression that can't be computed."""
    try:
        yield
    except ExpressionFailure as problem:
        names = queries_using(queries, problem.expression)
        if not names:
            raise
        raise QueryFailure(names, problem.message) from problem


@contextmanager
def failures_of(name: str) -> Iterator[None]:
    """Raise a QueryFailure that names the query whose windows can't be closed."""
    try:
        yield
    except (ExpressionFailure, TooManyRowsError) as problem:
        raise QueryFailure([name], problem.message) from problem
    except UNFORESEEN as problem:
        raise QueryFailure([name], f"{type(problem).__name__}: {problem}") from problem
