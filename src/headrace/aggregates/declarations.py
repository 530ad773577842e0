"""Declarations of aggregates in the form of [UDAF 3.2].

    int UDAF char(36) [low_approx_med, high_approx_med] approx_median(int)
    int EXTR percentile_fcn approx_quantile percentile(int; int)

GS-lite writes the same as `string UDAF [SUBAGGR a, SUPERAGGR b] name fstring32 (uint);` and, with the function last,
`uint EXTR percentile approx_quantile percentile_fcn (uint, float);`. Both are read; a semicolon inside the brackets
distinguishes the paper's EXTR from GS-lite's. Storage is declared by the class, so the size of a scratchpad is ignored.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from headrace.aggregates.user import UserAggregate, extractor
from headrace.model.errors import QueryError, Span, UsageError, nearest
from headrace.model.functions import FUNCTION_NAME
from headrace.model.types import ADDRESS, BIGINT, DOUBLE, STRING, TYPE_NAMES, DataType, decimal

TOKEN = re.compile(r"(?P<gap>(?:\s|--[^\n]*|//[^\n]*|/\*.*?\*/)+)|[A-Za-z_]\w*|\d+|[\[\](),;]", re.DOTALL | re.ASCII)
FIXED_STRING = re.compile(r"[FV]STRING\d*|CHAR")
GIGASCOPE_TYPES: Mapping[str, DataType] = {
    **dict.fromkeys(("UINT", "USHORT", "LLONG", "ULLONG"), BIGINT),
    **dict.fromkeys(("IP", "IPV6"), ADDRESS),
    "UFLOAT": DOUBLE,
    "V_STR": STRING,
}
MAX_TEXT_LENGTH = 64 * 1024


@dataclass(frozen=True, slots=True)
class ExtractorDeclaration:
    """`name(arguments, parameters)` in SQL stands for `function(aggregate(arguments), parameters)`."""

    name: str
    function: str
    returns: DataType
    parameters: tuple[DataType, ...]


@dataclass(frozen=True, slots=True)
class AggregateDeclaration:
    name: str
    returns: DataType
    arguments: tuple[DataType, ...]
    subaggregate: str | None = None
    superaggregate: str | None = None
    extractors: tuple[ExtractorDeclaration, ...] = ()


def parse_declarations(text: str) -> tuple[AggregateDeclaration, ...]:
    """Return the aggregates of a text in its order, with their extractors. A semicolon may close a declaration."""
    reader = DeclarationReader(text)
    declarations: dict[str, AggregateDeclaration] = {}
    while not reader.at_end:
        returns = reader.type()
        if reader.accept("UDAF"):
            spot = reader.spot()
            declaration = aggregate_declaration(reader, returns)
            if declaration.name.lower() in declarations:
                raise reader.error(f"{declaration.name} is declared twice", spot)
            declarations[declaration.name.lower()] = declaration
        elif reader.accept("EXTR"):
            add_extractor(reader, returns, declarations)
        else:
            raise reader.error("expected UDAF or EXTR", hint="like: int UDAF [sub, super] name(int)")
        while reader.accept(";"):
            pass
    return tuple(declarations.values())


def aggregate_declaration(reader: DeclarationReader, returns: DataType) -> AggregateDeclaration:
    reader.scratchpad()
    levels: tuple[str | None, str | None] = (None, None)
    if reader.accept("["):
        reader.accept("SUBAGGR")
        sub = reader.name("the sub-aggregate")
        reader.expect(",")
        reader.accept("SUPERAGGR")
        levels = (sub, reader.name("the super-aggregate"))
        reader.expect("]")
    reader.scratchpad()
    name = reader.name("the aggregate's name")
    if not reader.next_is("("):
        reader.name("the type of the scratchpad")
    spot = reader.spot()
    arguments, more = reader.types()
    if not arguments or more is not None:
        raise reader.error("an aggregate takes arguments, one list of them", spot)
    return AggregateDeclaration(name, returns, arguments, *levels)


def add_extractor(reader: DeclarationReader, returns: DataType, declarations: dict[str, AggregateDeclaration]) -> None:
    first = reader.name("the extractor's name")
    spot = reader.spot()
    owner = reader.name("an aggregate's name")
    last = reader.name("the extractor's function")
    types_spot = reader.spot()
    arguments, more = reader.types()
    aggregate = declarations.get(owner.lower())
    if aggregate is None:
        raise reader.error(f"no aggregate '{owner}' is declared before", spot, nearest(owner, declarations))
    count = len(aggregate.arguments)
    name, function = (first, last) if more is None else (last, first)
    parameters = arguments[count:] if more is None else more
    if arguments[:count] != aggregate.arguments or (more is not None and len(arguments) != count):
        wanted = ", ".join(map(str, aggregate.arguments))
        raise reader.error(f"{name} must begin with the arguments of {aggregate.name}: {wanted}", types_spot)
    extractor = ExtractorDeclaration(name, function, returns, parameters)
    declarations[owner.lower()] = replace(aggregate, extractors=(*aggregate.extractors, extractor))


class DeclarationReader:
    """A reader of tokens; an expectation that fails is a QueryError at its spot."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.position = 0
        self.tokens: list[tuple[str, Span]] = []
        if len(text) > MAX_TEXT_LENGTH:
            raise QueryError("limit", f"declarations may have at most {MAX_TEXT_LENGTH >> 10} KiB")
        end = 0
        while end < len(text):
            match = TOKEN.match(text, end)
            if match is None:
                raise self.error("this character is no part of a declaration", Span(end, end + 1))
            if match["gap"] is None:
                self.tokens.append((match[0], Span(*match.span())))
            end = match.end()

    @property
    def at_end(self) -> bool:
        return self.position >= len(self.tokens)

    def peek(self, ahead: int = 0) -> str:
        place = self.position + ahead
        return self.tokens[place][0].upper() if place < len(self.tokens) else ""

    def spot(self) -> Span:
        return Span(len(self.text), len(self.text) + 1) if self.at_end else self.tokens[self.position][1]

    def error(self, message: str, span: Span | None = None, hint: str | None = None) -> QueryError:
        return QueryError("udaf-declaration", message, hint=hint, span=span or self.spot(), source=self.text)

    def next_is(self, word: str) -> bool:
        return self.peek() == word

    def accept(self, word: str) -> bool:
        is_next = self.next_is(word)
        self.position += is_next
        return is_next

    def expect(self, word: str) -> None:
        if not self.accept(word):
            raise self.error(f"expected {word}")

    def name(self, what: str) -> str:
        if self.at_end or not FUNCTION_NAME.fullmatch(self.tokens[self.position][0]):
            raise self.error(f"expected {what}")
        self.position += 1
        return self.tokens[self.position - 1][0]

    def scratchpad(self) -> None:
        """Skip a type with a size, such as `char(36)`."""
        if self.peek(1) == "(" and self.peek(2).isdecimal() and self.peek(3) == ")":
            self.name("the type of the scratchpad")
            self.position += 3

    def types(self) -> tuple[tuple[DataType, ...], tuple[DataType, ...] | None]:
        """Read a list in brackets, and behind a semicolon a second one."""
        self.expect("(")
        first = self.type_list()
        second = self.type_list() if self.accept(";") else None
        self.expect(")")
        return first, second

    def type_list(self) -> tuple[DataType, ...]:
        types: list[DataType] = []
        while not self.at_end and not self.next_is(")") and not self.next_is(";"):
            if types:
                self.expect(",")
            types.append(self.type())
        return tuple(types)

    def type(self) -> DataType:
        spot = self.spot()
        word = self.name("a type").upper()
        size = []
        if self.next_is("(") and self.peek(1).isdecimal():
            self.position += 1
            while not self.accept(")"):
                size.append(self.number())
                self.accept(",")
        if word in ("DECIMAL", "NUMERIC"):
            try:
                return decimal(*(size or [10]), *([0] * (len(size) < 2)))
            except (TypeError, ValueError):
                raise self.error("DECIMAL has 1 to 38 digits, and no more after the point", spot) from None
        data_type = TYPE_NAMES.get(word) or GIGASCOPE_TYPES.get(word)
        if data_type is None and FIXED_STRING.fullmatch(word):
            return STRING
        if data_type is None:
            hint = nearest(word, [*TYPE_NAMES, *GIGASCOPE_TYPES])
            raise self.error(f"'{word.lower()}' is not a type", spot, hint)
        return data_type

    def number(self) -> int:
        if not self.peek().isdecimal() or len(self.peek()) > 9:
            raise self.error("expected a number")
        self.position += 1
        return int(self.peek(-1))


