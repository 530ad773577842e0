"""The interpreter: batches of rows and registry changes in, windows with results and counts out.

A batch is judged by the watermark that entered it, so the order of rows inside a batch means nothing. After the batch
the watermark moves, and the windows whose end it has reached are closed, for good, with every row that has come so far.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

from headrace.model.errors import DataError, UnsupportedError
from headrace.model.expressions import WINDOW_END, WINDOW_START, Aggregate, Expression
from headrace.model.query import Join, Order, Query
from headrace.model.schema import Stream, UserFunction
from headrace.model.time import MAX_TIMESTAMP_US, MIN_TIMESTAMP_US, OUT_OF_RANGE
from headrace.model.types import Value
from headrace.model.windows import Interval, fills_gaps
from headrace.reference.aggregates import lower, why_unsupported
from headrace.reference.evaluate import Evaluator, Row
from headrace.reference.functions import RowError, order_key
from headrace.reference.user_aggregates import lower_user

ENDED = 2**63 - 1
"""The watermark behind the end of a bounded stream."""

TableRows = Sequence[Mapping[str, Value]]


@dataclass(frozen=True, slots=True)
class WindowResult:
    """The rows of one window of one query, in order; not `complete` if rows from before the query joined may lack."""

    query: str
    window: Interval
    rows: tuple[tuple[Value, ...], ...]
    complete: bool = True


@dataclass(frozen=True, slots=True)
class Gap:
    """A run of empty windows of an ungrouped query too long to be written out: `count` of them were left out."""

    query: str
    before: Interval
    count: int


@dataclass(frozen=True, slots=True)
class Rejected:
    """A row that no window took, for the side output."""

    row: Mapping[str, Value]
    reason: str
    watermark_us: int | None


@dataclass(slots=True)
class Counts:
    rows: int = 0
    late: int = 0
    future: int = 0
    dropped: int = 0
    bad: int = 0
    errors: dict[str, int] = field(default_factory=dict)


@dataclass(slots=True)
class StepResult:
    """What one batch did. `watermark_us` is None until a first row was accepted."""

    results: list[WindowResult] = field(default_factory=list)
    gaps: list[Gap] = field(default_factory=list)
    rejected: list[Rejected] = field(default_factory=list)
    counts: Counts = field(default_factory=Counts)
    watermark_us: int | None = None


@dataclass(frozen=True, slots=True)
class Contribution:
    """What a row gives to a query: its group, and for each aggregate the value it adds, or None."""

    group: tuple[Value, ...]
    values: tuple[Value, ...]


@dataclass(slots=True)
class Registered:
    query: Query
    aggregates: tuple[Aggregate, ...]
    missed: Interval | None
    open: dict[Interval, list[Contribution]] = field(default_factory=dict)
    last_emitted: Interval | None = None


@dataclass(slots=True)
class Partition:
    highest_us: int
    last_seen_us: int | None


class Interpreter:
    """Runs the queries of one stream."""

    def __init__(
        self,
        stream: Stream,
        tables: Mapping[str, TableRows] | None = None,
        functions: Iterable[UserFunction] = (),
        *,
        max_empty: int = 1_000,
        emit_incomplete: bool = False,
        aggregates: Iterable[Any] = (),
    ) -> None:
        """`aggregates` are those of users."""
        self.stream = stream
        self.user = {name: each for each in aggregates for name in (each.name, *(one.name for one in each.extractors))}
        self.tables = {name.lower(): rows for name, rows in (tables or {}).items()}
        self.evaluator = Evaluator({function.name.lower(): function for function in functions}, stream.zone)
        self.max_empty = max_empty
        self.emit_incomplete = emit_incomplete
        self.queries: dict[str, Registered] = {}
        self.indexes: dict[tuple[str, tuple[str, ...]], dict[tuple[Any, ...], Mapping[str, Value]]] = {}
        self.partitions: dict[Any, Partition] = {}
        self.watermark_us: int | None = None
        self.clock_us: int | None = None
        self.counted: Interval | None = None

    # The registry changes between batches: a position in the stream

    def register(self, name: str, query: Query) -> None:
        for aggregate in query.aggregates():
            reason = why_unsupported(aggregate)
            if reason is not None:
                message = f"{aggregate.function} can't be computed here: {reason}"
                raise UnsupportedError("unsupported", message)
        for join in query.joins:
            self.index(join)
        self.queries[name] = Registered(query, query.aggregates(), missed=self.counted)

    def drop(self, name: str) -> None:
        del self.queries[name]

    # Batches

    def batch(self, rows: Iterable[Mapping[str, Value]], clock_us: int | None = None) -> StepResult:
        """Take a batch. Without a clock nothing is a future row and no partition falls idle."""
        if clock_us is not None:
            self.move_clock(clock_us)
        step = StepResult()
        times = [time for row in rows if (time := self.accept(row, step)) is not None]
        if times:
            span = Interval(min(times), max(times) + 1)
            self.counted = span if self.counted is None else hull(self.counted, span)
        self.move_watermark()
        return self.close(step)

    def end(self) -> StepResult:
        """The input is bounded and has ended: every window that holds a row is closed."""
        self.watermark_us = ENDED
        return self.close(StepResult())

    def accept(self, row: Mapping[str, Value], step: StepResult) -> int | None:
        """Give the row to the open windows that hold its time; its event time if it was counted."""
        step.counts.rows += 1
        time_us = row[self.stream.event_time]
        if not isinstance(time_us, int):
            step.counts.dropped += 1
            step.rejected.append(Rejected(row, "no event time", self.watermark_us))
            return None
        if not MIN_TIMESTAMP_US <= time_us <= MAX_TIMESTAMP_US:
            step.counts.bad += 1
            step.rejected.append(Rejected(row, OUT_OF_RANGE.format(self.stream.event_time), self.watermark_us))
            return None
        if self.clock_us is not None and time_us > self.clock_us + self.stream.skew_us:
            step.counts.future += 1
            step.rejected.append(Rejected(row, "future", self.watermark_us))
            return None
        self.note_partition(row, time_us)
        taken = [self.offer(row, time_us, name, step) for name in self.queries]
        if self.watermark_us is not None and time_us < self.watermark_us:
            step.counts.late += 1
            if not any(taken):
                step.counts.dropped += 1
                step.rejected.append(Rejected(row, "late", self.watermark_us))
        return time_us

    def offer(self, row: Mapping[str, Value], time_us: int, name: str, step: StepResult) -> bool:
        """True if the query has an open window at this time, whatever its WHERE says of the row."""
        registered = self.queries[name]
        windows = [window for window in registered.query.window.containing(time_us) if self.is_open(window)]
        if windows:
            contribution, errors = self.contribute(registered, row)
            step.counts.errors[name] = step.counts.errors.get(name, 0) + errors
            if contribution is not None:
                for window in windows:
                    registered.open.setdefault(window, []).append(contribution)
        return bool(windows)

    def is_open(self, window: Interval) -> bool:
        return self.watermark_us is None or window.end_us > self.watermark_us

    def contribute(self, registered: Registered, row: Mapping[str, Value]) -> tuple[Contribution | None, int]:
        """The row's contribution, if it passes joins and WHERE, and the number of expressions that failed on it."""
        query = registered.query
        joined: dict[str, Mapping[str, Value]] = {query.stream: row}
        errors, matched = 0, True
        for join in query.joins:
            partner, failed = self.partner(join, joined)
            errors += failed
            matched = matched and (join.outer or partner is not None)
            joined[join.relation] = partner if partner is not None else NullRow()
        if not matched:
            return None, errors
        if query.where is not None:
            passes, failed = self.evaluator.evaluate(query.where, joined)
            errors += failed
            if passes is not True:
                return None, errors
        group = [self.evaluator.evaluate(tree, joined) for tree in query.group_by]
        values = [self.aggregate_input(aggregate, joined) for aggregate in registered.aggregates]
        errors += sum(result.failed for result in group) + sum(failed for _, failed in values)
        return Contribution(tuple(result.value for result in group), tuple(value for value, _ in values)), errors

    def aggregate_input(self, aggregate: Aggregate, row: Row) -> tuple[Value, int]:
        """The value that an aggregate takes from the row: None if its FILTER or a NULL keeps it out."""
        errors = 0
        if aggregate.filter is not None:
            passes, failed = self.evaluator.evaluate(aggregate.filter, row)
            errors += failed
            if passes is not True:
                return None, errors
        if not aggregate.arguments:
            return True, errors
        found = [self.evaluator.evaluate(argument, row) for argument in aggregate.arguments]
        errors += sum(each.failed for each in found)
        if aggregate.function in self.user:
            return tuple(each.value for each in found), errors
        if len(found) == 1 or found[-1].value is None:
            return found[-1].value, errors
        return tuple(each.value for each in found), errors

    def lower(self, aggregate: Aggregate, values: list[Any]) -> Value:
        if aggregate.function in self.user:
            return lower_user(self.user[aggregate.function], aggregate, values)
        return lower(aggregate, values)

    # Static tables

    def index(self, join: Join) -> dict[tuple[Any, ...], Mapping[str, Value]]:
        """The table's rows by key. A duplicate key is an error; a row with a NULL in its key is never found."""
        columns = tuple(key.column for key in join.keys)
        found = self.indexes.get((join.table, columns))
        if found is None:
            if join.table.lower() not in self.tables:
                raise DataError("missing-table", f"there is no data for table {join.table}")
            found = {}
            for row in self.tables[join.table.lower()]:
                key = tuple(map(order_key, (row[column] for column in columns)))
                if any(row[column] is None for column in columns):
                    continue
                if key in found:
                    shown = ", ".join(f"{column} = {row[column]!r}" for column in columns)
                    raise DataError("duplicate-key", f"table {join.table} has two rows with {shown}")
                found[key] = row
            self.indexes[join.table, columns] = found
        return found

    def partner(self, join: Join, row: Row) -> tuple[Mapping[str, Value] | None, int]:
        results = [self.evaluator.evaluate(key.expression, row) for key in join.keys]
        errors = sum(result.failed for result in results)
        if any(result.value is None for result in results):
            return None, errors
        return self.index(join).get(tuple(order_key(result.value) for result in results)), errors

    # Time

    def move_clock(self, clock_us: int) -> None:
        """The clock never goes back. What came before there was a clock counts as seen when the clock began."""
        if self.clock_us is None:
            for partition in self.partitions.values():
                partition.last_seen_us = clock_us
        self.clock_us = clock_us if self.clock_us is None else max(self.clock_us, clock_us)

    def note_partition(self, row: Mapping[str, Value], time_us: int) -> None:
        key = order_key(row[self.stream.partition]) if self.stream.partition is not None else None
        known = self.partitions.get(key)
        highest_us = time_us if known is None else max(known.highest_us, time_us)
        self.partitions[key] = Partition(highest_us, self.clock_us)

    def is_idle(self, partition: Partition) -> bool:
        if self.clock_us is None or partition.last_seen_us is None:
            return False
        return self.clock_us - partition.last_seen_us > self.stream.idle_us

    def move_watermark(self) -> None:
        """The lowest of the partitions that are not idle; it never goes back."""
        active = [partition.highest_us for partition in self.partitions.values() if not self.is_idle(partition)]
        if active:
            candidate = min(active) - self.stream.lateness_us
            self.watermark_us = candidate if self.watermark_us is None else max(self.watermark_us, candidate)

    # Closing

    def close(self, step: StepResult) -> StepResult:
        step.watermark_us = self.watermark_us
        for name, registered in self.queries.items():
            due = [window for window in registered.open if not self.is_open(window)]
            for window in sorted(due, key=lambda window: window.end_us):
                contributions = registered.open.pop(window)
                complete = self.is_complete(registered, window)
                if complete or self.emit_incomplete:
                    self.fill_gap(name, registered, window, step)
                    self.emit(name, registered, window, contributions, complete, step)
                    registered.last_emitted = window
        return step

    def is_complete(self, registered: Registered, window: Interval) -> bool:
        """The window lies outside the span of event times that were counted before the query joined."""
        missed = registered.missed
        return missed is None or missed.end_us <= window.start_us or window.end_us <= missed.start_us

    def fill_gap(self, name: str, registered: Registered, window: Interval, step: StepResult) -> None:
        """Empty windows of an ungrouped query appear between windows with rows, up to `max_empty` in a row; none if
        windows come more often than every millisecond.
        """
        if registered.query.group_by or registered.last_emitted is None:
            return
        after_us, until_us = registered.last_emitted.end_us, window.end_us - 1
        most = self.max_empty if fills_gaps(registered.query.window) else 0
        for empty in islice(registered.query.window.ending_between(after_us, until_us), most):
            complete = self.is_complete(registered, empty)
            if complete or self.emit_incomplete:
                self.emit(name, registered, empty, [], complete, step)
        left_out = registered.query.window.count_ending(after_us, until_us) - most
        if left_out > 0:
            step.gaps.append(Gap(name, window, left_out))

    def emit(
        self,
        name: str,
        registered: Registered,
        window: Interval,
        contributions: list[Contribution],
        complete: bool,
        step: StepResult,
    ) -> None:
        query = registered.query
        groups: dict[tuple[Any, ...], list[Contribution]] = {} if query.group_by else {(): []}
        for contribution in contributions:
            groups.setdefault(tuple(map(order_key, contribution.group)), []).append(contribution)
        rows: list[tuple[Any, tuple[Value, ...]]] = []
        errors = 0
        for key, members in groups.items():
            row, failed = self.result_row(registered, window, members)
            errors += failed
            if row is not None:
                sort_key, values = row
                rows.append(((sort_key, tuple(map(total_order, key))), values))
        rows.sort(key=lambda pair: pair[0])
        step.counts.errors[name] = step.counts.errors.get(name, 0) + errors
        result = tuple(values for _, values in rows[: query.limit])
        step.results.append(WindowResult(name, window, result, complete))

    def result_row(
        self, registered: Registered, window: Interval, members: list[Contribution]
    ) -> tuple[tuple[Any, tuple[Value, ...]] | None, int]:
        """(sort key, values) of one group, or None if HAVING keeps it out; and how many expressions failed."""
        query = registered.query
        known: dict[Expression, Value] = {WINDOW_START: window.start_us, WINDOW_END: window.end_us}
        if members:
            known |= dict(zip(query.group_by, map(plain_zero, members[0].group), strict=True))
        errors = 0
        for position, aggregate in enumerate(registered.aggregates):
            values = [member.values[position] for member in members if member.values[position] is not None]
            try:
                known[aggregate] = self.lower(aggregate, values)
            except RowError:
                known[aggregate] = None
                errors += 1
        if query.having is not None:
            passes, failed = self.evaluator.evaluate(query.having, {}, known)
            errors += failed
            if passes is not True:
                return None, errors
        outputs = [self.evaluator.evaluate(output.expression, {}, known) for output in query.outputs]
        orders = [self.evaluator.evaluate(order.expression, {}, known) for order in query.order_by]
        errors += sum(result.failed for result in (*outputs, *orders))
        sort_key = tuple(Sortable(result.value, order) for result, order in zip(orders, query.order_by, strict=True))
        return (sort_key, tuple(result.value for result in outputs)), errors


