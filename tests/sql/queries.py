"""Hypothesis strategies for queries as values, raw: what a person could have meant, nothing in normal form yet."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from hypothesis import strategies as st

from headrace.aggregates.registry import AGGREGATES, make_aggregate
from headrace.expressions.normal import normalize, sort_key
from headrace.model.expressions import WINDOW_END, WINDOW_START, Aggregate, Call, ColumnRef, Expression, Literal
from headrace.model.query import Join, JoinKey, Order, Output, Query
from headrace.model.time import MAX_DURATION_US
from headrace.model.types import BIGINT, DOUBLE, STRING
from headrace.model.windows import MAX_OVERLAP, AnyWindow, Window, sliced_window
from tests.expressions.trees import COLUMNS, KINDS, NUMERIC, STREAM, call, trees, variants

Draw = Callable[[st.SearchStrategy[Any]], Any]

NAMES = ["Total", "select", "end", "a b", "x`y", "café", "null", "Index", "range", "window", "_", "2nd", "by", "Offset"]
JOINED = [
    Join("Close", "Close", (JoinKey(ColumnRef(STREAM, "symbol", STRING), "symbol"),)),
    Join("Names", "Names", (JoinKey(ColumnRef(STREAM, "vol", BIGINT), "vol"),), outer=True),
]

durations = st.sampled_from([1, 1_000, 1_000_000, 60_000_000, 720_000_000, 86_400_000_000]) | st.integers(1, 10**13)
names = (
    st.sampled_from(NAMES) | st.sampled_from(sorted(COLUMNS)) | st.text(min_size=1, max_size=6).filter(str.isprintable)
)


@st.composite
def windows(draw: Draw) -> AnyWindow:
    slide_us = draw(durations)
    offset_us = draw(st.just(0) | st.integers(0, slide_us))
    if draw(st.booleans()):
        slices = draw(st.lists(durations, min_size=1, max_size=3))
        return sliced_window((slide_us, *slices), offset_us)
    return Window(min(draw(durations), slide_us * MAX_OVERLAP, MAX_DURATION_US), slide_us, offset_us)


@st.composite
def aggregates(draw: Draw) -> Aggregate:
    function = draw(st.sampled_from(sorted(AGGREGATES)))
    kinds = ("BOOLEAN",) if function.startswith("bool_") else KINDS if function in OF_ANY_TYPE else NUMERIC
    arguments: tuple[Expression, ...] = (draw(trees(draw(st.sampled_from(kinds)), 1)),)
    if function in ("min_by", "max_by"):
        arguments = (*arguments, draw(trees(draw(st.sampled_from(KINDS)), 1)))
    if function == "heavy_hitters" and draw(st.booleans()):
        arguments = (*arguments, draw(trees("BIGINT", 1)))
    if function in BEHIND:
        arguments = (*arguments, draw(BEHIND[function]))
    if function == "count" and draw(st.booleans()):
        arguments = ()
    condition = draw(st.none() | trees("BOOLEAN", 1))
    distinct = bool(arguments) and AGGREGATES[function].takes_distinct and draw(st.booleans())
    return replace(make_aggregate(function, arguments, distinct), filter=condition)


OF_ANY_TYPE = (
    *("count", "min", "max", "min_by", "max_by"),
    *("approx_count_distinct", "distinct_sketch", "heavy_hitters", "top_k"),
)
FRACTIONS = st.floats(0, 1).map(lambda value: Literal(value, DOUBLE))
BEHIND = {
    "percentile": FRACTIONS,
    "percentile_approx": FRACTIONS,
    "percentile_relative": FRACTIONS,
    "quantiles": st.integers(2, 1_000).map(lambda value: Literal(value, BIGINT)),
    "heavy_hitters": st.floats(0.001, 1).map(lambda value: Literal(value, DOUBLE)),
    "top_k": st.integers(1, 1_000).map(lambda value: Literal(value, BIGINT)),
}


@st.composite
def results(draw: Draw, groups: list[Expression]) -> Expression:
    """What may stand in SELECT or ORDER BY: aggregates, groups, the window's bounds, and expressions of them."""
    bounds = st.sampled_from([WINDOW_START, WINDOW_END])
    atoms = aggregates() | bounds | (st.sampled_from(groups) if groups else bounds)
    tree: Expression = draw(atoms)
    if tree.type.is_numeric and draw(st.booleans()):
        other = draw(aggregates().filter(lambda aggregate: aggregate.type.is_numeric))
        return call(draw(st.sampled_from(["/", "power"])), tree, other)
    return call("is_null", tree) if draw(st.booleans()) else tree


