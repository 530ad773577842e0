"""A query as a superquery over its `[SLICES ...]` subquery [HIFI 3.1]: text that shows people what is computed when.

The subquery is a query of our language wherever its partials are aggregates of the language. The rest is notation:
WITH, a window over the subquery's slices, `moments`, `values`, `quantiles` and `combine`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import chain

from headrace.aggregates.partials import Partial, partials_of
from headrace.aggregates.registry import AGGREGATES
from headrace.model.expressions import (
    WINDOW_END,
    WINDOW_START,
    Aggregate,
    Call,
    ColumnRef,
    Expression,
    children,
    with_children,
)
from headrace.model.query import Order, Output, Query
from headrace.model.types import DOUBLE
from headrace.model.windows import AnyWindow, SlicedWindow, Window, sliced_window
from headrace.planner.explain.labels import figure
from headrace.sql.names import quote
from headrace.sql.printer import ExpressionPrinter, format_clauses, format_output
from headrace.windows import paired_boundaries, slice_vector, slices_per_hour

COMBINED_BY = {"count": "sum", "sum": "sum", "min": "min", "max": "max"}
"""The aggregate that combines partials of a kind; partials of other kinds are combined by `combine`."""
WIDTH = 72
ABOUT_EQUAL = 1.001


def rewrite(query: Query, name: str, slices_of_nodes: Mapping[str, float] | None = None) -> str:
    """`slices_of_nodes`: how many slices an hour the nodes have that the query is answered through in a plan."""
    partial_names = names_of_partials(query)
    relation = f"{name}_slices"
    inner = clauses(replace(subquery(query, partial_names), window=own_slices(query.window)))
    outer = clauses(superquery(query, partial_names, relation))
    lines = [*remarks(query.window, slices_of_nodes or {}), f"WITH {quote(relation)} AS ("]
    lines += [f"  {line}" for clause in inner for line in clause.splitlines()]
    return "\n".join([*lines, ")", *outer])


def remarks(window: AnyWindow, slices_of_nodes: Mapping[str, float]) -> Iterator[str]:
    alone = slices_per_hour([paired_boundaries(window)])
    yield f"-- {figure(alone)} slices an hour for this query alone"
    finer = [f"{figure(shared)} in {node}" for node, shared in slices_of_nodes.items() if shared > alone * ABOUT_EQUAL]
    if finer:
        yield f"-- in the plan {', '.join(finer)}: with the boundaries of other queries"
    if isinstance(window, Window) and window.range_us < window.slide_us:
        yield "-- slices inside no window are not kept"


def own_slices(window: AnyWindow) -> SlicedWindow:
    """One period of the query's own paired slices, from an end of the window on."""
    if isinstance(window, SlicedWindow):
        return window
    return SlicedWindow(slice_vector(paired_boundaries(window), window.slide_us, window.offset_us), window.offset_us)


def subquery(query: Query, partial_names: Mapping[Partial, str] | None = None) -> Query:
    """Partials of each slice and group."""
    names = names_of_partials(query) if partial_names is None else partial_names
    outputs = [Output("window_start", WINDOW_START), Output("window_end", WINDOW_END)]
    outputs += [Output(name, tree) for tree, name in names_of_groups(query).items()]
    outputs += [Output(name, aggregate_of(partial)) for partial, name in names.items()]
    slices = own_slices(query.window)
    window = sliced_window(slices.slices_us, slices.offset_us)
    return Query(query.stream, window, tuple(outputs), query.joins, query.where, query.group_by)


def superquery(query: Query, partial_names: Mapping[Partial, str], relation: str) -> Query:
    """Windows put together from slices."""
    known: dict[Expression, Expression] = {
        tree: ColumnRef(relation, name, tree.type) for tree, name in names_of_groups(query).items()
    }
    columns = {partial: ColumnRef(relation, name, DOUBLE) for partial, name in partial_names.items()}
    known |= {aggregate: combine_slices(aggregate, columns) for aggregate in query.aggregates()}
    return replace(
        query,
        stream=relation,
        joins=(),
        where=None,
        outputs=tuple(Output(output.name, replace_known(output.expression, known)) for output in query.outputs),
        group_by=tuple(known[tree] for tree in query.group_by),
        having=None if query.having is None else replace_known(query.having, known),
        order_by=tuple(
            Order(replace_known(order.expression, known), order.descending, order.nulls_first)
            for order in query.order_by
        ),
    )


def names_of_groups(query: Query) -> dict[Expression, str]:
    named = {output.expression: output.name for output in reversed(query.outputs)}
    return {tree: named[tree] for tree in query.group_by}


def names_of_partials(query: Query) -> dict[Partial, str]:
    """count_1, sum_2, ...: none that is a name of the query's results."""
    taken = {output.name.lower() for output in query.outputs}
    names: dict[Partial, str] = {}
    for partial in dict.fromkeys(chain.from_iterable(map(partials_of, query.aggregates()))):
        name = f"{partial.kind}_{len(names) + 1}"
        while name in taken:
            name += "_"
        names[partial] = name
    return names


def aggregate_of(partial: Partial) -> Aggregate:
    result = AGGREGATES[partial.kind].result_type(partial.arguments) if partial.kind in COMBINED_BY else DOUBLE
    return Aggregate(partial.kind, partial.arguments, result, filter=partial.filter)


def combine_slices(aggregate: Aggregate, columns: Mapping[Partial, ColumnRef]) -> Expression:
    """The aggregate's value over the partials of a window's slices."""
    partials = partials_of(aggregate)
    totals = [combination(partial, columns[partial]) for partial in partials]
    if aggregate.distinct:
        return replace(aggregate, arguments=tuple(totals), filter=None)
    if aggregate.function == "avg":
        return Call("/", tuple(totals), aggregate.type)
    if partials[0].kind in COMBINED_BY:
        return totals[0]
    return Call(aggregate.function, (*totals, *aggregate.parameters), aggregate.type)


def combination(partial: Partial, column: ColumnRef) -> Expression:
    function = COMBINED_BY.get(partial.kind)
    return Call("combine", (column,), DOUBLE) if function is None else Aggregate(function, (column,), DOUBLE)


def replace_known(tree: Expression, known: Mapping[Expression, Expression]) -> Expression:
    if tree in known:
        return known[tree]
    return with_children(tree, tuple(replace_known(child, known) for child in children(tree)))


def clauses(query: Query) -> list[str]:
    """The clauses of a query, with one result on each line where they do not fit one."""
    select, *others = format_clauses(query)
    if len(select) > WIDTH:
        text = ExpressionPrinter(qualified=bool(query.joins)).text
        select = "SELECT " + ",\n  ".join(format_output(output, text) for output in query.outputs)
    return [select, *others]