def hull(first: Interval, second: Interval) -> Interval:
    """One interval over both: what a query missed must not depend on how its rows were cut into batches."""
    return Interval(min(first.start_us, second.start_us), max(first.end_us, second.end_us))


class NullRow(dict[str, Value]):
    """What an outer join puts beside a row without a partner."""

    def __missing__(self, _column: str) -> None:
        return None


def plain_zero(value: Value) -> Value:
    return value + 0.0 if isinstance(value, float) else value


def total_order(key: tuple[int, Any]) -> tuple[bool, Any]:
    """Sort key of a group value: NULL first, then by value. Ties in ORDER BY are broken by it."""
    return (False, ()) if key[1] is None else (True, key)


class Sortable:
    """A value that sorts as its ORDER BY item says."""

    __hash__ = None  # type: ignore[assignment]

    def __init__(self, value: Value, order: Order) -> None:
        self.key: tuple[bool, Any] = (order.nulls_first != (value is None), None if value is None else order_key(value))
        self.descending = order.descending

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sortable) and self.key == other.key

    def __lt__(self, other: Sortable) -> bool:
        if self.key[0] != other.key[0]:
            return self.key[0] < other.key[0]
        return bool(self.key[1] > other.key[1]) if self.descending else bool(self.key[1] < other.key[1])
