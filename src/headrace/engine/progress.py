"""What a run has done so far, for people to look at."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from headrace.engine.commit import windows_of
from headrace.engine.watermark import ENDED_US
from headrace.planner.plan import Plan
from headrace.storage.records import Commit, QueryState, Totals
from headrace.wire.ledger import Ledger, from_json


@dataclass(frozen=True, slots=True)
class Progress:
    """After a step. `lag_us` is how far the watermark is behind the clock; `sharing` how many times more work the
    queries would be apart, by the plan's estimate; `rows_per_s` is of the last step that read rows. `windows` are all
    that were answered, also of queries that have left.
    """

    stream: str
    step: int
    totals: Totals
    rows_per_s: float
    step_s: float
    watermark_us: int | None
    lag_us: int | None
    windows: int
    result_rows: int
    queries: Mapping[str, QueryState]
    sharing: float | None
    store_files: int
    store_bytes: int
    ended: bool
    edges: Ledger = field(default_factory=dict)
    parked: Mapping[str, str] = field(default_factory=dict)
    """Frames that wait for their turn, and why."""


def progress_of(
    stream: str,
    commit: Commit,
    plan: Plan | None,
    rows: int,
    step_s: float,
    rows_per_s: float,
    parked: Mapping[str, str] | None = None,
) -> Progress:
    watermark_us = commit.watermark_us
    is_open = watermark_us is not None and watermark_us < ENDED_US
    return Progress(
        stream=stream,
        step=commit.step,
        totals=commit.totals,
        rows_per_s=rows / step_s if rows and step_s else rows_per_s,
        step_s=step_s,
        watermark_us=watermark_us if is_open else None,
        lag_us=commit.clock_us - watermark_us if is_open and commit.clock_us is not None else None,  # type: ignore[operator]
        windows=windows_of(commit),
        result_rows=sum(state.rows for state in commit.queries.values()),
        queries=commit.queries,
        sharing=sum(plan.alone_ns.values()) / plan.cost_ns if plan is not None and plan.cost_ns else None,
        store_files=len(commit.slices),
        store_bytes=sum(file.file.bytes for file in commit.slices),
        ended=commit.ended,
        edges=from_json(commit.edges),
        parked=parked or {},
    )