@st.composite
def conditions(draw: Draw, groups: list[Expression]) -> Expression:
    tested = [call("is_null", draw(results(groups))) for _ in range(2)]
    booleans = [group for group in groups if group.type.name == "BOOLEAN"]
    negated = [call("not", group) for group in booleans]
    return call(draw(st.sampled_from(["and", "or"])), *tested, *negated)


@st.composite
def queries(draw: Draw) -> Query:
    groups = draw(st.lists(trees(draw(st.sampled_from(KINDS)), 1), max_size=3, unique=True))
    written = [draw(results(groups)) for _ in range(draw(st.integers(1, 3)))]
    named: dict[str, Expression] = {"window_start": WINDOW_START, "window_end": WINDOW_END}
    named["rows"] = Aggregate("count", (), BIGINT)
    for tree in [*groups, *written]:
        name = draw(names.filter(lambda name: name.lower() not in {taken.lower() for taken in named}))
        named[name] = tree
    orders = [
        Order(
            draw(results(groups).filter(lambda tree: tree.type.is_comparable)), draw(st.booleans()), draw(st.booleans())
        )
        for _ in range(draw(st.integers(0, 2)))
    ]
    return Query(
        stream=STREAM,
        window=draw(windows()),
        outputs=tuple(Output(name, tree) for name, tree in named.items()),
        joins=tuple(draw(st.lists(st.sampled_from(JOINED), unique=True))),
        where=draw(st.none() | trees("BOOLEAN", 3)),
        group_by=tuple(groups),
        having=draw(st.none() | conditions(groups)),
        order_by=tuple(orders),
        limit=draw(st.none() | st.integers(1, 1_000_000)),
    )


def mapped(
    query: Query, change: Callable[[Expression], Expression], group: Callable[[Expression], Expression]
) -> Query:
    """The query with every expression changed; `group` changes those in GROUP BY."""
    return replace(
        query,
        outputs=tuple(Output(output.name, change(output.expression)) for output in query.outputs),
        where=group(query.where) if query.where is not None else None,
        group_by=tuple(group(tree) for tree in query.group_by),
        having=change(query.having) if query.having is not None else None,
        order_by=tuple(replace(order, expression=change(order.expression)) for order in query.order_by),
    )


def normal(query: Query) -> Query:
    """The value that the front end must make of it."""
    groups = frozenset(map(normalize, query.group_by))
    found = mapped(query, lambda tree: normalize(tree, groups), normalize)
    joins = tuple(sorted(query.joins, key=lambda join: join.table))
    return replace(found, group_by=tuple(sorted(set(found.group_by), key=sort_key)), joins=joins)


@st.composite
def rewritten(draw: Draw, query: Query) -> Query:
    """The same query in other words."""
    changed = mapped(query, lambda tree: draw(varied(tree)), lambda tree: draw(variants(tree)))
    return replace(changed, group_by=tuple(draw(st.permutations(changed.group_by))))


@st.composite
def varied(draw: Draw, tree: Expression) -> Expression:
    """Variants also inside aggregates."""
    if isinstance(tree, Aggregate):
        condition = draw(variants(tree.filter)) if tree.filter is not None else None
        return replace(tree, arguments=tuple(draw(variants(child)) for child in tree.arguments), filter=condition)
    if isinstance(tree, Call) and tree.function in ("and", "or", "is_null"):
        return Call(tree.function, tuple(draw(varied(child)) for child in tree.arguments), tree.type)
    return tree
