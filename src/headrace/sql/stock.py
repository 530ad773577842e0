"""The stock parser: masked tokens in, its tree out, and from its tree back to the tokens and spans of the source."""

from __future__ import annotations

import re
from collections.abc import Iterator

from sqlglot import ErrorLevel, Token, TokenType, exp
from sqlglot.errors import ParseError

from headrace.model.errors import QueryError, Span
from headrace.sql.lift import Lifted
from headrace.sql.tokens import DIALECT, SIMPLIFY, kind_at, span_of, token_types

SHOWN = 40
MASKED = re.compile(r"[nf]?([0-9]+)")
BEFORE_STAR = token_types("SELECT COMMA DOT")
BRACKETS = {TokenType.L_PAREN: 1, TokenType.R_PAREN: -1}


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


class Spots:
    """The tokens of one statement, found by the masked texts (`n12`, `f12`, `12`) that the lifter left in the tree."""

    def __init__(self, source: list[Token]) -> None:
        self.source = source

    def index(self, leaf: exp.Expression) -> int:
        match = MASKED.fullmatch(leaf.name)
        if match is None:
            raise QueryError("syntax", "this statement can't be read", span=span_of(self.source[0], self.source[-1]))
        return int(match[1])

    def token(self, leaf: exp.Expression) -> Token:
        return self.source[self.index(leaf)]

    def name(self, identifier: exp.Expression) -> str:
        token = self.token(identifier)
        if not token.text:
            raise QueryError("syntax", "a name needs a character", span=span_of(token))
        return token.text

    def is_quoted(self, identifier: exp.Expression) -> bool:
        return self.token(identifier).token_type == TokenType.IDENTIFIER

    def is_number(self, node: exp.Expression) -> bool:
        return isinstance(node, exp.Literal) and self.token(node).token_type == TokenType.NUMBER

    def fail(self, code: str, message: str, node: exp.Expression, hint: str | None = None) -> QueryError:
        return QueryError(code, message, hint=hint, span=self.span(node))

    def span(self, node: exp.Expression) -> Span:
        """From the first token of the node to its last, parentheses balanced."""
        indexes = sorted(self.leaves(node))
        if not indexes and isinstance(node, exp.Star):
            indexes = [index for index in range(1, len(self.source)) if self.is_selected_star(index)][:1]
        if not indexes:
            return span_of(self.source[0])
        return span_of(*self.balance(indexes[0], indexes[-1]))

    def leaves(self, node: exp.Expression) -> Iterator[int]:
        """A called function counts with the parenthesis behind it."""
        for inner in node.walk():
            if isinstance(inner, exp.Identifier | exp.Literal | exp.Anonymous) and MASKED.fullmatch(inner.name):
                index = self.index(inner)
                yield index
                if isinstance(inner, exp.Anonymous) and kind_at(self.source, index + 1) == TokenType.L_PAREN:
                    yield index + 1

    def is_selected_star(self, index: int) -> bool:
        return kind_at(self.source, index) == TokenType.STAR and kind_at(self.source, index - 1) in BEFORE_STAR

    def balance(self, first: int, last: int) -> tuple[Token, Token]:
        """The outermost tokens of a range that is widened until every parenthesis in it has its partner."""
        closes = opens = 0
        for token in self.source[first : last + 1]:
            opens += BRACKETS.get(token.token_type, 0)
            if opens < 0:
                closes, opens = closes + 1, 0
        while closes > 0 and first > 0:
            first -= 1
            closes -= BRACKETS.get(self.source[first].token_type, 0)
        while opens > 0 and last + 1 < len(self.source):
            last += 1
            opens += BRACKETS.get(self.source[last].token_type, 0)
        return self.source[first], self.source[last]


def allow(spots: Spots, node: exp.Expression, *names: str) -> None:
    """Refuse a node on which the parser has set anything that we do not read."""
    extra = [name for name, value in node.args.items() if value and name not in names]
    if extra:
        raise spots.fail("unsupported", f"{extra[0].strip('_')} is not supported here", node)
