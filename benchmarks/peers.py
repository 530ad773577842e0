"""The queries of the kernel's workloads in DuckDB and in Polars, one at a time: what it is checked and timed against.

Both join, filter, copy each row into every instance that holds it, and aggregate by instance and group. Their tables
are made beforehand, of their own kind, with addresses as 32-bit numbers.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from headrace.expressions.columns import built, present, raw
from headrace.expressions.static_tables import Data
from headrace.model.address import IPV4_BITS, MAPPED
from headrace.model.arrow import ADDRESS_BYTES, one_array
from headrace.model.expressions import Call, ColumnRef, Expression, Literal
from headrace.model.query import Query
from headrace.model.types import BIGINT, BOOLEAN, DOUBLE
from headrace.spark.single_query import operator_of, split_query, unsupported

if TYPE_CHECKING:
    import polars as pl

THREADS = 2
INSTANCE = "instance"
Peer = Callable[[Query], pa.Table]
"""Of a query the instance of each row, k if it ends at `k * slide + offset`, and beside it groups and aggregates."""


# Addresses


def with_numbers(table: pa.Table) -> pa.Table:
    """With addresses as numbers of 32 bits, which both peers handle best."""
    for place, field in enumerate(table.schema):
        if field.type == pa.binary(ADDRESS_BYTES):
            table = table.set_column(place, field.name, address_numbers(one_array(table.column(place))))
    return table


def address_numbers(addresses: pa.Array) -> pa.Array:
    words, rows = raw(addresses, ">u4", ADDRESS_BYTES // 4), present(addresses)
    is_ipv4 = (words[:, :3] == [0, 0, MAPPED >> IPV4_BITS]).all(axis=1)
    if not (is_ipv4 if rows is None else is_ipv4 | ~rows).all():
        raise unsupported("addresses of IPv6")
    return built(words[:, 3].astype(np.uint32), pa.uint32(), addresses)


def prefix_mask(tree: Call) -> int:
    (_, length) = tree.arguments
    if not isinstance(length, Literal) or not isinstance(length.value, int):
        raise unsupported("a prefix of no fixed length")
    return (1 << IPV4_BITS) - (1 << max(0, IPV4_BITS - length.value))


# DuckDB


@contextmanager
def duckdb_peer(data: Data) -> Iterator[Peer]:
    """DuckDB over tables in its memory."""
    import duckdb

    with duckdb.connect(config={"threads": THREADS}) as connection:
        for name, table in {data.stream.name: data.rows, **data.tables}.items():
            connection.register("arrow", with_numbers(table))
            connection.execute(f"CREATE TABLE {quoted(name)} AS SELECT * FROM arrow")
            connection.unregister("arrow")

        def answer(query: Query) -> pa.Table:
            return connection.sql(duckdb_query(query, data.stream.event_time)).to_arrow_table()

        yield answer


def duckdb_query(query: Query, event_time: str) -> str:
    """Times are after 1970, so that `//`, which cuts towards zero, rounds down."""
    asked = split_query(query)
    since_us = f"epoch_us({quoted(query.stream)}.{quoted(event_time)}) - {asked.window.offset_us}"
    taken = {name: sql(tree) for name, tree in asked.groups.items()}
    taken |= {name: sql(aggregate.arguments[0]) for name, aggregate in asked.sums.items()}
    names = [INSTANCE, *map(quoted, asked.groups)]
    results = [f"sum({quoted(name)})::{each.type.name} AS {quoted(name)}" for name, each in asked.sums.items()]
    results += [f"count(*) AS {quoted(name)}" for name in asked.counts]
    joins = [
        f"JOIN {quoted(join.table)} AS {quoted(join.relation)} ON "
        + " AND ".join(f"{sql(key.expression)} = {quoted(join.relation)}.{quoted(key.column)}" for key in join.keys)
        for join in query.joins
    ]
    return "\n".join(
        [
            f"SELECT {', '.join([*names, *results])} FROM (",
            f"SELECT {', '.join([f'unnest(range(earliest, latest + 1)) AS {INSTANCE}', *map(quoted, taken)])} FROM (",
            f"SELECT ({since_us}) // {asked.window.slide_us} + 1 AS earliest,",
            f"({since_us} + {asked.window.range_us}) // {asked.window.slide_us} AS latest",
            *(f", {tree} AS {quoted(name)}" for name, tree in taken.items()),
            f"FROM {quoted(query.stream)}",
            *joins,
            "" if query.where is None else f"WHERE {sql(query.where)}",
            f")) GROUP BY {', '.join(names)}",
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
        case Call("in", (sought, *constants)):
            return f"({sql(sought)} IN ({', '.join(map(sql, constants))}))"
        case Call("ip_prefix", (address, _)):
            return f"({sql(address)} & {prefix_mask(tree)}::UINTEGER)"
        case Call():
            return operator_of(tree).sql(*map(sql, tree.arguments))
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

    tables = {data.stream.name: data.rows, **data.tables}
    frames = {name: pl.DataFrame(with_numbers(table)) for name, table in tables.items()}

    def answer(query: Query) -> pa.Table:
        return polars_query(query, frames, data.stream.event_time).collect().to_arrow()

    return answer


def polars_query(query: Query, frames: Mapping[str, pl.DataFrame], event_time: str) -> pl.LazyFrame:
    import polars as pl

    def renamed(table: str, relation: str) -> pl.LazyFrame:
        return frames[table].lazy().select(pl.all().name.prefix(f"{relation}."))

    asked = split_query(query)
    window = asked.window
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
    taken = [polars_expression(tree).alias(name) for name, tree in asked.groups.items()]
    taken += [polars_expression(aggregate.arguments[0]).alias(name) for name, aggregate in asked.sums.items()]
    expanded = rows.select(pl.int_ranges(earliest, latest + 1).alias(INSTANCE), *taken).explode(INSTANCE)
    return expanded.group_by(INSTANCE, *asked.groups).agg(
        *(pl.col(name).sum() for name in asked.sums), *(pl.len().cast(pl.Int64).alias(name) for name in asked.counts)
    )


def polars_expression(tree: Expression) -> pl.Expr:
    import polars as pl

    match tree:
        case ColumnRef():
            return pl.col(f"{tree.relation}.{tree.name}")
        case Literal() if tree.type in (BOOLEAN, BIGINT, DOUBLE):
            return pl.lit(tree.value)
        case Call("in", (sought, *constants)) if all(isinstance(each, Literal) for each in constants):
            values = [each.value for each in constants if isinstance(each, Literal)]
            return polars_expression(sought).is_in(values)
        case Call("ip_prefix", (address, _)):
            return polars_expression(address) & pl.lit(prefix_mask(tree), pl.UInt32)
        case Call():
            found: pl.Expr = operator_of(tree).python(*map(polars_expression, tree.arguments))
            return found
    raise unsupported(f"{tree}")
