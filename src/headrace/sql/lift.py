"""Lift what the stock parser does not know out of the token list, and mask the rest so that nothing is lost on the way.

Our window forms, the types of casts and aliases in GROUP BY are taken out by hand. Every name, function and constant
that is left gets a text made of its position (`n12`, `f12`, `12`): so the stock parser has no say in what a name or a
function means, and every leaf of its tree leads back to the exact spot in the source.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from sqlglot import Token, TokenType

from headrace.model.errors import QueryError, Span
from headrace.model.types import DataType
from headrace.model.windows import AnyWindow, Window, sliced_window
from headrace.sql.cursor import Cursor, is_word
from headrace.sql.grammar import BEFORE_OPERAND, CLAUSES_AFTER_GROUP_BY, SIGNS
from headrace.sql.names import INFIX, REFUSED, is_keyword
from headrace.sql.tokens import kind_at, span_of, token_types, value_errors_at

SIGN_HINTS = {
    TokenType.DCOLON: "write CAST(x AS type); numbers have no suffix for their type",
    TokenType.NULLSAFE_EQ: "write a = b OR (a IS NULL AND b IS NULL)",
    TokenType.L_BRACKET: "a window is written [RANGE '12 min' SLIDE '5 min'] after the stream's name",
}
TYPED_CONSTANTS = {"TIMESTAMP", "ADDRESS", "DECIMAL", "DATE", "INET", "NUMERIC"}
CONSTANT_WORDS = token_types("NULL TRUE FALSE")


@dataclass(frozen=True, slots=True)
class LiftedWindow:
    """A window found at a stream's name; `anchor` is the position of the name or alias before it."""

    window: AnyWindow
    anchor: int
    span: Span
    time_column: int | None = None


@dataclass(slots=True)
class Lifted:
    """The masked tokens for the stock parser, and what was taken out of them, by position in the statement."""

    source: list[Token]
    masked: list[Token] = field(default_factory=list)
    windows: list[LiftedWindow] = field(default_factory=list)
    casts: dict[int, DataType] = field(default_factory=dict)
    group_aliases: dict[int, int] = field(default_factory=dict)


def lift(tokens: list[Token]) -> Lifted:
    return Lifter(tokens).run()


