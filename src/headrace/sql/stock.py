"""The stock parser: masked tokens in, its tree out, its complaints turned into ours."""

from __future__ import annotations

from sqlglot import ErrorLevel, exp
from sqlglot.errors import ParseError

from headrace.model.errors import QueryError
from headrace.sql.lift import Lifted
from headrace.sql.tokens import DIALECT, SIMPLIFY, span_of

SHOWN = 40


def stock_parse(lifted: Lifted) -> exp.Expression:
    """The stock parser's tree of the masked tokens. Whatever it stumbles over is a syntax error at the spot."""
    try:
        trees = DIALECT.parser(error_level=ErrorLevel.IMMEDIATE).parse(lifted.masked, "")
    except ParseError as problem:
        details = problem.errors[0] if problem.errors else {}
        raise syntax_error(lifted, details.get("col"), str(details.get("description") or "")) from None
    except TypeError:  # the compiled build checks types where the other makes a tree that we refuse later
        raise QueryError("syntax", "this can't be read", span=span_of(lifted.source[0], lifted.source[-1])) from None
    except RecursionError:
        raise QueryError("limit", "nested too deeply", hint=SIMPLIFY, span=span_of(lifted.source[0])) from None
    tree = trees[0] if len(trees) == 1 else None
    if not isinstance(tree, exp.Select):
        hint = "a query begins with SELECT"
        raise QueryError("syntax", "this is not a SELECT", hint=hint, span=span_of(lifted.source[0]))
    return tree


def syntax_error(lifted: Lifted, index: object, description: str) -> QueryError:
    """The parser names the token it stopped at, or the last one if something should have followed it."""
    token = lifted.source[index] if isinstance(index, int) and index < len(lifted.source) else lifted.source[-1]
    shown = token.text if len(token.text) <= SHOWN else f"{token.text[:SHOWN]}..."
    if token is lifted.source[-1] and "Unexpected token" not in description:
        return QueryError("syntax", f"the statement ends too early, after '{shown}'", span=span_of(token))
    return QueryError("syntax", f"'{shown}' does not fit here", span=span_of(token))
