"""The queries of the workloads in DuckDB, Polars and Spark, one at a time: what Headrace is checked and timed against.

DuckDB and Polars join, filter, copy each row into every instance that holds it, and aggregate by instance and group:
over tables of their own, made beforehand, with addresses as 32-bit numbers, or from Parquet files to a Parquet file.
Spark has queries as people write them: static tables as broadcast joins, `window()`, one aggregation.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from headrace.expressions.columns import build_column, present, raw
from headrace.expressions.static_tables import Data
from headrace.model.address import IPV4_BITS, MAPPED
from headrace.model.arrow import ADDRESS_BYTES, one_array
from headrace.model.expressions import Call, ColumnRef, Expression, Literal
from headrace.model.query import Query
from headrace.model.types import BIGINT, BOOLEAN, DOUBLE
from headrace.spark.single_query import fail_unsupported, operator_of, split_query

if TYPE_CHECKING:
    import polars as pl
from dataclasses import dataclass
from functools import reduce
from pathlib import Path

import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyspark.sql import SparkSession

from headrace.model.expressions import WINDOW_END, WINDOW_START
from headrace.spark.single_query import END, START, Files, QueryParts, read_frames, write_answer

THREADS = 2
INSTANCE = "instance"
Peer = Callable[[Query], pa.Table]
"""Answers a query: for each row its instance, k if it ends at `k * slide + offset`, its groups and aggregates."""

TOLERANCE = 1e-9


# Addresses


def with_numbers(table: pa.Table) -> pa.Table:
    """Convert addresses to numbers of 32 bits, which DuckDB and Polars handle best."""
    for place, field in enumerate(table.schema):
        if field.type == pa.binary(ADDRESS_BYTES):
            table = table.set_column(place, field.name, address_numbers(one_array(table.column(place))))
    return table


def address_numbers(addresses: pa.Array) -> pa.Array:
    words, rows = raw(addresses, ">u4", ADDRESS_BYTES // 4), present(addresses)
    is_ipv4 = (words[:, :3] == [0, 0, MAPPED >> IPV4_BITS]).all(axis=1)
    if not (is_ipv4 if rows is None else is_ipv4 | ~rows).all():
        raise fail_unsupported("addresses of IPv6")
    return build_column(words[:, 3].astype(np.uint32), pa.uint32(), addresses)


def prefix_mask(tree: Call) -> int:
    (_, length) = tree.arguments
    if not isinstance(length, Literal) or not isinstance(length.value, int):
        raise fail_unsupported("a prefix of no fixed length")
    return (1 << IPV4_BITS) - (1 << max(0, IPV4_BITS - length.value))


# DuckDB


@contextmanager
def duckdb_peer(data: Data) -> Iterator[Peer]:
    """Open DuckDB over tables in its memory."""
    import duckdb

    with duckdb.connect(config={"threads": THREADS}) as connection:
        for name, table in {data.stream.name: data.rows, **data.tables}.items():
            connection.register("arrow", with_numbers(table))
            connection.execute(f"CREATE TABLE {quote(name)} AS SELECT * FROM arrow")
            connection.unregister("arrow")

        def answer(query: Query) -> pa.Table:
            return connection.sql(duckdb_query(query, data.stream.event_time)).to_arrow_table()

        yield answer


def duckdb_query(query: Query, event_time: str) -> str:
    """Translate a query. Times are after 1970, so `//`, which truncates, rounds down."""
    asked = split_query(query)
    since_us = f"epoch_us({quote(query.stream)}.{quote(event_time)}) - {asked.window.offset_us}"
    taken = {name: sql(tree) for name, tree in asked.groups.items()}
    taken |= {name: sql(aggregate.arguments[0]) for name, aggregate in asked.sums.items()}
    names = [INSTANCE, *map(quote, asked.groups)]
    results = [f"sum({quote(name)})::{each.type.name} AS {quote(name)}" for name, each in asked.sums.items()]
    results += [f"count(*) AS {quote(name)}" for name in asked.counts]
    joins = [
        f"JOIN {quote(join.table)} AS {quote(join.relation)} ON "
        + " AND ".join(f"{sql(key.expression)} = {quote(join.relation)}.{quote(key.column)}" for key in join.keys)
        for join in query.joins
    ]
    return "\n".join(
        [
            f"SELECT {', '.join([*names, *results])} FROM (",
            f"SELECT {', '.join([f'unnest(range(earliest, latest + 1)) AS {INSTANCE}', *map(quote, taken)])} FROM (",
            f"SELECT ({since_us}) // {asked.window.slide_us} + 1 AS earliest,",
            f"({since_us} + {asked.window.range_us}) // {asked.window.slide_us} AS latest",
            *(f", {tree} AS {quote(name)}" for name, tree in taken.items()),
            f"FROM {quote(query.stream)}",
            *joins,
            "" if query.where is None else f"WHERE {sql(query.where)}",
            f")) GROUP BY {', '.join(names)}",
        ]
    )


def quote(name: str) -> str:
    doubled = name.replace('"', '""')
    return f'"{doubled}"'


def sql(tree: Expression) -> str:
    match tree:
        case ColumnRef():
            return f"{quote(tree.relation)}.{quote(tree.name)}"
        case Literal() if tree.type in (BOOLEAN, BIGINT, DOUBLE):
            return f"'{tree.value}'::{tree.type.name}"
        case Call("in", (sought, *constants)):
            return f"({sql(sought)} IN ({', '.join(map(sql, constants))}))"
        case Call("ip_prefix", (address, _)):
            return f"({sql(address)} & {prefix_mask(tree)}::UINTEGER)"
        case Call():
            return sql_call(tree)
    raise fail_unsupported(f"{tree}")


def sql_call(call: Call) -> str:
    """Return a call of one of the operators that all peers have."""
    operator_of(call)
    operands = [sql(argument) for argument in call.arguments]
    return f"abs({operands[0]})" if call.function == "abs" else f"({f' {call.function.upper()} '.join(operands)})"


# Polars


def import_polars() -> Any:
    """Import Polars with a number of threads, which it reads on its first import only."""
    os.environ["POLARS_MAX_THREADS"] = str(THREADS)
    import polars

    return polars


def polars_peer(data: Data) -> Peer:
    """Return Polars over dataframes made from the Arrow tables beforehand."""
    import_polars()
    import polars as pl

    tables = {data.stream.name: data.rows, **data.tables}
    frames = {name: pl.DataFrame(with_numbers(table)) for name, table in tables.items()}

    def answer(query: Query) -> pa.Table:
        return polars_query(query, frames, data.stream.event_time).collect().to_arrow()

    return answer


def polars_query(query: Query, frames: Mapping[str, pl.DataFrame], event_time: str) -> pl.LazyFrame:
    import polars as pl

    def prefix_columns(table: str, relation: str) -> pl.LazyFrame:
        return frames[table].lazy().select(pl.all().name.prefix(f"{relation}."))

    asked = split_query(query)
    window = asked.window
    rows = prefix_columns(query.stream, query.stream)
    for join in query.joins:
        keys = [f"{join.relation}.{key.column}" for key in join.keys]
        own = [polars_expression(key.expression) for key in join.keys]
        rows = rows.join(prefix_columns(join.table, join.relation), left_on=own, right_on=keys)
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
            found: pl.Expr = operator_of(tree)(*map(polars_expression, tree.arguments))
            return found
    raise fail_unsupported(f"{tree}")


# From Parquet files to a Parquet file


@dataclass(frozen=True, slots=True)
class FilePeer:
    """Write the answer to a query, and read it back by instance, as a `Peer` gives it."""

    write: Callable[[Query, Path], object]
    read: Callable[[Query, Path], pa.Table]


@contextmanager
def file_peers(spark: SparkSession, files: Files) -> Iterator[Mapping[str, FilePeer]]:
    """Open all three over the files; their paths and columns are known to all beforehand."""
    import duckdb

    with duckdb.connect(config={"threads": THREADS}) as connection:
        for name, path in files.paths.items():
            view = f"CREATE VIEW {quote(name)} AS SELECT * FROM read_parquet('{path}/*.parquet')"
            connection.execute(view)
        yield {
            "spark": spark_peer(spark, files),
            "duckdb": duckdb_file_peer(connection, files),
            "polars": polars_file_peer(files),
        }


def duckdb_file_peer(connection: Any, files: Files) -> FilePeer:
    def write(query: Query, path: Path) -> None:
        connection.execute(f"COPY ({duckdb_query(query, files.stream.event_time)}) TO '{path}' (FORMAT parquet)")

    return FilePeer(write, lambda _, path: pq.read_table(path))


def polars_file_peer(files: Files) -> FilePeer:
    polars = import_polars()
    frames = {name: polars.scan_parquet(path / "*.parquet") for name, path in files.paths.items()}

    def write(query: Query, path: Path) -> None:
        polars_query(query, frames, files.stream.event_time).collect().write_parquet(path)

    return FilePeer(write, lambda _, path: pq.read_table(path))


# Spark


def spark_peer(spark: SparkSession, files: Files) -> FilePeer:
    frames = read_frames(spark, files)
    return FilePeer(lambda query, path: write_answer(query, frames, files.stream.event_time, path), read_spark)


def read_spark(query: Query, path: Path) -> pa.Table:
    return by_instance(split_query(query), pq.read_table(path), START, END)


# Answers as rows of instances


def own_answers(query: Query, table: pa.Table) -> pa.Table:
    """Return our answers, without the windows of a query without groups that hold no row: peers do not have them."""
    asked = split_query(query)
    bounds = {output.expression: output.name for output in query.outputs}
    found = by_instance(asked, table, bounds.get(WINDOW_START), bounds[WINDOW_END])
    if query.group_by:
        return found
    has_rows = [pc.is_valid(found[name]) for name in asked.sums]
    has_rows += [pc.not_equal(found[name], 0) for name in asked.counts]
    return found.filter(reduce(pc.or_, has_rows))


def by_instance(asked: QueryParts, table: pa.Table, start: str | None, end: str) -> pa.Table:
    """Add the instance of each row, whose bounds must be those of the window."""
    window, ends_us = asked.window, microseconds(table[end])
    instances, rest = np.divmod(ends_us - window.offset_us, window.slide_us)
    if rest.any() or (start is not None and (ends_us - microseconds(table[start]) != window.range_us).any()):
        raise RuntimeError(f"a window is not one of {window}")
    return table.append_column(INSTANCE, pa.array(instances))


def microseconds(times: pa.ChunkedArray) -> np.ndarray[Any, np.dtype[np.int64]]:
    return np.asarray(times.cast(pa.timestamp("us", "UTC")).cast(pa.int64()))


def check_equal(what: str, query: Query, ours: pa.Table, theirs: pa.Table) -> int:
    """Count the rows compared; a difference is an error."""
    asked = split_query(query)
    names = [INSTANCE, *asked.groups, *asked.sums, *asked.counts]
    mine = ours.select(names)
    compare(what, asked, mine, theirs.select(names).cast(mine.schema))
    return int(theirs.num_rows)


def compare(what: str, asked: QueryParts, ours: pa.Table, theirs: pa.Table) -> None:
    """Compare tables row by row, in the order of windows and groups; a difference is an error."""
    keys = [INSTANCE, *asked.groups]
    ours, theirs = (table.sort_by([(key, "ascending") for key in keys]) for table in (ours, theirs))
    if ours.num_rows != theirs.num_rows:
        raise RuntimeError(f"{what} have {ours.num_rows:,} and {theirs.num_rows:,} rows")
    for name in (*keys, *asked.sums, *asked.counts):
        mine, other = ours[name], theirs[name]
        equal = agree(mine, other)
        if not equal.all():
            row = int(np.flatnonzero(~equal)[0])
            where = {key: ours[key][row].as_py() for key in keys}
            raise RuntimeError(f"{what} differ in {name} at {where}: {mine[row]} and {other[row]}")


def agree(mine: pa.ChunkedArray, other: pa.ChunkedArray) -> NDArray[np.bool_]:
    """Return for each row whether both are NULL or equal; DOUBLEs within the tolerance."""
    if pa.types.is_floating(mine.type):
        close = np.isclose(mine.to_numpy(), other.to_numpy(), rtol=TOLERANCE, atol=0, equal_nan=True)
    else:
        close = pc.fill_null(pc.equal(mine, other), True).to_numpy()
    return np.asarray(close & (mine.is_null().to_numpy() == other.is_null().to_numpy()))
