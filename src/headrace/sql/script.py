"""Scripts: declarations and queries in one text, read from the top."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from sqlglot import Token, TokenType

from headrace.model.derived_streams import with_results
from headrace.model.errors import QueryError
from headrace.model.expressions import height
from headrace.model.query import Query
from headrace.model.schema import Catalog, Stream, Table
from headrace.sql.ddl import NamedSelect, parse_create
from headrace.sql.expressions import MAX_HEIGHT
from headrace.sql.printer import format_query
from headrace.sql.relations import no_relation
from headrace.sql.select import parse_select
from headrace.sql.tokens import (
    MAX_DEPTH,
    MAX_JOINS,
    MAX_STATEMENT_BYTES,
    SIMPLIFY,
    check_limits,
    span_of,
    split_statements,
    tokenize,
    value_errors_at,
)


@dataclass(frozen=True, slots=True)
class NamedQuery:
    name: str
    query: Query


@dataclass(frozen=True, slots=True)
class Script:
    catalog: Catalog
    queries: tuple[NamedQuery, ...]


def parse_script(text: str, catalog: Catalog | None = None, readable: Mapping[str, Query] | None = None) -> Script:
    """All declarations and queries of `text`, which may read the results of `readable`. The first mistake is raised."""
    reader = ScriptReader(text, catalog or Catalog(), readable)
    for outcome in reader.statements():
        if isinstance(outcome, QueryError):
            raise outcome
    return reader.script()


def parse_query(text: str, catalog: Catalog) -> Query:
    """The one query that `text` holds."""
    return parse_next(text, catalog, {})[1]


def parse_next(text: Any, catalog: Catalog, readable: Mapping[str, Query]) -> tuple[Catalog, Query]:
    """One query that may read the results of others, and the catalog with the results that it reads."""
    if not isinstance(text, str):
        raise QueryError("syntax", f"a query is a text, not {type(text).__name__}")
    script = parse_script(text, catalog, readable)
    if len(script.queries) != 1:
        raise QueryError("syntax", f"expected one query, found {len(script.queries)}")
    return script.catalog, script.queries[0].query


def unknown_relation(text: str, catalog: Catalog) -> str | None:
    """Return the first name in a FROM of `text` that is neither declared nor a query's."""
    for problem in ScriptReader(text, catalog).statements():
        if isinstance(problem, QueryError) and problem.span is not None:
            name = text[problem.span.start : problem.span.end].strip("`")
            if problem.message == no_relation(name):
                return name
    return None


class ScriptReader:
    """Reads statement by statement, so that a caller can report every mistake and continue with the next statement."""

    def __init__(self, text: str, catalog: Catalog, readable: Mapping[str, Query] | None = None) -> None:
        """`readable` are queries that are there already, whose results may be read."""
        self.text = text
        self.catalog = catalog
        self.queries: dict[str, NamedQuery] = {}
        self.readable = dict(readable or {})

    def script(self) -> Script:
        return Script(self.catalog, tuple(self.queries.values()))

    def statements(self) -> Iterator[Stream | Table | NamedQuery | QueryError]:
        try:
            statements = list(split_statements(tokenize(self.text)))
        except QueryError as error:
            yield self.locate_error(error)
            return
        for tokens in statements:
            try:
                yield self.statement(tokens)
            except QueryError as error:
                error.hint = slip_hint(tokens) or error.hint
                yield self.locate_error(error)

    def locate_error(self, error: QueryError) -> QueryError:
        error.source = self.text
        return error

    def statement(self, tokens: list[Token]) -> Stream | Table | NamedQuery:
        if tokens[0].token_type == TokenType.SELECT:
            return self.add_query(self.free_name(), tokens[0], tokens)
        if tokens[0].token_type != TokenType.CREATE:
            hint = "a script holds CREATE STREAM, CREATE TABLE, CREATE QUERY and SELECT"
            raise QueryError(
                "syntax", f"a statement can't begin with '{tokens[0].text}'", hint=hint, span=span_of(tokens[0])
            )
        check_limits(tokens, self.text)
        created = parse_create(tokens)
        if isinstance(created, NamedSelect):
            return self.add_query(created.name, created.name_token, created.select)
        with value_errors_at(span_of(tokens[0], tokens[2]), "declaration"):
            self.catalog = self.catalog.with_relation(created)
        return created

    def free_name(self) -> str:
        """q1, q2, ... by position; a name that is taken already is passed over."""
        number = len(self.queries) + 1
        while f"q{number}" in self.queries:
            number += 1
        return f"q{number}"

    def add_query(self, name: str, name_token: Token, select: list[Token]) -> NamedQuery:
        if name.lower() in self.queries:
            raise QueryError("declaration", f"there are two queries named '{name}'", span=span_of(name_token))
        with value_errors_at(span_of(name_token), "declaration"):
            self.catalog = with_results(self.catalog, self.readable, {token.text.lower() for token in select})
        query = parse_select(select, self.text, self.catalog)
        check_canonical(query, select)
        self.queries[name.lower()] = NamedQuery(name, query)
        self.readable[name] = query
        return self.queries[name.lower()]


KEYWORDS = ("SELECT", "FROM")


def slip_hint(tokens: list[Token]) -> str | None:
    """Suggest what was meant if a statement runs into the next, or one of its first words is misspelled."""
    if any(token.token_type == TokenType.CREATE for token in tokens[1:]):
        return "is a ';' missing before CREATE?"
    present = {token.text.upper() for token in tokens}
    if tokens[0].token_type == TokenType.CREATE and "QUERY" not in present:
        return None
    for keyword in KEYWORDS:
        meant = [token.text for token in tokens if is_slip(token, keyword)] if keyword not in present else []
        if meant:
            return f"did you mean {keyword} instead of '{meant[0]}'?"
    return None


def is_slip(token: Token, keyword: str) -> bool:
    """The same letters but for one, or in another order."""
    if token.token_type != TokenType.VAR or abs(len(token.text) - len(keyword)) > 1:
        return False
    written = token.text.upper()
    shared = sum((Counter(written) & Counter(keyword)).values())
    return written[0] == keyword[0] and shared >= len(keyword) - 1


def check_canonical(query: Query, select: list[Token]) -> None:
    """The limits hold for the canonical text too, so that what was accepted once is always accepted again."""
    canonical = format_query(query)
    try:
        if len(canonical.encode()) > MAX_STATEMENT_BYTES:
            raise QueryError("limit", f"written out, the query has more than {MAX_STATEMENT_BYTES >> 10} KiB")
        if max(map(height, query.expressions())) > MAX_HEIGHT:
            raise QueryError("limit", f"more than {MAX_HEIGHT} operators inside one another or in a row")
        # Each bracket is one level, or two with a NOT or a minus before it; counting them is cheaper than reading.
        if 2 * (canonical.count("(") + canonical.count("CASE")) >= MAX_DEPTH or len(query.joins) > MAX_JOINS:
            check_limits(tokenize(canonical), canonical)
    except QueryError as error:
        raise QueryError(error.code, error.message, hint=SIMPLIFY, span=span_of(select[0])) from None