# Classes that declarations name


def bind_classes(
    declaration: AggregateDeclaration,
    classes: Mapping[str, type[UserAggregate]],
    functions: Mapping[str, Callable[..., Any]] | None = None,
) -> type[UserAggregate]:
    """Return the class that a declaration names, with the declared name, types, levels and extractors.

    It is the super-aggregate, or else the class of the aggregate's name; extractors are `functions` of the output.
    """
    high = look_up(classes, declaration.superaggregate or declaration.name)
    members: dict[str, Any] = {
        "name": declaration.name,
        "arguments": tuple(map(str, declaration.arguments)),
        "returns": str(declaration.returns),
    }
    if declaration.subaggregate is not None:
        members["low"] = look_up(classes, declaration.subaggregate)
    for result in declaration.extractors:
        mark = extractor(str(result.returns), *map(str, result.parameters), name=result.name)
        members[f"extract_{result.name}"] = mark(apply_to_output(look_up(functions or {}, result.function)))
    return type(declaration.name, (high,), members)


def apply_to_output(function: Callable[..., Any]) -> Callable[..., Any]:
    def extract(aggregate: UserAggregate, state: Any, *parameters: Any) -> Any:
        return function(aggregate.output(state), *parameters)

    return extract


def look_up(known: Mapping[str, Any], name: str) -> Any:
    if name not in known:
        raise UsageError("udaf", f"the declaration names '{name}', which is not given", hint=nearest(name, known))
    return known[name]
