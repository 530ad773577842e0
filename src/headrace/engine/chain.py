"""Streams of results: what one pipeline has closed, another reads in the same round.

The results of committed steps are its input. Its watermark is how far the windows of the query, and of those joined to
it, are closed: nothing that ends earlier can come any more.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from threading import Lock

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headrace.engine.pipeline import Pipeline
from headrace.engine.registry import read_registry, requests
from headrace.engine.step.input import NewResults
from headrace.engine.step.stepper import Stepper
from headrace.engine.step.watermark import ENDED_US, extent_us
from headrace.inputs.conversion import as_stream
from headrace.model.arrow import arrow_type
from headrace.model.derived_streams import derived_stream, place_of
from headrace.model.errors import UsageError, nearest
from headrace.model.query import Query
from headrace.model.query_names import same_name
from headrace.model.schema import Stream
from headrace.model.time import later
from headrace.model.units import RESULTS, Unit
from headrace.sql import format_stream, parse_next
from headrace.storage.directory import Beginning, Directory, delete_state, find_directory, prepare, read_format
from headrace.storage.records import Commit, CountedSpan, QueryState, ResultSection
from headrace.storage.results import read_results, sections_of_query
from headrace.storage.store import Store
from headrace.storage.store import place_of as place_of_object
from headrace.windows import bounds_of, last_ending


class Chain:
    """The pipelines of a run, as far as they read each other's results."""

    def __init__(self) -> None:
        self.pipelines: list[Pipeline] = []
        self.changing = Lock()
        """Held to make or delete the state of results: a request does so in a thread of its own."""

    def queries(self) -> dict[str, Query]:
        """All queries, those not yet registered among them."""
        return {name: query for stepper in self.steppers() for name, query in queries_of(stepper).items()}

    def steppers(self) -> list[Stepper]:
        return [pipeline.stepper for pipeline in self.pipelines]

    def holder(self, name: str) -> Stepper | None:
        """Who answers the query."""
        return next((stepper for stepper in self.steppers() if name in queries_of(stepper)), None)

    def check_names(self) -> None:
        """A name stands for one query, whatever it reads."""
        seen: set[str] = set()
        for stepper in self.steppers():
            for name in sorted(stepper.names):
                if (known := same_name(name, seen)) is not None:
                    hint = "drop the old one, or give the new one another name"
                    raise UsageError("query-exists", f"there is a query '{known}' already, over other rows", hint=hint)
            seen |= stepper.names

    def directory_of(self, name: str) -> Directory:
        """Return the state that has a query."""
        holder = self.holder(name)
        if holder is None:
            raise self.no_query(name)
        return holder.directory

    def directory_for(self, sql: str, stream: str | None = None) -> Directory:
        """Return the state that is to answer a query: that of a stream, or of the one that the query reads.

        For results that nobody reads yet a state is made, which the run opens in its next round.
        """
        place = stream or self.place_for(sql)
        by_place = {pipeline.place.lower(): pipeline for pipeline in self.pipelines}
        if place.lower() in by_place:
            return by_place[place.lower()].stepper.directory
        known = find_directory(place_of_object(self.pipelines[0].stepper.directory.job, place))
        if known is not None:
            return known
        names = sorted(pipeline.place for pipeline in self.pipelines)
        raise UsageError("stream", f"there is no stream '{place}'", hint=nearest(place, names))

    def place_for(self, sql: str) -> str:
        catalog, query = parse_next(sql, self.pipelines[0].stepper.setting.catalog, self.queries())
        place = place_of(query, catalog)
        with self.changing:
            if self.holder(query.stream) is not None and place not in {pipeline.place for pipeline in self.pipelines}:
                results = self.results(query.stream)
                setting = results.stepper.setting
                prepare_results(setting.directory.job, place, results)
        return place

    def no_query(self, name: str) -> UsageError:
        return UsageError("no-query", f"there is no query '{name}'", hint=nearest(name, self.queries()))

    def is_stale(self, pipeline: Pipeline) -> bool:
        """Whether it is of results that nobody reads and that are not the same any more."""
        stepper, stream = pipeline.stepper, pipeline.stream
        if stream.derived is None or stepper.registry.queries or stepper.changes.first or requests(stepper.directory):
            return False
        return self.holder(stream.name) is None or self.results(stream.name).stream != stream

    def needed_step(self, stepper: Stepper) -> int:
        """Return the oldest step of a stream whose results others may still read."""
        steps = [stepper.number]
        for pipeline in self.pipelines:
            if isinstance(upstream := pipeline.stepper.upstream, JoinedResults):
                sources = (upstream.results, *upstream.joined)
                names = [results.stream.name for results in sources if results.stepper is stepper]
                steps += [upstream.needed_steps[name] for name in names]
        return min(steps)

    def readers(self, name: str) -> list[str]:
        return [
            other
            for other, query in self.queries().items()
            if name == query.stream or name in {join.table for join in query.joins}
        ]

    def results(self, name: str) -> Results:
        stepper = self.holder(name)
        assert stepper is not None
        query = self.queries()[name]
        return Results(stepper, derived_stream(name, query, stepper.setting.declared.zone))


