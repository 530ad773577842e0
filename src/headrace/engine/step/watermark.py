"""Clock, watermark and what is still needed: decided here, from values alone (docs/semantics.md)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from headrace.model.schema import Stream
from headrace.model.time import later
from headrace.model.windows import AnyWindow, Window
from headrace.storage.records import CountedSpan, Journal, PartitionTime
from headrace.windows import horizon

ENDED_US = 2**62
"""The watermark behind the end of a bounded stream: later than any window, and far from overflow."""
BEGINNING_US = -(2**62)


def moved_partitions(
    known: Mapping[str, PartitionTime], highest_us: Mapping[str, int], clock_us: int | None, first_clock: bool
) -> dict[str, PartitionTime]:
    """After a batch. What came before there was a clock counts as seen when the clock began."""
    moved = {
        key: PartitionTime(partition.highest_us, clock_us if first_clock else partition.seen_us)
        for key, partition in known.items()
    }
    for key, time_us in highest_us.items():
        before = moved.get(key)
        moved[key] = PartitionTime(time_us if before is None else max(before.highest_us, time_us), clock_us)
    return moved


def moved_watermark(
    watermark_us: int | None, partitions: Mapping[str, PartitionTime], journal: Journal, stream: Stream
) -> int | None:
    """The lowest of the partitions that are not idle; of results how far they are known. It never goes back. An edge
    that has sent nothing yet is at the beginning of time, and holds it.
    """
    if stream.derived is not None:
        return later(watermark_us, journal.upstream_us)
    active = [
        partition.highest_us for partition in partitions.values() if not is_idle(partition, journal.clock_us, stream)
    ]
    if not active or min(active) == BEGINNING_US:
        return watermark_us
    return later(watermark_us, min(active) - stream.lateness_us)


def is_idle(partition: PartitionTime, clock_us: int | None, stream: Stream) -> bool:
    if clock_us is None or partition.seen_us is None:
        return False
    return clock_us - partition.seen_us > stream.idle_us


def needed_since_us(windows: Iterable[AnyWindow], watermark_us: int | None, retain_us: int | None) -> int | None:
    """Slices that end by then are needed by no open window, nor kept for queries to come; None: all are needed."""
    distinct = set(windows)
    if watermark_us is None:
        return None
    if watermark_us >= ENDED_US:
        return ENDED_US
    open_us = horizon(distinct, watermark_us)
    longest_us = max((extent_us(window) for window in distinct), default=0)
    kept_us = watermark_us - (longest_us if retain_us is None else retain_us)
    return kept_us if open_us is None else min(open_us, kept_us)


def extent_us(window: AnyWindow) -> int:
    return window.range_us if isinstance(window, Window) else max(window.slices_us)


def with_span(spans: Iterable[CountedSpan], new: CountedSpan | None, needed_us: int | None) -> tuple[CountedSpan, ...]:
    """One more span, joined with those of its plan that it meets; without those that nobody needs."""
    kept = [span for span in spans if needed_us is None or span.end_us > needed_us]
    if new is not None:
        start_us, end_us = new.start_us, new.end_us
        apart = []
        for span in kept:
            if span.plan == new.plan and span.start_us <= end_us and start_us <= span.end_us:
                start_us, end_us = min(start_us, span.start_us), max(end_us, span.end_us)
            else:
                apart.append(span)
        kept = [*apart, CountedSpan(new.plan, start_us, end_us)]
    return tuple(kept)


def closed_after(journal: Journal) -> int | None:
    """The watermark up to which the step closed windows."""
    return ENDED_US if journal.ended else journal.watermark_us
