"""Level 2 in a reducer: close the windows that are due from committed slices, then combine and keep the new partials.

A reducer owns its groups, so it needs no other reducer to answer for them.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from uuid import uuid4

import numpy as np
import pyarrow as pa
from msgspec.structs import replace

from headrace.engine.edge_inbox import spans_of
from headrace.engine.registry import RegisteredQuery, Registry
from headrace.engine.step.completeness import uncounted_times, with_skipped
from headrace.engine.step.context import Step
from headrace.engine.step.level1_task import COUNTS, ReducerInput
from headrace.engine.step.task_counts import Counted
from headrace.engine.step.watermark import BEGINNING_US, ENDED_US
from headrace.kernel.close.instances import Due, Unknown
from headrace.kernel.close.retained_partials import Retained
from headrace.kernel.close.windows import Closed, close
from headrace.kernel.failures import failures_of
from headrace.kernel.interchange import from_bytes
from headrace.model.arrow import for_people
from headrace.model.expressions import WINDOW_END
from headrace.model.query import Query
from headrace.model.record import Record
from headrace.model.windows import AnyWindow, Interval
from headrace.planner.demand import demand
from headrace.planner.plan import route
from headrace.storage.directory import object_name
from headrace.storage.disk import digest, from_json, to_record
from headrace.storage.records import Manifest, ObjectRef, QueryState, ReducerReport, SliceObject
from headrace.storage.results import ResultWriter, read_manifest
from headrace.storage.slices import (
    CACHE,
    Parts,
    Section,
    by_place,
    compact,
    merge_parts,
    needed_slices,
    pack_slices,
    sections_of,
    share_slices,
)
from headrace.storage.store import put_all
from headrace.windows import bounds_of, instances_ending

MAX_OBJECTS = 16
"""At this many objects of slices of a reducer, they are merged into one."""
ORDER = "__order_"
LONG_S = 1.0
"""Seconds to close the windows of a query that are worth a note."""


class Reduced(Record, frozen=True):
    """What a reducer did, and what the tasks of level 1 counted, if they sent it to this one."""

    report: ReducerReport
    counted: Counted


def reduce_step(step: Step, reducer: int, pieces: Iterable[ReducerInput]) -> Reduced:
    """Close the windows that are due, keep the new partials, and write both with a manifest that names them."""
    new = Received(step, pieces)
    held = held_slices(step, reducer)
    kept = kept_parts(step, held) if is_read(step, held) else {}
    closing = Closing(step, reducer)
    journal = step.journal
    if journal.watermark_us is not None:
        closing.close(step.closing, kept, journal.closed_us, journal.watermark_us)
    if journal.ended:
        closing.close(step.registry, merge_parts([kept, new.parts]), journal.watermark_us, ENDED_US)
    return Reduced(write_objects(step, reducer, held, kept, new, closing), new.counted)


def held_slices(step: Step, reducer: int) -> list[SliceObject]:
    """Return the slices that a reducer has before a step. If the partitioning changes with it, it takes its part of
    what all others had.
    """
    before, partitioning = step.before, step.journal.partitioning
    if before is None:
        return []
    location = step.setting.root
    if partitioning == before.partitioning:
        ref = known_manifest(step, reducer)
        return list(read_manifest(location, reducer, ref).slices) if ref is not None else []
    manifests = [
        read_manifest(location, place, ref).slices if ref is not None else ()
        for place, ref in enumerate(before.manifests)
    ]
    source = reducer % before.partitioning.copies if reducer < partitioning.copies else None
    return share_slices(manifests, source, partitioning.key_groups(reducer))


def known_manifest(step: Step, reducer: int) -> ObjectRef | None:
    """Return the manifest of a reducer before a step; None if there is none under the partitioning of the step."""
    before = step.before
    if before is None or before.partitioning != step.journal.partitioning or not before.manifests:
        return None
    return before.manifests[reducer]


def write_objects(
    step: Step, reducer: int, held: list[SliceObject], kept: Parts, new: Received, closing: Closing
) -> ReducerReport:
    """Write what a reducer has after a step: at once, and under names that no other attempt uses."""
    number, id = step.journal.step, uuid4().hex[:12]
    slices, objects = next_slices(step, reducer, held, kept, new, object_name("slices", number, reducer, id))
    results = closing.write_results().finish(number, reducer, id)
    if results is not None:
        objects[results[0].object.name] = results[1]
    ref = known_manifest(step, reducer)
    if results is not None or (slices if ref is None else slices != held):
        manifest = to_record(Manifest(number, reducer, tuple(slices), results[0] if results else None))
        ref = ObjectRef(number, id, digest(manifest))
        objects[object_name("manifests", number, reducer, id)] = manifest
    put_all(step.setting.directory.store, objects)
    sections = results[0].sections if results else ()
    return ReducerReport(
        reducer,
        ref,
        len(slices),
        sum(part.object.bytes for part in slices),
        closing.states,
        len(sections),
        results[0].object if results else None,
        tuple(section for section in sections if section.is_candidate),
        tuple(part.object.name for part in held if part not in slices and not part.is_shared),
        closing.seconds,
    )


class Received:
    """What the tasks sent to a reducer: partials by plan, and what they counted."""

    def __init__(self, step: Step, pieces: Iterable[ReducerInput]) -> None:
        self.setting = step.setting
        self.counted = Counted()
        self.sent: dict[str, list[Section]] = {}
        for piece in pieces:
            if piece.plan == COUNTS:
                self.counted = self.counted.plus(from_json(piece.data, Counted))
            else:
                section = Section(piece.plan, from_bytes(piece.data), piece.data)
                self.sent.setdefault(piece.plan, []).append(section)

    @cached_property
    def parts(self) -> Parts:
        """Combined."""
        parts: Parts = {}
        for name, sections in self.sent.items():
            plan = self.setting.directory.plan(name)
            for section in sections:
                for place, part in by_place(self.setting.stream, plan, section.tables):
                    parts.setdefault(name, {}).setdefault(place, []).append(part)
        return compact(parts, None)

    def sections(self) -> list[Section]:
        """As they are kept. What one task sent is kept as it came: there is nothing to combine it with."""
        if all(len(sections) == 1 for sections in self.sent.values()):
            return [section for sections in self.sent.values() for section in sections]
        return list(sections_of(self.setting.stream, self.parts))


def is_read(step: Step, held: Sequence[SliceObject]) -> bool:
    """Whether committed slices are looked at: to close windows, or to put objects together."""
    journal = step.journal
    if journal.ended or len(held) >= MAX_OBJECTS or journal.watermark_us is None:
        return journal.ended or len(held) >= MAX_OBJECTS
    closed_us = BEGINNING_US if journal.closed_us is None else journal.closed_us
    windows = {registered.query.window for registered in step.closing.queries.values()}
    ends = [instances_ending(window, closed_us, journal.watermark_us) for window in windows]
    return any(first <= last for first, last in ends)


def kept_parts(step: Step, held: Sequence[SliceObject]) -> Parts:
    """Return the partials that were committed."""
    if step.before is None:
        return {}
    directory, live = step.setting.directory, {span.plan for span in step.before.spans}
    CACHE.forget(directory, step.before.needed_us)
    return CACHE.read(directory, step.setting.stream, held, live)


def next_slices(
    step: Step, reducer: int, held: list[SliceObject], kept: Parts, new: Received, name: str
) -> tuple[list[SliceObject], dict[str, bytes]]:
    """Return the slices after the step, and the bytes of an object that is new: that of this step, or if there are
    many, one in place of all. At the end of the input nobody needs any.
    """
    if step.journal.ended:
        return [], {}
    if len(held) >= MAX_OBJECTS:
        needed_us = step.before.needed_us if step.before else None
        parts = compact(merge_parts([kept, new.parts]), needed_us)
        sections, held = list(sections_of(step.setting.stream, parts)), []
    else:
        sections = new.sections()
    packed = pack_slices(name, sections, step.journal.partitioning.key_groups(reducer))
    slices = [*held, *([packed[0]] if packed else [])]
    needed_us = step.needed_us
    live = [part for part in slices if needed_us is None or part.end_us > needed_us]
    return live, {name: packed[1]} if packed and packed[0] in live else {}


# Windows


class Closing:
    """The windows that one reducer closes in a step. How far each query is that had any is in `states`."""

    def __init__(self, step: Step, reducer: int) -> None:
        self.step = step
        self.reducer = reducer
        self.states: dict[str, QueryState] = {}
        self.seconds: dict[str, float] = {}
        self.found: dict[tuple[str, int], list[Closed]] = {}
        self.queries: dict[tuple[str, int], Query] = {}

    def close(self, registry: Registry, parts: Parts, closed_us: int | None, until_us: int) -> None:
        """All windows of these queries that end later than the one time and no later than the other."""
        due_queries = list(self.due(registry, closed_us, until_us))
        if not due_queries:
            return
        setting = self.step.setting
        retained = retain_parts(self.step, between(parts, due_queries), is_end=until_us == ENDED_US)
        before, journal = self.step.before, self.step.journal
        lost = uncounted_times([*(before.spans if before else ()), *(journal.lost if until_us == ENDED_US else ())])
        for name, query, due in due_queries:
            gathered = retained.gather(demand(query))
            registered = registry.queries[name]
            state = self.state(name, registered)
            unknown = [*gathered.missed, *state.missed, *lost]
            functions, zone = setting.catalog.functions, setting.declared.zone
            known = query, gathered.parts, unknown, functions, zone, setting.max_empty, due, gathered.foreign
            begun_s = time.monotonic()
            with failures_of(name):
                closed = close(*known, max_rows=setting.max_result_rows)
            if (taken_s := time.monotonic() - begun_s) >= LONG_S:
                self.seconds[name] = self.seconds.get(name, 0.0) + taken_s
            after = advance_state(state, closed, 0 if is_merged(query, self.step) else closed.table.num_rows)
            if not query.group_by:
                after = with_skipped(query.window, after, due, Unknown(unknown, gathered.foreign))
            if after != state:
                self.states[name] = after
            if closed.table.num_rows:
                self.queries[name, registered.generation] = query
                self.found.setdefault((name, registered.generation), []).append(closed)

    def state(self, name: str, registered: RegisteredQuery) -> QueryState:
        known = self.states.get(name)
        return (
            known
            if known is not None and known.generation == registered.generation
            else state_of(self.step, name, registered)
        )

    def due(self, registry: Registry, closed_us: int | None, until_us: int) -> Iterator[tuple[str, Query, Due]]:
        """Queries with windows to close. One without groups is answered by one of the reducers that have its rows."""
        for name, query in registry.active.items():
            registered = registry.queries[name]
            if not query.group_by and self.step.journal.partitioning.owner_of_query(name) != self.reducer:
                continue
            state = self.state(name, registered)
            after_us = max(time_us for time_us in (closed_us, state.after_us, BEGINNING_US) if time_us is not None)
            first, last = instances_ending(query.window, after_us, until_us)
            if first <= last:
                yield name, query, Due(after_us, until_us, state.last_end_us, state.skipped)

    def write_results(self) -> ResultWriter:
        """Write a section of results per query; or of this reducer's best rows, if the best of all are asked for."""
        writer = ResultWriter()
        for (name, generation), closed in self.found.items():
            query = self.queries[name, generation]
            is_candidate = is_merged(query, self.step)
            if is_candidate:
                table = pa.concat_tables([with_orders(part) for part in closed])
            else:
                table = for_people(pa.concat_tables([part.table for part in closed]), query.result_columns())
            is_former = self.step.is_former(name, generation)
            writer.add(name, generation, table, end_column(query), is_former=is_former, is_candidate=is_candidate)
        return writer


