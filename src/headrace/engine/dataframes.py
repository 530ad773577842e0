"""Queries over frames of Arrow, pandas or Polars: declared from their columns, answered in this process."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import pyarrow as pa

from headrace.aggregates.registry import with_functions
from headrace.aggregates.user import DeclaredAggregate
from headrace.engine.answers import answer
from headrace.expressions.static_tables import Data
from headrace.inputs.conversion import REJECTED, as_stream, convert_table, convert_whole
from headrace.kernel.jit import announce_compile
from headrace.model.arrow import for_people, is_bytes
from headrace.model.derived_streams import rounds
from headrace.model.errors import HeadraceError, QueryError, RowErrorWarning, UsageError
from headrace.model.query import Query
from headrace.model.query_names import check_query_name
from headrace.model.schema import Catalog, Column, Stream, Table, UserFunction
from headrace.model.types import BIGINT, BINARY, BOOLEAN, DOUBLE, STRING, TIMESTAMP, DataType, decimal
from headrace.sql import parse_next

TYPES: tuple[tuple[Callable[[pa.DataType], bool], DataType], ...] = (
    (pa.types.is_boolean, BOOLEAN),
    (pa.types.is_integer, BIGINT),
    (pa.types.is_floating, DOUBLE),
    (pa.types.is_timestamp, TIMESTAMP),
    (pa.types.is_string, STRING),
    (pa.types.is_large_string, STRING),
    (pa.types.is_string_view, STRING),
    (is_bytes, BINARY),
)


def aggregate_frame(
    frame: Any,
    queries: Mapping[str, str],
    *,
    name: str,
    event_time: str | None,
    tables: Mapping[str, Any],
    functions: Iterable[UserFunction | DeclaredAggregate],
) -> dict[str, Any]:
    """Results are frames of the kind that came in."""
    rows = to_arrow(frame, name)
    beside = {other: to_arrow(table, other) for other, table in tables.items()}
    catalog = declare_stream(Catalog(), name, rows, event_time)
    for other, table in beside.items():
        catalog = declare_table(catalog, other, table)
    (stream,), declared = catalog.streams, catalog.tables
    catalog = with_functions(catalog, functions)
    parsed: dict[str, Query] = {}
    with mention_unread(unread_columns(rows, *beside.values())):
        for query, text in queries.items():
            check_query_name(query, parsed)
            catalog, parsed[query] = parse_next(text, catalog, parsed)
    known = {table.name: convert_whole(table.name, beside[table.name], table.columns) for table in declared}
    answers: dict[str, pa.Table] = {}
    for read_stream, ready in rounds(parsed, catalog):
        rejected = REJECTED.empty_table()
        if read_stream == stream:
            converted = convert_table(rows, stream.columns)
            read, rejected = converted.table, converted.rejected
        else:
            read = as_stream(answers[read_stream.name], read_stream)
        results = {
            other.name: as_stream(answers[other.name], other) for other in catalog.derived if other.name in answers
        }
        with announce_compile():
            answered = answer(
                Data(catalog, read_stream, read, known | results), {query: parsed[query] for query in ready}
            )
        answers |= {query: closed.table for query, closed in answered.closed.items()}
        errors = {query: (closed.errors, closed.problem) for query, closed in answered.closed.items()}
        for warning in shortcomings(read_stream.name, rejected.num_rows, answered.dropped, errors):
            warnings.warn(warning, RowErrorWarning, stacklevel=3)
    back = RETURNED.get(library(frame), lambda table: table)
    return {query: back(for_people(answers[query], parsed[query].result_columns())) for query in parsed}


def shortcomings(stream: str, bad: int, dropped: int, queries: Mapping[str, tuple[int, str | None]]) -> Iterator[str]:
    """What is not in the answers, in words: rows with a value that does not fit, rows without an event time, and of
    each query the errors, with what the code of a user raised first.
    """
    if bad:
        yield f"{stream}: {bad:,} rows have a value that could not be read and were left out"
    if dropped:
        yield f"{stream}: {dropped:,} rows had no event time and were left out"
    for query, (errors, problem) in queries.items():
        if errors:
            first = f"; the first: {problem}" if problem else ""
            yield f"{query}: {errors:,} values could not be computed and are NULL{first}"


def library(frame: Any) -> str:
    return type(frame).__module__.partition(".")[0]


def to_arrow(frame: Any, name: str) -> pa.Table:
    if isinstance(frame, pa.Table):
        return frame
    if isinstance(frame, pa.RecordBatch):
        return pa.Table.from_batches([frame])
    if library(frame) == "pandas":
        return pa.Table.from_pandas(frame, preserve_index=False)
    if library(frame) == "polars" and hasattr(frame, "to_arrow"):
        return frame.to_arrow()
    kind = f"{type(frame).__module__}.{type(frame).__name__}"
    raise UsageError("frame", f"'{name}' is a {kind}, not a table of Arrow, pandas or Polars")


def to_polars(table: pa.Table) -> Any:
    """The library is loaded, since a frame of it came in; it is no dependency."""
    return sys.modules["polars"].from_arrow(table)


RETURNED: Mapping[str, Callable[[pa.Table], Any]] = {"pandas": pa.Table.to_pandas, "polars": to_polars}


NAME_THE_TIME = "name the column that holds the time of a row: event_time='...'"


def declare_stream(
    catalog: Catalog, name: str, rows: pa.Table, event_time: str | None, hint: str = NAME_THE_TIME
) -> Catalog:
    """Declare a stream by the columns of its rows; its event time is the only TIMESTAMP column if none is named."""
    time = event_time or only_time(rows, name, hint)
    try:
        return catalog.with_relation(Stream(name, columns_of(rows), time))
    except ValueError as problem:
        raise UsageError("frame", str(problem), detail=describe_columns(rows)) from None


def declare_table(catalog: Catalog, name: str, rows: pa.Table) -> Catalog:
    """Declare a static table by the columns of its rows."""
    try:
        return catalog.with_relation(Table(name, columns_of(rows)))
    except ValueError as problem:
        raise UsageError("frame", str(problem)) from None


def describe_columns(rows: pa.Table) -> str:
    return "its columns are " + ", ".join(f"{column.name} {column.declared_type}" for column in columns_of(rows))


def columns_of(rows: pa.Table) -> tuple[Column, ...]:
    """The columns of types that queries know; others can't be named."""
    return tuple(known_columns(rows))


