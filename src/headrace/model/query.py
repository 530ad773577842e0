"""A query is a value: everything resolved, typed and in normal form, so that equal queries are equal values."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from headrace.model.cached_hash import HashedOnce
from headrace.model.expressions import Aggregate, Expression, aggregates_in, columns_in
from headrace.model.schema import Column, Stream
from headrace.model.stable_names import stored
from headrace.model.windows import AnyWindow


@stored("Output", "name", "expression", "is_local")
@dataclass(frozen=True, slots=True)
class Output:
    """A column of the result; a time that `is_local` has no zone, as those that it is made of."""

    name: str
    expression: Expression
    is_local: bool = False


@stored("JoinKey", "expression", "column")
@dataclass(frozen=True, slots=True)
class JoinKey:
    """The row's expression must equal the table's column."""

    expression: Expression
    column: str


@stored("Join", "table", "relation", "keys", "outer")
@dataclass(frozen=True, slots=True)
class Join:
    """A static table looked up by key. `relation` is the table's name in this query; `outer` keeps unmatched rows."""

    table: str
    relation: str
    keys: tuple[JoinKey, ...]
    outer: bool = False


@stored("Order", "expression", "descending", "nulls_first")
@dataclass(frozen=True, slots=True)
class Order:
    expression: Expression
    descending: bool = False
    nulls_first: bool = True


@stored("Query", "stream", "window", "outputs", "joins", "where", "group_by", "having", "order_by", "limit")
@dataclass(frozen=True)
class Query(HashedOnce):
    """One continuous aggregate query. `outputs` always hold the window's bounds and all group-by expressions."""

    stream: str
    window: AnyWindow
    outputs: tuple[Output, ...]
    joins: tuple[Join, ...] = ()
    where: Expression | None = None
    group_by: tuple[Expression, ...] = ()
    having: Expression | None = None
    order_by: tuple[Order, ...] = ()
    limit: int | None = None

    __hash__ = HashedOnce.__hash__

    def result_columns(self) -> tuple[Column, ...]:
        return tuple(Column(output.name, output.expression.type, output.is_local) for output in self.outputs)

    def results(self) -> Iterator[Expression]:
        """Yield what is computed when a window closes: outputs, ORDER BY, HAVING."""
        yield from (output.expression for output in self.outputs)
        yield from (order.expression for order in self.order_by)
        yield from () if self.having is None else (self.having,)

    def expressions(self) -> Iterator[Expression]:
        """Yield every expression in the query."""
        yield from (key.expression for join in self.joins for key in join.keys)
        yield from () if self.where is None else (self.where,)
        yield from self.group_by
        yield from self.results()

    def aggregates(self) -> tuple[Aggregate, ...]:
        """Return the distinct aggregates that the query needs, in order of appearance."""
        return tuple(dict.fromkeys(aggregate for tree in self.results() for aggregate in aggregates_in(tree)))


def needed_columns(stream: Stream, queries: Iterable[Query]) -> frozenset[str]:
    """Return the columns of the stream that some query names, its event time and its partition."""
    named = {column.name for query in queries for tree in query.expressions() for column in columns_in(tree)}
    named |= {stream.event_time} | ({stream.partition} if stream.partition else set())
    return frozenset(column.name for column in stream.columns if column.name in named)