class Lifter:
    def __init__(self, tokens: list[Token]) -> None:
        self.tokens = tokens
        self.cursor = Cursor(tokens)
        self.lifted = Lifted(tokens)
        self.depth = 0
        self.open_casts: list[tuple[int, int]] = []
        self.group_item: int | None = None

    def run(self) -> Lifted:
        while not self.cursor.at_end:
            self.step(self.cursor.advance(), self.cursor.position - 1)
        return self.lifted

    def step(self, token: Token, index: int) -> None:
        following = self.cursor.peek()
        if token.token_type == TokenType.STRING:
            if following is not None and following.token_type == TokenType.STRING:
                hint = "join texts with ||; a quote inside a text is written twice"
                raise QueryError("syntax", "two texts stand side by side", hint=hint, span=span_of(following))
            self.emit(TokenType.STRING, str(index), index)
        elif token.token_type == TokenType.NUMBER or (token.token_type in CONSTANT_WORDS and not self.is_tested(index)):
            self.emit(TokenType.NUMBER, str(index), index)
        elif token.token_type == TokenType.L_BRACKET and (
            self.cursor.next_is("RANGE") or self.cursor.next_is("SLICES")
        ):
            self.lift_brackets(index)
        elif token.token_type == TokenType.L_BRACKET and self.cursor.next_is("ROWS"):
            hint = "use [RANGE '12 min' SLIDE '5 min']"
            raise QueryError("unsupported", "count windows are not supported", hint=hint, span=self.cursor.spot())
        elif token.token_type in SIGNS:
            self.sign(token, index)
        elif is_word(token) or is_keyword(token):
            self.word(token, index)
        else:
            raise QueryError(
                "syntax",
                f"'{token.text}' has no place in a query",
                hint=SIGN_HINTS.get(token.token_type),
                span=span_of(token),
            )

    def is_tested(self, index: int) -> bool:
        """NULL, TRUE or FALSE behind IS or IS NOT belongs to the operator; after a dot it is a name."""
        before = index - 1 if kind_at(self.tokens, index - 1) != TokenType.NOT else index - 2
        return kind_at(self.tokens, before) == TokenType.IS or kind_at(self.tokens, index - 1) == TokenType.DOT

    def emit(self, token_type: TokenType, text: str, index: int) -> None:
        """`col` carries the position, so that the parser's own errors name it."""
        self.lifted.masked.append(Token(token_type, text, 1, index, index, index))

    def sign(self, token: Token, index: int) -> None:
        self.depth += (token.token_type == TokenType.L_PAREN) - (token.token_type == TokenType.R_PAREN)
        if self.open_casts and self.depth < self.open_casts[-1][1]:
            raise QueryError("syntax", "CAST needs a type", hint="write CAST(x AS BIGINT)", span=span_of(token))
        if token.token_type == TokenType.COMMA and self.depth == 0 and self.group_item is not None:
            self.group_item += 1
        self.emit(token.token_type, token.text, index)

    def word(self, token: Token, index: int) -> None:
        upper = token.text.upper() if token.token_type != TokenType.IDENTIFIER else ""
        after_dot = index > 0 and self.tokens[index - 1].token_type == TokenType.DOT
        calls = self.cursor.next_is("(")
        following = self.cursor.peek()
        if upper == "" or after_dot:
            self.emit(TokenType.VAR, f"n{index}", index)
        elif upper in ("TABLE", "HOP", "TUMBLE", "SESSION", "CUMULATE") and calls:
            self.lift_table_function(index)
        elif upper in ("CAST", "TRY_CAST") and calls:
            self.open_casts.append((index, self.depth + 1))
            self.emit(TokenType.VAR, f"f{index}", index)
        elif upper in TYPED_CONSTANTS and following is not None and following.token_type == TokenType.STRING:
            self.typed_constant(index)
        elif upper == "NULLS" and (self.cursor.next_is("FIRST") or self.cursor.next_is("LAST")):
            self.emit(TokenType.VAR, upper, index)
            self.emit(TokenType.VAR, self.cursor.advance().text.upper(), index + 1)
        elif is_keyword(token) and not (upper == "LEFT" and calls):
            self.keyword(token, index)
        elif calls and (upper not in REFUSED or upper == "RIGHT"):
            self.emit(TokenType.VAR, f"f{index}", index)
        elif upper in REFUSED and not (upper in INFIX and kind_at(self.tokens, index - 1) in BEFORE_OPERAND):
            raise QueryError("unsupported", f"{upper} is not supported", hint=REFUSED[upper], span=span_of(token))
        else:
            self.emit(TokenType.VAR, f"n{index}", index)

    def keyword(self, token: Token, index: int) -> None:
        kind = token.token_type
        if kind == TokenType.ALIAS and self.open_casts and self.depth == self.open_casts[-1][1]:
            cast, _ = self.open_casts.pop()
            self.lifted.casts[cast] = self.cursor.data_type()
            if not self.cursor.next_is(")"):
                raise self.cursor.syntax_error("expected ) after the type")
        elif kind == TokenType.ALIAS and self.group_item is not None and self.depth == 0:
            if kind_at(self.tokens, index - 1) == TokenType.GROUP_BY or self.group_item in self.lifted.group_aliases:
                raise QueryError(
                    "syntax", "AS does not fit here", hint="GROUP BY expression AS name", span=span_of(token)
                )
            alias = self.cursor.position
            self.cursor.name("a name for the group")
            self.lifted.group_aliases[self.group_item] = alias
        else:
            if kind == TokenType.GROUP_BY:
                self.group_item = 0
            elif kind in CLAUSES_AFTER_GROUP_BY:
                self.group_item = None
            self.emit(kind, token.text, index)

    def typed_constant(self, index: int) -> None:
        """TIMESTAMP '...' is CAST('...' AS TIMESTAMP)."""
        self.cursor.position = index
        name = self.tokens[index].text.upper()
        self.lifted.casts[index] = DataType("DECIMAL") if name in ("DECIMAL", "NUMERIC") else self.cursor.data_type()
        self.cursor.position = index + 2
        self.emit(TokenType.VAR, f"f{index}", index)
        self.emit(TokenType.L_PAREN, "(", index)
        self.emit(TokenType.STRING, str(index + 1), index + 1)
        self.emit(TokenType.R_PAREN, ")", index + 1)

    def add_window(
        self, build: Callable[[], AnyWindow], anchor: int, first: int, time_column: int | None = None
    ) -> None:
        span = span_of(self.tokens[first], self.tokens[self.cursor.position - 1])
        with value_errors_at(span, "window"):
            self.lifted.windows.append(LiftedWindow(build(), anchor, span, time_column))

    def lift_brackets(self, index: int) -> None:
        """[RANGE r SLIDE s OFFSET o] aligns the ends of the instances; without SLIDE they tumble."""
        cursor = self.cursor
        if cursor.accept("SLICES"):
            slices = cursor.durations()
            offset_us = cursor.duration() if cursor.accept("OFFSET") else 0
            cursor.expect("]")
            self.add_window(lambda: sliced_window(tuple(slices), offset_us), index - 1, index)
            return
        cursor.expect("RANGE")
        range_us = cursor.duration()
        slide_us = cursor.duration() if cursor.accept("SLIDE") else range_us
        offset_us = cursor.duration() if cursor.accept("OFFSET") else 0
        if not cursor.next_is("]"):
            hint = "a window is [RANGE '12 min' SLIDE '5 min' OFFSET '1 min']"
            raise cursor.syntax_error("expected SLIDE, OFFSET or ]", hint=hint)
        cursor.expect("]")
        self.add_window(lambda: Window(range_us, slide_us, offset_us), index - 1, index)

    def lift_table_function(self, index: int) -> None:
        """TABLE(HOP(TABLE t, DESCRIPTOR(ts), slide, size)) and TUMBLE align the starts of the instances."""
        cursor = self.cursor
        wrapped = self.tokens[index].text.upper() == "TABLE"
        function = self.tokens[index]
        if wrapped:
            cursor.expect("(")
            function = cursor.advance()
        name = function.text.upper()
        if name not in ("HOP", "TUMBLE"):
            hint = "TUMBLE(TABLE t, DESCRIPTOR(ts), size) and HOP(TABLE t, DESCRIPTOR(ts), slide, size) are"
            raise QueryError("unsupported", f"{name} windows are not supported", hint=hint, span=span_of(function))
        cursor.expect("(", "TABLE")
        anchor = cursor.position
        cursor.name("the stream's name")
        cursor.expect(",", "DESCRIPTOR", "(")
        time_column = cursor.position
        cursor.name("the event time")
        cursor.expect(")", ",")
        durations = cursor.durations()
        cursor.expect(")")
        if wrapped:
            cursor.expect(")")
        self.add_window(lambda: table_function_window(name, durations), anchor, index, time_column)
        self.emit(TokenType.VAR, f"n{anchor}", anchor)


def table_function_window(name: str, durations: list[int]) -> Window:
    if name == "TUMBLE" and len(durations) in (1, 2):
        return Window.aligned_at_start(durations[0], durations[0], *durations[1:])
    if name == "HOP" and len(durations) in (2, 3):
        slide_us, range_us, *start = durations
        return Window.aligned_at_start(range_us, slide_us, *start)
    raise ValueError("TUMBLE takes a size, HOP a slide and a size; both may be followed by an offset")