def known_columns(rows: pa.Table) -> Iterator[Column]:
    for field in rows.schema:
        kind = field.type.value_type if pa.types.is_dictionary(field.type) else field.type
        if pa.types.is_decimal128(kind):
            yield Column(field.name, decimal(kind.precision, kind.scale))
            continue
        known_type = next((data_type for test, data_type in TYPES if test(kind)), None)
        if known_type is not None:
            yield Column(field.name, known_type, known_type == TIMESTAMP and kind.tz is None)


def unread_columns(*tables: pa.Table) -> dict[str, pa.DataType]:
    """Those of types that queries do not know, by their names in lower case."""
    return {
        field.name.lower(): field.type
        for rows in tables
        for field in rows.schema
        if field.name not in {column.name for column in known_columns(rows)}
    }


@contextmanager
def mention_unread(unread: Mapping[str, pa.DataType]) -> Iterator[None]:
    """Explain in a query's error that a column it names exists but can't be read."""
    try:
        yield
    except QueryError as problem:
        explain_unread(problem, unread)
        raise


def explain_unread(problem: HeadraceError, unread: Mapping[str, pa.DataType]) -> None:
    """Say of a name that is not known that it is a column of a type that queries can't read, if it is one."""
    if problem.code == "unknown-name" and problem.span is not None and problem.source is not None:
        written = problem.source[problem.span.start : problem.span.end].strip('`"')
        if written.lower() in unread:
            problem.detail = f"it is of type {unread[written.lower()]}, which queries can't read"


def only_time(rows: pa.Table, name: str, hint: str = NAME_THE_TIME) -> str:
    times = [column.name for column in columns_of(rows) if column.type == TIMESTAMP]
    if len(times) == 1:
        return times[0]
    if not times:
        hint = "windows need the time of each row in a column of that type"
    problem = f"'{name}' has {'several' if times else 'no'} TIMESTAMP columns"
    raise UsageError("event-time", problem, detail=describe_columns(rows), hint=hint)
