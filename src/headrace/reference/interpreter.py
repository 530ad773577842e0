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
from headrace.reference.aggregates import lower, lower_user, why_unsupported
from headrace.reference.evaluate import Evaluator, Row
from headrace.reference.functions import ComputationError, order_key

ENDED = 2**63 - 1
"""The watermark behind the end of a bounded stream."""

TableRow = Mapping[str, Value]
TableRows = Sequence[TableRow]
Known = Mapping[Expression, Value] | None
"""Values of whole subtrees, once they have been computed."""


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

    row: TableRow
    reason: str
    watermark_us: int | None


@dataclass(slots=True)
class RowCounts:
    rows: int = 0
    late: int = 0
    future: int = 0
    dropped: int = 0
    bad: int = 0
    errors: dict[str, int] = field(default_factory=dict)


@dataclass(slots=True)
class ErrorCount:
    """How many expressions failed on a row, or in a window."""

    count: int = 0


@dataclass(slots=True)
class StepResult:
    """What one batch did. `watermark_us` is None until a first row was accepted."""

    results: list[WindowResult] = field(default_factory=list)
    gaps: list[Gap] = field(default_factory=list)
    rejected: list[Rejected] = field(default_factory=list)
    counts: RowCounts = field(default_factory=RowCounts)
    watermark_us: int | None = None

    def add_errors(self, query: str, errors: ErrorCount) -> None:
        self.counts.errors[query] = self.counts.errors.get(query, 0) + errors.count


@dataclass(frozen=True, slots=True)
class Contribution:
    """What a row gives to a query: its group, and for each aggregate the value it adds, or None."""

    group: tuple[Value, ...]
    values: tuple[Value, ...]


@dataclass(slots=True)
class RegisteredQuery:
    query: Query
    aggregates: tuple[Aggregate, ...]
    missed: Interval | None
    open: dict[Interval, list[Contribution]] = field(default_factory=dict)
    last_emitted: Interval | None = None