def with_orders(closed: Closed) -> pa.Table:
    table = closed.table
    for place, values in enumerate(closed.orders):
        table = table.append_column(f"{ORDER}{place}", values)
    return table


def is_merged(query: Query, step: Step) -> bool:
    """Whether the driver picks from what the reducers found."""
    return query.limit is not None and bool(query.group_by) and step.journal.partitioning.reducers > 1


def end_column(query: Query) -> str:
    """Return the name of the column with the ends of windows in the results."""
    return next(output.name for output in query.outputs if output.expression == WINDOW_END)


def between(parts: Parts, due_queries: Iterable[tuple[str, Query, Due]]) -> Parts:
    """Without slices that end before all windows that are due."""
    starts_us = [first_start(query.window, due) for _, query, due in due_queries]
    earliest_us = min(starts_us)
    return {
        plan: {place: [needed_slices(part, earliest_us) for part in same] for place, same in places.items()}
        for plan, places in parts.items()
    }


def first_start(window: AnyWindow, due: Due) -> int:
    """Where the first window that is due begins."""
    if due.after_us == BEGINNING_US:
        return BEGINNING_US
    first, _ = instances_ending(window, due.after_us, due.until_us)
    return int(bounds_of(window, np.array([first]))[0][0])


def state_of(step: Step, name: str, registered: RegisteredQuery) -> QueryState:
    """How far the query is; one that joins with this step begins at its watermark."""
    known = step.before.queries.get(name) if step.before else None
    if known is not None and known.generation == registered.generation:
        return known
    return QueryState(registered.generation, step.journal.watermark_us, tuple(missed_times(step, registered.query)))


