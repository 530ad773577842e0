"""Text to tokens, one list per statement, with the limits that hold before any parsing."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from sqlglot import Token, TokenType
from sqlglot.dialects.dialect import Dialect
from sqlglot.errors import TokenError

from headrace.model.errors import QueryError, Span


def token_types(names: str) -> frozenset[TokenType]:
    return frozenset(TokenType[name] for name in names.split())


DIALECT = Dialect.get_or_raise("spark")
MAX_STATEMENT_BYTES = 64 * 1024
MAX_SCRIPT_BYTES = 16 * 1024 * 1024
MAX_DEPTH = 32
MAX_JOINS = 32
SIMPLIFY = "split the query into several; they share one plan"

OPENING = token_types("L_PAREN L_BRACKET CASE")
CLOSING = token_types("R_PAREN R_BRACKET END")
QUOTED = re.compile(
    r"""'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*"|`[^`]*`|--[^\n]*|/\*.*?\*/|(?P<open>['"`]|/\*)""",
    re.DOTALL,
)
LONE_SURROGATE = re.compile("[\ud800-\udfff]")
PREFIXES = token_types("NOT DASH PLUS")
PAIRS = {("GROUP", "BY"): TokenType.GROUP_BY, ("ORDER", "BY"): TokenType.ORDER_BY}


def tokenize(text: str) -> list[Token]:
    """The tokens of a whole script, comments left out, doubled quotes inside a string read as one."""
    if len(text) > MAX_SCRIPT_BYTES:
        raise QueryError("limit", f"a script may have at most {MAX_SCRIPT_BYTES >> 20} MiB")
    lone_surrogate = LONE_SURROGATE.search(text)
    if lone_surrogate is not None:
        raise QueryError("syntax", "the text holds half a character", span=Span(*lone_surrogate.span()))
    try:
        tokens = DIALECT.tokenize(text)
    except TokenError:
        raise unreadable(text) from None
    merged: list[Token] = []
    for run in runs(tokens, text):
        token = run[0] if len(run) == 1 else one_string(run)
        pair = join_pair(merged[-1], token) if merged else None
        if pair is not None:
            merged[-1] = pair
        else:
            merged.append(token)
    return merged


def runs(tokens: list[Token], text: str) -> Iterator[list[Token]]:
    """'it''s' comes as two strings that touch."""
    run: list[Token] = []
    for token in tokens:
        if run and not continues_string(run[-1], token, text):
            yield run
            run = []
        run.append(token)
    if run:
        yield run


def continues_string(previous: Token, token: Token, text: str) -> bool:
    both = previous.token_type == token.token_type == TokenType.STRING
    return both and previous.end + 1 == token.start and text[previous.end] == text[token.start] == "'"


def one_string(run: list[Token]) -> Token:
    return Token(TokenType.STRING, "'".join([token.text for token in run]), start=run[0].start, end=run[-1].end)


def join_pair(first: Token, second: Token) -> Token | None:
    """`.5` is a number, and a comment may stand between GROUP and BY."""
    if first.token_type == TokenType.DOT and second.token_type == TokenType.NUMBER and first.end + 1 == second.start:
        return Token(TokenType.NUMBER, f".{second.text}", start=first.start, end=second.end)
    kind = PAIRS.get((first.text.upper(), second.text.upper()))
    if kind is not None and first.token_type == second.token_type == TokenType.VAR:
        return Token(kind, f"{first.text} {second.text}", start=first.start, end=second.end)
    return None


def unreadable(text: str) -> QueryError:
    opening = next((match for match in QUOTED.finditer(text) if match.group("open")), None)
    if opening is not None:
        return QueryError("syntax", "a quote or comment is not closed", span=Span(*opening.span()))
    return QueryError(
        "syntax", "a constant can't be read", hint="numbers are written 31, 0.5 or 1e6, texts 'like this'"
    )


def split_statements(tokens: list[Token]) -> Iterator[list[Token]]:
    statement: list[Token] = []
    for token in tokens:
        if token.token_type != TokenType.SEMICOLON:
            statement.append(token)
        elif statement:
            yield statement
            statement = []
    if statement:
        yield statement


def span_of(first: Token, last: Token | None = None) -> Span:
    return Span(first.start, (last or first).end + 1)


def kind_at(tokens: Sequence[Token], index: int) -> TokenType | None:
    return tokens[index].token_type if 0 <= index < len(tokens) else None


@contextmanager
def value_errors_at(span: Span, code: str, hint: str | None = None) -> Iterator[None]:
    """Raise a ValueError of the block as a QueryError at the spot."""
    try:
        yield
    except ValueError as problem:
        raise QueryError(code, str(problem), hint=hint, span=span) from None


def check_limits(tokens: list[Token], text: str) -> None:
    """Size and depth of one statement. Depth is counted here because the parser would only run out of stack."""
    source = text[tokens[0].start : tokens[-1].end + 1]
    if len(source) > MAX_STATEMENT_BYTES or len(source.encode()) > MAX_STATEMENT_BYTES:
        message = f"a statement may have at most {MAX_STATEMENT_BYTES >> 10} KiB"
        raise QueryError("limit", message, hint="split it, or use IN instead of many ORs", span=span_of(tokens[0]))
    check_depth(tokens)
    joins = [token for token in tokens if token.token_type == TokenType.JOIN]
    if len(joins) > MAX_JOINS:
        raise QueryError("limit", f"more than {MAX_JOINS} joins", hint=SIMPLIFY, span=span_of(joins[MAX_JOINS]))


def check_depth(tokens: list[Token]) -> None:
    """Each open bracket or CASE is a level, and so is each NOT or sign before it: all of them cost the parser stack."""
    levels: list[int] = []
    depth = prefixes = 0
    after_dot = False
    for token in tokens:
        kind = token.token_type
        if kind in OPENING and not after_dot:
            levels.append(1 + prefixes)
            depth += levels[-1]
        elif kind in CLOSING and not after_dot and levels:
            depth -= levels.pop()
        prefixes = prefixes + 1 if kind in PREFIXES else 0
        after_dot = kind == TokenType.DOT
        if depth + prefixes > MAX_DEPTH:
            raise QueryError("limit", f"nested deeper than {MAX_DEPTH} levels", hint=SIMPLIFY, span=span_of(token))