@dataclass(slots=True)
class PartitionTime:
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
        self.user = {
            result.name: aggregate for aggregate in aggregates for result in (aggregate, *aggregate.extractors)
        }
        self.tables = {name.lower(): rows for name, rows in (tables or {}).items()}
        self.evaluator = Evaluator({function.name.lower(): function for function in functions}, stream.zone)
        self.max_empty = max_empty
        self.emit_incomplete = emit_incomplete
        self.queries: dict[str, RegisteredQuery] = {}
        self.indexes: dict[tuple[str, tuple[str, ...]], dict[tuple[Any, ...], TableRow]] = {}
        self.partitions: dict[Any, PartitionTime] = {}
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
        self.queries[name] = RegisteredQuery(query, query.aggregates(), missed=self.counted)

    def drop(self, name: str) -> None:
        del self.queries[name]

    # Batches

    def batch(self, rows: Iterable[TableRow], clock_us: int | None = None) -> StepResult:
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

    def accept(self, row: TableRow, step: StepResult) -> int | None:
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

    def offer(self, row: TableRow, time_us: int, name: str, step: StepResult) -> bool:
        """True if the query has an open window at this time, whatever its WHERE says of the row."""
        registered = self.queries[name]
        windows = [window for window in registered.query.window.containing(time_us) if self.is_open(window)]
        if windows:
            errors = ErrorCount()
            contribution = self.contribute(registered, row, errors)
            step.add_errors(name, errors)
            if contribution is not None:
                for window in windows:
                    registered.open.setdefault(window, []).append(contribution)
        return bool(windows)

    def is_open(self, window: Interval) -> bool:
        return self.watermark_us is None or window.end_us > self.watermark_us

    def value(self, tree: Expression, row: Row, errors: ErrorCount, known: Known = None) -> Value:
        result = self.evaluator.evaluate(tree, row, known)
        errors.count += result.failed
        return result.value

    def passes(self, condition: Expression | None, row: Row, errors: ErrorCount, known: Known = None) -> bool:
        return condition is None or self.value(condition, row, errors, known) is True

    def contribute(self, registered: RegisteredQuery, row: TableRow, errors: ErrorCount) -> Contribution | None:
        """The row's contribution, if it passes joins and WHERE."""
        query = registered.query
        joined: dict[str, TableRow] = {query.stream: row}
        matched = True
        for join in query.joins:
            partner = self.partner(join, joined, errors)
            matched = matched and (join.outer or partner is not None)
            joined[join.relation] = partner if partner is not None else NullRow()
        if not matched or not self.passes(query.where, joined, errors):
            return None
        group = tuple([self.value(tree, joined, errors) for tree in query.group_by])
        values = [self.aggregate_input(aggregate, joined, errors) for aggregate in registered.aggregates]
        return Contribution(group, tuple(values))

    def aggregate_input(self, aggregate: Aggregate, row: Row, errors: ErrorCount) -> Value:
        """The value that an aggregate takes from the row: None if its FILTER or a NULL keeps it out."""
        if not self.passes(aggregate.filter, row, errors):
            return None
        if not aggregate.arguments:
            return True
        values = tuple([self.value(argument, row, errors) for argument in aggregate.arguments])
        is_whole = aggregate.function in self.user or (len(values) > 1 and values[-1] is not None)
        return values if is_whole else values[-1]

    def lower(self, aggregate: Aggregate, values: list[Any]) -> Value:
        if aggregate.function in self.user:
            return lower_user(self.user[aggregate.function], aggregate, values)
        return lower(aggregate, values)

    # Static tables

    def index(self, join: Join) -> dict[tuple[Any, ...], TableRow]:
        """The table's rows by key. A duplicate key is an error; a row with a NULL in its key has no partner."""
        columns = tuple(key.column for key in join.keys)
        if (join.table, columns) not in self.indexes:
            if join.table.lower() not in self.tables:
                raise DataError("missing-table", f"there is no data for table {join.table}")
            by_key: dict[tuple[Any, ...], TableRow] = {}
            for row in self.tables[join.table.lower()]:
                key = tuple(map(order_key, (row[column] for column in columns)))
                if any(row[column] is None for column in columns):
                    continue
                if key in by_key:
                    shown = ", ".join(f"{column} = {row[column]!r}" for column in columns)
                    raise DataError("duplicate-key", f"table {join.table} has two rows with {shown}")
                by_key[key] = row
            self.indexes[join.table, columns] = by_key
        return self.indexes[join.table, columns]

    def partner(self, join: Join, row: Row, errors: ErrorCount) -> TableRow | None:
        values = [self.value(key.expression, row, errors) for key in join.keys]
        return None if None in values else self.index(join).get(tuple(map(order_key, values)))

    # Time

    def move_clock(self, clock_us: int) -> None:
        """The clock never goes back. What came before there was a clock counts as seen when the clock began."""
        if self.clock_us is None:
            for partition in self.partitions.values():
                partition.last_seen_us = clock_us
        self.clock_us = clock_us if self.clock_us is None else max(self.clock_us, clock_us)

    def note_partition(self, row: TableRow, time_us: int) -> None:
        key = order_key(row[self.stream.partition]) if self.stream.partition is not None else None
        known = self.partitions.get(key)
        highest_us = time_us if known is None else max(known.highest_us, time_us)
        self.partitions[key] = PartitionTime(highest_us, self.clock_us)

    def is_idle(self, partition: PartitionTime) -> bool:
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

    def is_complete(self, registered: RegisteredQuery, window: Interval) -> bool:
        """The window lies outside the span of event times that were counted before the query joined."""
        missed = registered.missed
        return missed is None or missed.end_us <= window.start_us or window.end_us <= missed.start_us

    def fill_gap(self, name: str, registered: RegisteredQuery, window: Interval, step: StepResult) -> None:
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
        registered: RegisteredQuery,
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
        errors = ErrorCount()
        for key, members in groups.items():
            row = self.result_row(registered, window, members, errors)
            if row is not None:
                sort_key, values = row
                rows.append(((sort_key, tuple(map(total_order, key))), values))
        rows.sort(key=lambda pair: pair[0])
        step.add_errors(name, errors)
        result = tuple(values for _, values in rows[: query.limit])
        step.results.append(WindowResult(name, window, result, complete))

    def result_row(
        self, registered: RegisteredQuery, window: Interval, members: list[Contribution], errors: ErrorCount
    ) -> tuple[Any, tuple[Value, ...]] | None:
        """(sort key, values) of one group, or None if HAVING keeps it out."""
        query = registered.query
        known: dict[Expression, Value] = {WINDOW_START: window.start_us, WINDOW_END: window.end_us}
        if members:
            known |= dict(zip(query.group_by, map(plain_zero, members[0].group), strict=True))
        for position, aggregate in enumerate(registered.aggregates):
            values = [member.values[position] for member in members if member.values[position] is not None]
            try:
                known[aggregate] = self.lower(aggregate, values)
            except ComputationError:
                known[aggregate] = None
                errors.count += 1
        if not self.passes(query.having, {}, errors, known):
            return None
        outputs = [self.value(output.expression, {}, errors, known) for output in query.outputs]
        orders = [(self.value(order.expression, {}, errors, known), order) for order in query.order_by]
        return tuple(Sortable(value, order) for value, order in orders), tuple(outputs)


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
