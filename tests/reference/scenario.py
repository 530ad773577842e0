"""Scripted streams: rows, clocks and results in seconds, so that a test reads like the drawing above it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from headrace.model.query import Query
from headrace.model.schema import UserFunction
from headrace.model.time import SECOND_US
from headrace.model.types import Value
from headrace.reference import Interpreter, RowCounts, StepResult
from headrace.sql import parse_query, parse_script

COLUMNS = "t TIMESTAMP, k STRING, v BIGINT, x DOUBLE, d DECIMAL(10, 2), b BOOLEAN, a ADDRESS, p STRING"
NAMES = [column.split()[0] for column in COLUMNS.split(", ") if column[0].isalpha()]

Row = dict[str, Value]
Shown = tuple[object, ...]


def at(seconds: float | None, **columns: Value) -> Row:
    """A row with this event time; columns that are not named are NULL."""
    assert set(columns) <= set(NAMES)
    time_us = None if seconds is None else round(seconds * SECOND_US)
    return dict.fromkeys(NAMES) | columns | {"t": time_us}


def in_seconds(time_us: int | None) -> float | None:
    return time_us if time_us is None else time_us // SECOND_US if time_us % SECOND_US == 0 else time_us / SECOND_US


@dataclass(frozen=True, slots=True)
class Step:
    """What a batch gave, with times in seconds."""

    result: StepResult

    @property
    def counts(self) -> RowCounts:
        return self.result.counts

    @property
    def watermark(self) -> float | None:
        return in_seconds(self.result.watermark_us)

    def windows(self, name: str = "q") -> list[Shown]:
        """(start, end) of the windows that were closed, with or without rows."""
        closed = [result.window for result in self.result.results if result.query == name]
        return [(in_seconds(window.start_us), in_seconds(window.end_us)) for window in closed]

    def rows(self, name: str = "q") -> list[Shown]:
        """(start, end, value, ...) of all rows of the query's windows."""
        return [
            (in_seconds(result.window.start_us), in_seconds(result.window.end_us), *row[2:])
            for result in self.result.results
            if result.query == name
            for row in result.rows
        ]

    def complete(self, name: str = "q") -> list[bool]:
        return [result.complete for result in self.result.results if result.query == name]

    def errors(self, name: str = "q") -> int:
        return self.counts.errors.get(name, 0)

    def side_output(self) -> list[Shown]:
        """(event time, reason, watermark) of the rows that were not taken."""
        return [
            (in_seconds(rejected.row["t"]), rejected.reason, in_seconds(rejected.watermark_us))  # type: ignore[arg-type]
            for rejected in self.result.rejected
        ]


class Scenario:
    """One stream `s` and the queries on it; the first one is called q. Queries must leave the window's bounds first."""

    def __init__(
        self,
        query: str | None = None,
        *,
        stream: str = "",
        tables: str = "",
        data: Mapping[str, Sequence[Mapping[str, Value]]] | None = None,
        functions: Iterable[UserFunction] = (),
        max_empty: int = 1_000,
        emit_incomplete: bool = False,
    ) -> None:
        declared = parse_script(f"CREATE STREAM s ({COLUMNS}) EVENT TIME t {stream}; {tables}").catalog
        self.catalog = replace(declared, functions=tuple(functions))
        self.interpreter = Interpreter(
            self.catalog.streams[0], data, functions, max_empty=max_empty, emit_incomplete=emit_incomplete
        )
        if query is not None:
            self.register("q", query)

    def parse(self, query: str) -> Query:
        return parse_query(query, self.catalog)

    def register(self, name: str, query: str) -> None:
        self.interpreter.register(name, self.parse(query))

    def drop(self, name: str) -> None:
        self.interpreter.drop(name)

    def batch(self, *rows: Row, clock: float | None = None) -> Step:
        clock_us = None if clock is None else round(clock * SECOND_US)
        return Step(self.interpreter.batch(rows, clock_us))

    def end(self) -> Step:
        return Step(self.interpreter.end())


def bounded(query: str, *rows: Row, stream: str = "", functions: Iterable[UserFunction] = ()) -> list[Shown]:
    """The query's rows over a stream that ends."""
    scenario = Scenario(query, stream=stream, functions=functions)
    return scenario.batch(*rows).rows() + scenario.end().rows()


class Outcome(NamedTuple):
    value: object
    errors: int


def outcome(expression: str, stream: str = "", functions: Iterable[UserFunction] = (), /, **columns: Value) -> Outcome:
    """What the expression gives for one row, and how many errors that counts."""
    scenario = Scenario(f"SELECT max({expression}) AS m FROM s [RANGE 1]", stream=stream, functions=functions)
    errors = scenario.batch(at(0, **columns)).errors()
    ((_, _, value),) = scenario.end().rows()
    return Outcome(value, errors)


def value_of(expression: str, **columns: Value) -> object:
    """What the expression gives for one row, on which nothing fails."""
    value, errors = outcome(expression, **columns)
    assert errors == 0
    return value
