"""What a step does, decided from values alone: state, requests, input and clock in, journal out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from headrace.engine.edge_inbox import NewFrames
from headrace.engine.step.input import NewFiles, NewResults
from headrace.engine.step.watermark import ENDED_US, moved_watermark
from headrace.model.key_groups import Partitioning
from headrace.model.schema import Stream
from headrace.model.time import later
from headrace.model.windows import AnyWindow
from headrace.storage.records import Commit, CountedSpan, Journal
from headrace.windows import instances_ending
from headrace.wire.ledger import to_json


@dataclass(frozen=True, slots=True, kw_only=True)
class StepFacts:
    """All that a step is decided from."""

    before: Commit | None
    """The last commit."""
    stream: Stream
    windows: frozenset[AnyWindow]
    """Of the queries of the last commit, which this step closes."""
    registry: int
    """The version of the queries with all requests that are taken."""
    plan: str | None
    tables: Mapping[str, str]
    tasks: int
    partitioning: Partitioning
    epoch: int
    files: NewFiles
    results: NewResults
    frames: NewFrames
    requests: tuple[str, ...]
    clock_us: int | None
    batch: int | None
    offsets: tuple[str, ...]
    has_rows: bool
    has_edges: bool
    is_last: bool
    """Whether nothing comes after what is here, if nothing is left for another step."""
    lost: tuple[CountedSpan, ...]


def next_step(before: Commit | None) -> int:
    return (before.step if before else 0) + 1


def decide_step(facts: StepFacts) -> Journal | None:
    """Return what the step does, or None if there is nothing to do."""
    journal = build_journal(facts)
    before = facts.before
    ends = journal.ended and not (before is not None and before.ended)
    changes = facts.registry != (before.registry if before else 0)
    comes = facts.has_rows or journal.files or journal.frames or journal.changed or journal.requests
    # An edge names a plan as it is encoded today; that of an older version is stored under another name.
    renames = facts.has_edges and before is not None and facts.plan != before.plan
    return journal if comes or changes or ends or renames or is_due(facts, journal) else None


def build_journal(facts: StepFacts) -> Journal:
    before, files, results, frames = facts.before, facts.files, facts.results, facts.frames
    watermark_us, closed_us = (before.watermark_us, before.closed_us) if before else (None, None)
    return Journal(
        step=next_step(before),
        clock_us=later(before.clock_us if before else None, facts.clock_us),
        watermark_us=watermark_us,
        closed_us=closed_us,
        registry=facts.registry,
        plan=facts.plan,
        tables=facts.tables,
        tasks=facts.tasks,
        epoch=facts.epoch,
        partitioning=facts.partitioning,
        units=(*files.units, *results.units, *frames.units),
        files=tuple(files.files),
        quarantined=tuple(files.bad),
        changed=tuple(files.changed),
        requests=facts.requests,
        batch=facts.batch,
        offsets=facts.offsets,
        ended=facts.is_last and not files.is_more and not results.is_more,
        upstream_us=results.known_us,
        upstream_step=results.step,
        frames=tuple(frames.frames),
        edges=to_json(frames.ledger),
        lost=facts.lost,
    )


def is_due(facts: StepFacts, journal: Journal) -> bool:
    """Return whether some window must be closed, or the watermark moves without rows."""
    before = facts.before
    if before is None or before.ended:
        return False
    if moved_watermark(before.watermark_us, before.partitions, journal, facts.stream) != before.watermark_us:
        return True
    if before.watermark_us is None or before.watermark_us == before.closed_us:
        return False
    after_us = before.closed_us if before.closed_us is not None else -ENDED_US
    spans = [instances_ending(window, after_us, before.watermark_us) for window in facts.windows]
    return any(first <= last for first, last in spans)
