"""Windows from partials: every instance of a query that has rows, combined, lowered, filtered and in order."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, tzinfo
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headrace.aggregates.partials import Partial
from headrace.expressions.columns import Evaluated, build_column
from headrace.expressions.evaluation import Evaluation
from headrace.kernel.close.instances import (
    MAX_EMPTY,
    MAX_RESULT_ROWS,
    Due,
    Foreign,
    ResultLimits,
    Unknown,
    concat_ranges,
    fill_empty,
    instances_between,
    is_complete,
)
from headrace.kernel.close.leaf_rows import (
    LeafRows,
    numbered_groups,
    rank_values,
    rows_by_group,
    rows_by_slice,
    take_column,
)
from headrace.kernel.close.loops import HeldRows, add_to_windows, count_groups, find_window_slots
from headrace.kernel.combine import NodePartials
from headrace.kernel.states.columns import Columns
from headrace.kernel.states.kinds import lower, state_of
from headrace.kernel.states.totals import IntegerTotals
from headrace.kernel.states.user import Lowered
from headrace.model.arrays import Integers, Mask
from headrace.model.arrow import arrow_type, one_array
from headrace.model.errors import TooManyRowsError
from headrace.model.expressions import WINDOW_END, WINDOW_START, Expression
from headrace.model.query import Query
from headrace.model.schema import UserFunction
from headrace.model.types import TIMESTAMP
from headrace.model.windows import Interval, fills_gaps
from headrace.planner.demand import Terms, terms_of
from headrace.windows import bounds_of, instances_ending, instances_of, last_ending

PIECE_ENTRIES = 1 << 22
"""How many rows of windows are combined at once."""


@dataclass(frozen=True, eq=False)
class Closed:
    """The rows of a query's windows, in order, as a table of its result columns.

    `orders` are the values of ORDER BY beside them, `last_end_us` is where the last window with rows ended, `problem`
    what the code of a user raised first.
    """

    table: pa.Table
    windows: int
    errors: int
    left_out: int
    last_end_us: int | None = None
    orders: tuple[pa.Array, ...] = ()
    problem: str | None = None


@dataclass(frozen=True, eq=False)
class Part:
    """Rows of a leaf, and the partials that a query takes from them."""

    leaf: NodePartials
    partials: frozenset[Partial]


@dataclass(frozen=True, eq=False)
class Windows:
    """The instances of a query in order; for each result row its place among them, its group and its partials."""

    instances: Integers
    left_out: int
    places: Integers
    groups: Mapping[Expression, pa.Array]
    states: Mapping[Partial, tuple[pa.Array, ...]]


def close(
    query: Query,
    parts: Sequence[Part],
    missed: Sequence[Interval] = (),
    functions: Iterable[UserFunction] = (),
    zone: tzinfo = UTC,
    max_empty: int = MAX_EMPTY,
    due: Due | None = None,
    foreign: Sequence[Foreign] = (),
    max_rows: int = MAX_RESULT_ROWS,
) -> Closed:
    """The complete windows of the query that are due, else all, over the rows of its leaf, or leaves if partials came
    different ways.

    A window is complete if no slice crosses its bounds, and it shares no instant with a span that was missed. None may
    cross them where slices are foreign.

    Raises:
        TooManyRowsError: there are more than `max_rows` result rows.
    """
    if not parts:
        columns = query.result_columns()
        schema = pa.schema([(column.name, arrow_type(column.type)) for column in columns])
        return Closed(schema.empty_table(), windows=0, errors=0, left_out=0)
    terms = terms_of(query)
    limits = ResultLimits(max_empty if fills_gaps(query.window) else 0, max_rows)
    pieces: list[Closed] = []
    rows = 0
    for windows in combine_windows(query, terms, parts, Unknown(missed, foreign), limits, due):
        pieces.append(answer_windows(query, terms, windows, functions, zone))
        rows += pieces[-1].table.num_rows
        if rows > max_rows:
            raise TooManyRowsError(max_rows)
    return pieces[0] if len(pieces) == 1 else put_together(pieces)


def put_together(pieces: Sequence[Closed]) -> Closed:
    """Windows that follow each other."""
    return Closed(
        pa.concat_tables([piece.table for piece in pieces]),
        sum(piece.windows for piece in pieces),
        sum(piece.errors for piece in pieces),
        sum(piece.left_out for piece in pieces),
        next((piece.last_end_us for piece in reversed(pieces) if piece.last_end_us is not None), None),
        tuple(pa.concat_arrays(same) for same in zip(*(piece.orders for piece in pieces), strict=True)),
        next((piece.problem for piece in pieces if piece.problem is not None), None),
    )


def answer_windows(
    query: Query, terms: Terms, windows: Windows, functions: Iterable[UserFunction], zone: tzinfo
) -> Closed:
    """The results of some windows."""
    known, errors, problem = lower_windows(query, terms, windows)
    places = windows.places
    if query.having is not None:
        passes = Evaluation({}, len(places), functions, zone, known).evaluate(query.having)
        errors += failures(passes)
        rows = np.flatnonzero(np.asarray(pc.fill_null(passes.values, False)))
        known, places = {tree: take_column(values, rows) for tree, values in known.items()}, places[rows]
    results = Evaluation({}, len(places), functions, zone, known)
    outputs = [results.evaluate(output.expression) for output in query.outputs]
    orders = [results.evaluate(order.expression) for order in query.order_by]
    errors += sum(map(failures, (*outputs, *orders)))
    table = pa.table([column.values for column in outputs], names=[output.name for output in query.outputs])
    values = tuple(column.values for column in orders)
    if query.order_by or query.limit is not None:
        rows = pa.array(in_order(query, places, values))
        table, values = table.take(rows), tuple(column.take(rows) for column in values)
    count = len(windows.instances)
    last_end_us = int(bounds_of(query.window, windows.instances[-1:])[1][0]) if count else None
    return Closed(table, count, errors, windows.left_out, last_end_us, values, problem)


def best_of(query: Query, tables: Sequence[pa.Table], orders: Sequence[Sequence[pa.Array]]) -> pa.Table:
    """Of rows that each reducer found to be the best of their windows, the best of all, in order."""
    table = pa.concat_tables(tables)
    named = {output.expression: one_array(table[output.name]) for output in query.outputs}
    groups, _ = numbered_groups([named[tree] for tree in query.group_by])
    ends_us = np.asarray(named[WINDOW_END].cast(pa.int64()))
    by_group = np.lexsort([groups, ends_us])
    columns = [pa.concat_arrays(same).take(pa.array(by_group)) for same in zip(*orders, strict=True)]
    return table.take(pa.array(by_group[in_order(query, ends_us[by_group], columns)]))


def failures(evaluated: Evaluated) -> int:
    return 0 if evaluated.failed is None else int(evaluated.failed.sum())


# Slices to windows


def combine_windows(
    query: Query,
    terms: Terms,
    parts: Sequence[Part],
    unknown: Unknown,
    limits: ResultLimits,
    due: Due | None,
) -> Iterator[Windows]:
    """Partials combined per instance and group, in the order of instances, then of groups; in several pieces where
    there are many.
    """
    leaves = [part.leaf for part in parts]
    leaf = rows_by_group(leaves, terms.groups) if query.group_by else rows_by_slice(leaves)
    first, last = instances_of(query.window, leaf.starts_us, leaf.ends_us)
    if due is not None:
        begin, end = instances_ending(query.window, due.after_us, due.until_us)
        first, last = np.maximum(first, begin), np.minimum(last, end)
    instances = instances_between(first, last, limits.max_rows)
    complete = is_complete(query.window, instances, leaf, unknown)
    if query.group_by:
        held = HeldSlices.among(instances, first, last)
        counts = np.zeros(len(instances), dtype=np.int64)
        count_groups(held.rows_of(leaf), counts)
        check_rows(query, counts[complete], limits.max_rows)
        yield from windows_with_groups(query, terms, parts, leaf, held, counts, complete)
        return
    before = None if due is None or due.last_end_us is None else last_ending(query.window, due.last_end_us)
    whole, left_out = fill_empty(instances if complete.all() else instances[complete], limits, before)
    shown = whole[is_complete(query.window, whole, leaf, unknown)]
    for begin, end in due.skipped if due is not None else ():
        shown = shown[(shown < begin) | (end <= shown)]
    held = HeldSlices.among(shown, first, last)
    for begin, end in pieces_of(held.counts(np.ones(len(first), dtype=np.int64)) + 1):
        piece = held.between(begin, end)
        rows, slots = np.repeat(leaf.order, piece.held_by[leaf.slices]), concat_ranges(piece.first, piece.held_by)
        states = combine_states(parts, terms, rows, slots, end - begin)
        yield Windows(shown[begin:end], left_out if begin == 0 else 0, np.arange(end - begin), {}, states)


def windows_with_groups(
    query: Query,
    terms: Terms,
    parts: Sequence[Part],
    leaf: LeafRows,
    held: HeldSlices,
    counts: Integers,
    complete: Mask,
) -> Iterator[Windows]:
    """Piece by piece; `counts` are the groups in each window."""
    has_totals = len(parts) == 1 and isinstance(parts[0].leaf.states, IntegerTotals)
    entries = counts if has_totals else held.counts(np.bincount(leaf.slices, minlength=len(held.first)))
    for begin, end in pieces_of(entries):
        piece, slots = held.between(begin, end), counts[begin:end]
        groups, states = combine_groups(parts, terms, leaf, piece.rows_of(leaf), slots)
        values = {
            tree: take_column(leaf.values[term], groups)
            for tree, term in zip(query.group_by, terms.groups, strict=True)
        }
        places = np.repeat(np.arange(end - begin), slots)
        windows = Windows(piece.instances, 0, places, values, states)
        yield windows if complete[begin:end].all() else only(windows, complete[begin:end])


def check_rows(query: Query, counts: Integers, max_rows: int) -> None:
    """Raise before any work is done, if windows with these counts of groups are sure to give too many rows."""
    shown = counts if query.limit is None else np.minimum(counts, query.limit)
    if query.having is None and shown.sum() > max_rows:
        raise TooManyRowsError(max_rows)


@dataclass(frozen=True, eq=False)
class HeldSlices:
    """The windows that hold each slice: `held_by` of them from `first` on, by their places among `instances`."""

    instances: Integers
    first: Integers
    held_by: Integers

    @staticmethod
    def among(instances: Integers, first: Integers, last: Integers) -> HeldSlices:
        """Slices by the numbers of their first and last window."""
        places = np.searchsorted(instances, first)
        return HeldSlices(instances, places, np.maximum(np.searchsorted(instances, last + 1) - places, 0))

    def between(self, begin: int, end: int) -> HeldSlices:
        """Some of the windows only."""
        if (begin, end) == (0, len(self.instances)):
            return self
        first = np.clip(self.first, begin, end)
        behind = np.clip(self.first + self.held_by, begin, end)
        return HeldSlices(self.instances[begin:end], first - begin, behind - first)

    def rows_of(self, leaf: LeafRows) -> HeldRows:
        return HeldRows(leaf.groups, leaf.slices, self.first, self.held_by)

    def counts(self, rows: Integers) -> Integers:
        """Return the rows in each window, given the rows in each slice."""
        size = len(self.instances) + 1
        changes = np.bincount(self.first, rows, size) - np.bincount(self.first + self.held_by, rows, size)
        counts: Integers = np.cumsum(changes[:-1]).astype(np.int64)
        return counts


def pieces_of(entries: Integers) -> list[tuple[int, int]]:
    """Cut windows, given the entries of each, into runs that fit into memory; there is one at least."""
    ends = np.cumsum(entries) // PIECE_ENTRIES
    cuts = [0, *(np.flatnonzero(np.diff(ends)) + 1).tolist(), len(entries)]
    return list(pairwise(cuts))


def only(windows: Windows, chosen: Mask) -> Windows:
    """Some of the windows."""
    rows = np.flatnonzero(chosen[windows.places])
    return Windows(
        windows.instances[chosen],
        windows.left_out,
        (np.cumsum(chosen) - 1)[windows.places[rows]],
        {tree: take_column(values, rows) for tree, values in windows.groups.items()},
        {partial: tuple(take_column(column, rows) for column in state) for partial, state in windows.states.items()},
    )


def combine_groups(
    parts: Sequence[Part], terms: Terms, leaf: LeafRows, held: HeldRows, counts: Integers
) -> tuple[Integers, Mapping[Partial, Columns]]:
    """Of each slot, window by window, its group and its partials; `counts` are the slots of each window."""
    states = parts[0].leaf.states
    needed = tuple(needed_partials(terms))
    if needed and len(parts) == 1 and isinstance(states, IntegerTotals):
        groups, totals = window_totals(held, counts, leaf.numbers(states, needed))
        return groups, IntegerTotals(dict(zip(needed, totals, strict=True)), states.bound)
    slots, groups = group_slots(held, counts)
    rows = np.repeat(leaf.order, held.held_by[leaf.slices])
    return groups, combine_states(parts, terms, rows, slots, len(groups))


def window_totals(held: HeldRows, counts: Integers, numbers: Integers) -> tuple[Integers, Integers]:
    """The group of each slot, and the numbers of rows added up there."""
    slots = counts.sum()
    groups, totals = np.empty(slots, dtype=np.int64), np.zeros((len(numbers), slots), dtype=np.int64)
    add_to_windows(held, np.cumsum(counts) - counts, numbers, groups, totals)
    return groups, totals


def group_slots(held: HeldRows, counts: Integers) -> tuple[Integers, Integers]:
    """The slots of each row, one for each window that holds it; the slots' groups."""
    groups = np.empty(counts.sum(), dtype=np.int64)
    slots = np.empty(held.held_by[held.slices].sum(), dtype=np.int64)
    find_window_slots(held, np.cumsum(counts) - counts, slots, groups)
    return slots, groups


