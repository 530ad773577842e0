"""CREATE STREAM, CREATE TABLE, CREATE QUERY: from tokens to values, and streams and tables back to text."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import tzinfo
from typing import Any

from sqlglot import Token, TokenType

from headrace.model.errors import QueryError
from headrace.model.query_names import QUERY_NAME_CODE, QUERY_NAME_HINT, is_query_name
from headrace.model.schema import LOCAL_TIMESTAMP, Column, Stream, Table
from headrace.model.time import format_duration, parse_zone
from headrace.model.types import TIMESTAMP
from headrace.sql.cursor import Cursor, is_word
from headrace.sql.names import quote
from headrace.sql.tokens import span_of, value_errors_at


@dataclass(frozen=True, slots=True)
class NamedSelect:
    """CREATE QUERY name AS, with the tokens of its SELECT."""

    name: str
    name_token: Token
    select: list[Token]


def parse_create(tokens: list[Token]) -> Stream | Table | NamedSelect:
    cursor = Cursor(tokens)
    cursor.expect("CREATE")
    if cursor.accept("STREAM"):
        return stream(cursor)
    if cursor.accept("TABLE"):
        return table(cursor)
    if cursor.accept("QUERY"):
        return named_select(cursor)
    raise cursor.syntax_error(
        "only streams, tables and queries can be created", "CREATE STREAM, CREATE TABLE or CREATE QUERY"
    )


def named_select(cursor: Cursor) -> NamedSelect:
    tokens = name_tokens(cursor)
    name = "".join(token.text for token in tokens)
    if not is_query_name(name):
        message = f"'{name}' can't be the name of a query"
        raise QueryError(QUERY_NAME_CODE, message, hint=QUERY_NAME_HINT, span=span_of(tokens[0], tokens[-1]))
    cursor.expect("AS")
    if cursor.at_end:
        raise cursor.syntax_error("expected SELECT")
    return NamedSelect(name, tokens[0], list(cursor.tokens[cursor.position :]))


def name_tokens(cursor: Cursor) -> list[Token]:
    """What stands for the name: dashes, dots and digits that touch it were meant as part of it."""
    tokens: list[Token] = []
    while (token := cursor.peek()) is not None and (not tokens or tokens[-1].end + 1 == token.start):
        if not is_word(token) and token.token_type not in (TokenType.NUMBER, TokenType.DASH, TokenType.DOT):
            break
        tokens.append(cursor.advance())
    if not tokens:
        raise cursor.syntax_error("expected the query's name", QUERY_NAME_HINT)
    return tokens


def columns(cursor: Cursor) -> tuple[Column, ...]:
    cursor.expect("(")
    declared = []
    while True:
        name = column_name(cursor)
        is_local = cursor.accept(LOCAL_TIMESTAMP)
        declared.append(Column(name, TIMESTAMP if is_local else cursor.data_type(), is_local))
        if cursor.accept(")"):
            return tuple(declared)
        if cursor.next_is("NOT", "NULL") or cursor.next_is("PRIMARY KEY"):
            raise cursor.syntax_error(
                "columns have no constraints", hint="any column may hold NULL; declare name and type only"
            )
        cursor.expect(",")


def table(cursor: Cursor) -> Table:
    start = cursor.spot()
    name = cursor.name("the table's name")
    declared = columns(cursor)
    if not cursor.at_end:
        raise cursor.syntax_error("nothing may follow the columns of a table")
    with value_errors_at(start, "declaration"):
        return Table(name, declared)


def stream(cursor: Cursor) -> Stream:
    start = cursor.spot()
    name = cursor.name("the stream's name")
    declared = columns(cursor)
    options: dict[str, object] = {}
    while not cursor.at_end:
        option = next((words for words in STREAM_OPTIONS if cursor.accept(*words)), None)
        if option is None:
            known = ", ".join(" ".join(words) for words in STREAM_OPTIONS)
            raise cursor.syntax_error("this is not an option of a stream", hint=f"known options: {known}")
        field, read, _ = STREAM_OPTIONS[option]
        if field in options:
            raise cursor.syntax_error(f"{' '.join(option)} is given twice")
        options[field] = read(cursor)
    if "event_time" not in options:
        raise cursor.syntax_error(
            f"stream {name} needs an EVENT TIME", hint="add EVENT TIME <column>; the column is a TIMESTAMP"
        )
    with value_errors_at(start, "declaration"):
        return Stream(name, declared, **options)  # type: ignore[arg-type]


def column_name(cursor: Cursor) -> str:
    return cursor.name("a column's name")


def zone(cursor: Cursor) -> tzinfo:
    start = cursor.spot()
    text = cursor.string("a time zone")
    with value_errors_at(start, "declaration"):
        return parse_zone(text)


def show_duration(length_us: int) -> str:
    return f"'{format_duration(length_us)}'"


STREAM_OPTIONS: dict[tuple[str, ...], tuple[str, Callable[[Cursor], object], Callable[[Any], str]]] = {
    ("EVENT", "TIME"): ("event_time", column_name, quote),
    ("LATENESS",): ("lateness_us", Cursor.duration, show_duration),
    ("SKEW",): ("skew_us", Cursor.duration, show_duration),
    ("IDLE",): ("idle_us", Cursor.duration, show_duration),
    ("PARTITION",): ("partition", column_name, quote),
    ("TIME", "ZONE"): ("zone", zone, lambda declared: f"'{declared}'"),
}
"""For the words of each option: the field of the stream, how it is read, and how it is written."""


def column_list(declared: tuple[Column, ...]) -> str:
    return ", ".join(f"{quote(column.name)} {column.declared_type}" for column in declared)


def format_table(declared: Table) -> str:
    return f"CREATE TABLE {quote(declared.name)} ({column_list(declared.columns)});"


def format_stream(declared: Stream) -> str:
    default = Stream(declared.name, declared.columns, declared.event_time)
    parts = [f"CREATE STREAM {quote(declared.name)} ({column_list(declared.columns)})"]
    for words, (field, _, show) in STREAM_OPTIONS.items():
        value = getattr(declared, field)
        if field == "event_time" or value != getattr(default, field):
            parts.append(f"{' '.join(words)} {show(value)}")
    return " ".join(parts) + ";"
