"""Queries over results: each query's results are a stream that queries declared after it may read.

A result's event time is the last instant of its window. Only final results are read, so the stream knows no late rows
nor future ones, and its watermark is how far the windows of the query are closed.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import replace
from datetime import UTC, tzinfo

from headrace.model.expressions import WINDOW_END, WINDOW_START
from headrace.model.query import Query
from headrace.model.schema import Catalog, Column, Derived, Stream, find_column
from headrace.model.time import MAX_DURATION_US
from headrace.model.types import BINARY, TIMESTAMP

WINDOW_TIME = "window_time"


def derived_stream(name: str, query: Query, zone: tzinfo = UTC) -> Stream:
    """Return the results of a query as a stream. Lists have no place in it: no expression takes them."""
    shown = {output.expression: output.name for output in reversed(query.outputs)}
    columns = tuple(column for column in query.result_columns() if column.type.is_comparable or column.type == BINARY)
    if find_column(columns, WINDOW_TIME) is not None:
        raise ValueError(f"{name} can't be read: its result {WINDOW_TIME} has the name of the event time of results")
    groups = tuple(shown[tree] for tree in query.group_by)
    derived = Derived(query.stream, query.window, shown[WINDOW_START], shown[WINDOW_END], groups)
    end = find_column(columns, shown[WINDOW_END])
    every = (*columns, Column(WINDOW_TIME, TIMESTAMP, end is not None and end.is_local))
    return Stream(name, every, WINDOW_TIME, skew_us=MAX_DURATION_US, zone=zone, derived=derived)


def with_results(catalog: Catalog, queries: Mapping[str, Query], words: Collection[str]) -> Catalog:
    """Return the catalog with the results of those queries that `words`, in lower case, name."""
    for name, query in queries.items():
        is_known = catalog.stream(name) is not None or catalog.table(name) is not None
        if name.lower() in words and not is_known:
            source = catalog.stream(query.stream)
            zone = UTC if source is None else source.zone
            catalog = replace(catalog, derived=(*catalog.derived, derived_stream(name, query, zone)))
    return catalog


def upstreams(query: Query, catalog: Catalog) -> tuple[str, ...]:
    """Return the names of the queries whose results the query reads."""
    names = (query.stream, *(join.table for join in query.joins))
    streams = [catalog.stream(name) for name in names]
    return tuple(stream.name for stream in streams if stream is not None and stream.derived is not None)


def place_of(query: Query, catalog: Catalog) -> str:
    """Return the name of the state of the query's pipeline: its stream, and the results that are joined to it."""
    joined = sorted({name for name in upstreams(query, catalog) if name != query.stream})
    return "+".join((query.stream, *joined))


def rounds(queries: Mapping[str, Query], catalog: Catalog) -> Iterator[tuple[Stream, list[str]]]:
    """Yield the queries stream by stream, each when the results that it needs are there."""
    waiting = dict(queries)
    while waiting:
        ready = [name for name, query in waiting.items() if not waiting.keys() & set(upstreams(query, catalog))]
        first = catalog.stream(waiting[ready[0]].stream)
        assert first is not None
        taken = [name for name in ready if waiting[name].stream == first.name]
        yield first, taken
        waiting = {name: query for name, query in waiting.items() if name not in taken}


def with_upstreams(names: Iterable[str], queries: Mapping[str, Query], catalog: Catalog) -> set[str]:
    """Return the names, and those of all queries whose results they need."""
    needed, waiting = set(), list(names)
    while waiting:
        name = waiting.pop()
        if name not in needed:
            needed.add(name)
            waiting += upstreams(queries[name], catalog)
    return needed