def queries_of(stepper: Stepper) -> dict[str, Query]:
    """Those that wait for the next step and those of the step that runs among them, in the order in which they move on,
    so that none is missed.
    """
    waiting = {name: query for name, (_, query) in stepper.changes.first.items()}
    begun = stepper.pending
    running = read_registry(stepper.directory, begun.registry).values if begun else {}
    return {**stepper.registry.values, **running, **waiting}


class Results:
    """The results of a query that is answered by a stepper."""

    def __init__(self, stepper: Stepper, stream: Stream) -> None:
        self.stepper = stepper
        self.stream = stream

    @property
    def state(self) -> QueryState | None:
        return self.stepper.commit.queries.get(self.stream.name) if self.stepper.commit else None

    @property
    def closed_us(self) -> int | None:
        """Empty windows of a query without groups come when a later one has rows: until then they are not known."""
        finished_us, derived = self.stepper.finished_us, self.stream.derived
        assert derived is not None
        registered = self.stepper.registry.queries.get(self.stream.name)
        if registered is not None and registered.quarantine is not None:
            return registered.closed_us
        last_us = self.state.last_end_us if self.state else None
        if finished_us in (None, ENDED_US) or derived.groups or last_us is None:
            return finished_us
        following = bounds_of(derived.window, np.array([last_ending(derived.window, last_us) + 1]))
        return min(finished_us, int(following[1][0]) - 1)

    def lost_spans(self) -> Iterator[CountedSpan]:
        """Windows that meet times of lost rows are not answered; their results would end up to a window later."""
        assert self.stream.derived is not None
        for span in self.stepper.commit.spans if self.stepper.commit else ():
            if not span.plan:
                yield CountedSpan("", span.start_us, min(span.end_us + extent_us(self.stream.derived.window), ENDED_US))

    def commit(self, step: int) -> Commit:
        last = self.stepper.commit
        return last if last is not None and last.step == step else self.stepper.directory.commit(step)

    def sections(self, commit: Commit) -> list[ResultSection]:
        """Return the sections of a step, but none of another query that had the name before."""
        return [section for _, section in self.placed_sections(commit)]

    def units(self, commit: Commit) -> list[Unit]:
        place = self.stepper.directory.place
        return [
            Unit(place(name), part.begin, part.end, part.end - part.begin, part.rows, RESULTS, part.digest)
            for name, part in self.placed_sections(commit)
        ]

    def placed_sections(self, commit: Commit) -> list[tuple[str, ResultSection]]:
        sections = sections_of_query(self.stepper.directory, commit, self.stream.name)
        return [(name, section) for name, section in sections if not section.is_former]

    def ending_after(self, time_us: int | None) -> tuple[pa.Table, int]:
        """Return the results of windows that end later than a time, and the oldest step that may have some. Steps are
        looked at from the newest back.
        """
        assert self.stream.derived is not None
        since_us = later(time_us, self.state.after_us if self.state else None)
        tables, oldest = [], self.stepper.number
        for step in range(self.stepper.number - 1, 0, -1):
            commit = self.commit(step)
            if since_us is not None and commit.closed_us is not None and commit.closed_us <= since_us:
                break
            tables += [as_stream(read_results(unit), self.stream) for unit in self.units(commit)]
            oldest = step
        schema = pa.schema([(column.name, arrow_type(column.type)) for column in self.stream.columns])
        rows = pa.concat_tables([schema.empty_table(), *tables])
        if since_us is not None:
            rows = rows.filter(pc.greater(rows[self.stream.derived.end].cast(pa.int64()), since_us))
        return rows, oldest


