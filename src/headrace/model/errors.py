"""The one small tree of errors. Each has a stable code, a message and, where it helps, a detail, a hint and a spot."""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

MAX_SHOWN = 1_000


@dataclass(frozen=True, slots=True)
class Span:
    """A half-open range of character positions in a source text."""

    start: int
    end: int


class HeadraceError(Exception):
    """Base of all errors that are the user's to fix. `str(error)` is the whole text that a person should see."""

    def __init__(
        self,
        code: str,
        message: str,
        *,
        detail: str | None = None,
        hint: str | None = None,
        span: Span | None = None,
        source: str | None = None,
    ) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.detail = detail
        self.hint = hint
        self.span = span
        self.source = source
        self.file: str | None = None

    @property
    def place(self) -> str:
        """The file, and the line and column in it, as far as they are known."""
        if self.file is None or self.span is None or self.source is None:
            return self.file or ""
        before = self.source[: self.span.start]
        return f"{self.file}:{before.count(chr(10)) + 1}:{len(before) - before.rfind(chr(10))}"

    def __str__(self) -> str:
        place = f"{shorten_text(self.place)}: " if self.file else ""
        lines = [f"error[{self.code}]: {place}{shorten_text(self.message)}"]
        if self.span is not None and self.source is not None:
            lines += underline(self.source, self.span)
        if self.detail:
            lines.append(f"  = {shorten_text(self.detail)}")
        if self.hint:
            lines.append(f"hint: {shorten_text(self.hint)}")
        return "\n".join(lines)


class QueryError(HeadraceError):
    """A statement that we can't take: syntax, names, types, limits."""


class DataError(HeadraceError):
    """Input data that does not fit its declaration."""


class UnsupportedError(HeadraceError):
    """A valid request that this run-time does not serve; the message says why and what does."""


class UsageError(HeadraceError):
    """A command or a call with arguments that do not fit: a missing file, a folder in use, a number out of range."""


class ExpressionFailure(HeadraceError):
    """An expression that could not be evaluated at all, as opposed to one that failed on single rows.

    `expression` is the tree. The caller that knows the queries using it raises a `QueryFailure` instead. One that
    `is_too_large` may be evaluated for fewer rows.
    """

    def __init__(self, expression: Any, reason: str, is_too_large: bool = False) -> None:
        function = getattr(expression, "function", None)
        what = f"the values of {function}(...)" if function else "the values of an expression"
        super().__init__("expression", f"{what} can't be computed: {reason}")
        self.expression = expression
        self.reason = reason
        self.is_too_large = is_too_large

    def __reduce__(self) -> tuple[type[ExpressionFailure], tuple[Any, str, bool]]:
        return ExpressionFailure, (self.expression, self.reason, self.is_too_large)


class TooManyRowsError(HeadraceError):
    """A query with more result rows in one step than allowed."""

    def __init__(self, limit: int) -> None:
        hint = "use a longer slide, fewer groups or LIMIT, or a larger max_result_rows"
        super().__init__("result-rows", f"it has more than {limit:,} result rows in one step", hint=hint)
        self.limit = limit

    def __reduce__(self) -> tuple[type[TooManyRowsError], tuple[int]]:
        return TooManyRowsError, (self.limit,)


class QueryFailure(HeadraceError):
    """Some queries can't be answered; the others could continue without them. `queries` are their names.

    Only the text of an error comes back from a Spark worker: its last line holds the names, for `query_failure_in`.
    """

    def __init__(self, queries: Iterable[str], reason: str) -> None:
        self.queries = tuple(queries)
        self.reason = reason
        count = f"query {self.queries[0]}" if len(self.queries) == 1 else f"{len(self.queries)} queries"
        hint = "drop it (headrace queries drop) or register it with a smaller result"
        super().__init__("query-failed", f"{count} can't be answered: {reason}", hint=hint)

    def __str__(self) -> str:
        return f"{super().__str__()}\n{QUERIES_MARK}{json.dumps(self.queries)}"

    def __reduce__(self) -> tuple[type[QueryFailure], tuple[tuple[str, ...], str]]:
        return QueryFailure, (self.queries, self.reason)


QUERIES_MARK = "  = queries: "


def query_failure_in(text: str) -> QueryFailure | None:
    """Return the last QueryFailure whose text is part of `text`, such as a stack trace that came from a worker."""
    matches = list(QUERY_FAILURE.finditer(text))
    return QueryFailure(json.loads(matches[-1]["queries"]), matches[-1]["reason"]) if matches else None


QUERY_FAILURE = re.compile(
    rf"error\[query-failed\]: [^\n]*? can't be answered: (?P<reason>[^\n]*)\n"
    rf"(?:[^\n]*\n)??{re.escape(QUERIES_MARK)}(?P<queries>\[[^\n]*\])"
)


class RowErrorWarning(UserWarning):
    """Rows that were left out of an answer, or values in it that could not be computed."""


def nearest(name: str, known: Iterable[str]) -> str | None:
    """Return a hint with the known name that is most like `name`, or None if nothing comes close.

    Who errs in the first letter must be right in most others.
    """
    by_lower, written = {candidate.lower(): candidate for candidate in known}, name.lower()
    much_alike = difflib.get_close_matches(written, list(by_lower), n=1, cutoff=0.75)
    same_letter = [candidate for candidate in by_lower if candidate[:1] == written[:1]]
    matches = much_alike or difflib.get_close_matches(written, same_letter, n=1, cutoff=0.6)
    return f"did you mean '{by_lower[matches[0]]}'?" if matches else None


def shorten_text(text: str) -> str:
    """Return printable text of a length that a person reads: a message may quote what someone wrote."""
    return printable(text if len(text) <= MAX_SHOWN else f"{text[:MAX_SHOWN]}...")


def printable(text: str) -> str:
    """Return text that can't steer a terminal: control characters become visible marks."""
    return "".join(char if char.isprintable() else "\N{REPLACEMENT CHARACTER}" for char in text)


def printable_lines(text: str) -> str:
    """Return the same for a text of several lines."""
    return "\n".join(map(printable, text.splitlines()))


def underline(source: str, span: Span, width: int = 100) -> list[str]:
    """Return the line of `source` that holds the start of `span`, and carets under the spot."""
    start = min(span.start, len(source))
    line_number = source.count("\n", 0, start) + 1
    line_start = source.rfind("\n", 0, start) + 1
    line_end = source.find("\n", start)
    line = source[line_start : len(source) if line_end < 0 else line_end]
    column = start - line_start
    carets = max(1, min(span.end - start, len(line) - column))
    if column + carets > width:
        cut = max(0, column - width // 2)
        line, column = line[cut:], column - cut
    line, carets = line[:width], max(1, min(carets, width - column))
    margin = f"{line_number:>4}"
    return [f"{margin} | {printable(line)}", f"{' ' * len(margin)} | {' ' * column}{'^' * carets}"]
