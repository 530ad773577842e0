"""Which windows of a query can be answered, from what a commit says that was counted, and under which plans."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from msgspec.structs import replace

from headrace.engine.step.watermark import ENDED_US, extent_us
from headrace.kernel.close.instances import Due, Unknown, is_known
from headrace.kernel.close.retained_partials import Retained
from headrace.model.query import Query
from headrace.model.time import later
from headrace.model.windows import AnyWindow, Interval
from headrace.planner.demand import demand
from headrace.storage.directory import Directory
from headrace.storage.records import Commit, CountedSpan, QueryState
from headrace.windows import bounds_of, instances_ending, last_ending

MAX_WINDOWS = 100_000
"""How many windows of a query are looked at; of those before, none is announced."""
MAX_NAMED = 100
"""How many of the windows that are left out are named."""


@dataclass(frozen=True, slots=True)
class Outlook:
    """The first window that a query will answer, and those behind it that it will not, up to some number."""

    first: Interval
    left_out: tuple[Interval, ...] = ()
    left_out_count: int = 0

    def document(self) -> Mapping[str, Any]:
        return {**self.first._asdict(), "left_out": self.left_out, "left_out_count": self.left_out_count}


def outlook(directory: Directory, commit: Commit, query: Query, state: QueryState) -> Outlook | None:
    """What comes of a query after a commit; None if nothing was closed yet, or nothing will be any more."""
    after_us = later(commit.closed_us, state.after_us)
    if after_us is None or after_us >= ENDED_US:
        return None
    return first_complete(query.window, after_us, unknown_to(directory, commit, query, state))


def unknown_to(directory: Directory, commit: Commit, query: Query, state: QueryState) -> Unknown:
    """What was counted and is not kept for the query, or only in slices that others' windows cut."""
    retained = Retained()
    for span in commit.spans:
        if span.plan:
            retained.add(directory.plan(span.plan), {}, Interval(span.start_us, span.end_us))
    gathered = retained.gather(demand(query))
    return Unknown([*gathered.missed, *state.missed, *uncounted_times(commit.spans)], gathered.foreign)


def uncounted_times(spans: Iterable[CountedSpan]) -> list[Interval]:
    """Times of rows that were counted under no plan, since there was no query, or that were lost."""
    return [Interval(span.start_us, span.end_us) for span in spans if not span.plan]


def first_complete(window: AnyWindow, after_us: int, unknown: Unknown) -> Outlook:
    """The first complete instance that ends after a time, and the incomplete ones behind it."""
    spans = [*unknown.missed, *(part.span for part in unknown.foreign)]
    until_us = max([after_us, *(span.end_us for span in spans)])
    last = last_ending(window, until_us + extent_us(window)) + 1
    first = max(last_ending(window, after_us) + 1, last - MAX_WINDOWS)
    numbers = np.arange(first, last + 1, dtype=np.int64)
    starts_us, ends_us = bounds_of(window, numbers)
    complete = np.flatnonzero(is_known(window, numbers, unknown))[0]
    gaps = complete + np.flatnonzero(~is_known(window, numbers[complete:], unknown))
    bounds = [Interval(int(starts_us[place]), int(ends_us[place])) for place in (complete, *gaps[:MAX_NAMED])]
    return Outlook(bounds[0], tuple(bounds[1:]), len(gaps))


def with_skipped(window: AnyWindow, state: QueryState, due: Due, unknown: Unknown) -> QueryState:
    """Note the instances that were due and not complete, behind the last one with rows. When what makes them incomplete
    is forgotten, and rows come behind them, they must not be taken for empty ones.
    """
    if state.last_end_us is None:
        return state
    behind = last_ending(window, state.last_end_us) + 1
    first, last = instances_ending(window, due.after_us, due.until_us)
    runs = [(begin, end) for begin, end in state.skipped if end > behind]
    for span in (*unknown.missed, *(part.span for part in unknown.foreign)):
        begin = max(first, behind, last_ending(window, span.start_us) + 1)
        end = min(last, last_ending(window, span.end_us + extent_us(window)))
        numbers = np.arange(begin, min(end, begin + MAX_WINDOWS) + 1, dtype=np.int64)
        incomplete = numbers[~is_known(window, numbers, unknown)]
        breaks = np.flatnonzero(np.diff(incomplete) != 1) + 1
        runs += [(int(run[0]), int(run[-1]) + 1) for run in np.split(incomplete, breaks) if len(run)]
    return replace(state, skipped=tuple(sorted(set(runs))))
