"""The queries of OTF's workloads in DuckDB and in Polars, one at a time: what the kernel is checked and timed against.

Both join, filter, copy each row into every instance that holds it, and sum by instance.
"""

from __future__ import annotations

import operator
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from headrace.model.errors import UnsupportedError
from headrace.model.expressions import Aggregate, Call, ColumnRef, Expression, Literal, is_window_bound
from headrace.model.query import Output, Query
from headrace.model.types import BIGINT, BOOLEAN, DOUBLE
from headrace.model.windows import Window
from headrace.planner.sampling import Data

if TYPE_CHECKING:
    import polars as pl

THREADS = 2
Sums = Mapping[int, float]
Peer = Callable[[Query], Sums]
"""Of a query the sum of each instance that has rows; the instance k ends at `k * slide + offset`."""


@dataclass(frozen=True, slots=True)
class Operator:
    sql: str
    python: Callable[..., Any]


OPERATORS: Mapping[str, Operator] = {
    "and": Operator("({} AND {})", operator.and_),
    "=": Operator("({} = {})", operator.eq),
    "<": Operator("({} < {})", operator.lt),
    ">": Operator("({} > {})", operator.gt),
    "-": Operator("({} - {})", operator.sub),
    "*": Operator("({} * {})", operator.mul),
    "/": Operator("({} / {})", operator.truediv),
    "abs": Operator("abs({})", operator.abs),
}


def unsupported(what: str) -> UnsupportedError:
    return UnsupportedError(
        "peer-query", f"the peers are not asked for {what}", hint="they answer the workloads of OTF only"
    )


def operator_of(call: Call) -> Operator:
    """Arithmetic is on doubles only: on integers the engines differ in overflow and division."""
    if call.function not in OPERATORS or call.type not in (BOOLEAN, DOUBLE):
        raise unsupported(f"{call.function} of type {call.type.name}")
    return OPERATORS[call.function]


def summed(query: Query) -> tuple[Output, Expression]:
    """The one sum that the query asks for: its column, and what is summed."""
    if query.group_by or query.having is not None or query.order_by or query.limit is not None:
        raise unsupported("GROUP BY, HAVING, ORDER BY or LIMIT")
    if any(join.outer for join in query.joins):
        raise unsupported("an outer join")
    rest = [output for output in query.outputs if not is_window_bound(output.expression)]
    trees = [output.expression for output in rest]
    match trees:
        case [Aggregate("sum", (argument,), type=kind, distinct=False, filter=None)] if kind == DOUBLE:
            return rest[0], argument
    raise unsupported("anything but one sum of doubles")


def window_of(query: Query) -> Window:
    if not isinstance(query.window, Window):
        raise unsupported("a window of slices")
    return query.window


# DuckDB


@contextmanager
def duckdb_peer(data: Data) -> Iterator[Peer]:
    """DuckDB over the Arrow tables as they are."""
    import duckdb

    with duckdb.connect(config={"threads": THREADS}) as connection:
        for name, table in {data.stream.name: data.rows, **data.tables}.items():
            connection.register(name, table)

        def answer(query: Query) -> Sums:
            return dict(connection.execute(duckdb_query(query, data.stream.event_time)).fetchall())

        yield answer


def duckdb_query(query: Query, event_time: str) -> str:
    """Times are after 1970, so that `//`, which cuts towards zero, rounds down."""
    window, (_, argument) = window_of(query), summed(query)
    since_us = f"epoch_us({quoted(query.stream)}.{quoted(event_time)}) - {window.offset_us}"
    joins = [
        f"JOIN {quoted(join.table)} AS {quoted(join.relation)} ON "
        + " AND ".join(f"{sql(key.expression)} = {quoted(join.relation)}.{quoted(key.column)}" for key in join.keys)
        for join in query.joins
    ]
    return "\n".join(
        [
            "SELECT instance, sum(value) FROM (",
            "SELECT unnest(range(earliest, latest + 1)) AS instance, value FROM (",
            f"SELECT ({since_us}) // {window.slide_us} + 1 AS earliest,",
            f"({since_us} + {window.range_us}) // {window.slide_us} AS latest,",
            f"{sql(argument)} AS value",
            f"FROM {quoted(query.stream)}",
            *joins,
            "" if query.where is None else f"WHERE {sql(query.where)}",
            ")) GROUP BY instance",
        ]
    )


def quoted(name: str) -> str:
    doubled = name.replace('"', '""')
    return f'"{doubled}"'


def sql(tree: Expression) -> str:
    match tree:
        case ColumnRef():
            return f"{quoted(tree.relation)}.{quoted(tree.name)}"
        case Literal() if tree.type in (BOOLEAN, BIGINT, DOUBLE):
            return f"'{tree.value}'::{tree.type.name}"
        case Call():
            return operator_of(tree).sql.format(*map(sql, tree.arguments))
    raise unsupported(f"{tree}")


# Polars


def import_polars() -> Any:
    """Polars reads how many threads it may have when it is imported; imported before, it keeps what it has."""
    os.environ["POLARS_MAX_THREADS"] = str(THREADS)
    import polars

    return polars


def polars_peer(data: Data) -> Peer:
    """Polars over frames made from the Arrow tables beforehand."""
    import_polars()
    import polars as pl

    frames = {name: pl.DataFrame(table) for name, table in {data.stream.name: data.rows, **data.tables}.items()}

    def answer(query: Query) -> Sums:
        return dict(polars_query(query, frames, data.stream.event_time).collect().rows())

    return answer


def polars_query(query: Query, frames: Mapping[str, pl.DataFrame], event_time: str) -> pl.LazyFrame:
    import polars as pl

    def renamed(table: str, relation: str) -> pl.LazyFrame:
        return frames[table].lazy().select(pl.all().name.prefix(f"{relation}."))

    window, (_, argument) = window_of(query), summed(query)
    rows = renamed(query.stream, query.stream)
    for join in query.joins:
        keys = [f"{join.relation}.{key.column}" for key in join.keys]
        own = [polars_expression(key.expression) for key in join.keys]
        rows = rows.join(renamed(join.table, join.relation), left_on=own, right_on=keys)
    if query.where is not None:
        rows = rows.filter(polars_expression(query.where))
    since_us = pl.col(f"{query.stream}.{event_time}").dt.epoch("us") - window.offset_us
    earliest = since_us // window.slide_us + 1
    latest = (since_us + window.range_us) // window.slide_us
    if window.range_us < window.slide_us:
        rows = rows.filter(earliest <= latest)
    held = pl.int_ranges(earliest, latest + 1).alias("instance")
    expanded = rows.select(held, polars_expression(argument).alias("value")).explode("instance")
    return expanded.group_by("instance").agg(pl.col("value").sum())


def polars_expression(tree: Expression) -> pl.Expr:
    import polars as pl

    match tree:
        case ColumnRef():
            return pl.col(f"{tree.relation}.{tree.name}")
        case Literal() if tree.type in (BOOLEAN, BIGINT, DOUBLE):
            return pl.lit(tree.value)
        case Call():
            found: pl.Expr = operator_of(tree).python(*map(polars_expression, tree.arguments))
            return found
    raise unsupported(f"{tree}")
