"""Workloads as values, and their text: the schema first, then one CREATE QUERY statement per query."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from headrace.datasets.kinds import DataKind
from headrace.model.errors import UsageError

MAX_QUERIES = 10_000


@dataclass(frozen=True, slots=True)
class QueryText:
    """A name and a SELECT without its semicolon."""

    name: str
    select: str


@dataclass(frozen=True, slots=True)
class WindowText:
    """Range and slide in seconds."""

    range_s: int
    slide_s: int

    def __str__(self) -> str:
        return f"[RANGE '{self.range_s} s' SLIDE '{self.slide_s} s']"


@dataclass(frozen=True, slots=True)
class Workload:
    """A named set of queries over one kind of data; `make` draws a number of them from a seed."""

    name: str
    summary: str
    data: DataKind
    default_queries: int
    make: Callable[[int, int], Sequence[QueryText]]
    max_queries: int = MAX_QUERIES

    @property
    def kind(self) -> str:
        """Name the kind of data that the queries read."""
        return self.data.name

    def script(self, queries: int | None, seed: int) -> str:
        """Return the DDL of the data and the text of this many queries (or of the default number)."""
        queries = self.default_queries if queries is None else queries
        if not 1 <= queries <= self.max_queries:
            raise UsageError("workload", f"workload {self.name} has 1 to {self.max_queries} queries, not {queries}")
        if seed < 0:
            raise UsageError("workload", f"a seed is 0 or more, not {seed}")
        statements = (f"CREATE QUERY {query.name} AS\n{query.select};\n" for query in self.make(queries, seed))
        return "\n".join([self.data.schema_sql, *statements])


def number_queries(workload: str, selects: Sequence[str]) -> list[QueryText]:
    """Name queries after their workload and place: otf_low_001, otf_low_002, ..."""
    digits = max(3, len(str(len(selects))))
    return [QueryText(f"{workload.replace('-', '_')}_{n:0{digits}}", select) for n, select in enumerate(selects, 1)]


def select(outputs: Iterable[str], source: str, where: str = "", group_by: Iterable[str] = ()) -> str:
    """Lay out a SELECT with one clause per line."""
    lines = [f"SELECT {', '.join(outputs)}", f"FROM {source}"]
    lines += [f"WHERE {where}"] if where else []
    grouping = ", ".join(group_by)
    lines += [f"GROUP BY {grouping}"] if grouping else []
    return "\n".join(lines)
