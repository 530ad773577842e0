"""Windows from partials: every instance of a query that has rows, combined, lowered, filtered and in order."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, tzinfo

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headrace.aggregates.partials import Partial
from headrace.expressions.columns import Evaluated
from headrace.expressions.evaluation import Evaluation
from headrace.kernel.partials import Encoded, Integers, NodePartials, encode
from headrace.kernel.slots import MOST_KEYS, Keys, find_slots
from headrace.kernel.states import KINDS, lower
from headrace.model.arrow import arrow_type
from headrace.model.expressions import WINDOW_END, WINDOW_START, Expression
from headrace.model.query import Order, Query
from headrace.model.schema import UserFunction
from headrace.model.types import TIMESTAMP
from headrace.planner.leaves import terms_of
from headrace.windows import bounds_of, instances_of

MAX_EMPTY = 1_000


@dataclass(frozen=True, eq=False)
class Closed:
    """The rows of a query's windows, in order, as a table of its result columns."""

    table: pa.Table
    windows: int
    errors: int
    left_out: int


@dataclass(frozen=True, eq=False)
class Groups:
    """For each result row its instance and group, and the state of each partial."""

    instances: Integers
    values: Mapping[Expression, pa.Array]
    states: Mapping[Partial, tuple[pa.Array, ...]]


def close(
    query: Query,
    parts: Sequence[NodePartials],
    functions: Iterable[UserFunction] = (),
    zone: tzinfo = UTC,
    max_empty: int = MAX_EMPTY,
) -> Closed:
    """All windows of the query over the rows of its leaf, or leaves if its partials came different ways."""
    if not parts:
        columns = query.result_columns()
        schema = pa.schema([(column.name, arrow_type(column.type)) for column in columns])
        return Closed(schema.empty_table(), windows=0, errors=0, left_out=0)
    groups, left_out = grouped(query, parts, max_empty)
    known, errors = lowered(query, groups)
    windows = len(np.unique(groups.instances))
    rows = len(groups.instances)
    if query.having is not None:
        passes = Evaluation({}, rows, functions, zone, known).evaluate(query.having)
        errors += failures(passes)
        taken = pa.array(np.flatnonzero(np.asarray(pc.fill_null(passes.values, False))))
        known, rows = {tree: values.take(taken) for tree, values in known.items()}, len(taken)
    results = Evaluation({}, rows, functions, zone, known)
    outputs = [results.evaluate(output.expression) for output in query.outputs]
    orders = [results.evaluate(order.expression) for order in query.order_by]
    errors += sum(failures(each) for each in (*outputs, *orders))
    order = in_order(query, known, [each.values for each in orders])
    names = [output.name for output in query.outputs]
    table = pa.table([each.values for each in outputs], names=names)
    return Closed(table.take(pa.array(order)), windows, errors, left_out)


def failures(evaluated: Evaluated) -> int:
    return 0 if evaluated.failed is None else int(evaluated.failed.sum())


# Slices to windows


def grouped(query: Query, parts: Sequence[NodePartials], max_empty: int) -> tuple[Groups, int]:
    """Partials combined per instance and group; and how many empty instances were left out."""
    terms = terms_of(query)
    needed = {partial for partials in terms.partials.values() for partial in partials}
    members = [members_of(query, part) for part in parts]
    instances = np.concatenate([numbers for _, numbers in members])
    encoded = [encode(concatenated([part.groups[tree] for part in parts], members)) for tree in terms.groups]
    present, left_out = np.unique(instances), 0
    if not query.group_by:
        present, left_out = filled(present, max_empty)
    places = np.searchsorted(present, instances)
    slots, first = slots_of(places, encoded) if query.group_by else (places, None)
    count = len(present) if first is None else len(first)
    states: dict[Partial, tuple[pa.Array, ...]] = {}
    begin = 0
    for part, (rows, numbers) in zip(parts, members, strict=True):
        own = slots[begin : begin + len(numbers)]
        begin += len(numbers)
        for partial in needed & part.states.keys():
            taken = tuple(column.take(pa.array(rows)) for column in part.states[partial])
            states[partial] = KINDS[partial.kind].combine(own, count, taken)
    of_slot = present if first is None else instances[first]
    values = {tree: each.values(first) for tree, each in zip(query.group_by, encoded, strict=True) if first is not None}
    return Groups(of_slot, values, states), left_out