def needed_partials(terms: Terms) -> Mapping[Partial, None]:
    """Each once."""
    return dict.fromkeys(partial for partials in terms.partials.values() for partial in partials)


def combine_states(
    parts: Sequence[Part], terms: Terms, rows: Integers, slots: Integers, count: int
) -> Mapping[Partial, Columns]:
    """The partials of each slot, to which the `rows` go, numbered through all parts."""
    needed = needed_partials(terms)
    spread: dict[Partial, list[tuple[Integers, Columns]]] = {partial: [] for partial in needed}
    begin = 0
    for part in parts:
        chosen = slice(None) if len(parts) == 1 else (rows >= begin) & (rows < begin + part.leaf.rows)
        leaf_rows = rows[chosen] - begin
        for partial in needed.keys() & part.partials:
            state = tuple(take_column(column, leaf_rows) for column in part.leaf.states[partial])
            spread[partial].append((slots[chosen], state))
        begin += part.leaf.rows
    return {partial: combine_leaves(partial, leaves, count) for partial, leaves in spread.items()}


def combine_leaves(partial: Partial, leaves: Sequence[tuple[Integers, Columns]], count: int) -> Columns:
    """Combine the slots and states of several leaves, of one plan or of several."""
    slots, state = leaves[0]
    if len(leaves) > 1:
        slots = np.concatenate([slots for slots, _ in leaves])
        state = tuple(pa.concat_arrays(columns) for columns in zip(*(state for _, state in leaves), strict=True))
    return state_of(partial).combine(slots, count, state)


