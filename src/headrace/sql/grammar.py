"""What the stock parser lets pass and we do not: holes in lists, operators without operands, empty clauses."""

from __future__ import annotations

from collections.abc import Callable

from sqlglot import Token, TokenType

from headrace.model.errors import QueryError
from headrace.sql.cursor import is_word
from headrace.sql.names import SUBQUERY
from headrace.sql.tokens import kind_at, span_of, token_types

SIGNS = token_types("COMMA L_PAREN R_PAREN DOT STAR PLUS DASH SLASH MOD EQ NEQ LT LTE GT GTE DPIPE")
CLAUSES_AFTER_GROUP_BY = token_types("HAVING ORDER_BY LIMIT")
CLAUSES = token_types("FROM JOIN ON WHERE GROUP_BY") | CLAUSES_AFTER_GROUP_BY
BETWEEN_OPERANDS = token_types("AND OR LIKE DIV IN IS BETWEEN ESCAPE")
BEFORE_OPERAND = (SIGNS | CLAUSES | BETWEEN_OPERANDS) - token_types("R_PAREN FROM JOIN")
BEFORE_OPERAND |= token_types("SELECT ALIAS NOT DISTINCT CASE WHEN THEN ELSE")
"""What stands before a value: a word behind it is no clause."""


def check_grammar(tokens: list[Token]) -> None:
    for index, token in enumerate(tokens):
        check = CHECKS.get(token.token_type)
        if check is not None and kind_at(tokens, index - 1) != TokenType.DOT:
            check(tokens, index)


def check_comma(tokens: list[Token], index: int) -> None:
    before, after = kind_at(tokens, index - 1), kind_at(tokens, index + 1)
    opened = before is None or before in BEFORE_OPERAND - {TokenType.STAR}
    closed = after is None or after in CLAUSES | {TokenType.COMMA, TokenType.R_PAREN}
    if opened or closed:
        raise QueryError("syntax", "an item of the list is missing beside this comma", span=span_of(tokens[index]))


def check_dot(tokens: list[Token], index: int) -> None:
    named = index > 0 and is_word(tokens[index - 1])
    leads = index + 1 < len(tokens) and (is_word(tokens[index + 1]) or kind_at(tokens, index + 1) == TokenType.STAR)
    if not named or not leads:
        hint = "a dot stands between a relation and its column"
        raise QueryError("syntax", "this dot does not fit here", hint=hint, span=span_of(tokens[index]))


def check_operator(tokens: list[Token], index: int) -> None:
    """The stock parser takes AND(a, b) for a function call."""
    before = kind_at(tokens, index - 1)
    if before == TokenType.NOT:
        before = kind_at(tokens, index - 2)
    if before is None or before in BEFORE_OPERAND:
        message = f"a value is missing before {tokens[index].text.upper()}"
        raise QueryError("syntax", message, span=span_of(tokens[index]))


def check_list(tokens: list[Token], index: int) -> None:
    check_operator(tokens, index)
    if kind_at(tokens, index + 1) != TokenType.L_PAREN or kind_at(tokens, index + 2) == TokenType.R_PAREN:
        raise QueryError("syntax", "IN needs a list of values", hint="write x IN (1, 2)", span=span_of(tokens[index]))


def check_clause(tokens: list[Token], index: int) -> None:
    after = kind_at(tokens, index + 1)
    if after is None or after in CLAUSES:
        raise QueryError("syntax", f"nothing follows {tokens[index].text.upper()}", span=span_of(tokens[index]))


def check_select(tokens: list[Token], index: int) -> None:
    check_clause(tokens, index)
    if index > 0:
        message = "a SELECT inside a SELECT is not supported"
        raise QueryError("unsupported", message, hint=SUBQUERY, span=span_of(tokens[index]))
    if kind_at(tokens, 1) == TokenType.DISTINCT:
        hint = "the rows of a window are distinct by GROUP BY; count(DISTINCT x) counts values"
        raise QueryError("unsupported", "SELECT DISTINCT is not supported", hint=hint, span=span_of(tokens[1]))


CHECKS: dict[TokenType, Callable[[list[Token], int], None]] = {
    TokenType.COMMA: check_comma,
    TokenType.DOT: check_dot,
    TokenType.SELECT: check_select,
    **dict.fromkeys(CLAUSES, check_clause),
    **dict.fromkeys(BETWEEN_OPERANDS, check_operator),
    TokenType.IN: check_list,
}
