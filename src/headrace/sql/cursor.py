"""A reader of tokens for the parts of the language that are ours: declarations, windows, types."""

from __future__ import annotations

import re
from collections.abc import Sequence

from sqlglot import Token, TokenType

from headrace.model import types
from headrace.model.errors import QueryError, Span, nearest
from headrace.model.time import parse_duration
from headrace.sql.tokens import span_of

QUOTED = {TokenType.STRING, TokenType.IDENTIFIER}
WORD = re.compile(r"[^\W\d]\w*\Z")


def is_word(token: Token) -> bool:
    """A token that could be a name or a keyword, quoted or not; r'text' and x'1f' are longer than their text."""
    if token.token_type == TokenType.IDENTIFIER:
        return True
    return token.end - token.start + 1 == len(token.text) and WORD.match(token.text) is not None


def is_value(token: Token) -> bool:
    return token.token_type in (TokenType.STRING, TokenType.NUMBER)


def read_duration(text: str, span: Span) -> int:
    try:
        return parse_duration(text)
    except ValueError as problem:
        raise QueryError("duration", str(problem), hint=DURATION_HINT, span=span) from None


class Cursor:
    """Walks over `tokens` from `position`; every expectation that fails is a QueryError at the spot."""

    def __init__(self, tokens: Sequence[Token], position: int = 0) -> None:
        self.tokens = tokens
        self.position = position

    @property
    def at_end(self) -> bool:
        return self.position >= len(self.tokens)

    def peek(self, ahead: int = 0) -> Token | None:
        index = self.position + ahead
        return self.tokens[index] if index < len(self.tokens) else None

    def next_is(self, *words: str) -> bool:
        """True if the next tokens are these words or signs, whatever their case."""
        upcoming = self.tokens[self.position : self.position + len(words)]
        return len(upcoming) == len(words) and all(
            token.text.upper() == word and token.token_type not in QUOTED
            for token, word in zip(upcoming, words, strict=True)
        )

    def accept(self, *words: str) -> bool:
        found = self.next_is(*words)
        self.position += len(words) if found else 0
        return found

    def expect(self, *words: str) -> None:
        for word in words:
            if not self.accept(word):
                raise self.syntax_error(f"expected {word}")

    def advance(self) -> Token:
        token = self.peek()
        if token is None:
            raise self.syntax_error("the statement ends too early")
        self.position += 1
        return token

    def spot(self) -> Span:
        """The next token, or the end of the statement."""
        token = self.peek()
        if token is not None:
            return span_of(token)
        end = self.tokens[-1].end + 1 if self.tokens else 0
        return Span(end, end + 1)

    def syntax_error(self, message: str, hint: str | None = None) -> QueryError:
        return QueryError("syntax", message, hint=hint, span=self.spot())

    def name(self, what: str) -> str:
        token = self.peek()
        if token is None or not is_word(token):
            raise self.syntax_error(f"expected {what}")
        if not token.text:
            raise self.syntax_error("a name needs a character")
        self.position += 1
        return token.text

    def string(self, what: str) -> str:
        token = self.peek()
        if token is None or token.token_type != TokenType.STRING:
            raise self.syntax_error(f"expected {what} in quotes")
        self.position += 1
        return token.text

    def integer(self, what: str) -> int:
        token = self.peek()
        if token is None or token.token_type != TokenType.NUMBER or not re.fullmatch(r"[0-9]{1,18}", token.text):
            raise self.syntax_error(f"expected {what}, a whole number")
        self.position += 1
        return int(token.text)

    def duration(self) -> int:
        """'12 min', 12 MINUTES, INTERVAL '12' MINUTE, or a number of seconds."""
        first = self.position
        self.accept("INTERVAL")
        token = self.peek()
        if token is None or not is_value(token):
            raise self.syntax_error("expected a duration", hint=DURATION_HINT)
        self.position += 1
        text = token.text
        unit = self.peek()
        if unit is not None and unit.token_type not in QUOTED and unit.text.upper() in DURATION_WORDS:
            text = f"{text} {unit.text}"
            self.position += 1
        return read_duration(text, span_of(self.tokens[first], self.tokens[self.position - 1]))

    def data_type(self) -> types.DataType:
        first = self.peek()
        if first is None:
            raise self.syntax_error("expected a type")
        if self.accept("DOUBLE PRECISION"):
            return types.DOUBLE
        name = self.name("a type").upper()
        if name in ("DECIMAL", "NUMERIC", "DEC"):
            return self.decimal_type(first)
        found = types.TYPE_NAMES.get(name)
        if found is None:
            hint = TYPE_HINTS.get(name) or nearest(name, types.TYPE_NAMES) or f"known types: {KNOWN_TYPES}"
            raise QueryError("type", f"'{first.text}' is not a type", hint=hint, span=span_of(first))
        if name == "DOUBLE":
            self.accept("PRECISION")
        if name == "VARCHAR" and self.accept("("):
            self.integer("the length")
            self.expect(")")
        return found

    def decimal_type(self, first: Token) -> types.DataType:
        precision, scale = 10, 0
        if self.accept("("):
            precision = self.integer("the number of digits")
            scale = self.integer("the digits after the point") if self.accept(",") else 0
            self.expect(")")
        try:
            return types.decimal(precision, scale)
        except ValueError as problem:
            raise QueryError("type", str(problem), span=span_of(first)) from None


DURATION_HINT = "write it like '12 min', '30 days', 12 MINUTES or a number of seconds"
DURATION_WORDS = frozenset(
    "DAY DAYS HOUR HOURS MINUTE MINUTES MIN MINS SECOND SECONDS SEC SECS S H MS US MILLISECOND MILLISECONDS "
    "MICROSECOND MICROSECONDS WEEK WEEKS MONTH MONTHS QUARTER QUARTERS YEAR YEARS".split()
)
KNOWN_TYPES = "BOOLEAN, BIGINT, DOUBLE, DECIMAL(p, s), STRING, TIMESTAMP, ADDRESS, BINARY"
TYPE_HINTS = {
    "DATE": "a DATE has no time of day; use TIMESTAMP",
    "TIMESTAMP_NTZ": "only a column of a stream or table is declared TIMESTAMP_NTZ; use TIMESTAMP",
}