# Partials to results


def lower_windows(query: Query, terms: Terms, windows: Windows) -> tuple[dict[Expression, pa.Array], int, str | None]:
    """What output expressions are made of: bounds, groups and aggregates; how many did not fit their types; and what
    the code of a user raised first.
    """
    starts_us, ends_us = bounds_of(query.window, windows.instances)
    times = arrow_type(TIMESTAMP)
    known: dict[Expression, pa.Array] = {
        WINDOW_START: build_column(starts_us[windows.places], times),
        WINDOW_END: build_column(ends_us[windows.places], times),
        **windows.groups,
    }
    errors, problem = 0, None
    for aggregate, partials in terms.partials.items():
        if isinstance(windows.states, IntegerTotals) and aggregate.function in ("count", "sum"):
            known[aggregate] = build_column(windows.states.numbers[partials[0]], pa.int64())
            continue
        result = lower(aggregate, {partial.kind: windows.states[partial] for partial in partials})
        errors += failures(result)
        if isinstance(result, Lowered) and result.message is not None:
            problem = problem or f"{aggregate.function}: {result.message}"
        known[aggregate] = result.values
    return known, errors, problem


# Order


def in_order(query: Query, places: Integers, orders: Sequence[pa.Array]) -> Integers:
    """Rows come by window, then by group. In each window they go by ORDER BY, and as many are left as LIMIT says."""
    keys = [rank_values(values, order)[0] for order, values in zip(query.order_by, orders, strict=True)]
    rows = np.lexsort([*keys[::-1], places])
    if query.limit is None:
        return rows
    return rows[np.arange(len(rows)) - np.searchsorted(places, places) < query.limit]
