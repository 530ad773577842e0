"""What queries may name: streams, static tables, user functions; together the catalog."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from datetime import UTC, tzinfo
from typing import Any

from headrace.model.types import TIMESTAMP, DataType
from headrace.model.windows import AnyWindow

LOCAL_TIMESTAMP = "TIMESTAMP_NTZ"


@dataclass(frozen=True, slots=True)
class Column:
    """A column. A TIMESTAMP that `is_local` has no zone: it is what a clock on the wall shows (TIMESTAMP_NTZ)."""

    name: str
    type: DataType
    is_local: bool = False

    @property
    def declared_type(self) -> str:
        return LOCAL_TIMESTAMP if self.is_local else str(self.type)


def find_column(columns: Iterable[Column], name: str) -> Column | None:
    """Return the column of this name, in any case."""
    return next((column for column in columns if column.name.lower() == name.lower()), None)


def check_columns(owner: str, columns: tuple[Column, ...]) -> None:
    if not columns:
        raise ValueError(f"{owner} has no columns")
    seen: set[str] = set()
    for column in columns:
        if column.name.lower() in seen:
            raise ValueError(f"{owner} has two columns named '{column.name}'")
        seen.add(column.name.lower())


@dataclass(frozen=True, slots=True)
class Derived:
    """That a stream holds the results of a query over another one: its window, and the names of the columns that hold
    the window's bounds and the groups.
    """

    source: str
    window: AnyWindow
    start: str
    end: str
    groups: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Stream:
    """A stream of rows with an event time.

    `lateness_us` is how far behind the highest event time seen a row may come. `skew_us` is how far ahead of the clock
    it may be, else it is a future row. A partition that sends nothing for `idle_us` of the clock no longer holds the
    watermark back. `partition` names the column that identifies the source's partition. Naive times are read in `zone`.
    """

    name: str
    columns: tuple[Column, ...]
    event_time: str
    lateness_us: int = 0
    skew_us: int = 60_000_000
    idle_us: int = 60_000_000
    partition: str | None = None
    zone: tzinfo = UTC
    derived: Derived | None = None

    def __post_init__(self) -> None:
        check_columns(self.name, self.columns)
        column = find_column(self.columns, self.event_time)
        if column is None or column.type != TIMESTAMP:
            raise ValueError(f"the event time of {self.name} must be a TIMESTAMP column of it, not '{self.event_time}'")
        object.__setattr__(self, "event_time", column.name)
        if self.partition is not None:
            partition = find_column(self.columns, self.partition)
            if partition is None:
                raise ValueError(f"{self.name} has no column '{self.partition}' to identify its partitions")
            object.__setattr__(self, "partition", partition.name)


@dataclass(frozen=True, slots=True)
class Table:
    """A static table, joined to the stream by key."""

    name: str
    columns: tuple[Column, ...]

    def __post_init__(self) -> None:
        check_columns(self.name, self.columns)


@dataclass(frozen=True, slots=True)
class UserFunction:
    """A Python function that queries may call by name: opaque, deterministic, one value for one row.

    A vectorized one takes Arrow arrays, one for each parameter, and gives an array of as many values.
    """

    name: str
    parameters: tuple[DataType, ...]
    returns: DataType
    implementation: Callable[..., object] = field(compare=False)
    vectorized: bool = False

    def __post_init__(self) -> None:
        if self.vectorized and not self.parameters:
            raise ValueError(f"{self.name} is vectorized, so it needs a parameter to know the number of rows from")


@dataclass(frozen=True, slots=True)
class Catalog:
    """`derived` are the streams of results that some query reads, in the order of their queries."""

    streams: tuple[Stream, ...] = ()
    tables: tuple[Table, ...] = ()
    functions: tuple[UserFunction, ...] = ()
    derived: tuple[Stream, ...] = ()
    aggregates: tuple[Any, ...] = ()
    """Those of users: see aggregates.user."""

    def stream(self, name: str) -> Stream | None:
        every = (*self.streams, *self.derived)
        return next((stream for stream in every if stream.name.lower() == name.lower()), None)

    def table(self, name: str) -> Table | None:
        return next((table for table in self.tables if table.name.lower() == name.lower()), None)

    def function(self, name: str) -> UserFunction | None:
        return next((function for function in self.functions if function.name.lower() == name.lower()), None)

    def relation_names(self) -> list[str]:
        return [stream.name for stream in self.streams] + [table.name for table in self.tables]

    def with_relation(self, relation: Stream | Table) -> Catalog:
        if relation.name.lower() in {name.lower() for name in self.relation_names()}:
            raise ValueError(f"'{relation.name}' is declared already")
        if isinstance(relation, Stream):
            return replace(self, streams=(*self.streams, relation))
        return replace(self, tables=(*self.tables, relation))
