"""A reader of tokens for the parts of the language that are ours: declarations, windows, types."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from sqlglot import Token, TokenType

from headrace.model import types
from headrace.model.errors import QueryError, Span, nearest
from headrace.model.time import parse_duration
from headrace.sql.tokens import span_of, value_errors_at

QUOTED = {TokenType.STRING, TokenType.IDENTIFIER}
WORD = re.compile(r"[^\W\d]\w*\Z")


def is_word(token: Token) -> bool:
    """A token that could be a name or a keyword, quoted or not; r'text' and x'1f' are longer than their text."""
    if token.token_type == TokenType.IDENTIFIER:
        return True
    return token.end - token.start + 1 == len(token.text) and WORD.match(token.text) is not None


def is_value(token: Token) -> bool:
    return token.token_type in (TokenType.STRING, TokenType.NUMBER)


def is_whole_number(token: Token) -> bool:
    return token.token_type == TokenType.NUMBER and re.fullmatch(r"[0-9]{1,18}", token.text) is not None


def read_duration(text: str, span: Span) -> int:
    with value_errors_at(span, "duration", DURATION_HINT):
        return parse_duration(text)


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
        is_next = self.next_is(*words)
        self.position += len(words) if is_next else 0
        return is_next

    def expect(self, *words: str) -> None:
        for word in words:
            if not self.accept(word):
                raise self.syntax_error(f"expected {word}")

    def take(self, is_wanted: Callable[[Token], bool], message: str, hint: str | None = None) -> Token:
        """The next token, which must be of the wanted kind."""
        token = self.peek()
        if token is None or not is_wanted(token):
            raise self.syntax_error(message, hint)
        self.position += 1
        return token

    def advance(self) -> Token:
        return self.take(lambda _: True, "the statement ends too early")

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
        token = self.take(is_word, f"expected {what}")
        if not token.text:
            raise QueryError("syntax", "a name needs a character", span=span_of(token))
        return token.text

    def string(self, what: str) -> str:
        return self.take(lambda token: token.token_type == TokenType.STRING, f"expected {what} in quotes").text

    def integer(self, what: str) -> int:
        return int(self.take(is_whole_number, f"expected {what}, a whole number").text)

    def durations(self) -> list[int]:
        """One duration or more, with commas between them."""
        lengths_us = [self.duration()]
        while self.accept(","):
            lengths_us.append(self.duration())
        return lengths_us

    def duration(self) -> int:
        """'12 min', 12 MINUTES, INTERVAL '12' MINUTE, or a number of seconds."""
        first = self.position
        self.accept("INTERVAL")
        text = self.take(is_value, "expected a duration", DURATION_HINT).text
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
        data_type = types.TYPE_NAMES.get(name)
        if data_type is None:
            hint = TYPE_HINTS.get(name) or nearest(name, types.TYPE_NAMES) or f"known types: {KNOWN_TYPES}"
            raise QueryError("type", f"'{first.text}' is not a type", hint=hint, span=span_of(first))
        if name == "DOUBLE":
            self.accept("PRECISION")
        if name == "VARCHAR" and self.accept("("):
            self.integer("the length")
            self.expect(")")
        return data_type

    def decimal_type(self, first: Token) -> types.DataType:
        precision, scale = 10, 0
        if self.accept("("):
            precision = self.integer("the number of digits")
            scale = self.integer("the digits after the point") if self.accept(",") else 0
            self.expect(")")
        with value_errors_at(span_of(first), "type"):
            return types.decimal(precision, scale)


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
