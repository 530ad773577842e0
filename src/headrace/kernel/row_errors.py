"""How many expressions of a query failed on the rows of a batch: counted as the reference counts (docs/decisions/0002).

Failures are rare, so first it is asked whether anything that the query looks at failed at all.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headrace.aggregates.partials import partials_of
from headrace.expressions.evaluation import Evaluation
from headrace.expressions.static_tables import match_condition
from headrace.kernel.states.sketches import DEFAULT_SKETCHES
from headrace.model.arrays import Integers, Mask
from headrace.model.expressions import Aggregate, Call, Expression
from headrace.model.query import Query
from headrace.model.types import BINARY
from headrace.model.windows import AnyWindow, Window
from headrace.planner.demand import demand, plan_terms
from headrace.planner.lattice import is_matched
from headrace.windows import bounds_of, instances_of


class RowErrors:
    """Counts for the same queries, batch by batch."""

    def __init__(self, queries: Mapping[str, Query]) -> None:
        self.queries = queries
        self.looked_at = {name: frozenset(calls_of(query)) for name, query in queries.items()}
        self.expressions = frozenset(tree for trees in self.looked_at.values() for tree in trees)
        self.stores = {name: any(map(is_stored, query.aggregates())) for name, query in queries.items()}

    def count(self, evaluation: Evaluation, times_us: Integers, closed_us: int | None = None) -> Mapping[str, int]:
        """Count by query, where something failed, on rows that lie in a window not yet closed."""
        failing = {tree for tree in self.expressions if has_failed(tree, evaluation)}
        concerned = [name for name, trees in self.looked_at.items() if failing & trees or self.stores[name]]
        return {name: row_errors(self.queries[name], evaluation, times_us, closed_us) for name in concerned}


def row_errors(query: Query, evaluation: Evaluation, times_us: Integers, closed_us: int | None) -> int:
    renamed = plan_terms(query)
    rows = in_open_instance(query.window, times_us, closed_us)
    total = sum(count_failed(renamed(key.expression), evaluation, rows) for join in query.joins for key in join.keys)
    for join in query.joins:
        if not join.outer:
            rows = rows & np.asarray(evaluation.evaluate(match_condition(join)).values)
    if query.where is not None:
        total += count_failed(renamed(query.where), evaluation, rows)
        rows = rows & is_true(renamed(query.where), evaluation)
    total += sum(count_failed(renamed(tree), evaluation, rows) for tree in query.group_by)
    for aggregate in query.aggregates():
        counted = rows
        if aggregate.filter is not None:
            total += count_failed(renamed(aggregate.filter), evaluation, rows)
            counted = rows & is_true(renamed(aggregate.filter), evaluation)
        total += sum(count_failed(renamed(argument), evaluation, counted) for argument in aggregate.arguments)
        if is_stored(aggregate):
            total += bad_states(aggregate, evaluation.evaluate(renamed(aggregate.arguments[0])).values, counted)
    return total


def is_stored(aggregate: Aggregate) -> bool:
    """Whether its argument are sketches that were stored."""
    return aggregate.arguments != () and aggregate.arguments[0].type == BINARY and not aggregate.distinct


def bad_states(aggregate: Aggregate, states: pa.Array, rows: Mask) -> int:
    sketches = [
        DEFAULT_SKETCHES[partial.kind] for partial in partials_of(aggregate) if partial.kind in DEFAULT_SKETCHES
    ]
    return sum(int((sketch.find_bad(states) & rows).sum()) for sketch in sketches)


def calls_of(query: Query) -> Iterator[Expression]:
    """A column by itself never fails."""
    return (tree for tree in expressions_of(query) if isinstance(tree, Call) and not is_matched(tree))


def expressions_of(query: Query) -> Iterator[Expression]:
    """What is evaluated for the query in any case. Comparing a value with constants never fails."""
    renamed, needed = plan_terms(query), demand(query)
    yield from (renamed(key.expression) for join in query.joins for key in join.keys)
    yield from (dimension.expression for dimension in needed.predicate.dimensions)
    yield from needed.groups
    for partial in needed.partials:
        yield from partial.arguments
        yield from () if partial.filter is None else (partial.filter,)


def has_failed(tree: Expression, evaluation: Evaluation) -> bool:
    mask = evaluation.evaluate(tree).failed
    return mask is not None and bool(mask.any())


def count_failed(tree: Expression, evaluation: Evaluation, rows: Mask) -> int:
    mask = evaluation.evaluate(tree).failed
    return 0 if mask is None else int((mask & rows).sum())


def is_true(tree: Expression, evaluation: Evaluation) -> Mask:
    return np.asarray(pc.fill_null(evaluation.evaluate(tree).values, False), dtype=np.bool_)


def in_open_instance(window: AnyWindow, times_us: Integers, closed_us: int | None = None) -> Mask:
    """Rows that lie in an instance that ends later than `closed_us`; those between hopping windows lie in none."""
    if isinstance(window, Window):
        ends_us = (times_us + window.range_us - window.offset_us) // window.slide_us * window.slide_us
        ends_us += window.offset_us
        is_in: Mask = ends_us > times_us
        return is_in if closed_us is None else is_in & (ends_us > closed_us)
    if closed_us is None:
        return np.ones(len(times_us), dtype=np.bool_)
    numbers, _ = instances_of(window, times_us, times_us + 1)
    is_open: Mask = bounds_of(window, numbers)[1] > closed_us
    return is_open
