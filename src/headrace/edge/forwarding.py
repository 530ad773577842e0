"""What an edge does with rows, by its orders: level 1 in fixed memory, or nothing but passing them on."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

import pyarrow as pa

from headrace.edge.level_one import LevelOne
from headrace.edge.orders import Orders
from headrace.expressions.evaluation import FORGIVING, LENIENT, STRICT
from headrace.expressions.functions import FUNCTIONS
from headrace.model.errors import UsageError
from headrace.model.expressions import Call, columns_in, walk
from headrace.model.schema import Catalog, Stream

BUILT_IN = frozenset((*FUNCTIONS, *FORGIVING, *LENIENT, *STRICT, "cast", "window_start", "window_end"))


class Work(Protocol):
    """Takes rows and gives tables for a frame. `errors` are those of each query since the last cut."""

    @property
    def errors(self) -> Mapping[str, int]: ...

    @property
    def is_full(self) -> bool:
        """Whether it should be cut before it takes more."""

    def feed(self, rows: pa.Table) -> None: ...

    def cut(self) -> tuple[pa.Table, ...]: ...


class Forwarding:
    """Rows as they are."""

    def __init__(self, memory_bytes: int) -> None:
        self.memory_bytes = memory_bytes
        self.errors: Mapping[str, int] = {}
        self.rows: list[pa.Table] = []

    @property
    def is_full(self) -> bool:
        return bool(sum(rows.nbytes for rows in self.rows) >= self.memory_bytes)

    def feed(self, rows: pa.Table) -> None:
        self.rows.append(rows)

    def cut(self) -> tuple[pa.Table, ...]:
        rows, self.rows = self.rows, []
        return (pa.concat_tables(rows),) if rows else ()


def work_for(orders: Orders, catalog: Catalog, tables: Mapping[str, pa.Table], memory_bytes: int) -> Work:
    if orders.plan is None:
        return Forwarding(memory_bytes)
    check_functions(orders, catalog)
    return LevelOne(orders, catalog, tables, memory_bytes=memory_bytes)


def check_functions(orders: Orders, catalog: Catalog) -> None:
    """Whether all functions that the queries call are known here: those of users are not sent."""
    trees = (node for query in orders.queries.values() for tree in query.expressions() for node in walk(tree))
    called = {node.function.lower() for node in trees if isinstance(node, Call)}
    missing = called - BUILT_IN - {function.name.lower() for function in catalog.functions}
    if missing:
        problem = f"the queries call {', '.join(sorted(missing))}, which this edge does not know"
        raise UsageError("functions", problem, hint="'functions' names the Python file that the job has too")


def needed_columns(orders: Orders, stream: Stream) -> frozenset[str]:
    """The columns of the stream that some query names, its event time and its partition; all to pass them on."""
    if orders.plan is None:
        return frozenset(column.name for column in stream.columns)
    named = {
        column.name for query in orders.queries.values() for tree in query.expressions() for column in columns_in(tree)
    }
    named |= {stream.event_time} | ({stream.partition} if stream.partition else set())
    return frozenset(column.name for column in stream.columns if column.name in named)