def members_of(query: Query, part: NodePartials) -> tuple[Integers, Integers]:
    """Each row as often as there are instances that hold it: the rows, and the instances."""
    first, last = instances_of(query.window, part.starts_us, part.ends_us)
    counts = np.maximum(last - first + 1, 0)
    rows = np.repeat(np.arange(part.rows), counts)
    within = np.arange(len(rows)) - np.repeat(np.cumsum(counts) - counts, counts)
    return rows, first[rows] + within


def concatenated(columns: Sequence[pa.Array], members: Sequence[tuple[Integers, Integers]]) -> pa.Array:
    return pa.concat_arrays([column.take(pa.array(rows)) for column, (rows, _) in zip(columns, members, strict=True)])


def slots_of(places: Integers, encoded: Sequence[Encoded]) -> tuple[Integers, Integers]:
    keys = Keys(len(places))
    keys.extend(places.astype(np.int32), int(places.max(initial=0)) + 1)
    for each in encoded:
        keys.extend(each.codes, each.size)
    found = keys.slots()
    return found.of_row, found.first_rows


def filled(present: Integers, max_empty: int) -> tuple[Integers, int]:
    """With the empty instances between those that have rows, up to a number of them in a row; and how many more."""
    gaps = np.diff(present) - 1
    shown = np.minimum(gaps, max_empty)
    empty = np.repeat(present[:-1] + 1, shown) + np.arange(shown.sum()) - np.repeat(np.cumsum(shown) - shown, shown)
    return np.sort(np.concatenate([present, empty])), int((gaps - shown).sum())


# Partials to results


def lowered(query: Query, groups: Groups) -> tuple[dict[Expression, pa.Array], int]:
    """What output expressions are made of: bounds, groups and aggregates; and how many did not fit their types."""
    starts, ends = bounds_of(query.window, groups.instances)
    times = arrow_type(TIMESTAMP)
    known: dict[Expression, pa.Array] = {
        WINDOW_START: pa.array(starts).cast(times),
        WINDOW_END: pa.array(ends).cast(times),
        **groups.values,
    }
    errors = 0
    for aggregate, partials in terms_of(query).partials.items():
        result = lower(aggregate, {partial.kind: groups.states[partial] for partial in partials})
        errors += failures(result)
        known[aggregate] = result.values
    return known, errors


def in_order(query: Query, known: Mapping[Expression, pa.Array], orders: Sequence[pa.Array]) -> Integers:
    """Windows by their ends; in each, rows by ORDER BY, then by group; of them as many as LIMIT says."""
    ends = np.asarray(known[WINDOW_END].cast(pa.int64()))
    keys = [ends]
    for order, values in zip(query.order_by, orders, strict=True):
        keys += sort_keys(values, order)
    for tree in query.group_by:
        keys += sort_keys(known[tree], Order(tree))
    rows = np.lexsort(keys[::-1])
    if query.limit is None:
        return rows
    window_of_row = find_slots(ends[rows], MOST_KEYS).of_row
    begins = np.searchsorted(window_of_row, window_of_row, side="left")
    return rows[np.arange(len(rows)) - begins < query.limit]


def sort_keys(values: pa.Array, order: Order) -> list[Integers]:
    """Two numbers for each value that sort as ORDER BY says: NULL or not, and the rank among the others."""
    encoded = encode(values)
    by_value = np.asarray(pc.sort_indices(encoded.dictionary))
    ranks = np.zeros(encoded.size, dtype=np.int64)
    ranks[by_value] = np.arange(len(by_value))
    found = ranks[encoded.codes]
    is_null = encoded.codes == len(encoded.dictionary)
    return [np.where(is_null == order.nulls_first, 0, 1), -found if order.descending else found]