def missed_times(step: Step, query: Query) -> Iterator[Interval]:
    """Yield times whose slices may be gone, or whose rows were counted under plans that can't answer the query; for
    results, also the times before anybody read them.
    """
    if step.setting.since_us is not None:
        yield Interval(BEGINNING_US, step.setting.since_us)
    if step.before is None:
        return
    forgotten_us, lowest_us = step.before.forgotten_us, step.before.lowest_us
    if forgotten_us is not None and lowest_us is not None and lowest_us < forgotten_us:
        yield Interval(lowest_us, forgotten_us)
    for span in step.before.spans:
        if not span.plan or route(step.setting.directory.plan(span.plan), demand(query)) is None:
            yield Interval(span.start_us, span.end_us)


def retain_parts(step: Step, parts: Parts, *, is_end: bool) -> Retained:
    """The partials by plan, with the spans of event times that were counted under each plan; at the end also in this
    step.
    """
    setting = step.setting
    retained = Retained(setting.catalog.functions, setting.declared.zone)
    spans = [*(step.before.spans if step.before else ()), *(spans_of(step.journal.frames) if is_end else ())]
    for span in spans:
        if span.plan:
            retained.add(setting.directory.plan(span.plan), {}, Interval(span.start_us, span.end_us))
    for name, places in parts.items():
        plan = setting.directory.plan(name)
        for place, same in places.items():
            for part in same:
                retained.add(plan, {place: part})
    return retained


def advance_state(state: QueryState, closed: Closed, rows: int) -> QueryState:
    return replace(
        state,
        rows=state.rows + rows,
        last_end_us=closed.last_end_us if closed.last_end_us is not None else state.last_end_us,
        windows=state.windows + closed.windows,
        errors=state.errors + closed.errors,
        left_out=state.left_out + closed.left_out,
        problem=closed.problem or state.problem,
    )
