"""What a run has done so far."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from headrace.engine.step.watermark import ENDED_US
from headrace.model.time import MAX_TIMESTAMP_US, MIN_TIMESTAMP_US, from_microseconds
from headrace.planner.plan import Plan
from headrace.storage.records import Commit, QueryState, StreamTotals


@dataclass(frozen=True, slots=True)
class QueryProgress:
    """How far a query is.

    Attributes:
        windows: Windows that were answered.
        rows: Rows of its results.
        errors: Values that could not be computed and are NULL.
        left_out: Empty windows that were left out.
        last_window_end: When the last window that was answered ends, in UTC.
        problem: What the code of a user raised last.
    """

    windows: int = 0
    rows: int = 0
    errors: int = 0
    left_out: int = 0
    last_window_end: datetime | None = None
    problem: str | None = None


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a stream is after a step.

    Attributes:
        stream: Its name.
        step: The number of the last step.
        totals: Rows and files since the beginning: `rows`, `late`, `future`, `dropped`, `bad` and others.
        rows_per_s: Of the last step that read rows.
        step_s: Seconds that the last step took.
        watermark: No row with an earlier time is expected any more. In UTC; None before the first row and at the end.
        lag: How far the watermark is behind the clock.
        windows: Windows that were answered, also of queries that were dropped.
        result_rows: Rows of results of the queries that are registered.
        queries: How far each query is.
        sharing: How many times more work the queries would be one by one, by the plan's estimate.
        store_files: Objects of partial aggregates in the state.
        store_bytes: Their size.
        ended: Whether all windows are closed, by `Engine.bounded`.
        edges: Names of the edges that have sent frames.
        parked: Frames that wait for their turn, and why.
    """

    stream: str
    step: int
    totals: StreamTotals
    rows_per_s: float
    step_s: float
    watermark: datetime | None
    lag: timedelta | None
    windows: int
    result_rows: int
    queries: Mapping[str, QueryProgress]
    sharing: float | None
    store_files: int
    store_bytes: int
    ended: bool
    edges: tuple[str, ...] = ()
    parked: Mapping[str, str] = field(default_factory=dict)


def progress_of(
    stream: str,
    commit: Commit,
    plan: Plan | None,
    rows: int,
    step_s: float,
    rows_per_s: float,
    parked: Mapping[str, str] | None = None,
) -> Progress:
    """Return the progress after a step that read `rows` rows; `rows_per_s` is that of the step before."""
    watermark_us = None if commit.watermark_us == ENDED_US else commit.watermark_us
    lag_us = None if watermark_us is None or commit.clock_us is None else commit.clock_us - watermark_us
    return Progress(
        stream=stream,
        step=commit.step,
        totals=commit.totals,
        rows_per_s=rows / step_s if rows and step_s else rows_per_s,
        step_s=step_s,
        watermark=to_datetime(watermark_us),
        lag=None if lag_us is None else timedelta(microseconds=lag_us),
        windows=commit.windows,
        result_rows=sum(state.rows for state in commit.queries.values()),
        queries={name: query_progress(state) for name, state in commit.queries.items()},
        sharing=sum(plan.alone_ns.values()) / plan.cost_ns if plan is not None and plan.cost_ns else None,
        store_files=commit.slice_objects,
        store_bytes=commit.slice_bytes,
        ended=commit.ended,
        edges=tuple(commit.edges),
        parked=parked or {},
    )


def query_progress(state: QueryState) -> QueryProgress:
    last_end = to_datetime(state.last_end_us)
    return QueryProgress(state.windows, state.rows, state.errors, state.left_out, last_end, state.problem)


def to_datetime(time_us: int | None) -> datetime | None:
    """Return a time in UTC. One outside the years 1 to 9999, which Python has no dates for, is the nearest date."""
    if time_us is None:
        return None
    return from_microseconds(min(max(time_us, MIN_TIMESTAMP_US), MAX_TIMESTAMP_US))