def prepare_results(job: Store, place: str, results: Results) -> Directory:
    """Open or create the state of a stream of results; a new one begins with the results to come.

    The state of other results, which nobody reads any more, is deleted first.
    """
    location, declaration = place_of_object(job, place), format_stream(results.stream)
    known = find_directory(location)
    if known is not None and read_format(known.store).declaration != declaration and not has_readers(known):
        delete_state(known)
    return prepare(location, declaration, beginning_of(results.stream, results.stepper.commit))


def beginning_of(stream: Stream, commit: Commit | None) -> Beginning:
    """Behind the last window of the results that is closed."""
    assert stream.derived is not None
    if commit is None or commit.closed_us is None:
        return Beginning(commit.step if commit else 0)
    last = last_ending(stream.derived.window, commit.closed_us)
    return Beginning(commit.step, int(bounds_of(stream.derived.window, np.array([last]))[1][0]))


def has_readers(directory: Directory) -> bool:
    """Whether there are queries in the state, or asked for."""
    commit = directory.last_commit()
    return bool(requests(directory)) or (commit is not None and bool(commit.queries))


class JoinedResults:
    """The input of a pipeline of results: the query's results since a step of its own, and those joined to it."""

    def __init__(self, results: Results, joined: Sequence[Results], beginning: Beginning) -> None:
        self.results = results
        self.joined = joined
        self.beginning = beginning
        self.needed_steps = {upstream.stream.name: 0 for upstream in (results, *joined)}
        """For each query the oldest step whose results may still be read."""

    def closed_us(self) -> int | None:
        """Up to where all of them are closed; None if one has not begun."""
        closed = [results.closed_us for results in (self.results, *self.joined)]
        return None if None in closed else min(time_us for time_us in closed if time_us is not None)

    def take(self, before: Commit | None, step_bytes: int) -> NewResults:
        """Take the steps that no step has read and whose windows are closed everywhere, oldest first."""
        begin = max(self.beginning.step, before.upstream_step if before else 0)
        self.needed_steps[self.results.stream.name] = begin + 1
        taken = NewResults(step=begin, closed_us=self.closed_us())
        taken.known_us = taken.closed_us
        size = 0
        if taken.closed_us is None:
            return taken
        for step in range(begin + 1, self.results.stepper.number):
            commit = self.results.commit(step)
            sections, units = self.results.sections(commit), self.results.units(commit)
            size += sum(unit.size for unit in units)
            is_open = any(section.last_end_us > taken.closed_us for section in sections)
            if is_open or (units and taken.units and size > step_bytes):
                taken.is_more = True
                taken.known_us = min(taken.closed_us, min(section.first_end_us for section in sections) - 1)
                break
            taken.units += units
            taken.step = step
        return taken

    def lost_spans(self) -> tuple[CountedSpan, ...]:
        """Times of results that never come, since rows of their windows were lost."""
        return tuple(span for results in (self.results, *self.joined) for span in results.lost_spans())

    def tables(self, since_us: int | None) -> dict[str, pa.Table]:
        tables = {}
        for results in self.joined:
            name = results.stream.name
            tables[name], self.needed_steps[name] = results.ending_after(later(since_us, self.beginning.time_us))
        return tables
