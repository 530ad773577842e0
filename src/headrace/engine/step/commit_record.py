"""The commit record of a step, built from what the tasks returned and the state before."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any
from uuid import uuid4

import pyarrow as pa
from msgspec.structs import replace

from headrace.engine.edge_inbox import highest_of, plans_to_keep, spans_of, with_edges
from headrace.engine.step.context import Step
from headrace.engine.step.level2_task import ORDER, Reduced, end_column, state_of
from headrace.engine.step.task_counts import Counted, add_counts
from headrace.engine.step.watermark import (
    ENDED_US,
    closed_after,
    moved_partitions,
    moved_watermark,
    with_span,
)
from headrace.kernel.close.windows import best_of
from headrace.model.arrow import for_people, one_array
from headrace.model.query import Query
from headrace.model.time import earlier, later
from headrace.storage.records import (
    Commit,
    CountedSpan,
    Journal,
    LeftOut,
    QueryState,
    ReducerReport,
    ResultObject,
    StreamTotals,
    UnitRead,
)
from headrace.storage.results import ResultWriter, read_sections
from headrace.wire.ledger import from_json

ALL_QUERIES_EVERY = 64
"""Steps between commit records that have all queries."""
BEST = "best"
"""In place of the number of a reducer, in names."""


@dataclass(frozen=True)
class Outcome:
    """A step that has run, and what its reducers did."""

    step: Step
    reduced: Sequence[Reduced]

    @cached_property
    def reports(self) -> list[ReducerReport]:
        return sorted((reduced.report for reduced in self.reduced), key=lambda report: report.reducer)

    @cached_property
    def counted(self) -> Counted:
        total = Counted()
        for reduced in self.reduced:
            total = total.plus(reduced.counted)
        return total

    def commit(self, epoch: int, previous: str, inputs: int) -> Commit:
        """Return the state after the step. `previous` is the digest of the record before it."""
        journal, before, counted = self.step.journal, self.step.before, self.counted
        stream = self.step.setting.declared
        had_clock = before is not None and before.clock_us is not None
        known = before.partitions if before else {}
        highest_us = counted.highest_us | highest_of(journal.frames, stream, known)
        partitions = moved_partitions(known, highest_us, journal.clock_us, not had_clock)
        partitions = with_edges(partitions, self.step.setting.edges, from_json(journal.edges), journal.clock_us)
        watermark_us = moved_watermark(journal.watermark_us, partitions, journal, stream)
        needed_us = self.step.needed_us
        forgotten_us = later(before.forgotten_us if before else None, needed_us)
        quarantined = list_left_out(journal, counted.units)
        totals = counted.totals.plus(StreamTotals(quarantined=len(quarantined), changed=len(journal.changed)))
        for frame in journal.frames:
            totals = totals.plus(frame.totals)
        best, best_rows = self.best()
        return Commit(
            step=journal.step,
            epoch=epoch,
            previous=previous,
            registry=journal.registry,
            plan=journal.plan,
            tables=journal.tables,
            clock_us=journal.clock_us,
            watermark_us=ENDED_US if journal.ended else watermark_us,
            closed_us=closed_after(journal),
            batch=journal.batch if journal.batch is not None else (before.batch if before else None),
            offsets=journal.offsets or (before.offsets if before else ()),
            ended=journal.ended or (before is not None and before.ended),
            partitions=partitions,
            queries=self.query_states(best_rows),
            all_queries=self.all_queries(),
            spans=self.spans(needed_us),
            needed_us=needed_us,
            forgotten_us=forgotten_us,
            lowest_us=self.lowest_us(),
            reducers=journal.partitioning.reducers,
            **self.objects(),
            best=best,
            result_sections=sum(report.section_count for report in self.reports),
            rejected=tuple(counted.rejected),
            quarantined=quarantined,
            windows=self.windows(),
            totals=before.totals.plus(totals) if before else totals,
            edges=journal.edges,
            plans=self.plans(),
            inputs=inputs,
            upstream_step=journal.upstream_step,
            attempt=journal.attempt,
        )

    def objects(self) -> dict[str, Any]:
        """Return what names the objects of the reducers. A step that did not run leaves them as they were."""
        before, reports = self.step.before, self.reports
        if not reports and before is not None:
            names = ("partitioning", "manifests", "slice_objects", "slice_bytes")
            return {name: getattr(before, name) for name in names}
        return {
            "partitioning": self.step.journal.partitioning,
            "manifests": tuple(report.manifest for report in reports),
            "slice_objects": sum(report.slice_objects for report in reports),
            "slice_bytes": sum(report.slice_bytes for report in reports),
        }

    def all_queries(self) -> int:
        """Return the step of the newest record with all queries: this one, now and then."""
        before, step = self.step.before, self.step.journal.step
        return step if before is None or step - before.all_queries >= ALL_QUERIES_EVERY else before.all_queries

    def spans(self, needed_us: int | None) -> tuple[CountedSpan, ...]:
        """The event times that were counted, here and by edges, if any."""
        spans = self.step.before.spans if self.step.before else ()
        new = [*self.step.journal.lost, *spans_of(self.step.journal.frames)]
        if self.counted.start_us is not None and self.counted.end_us is not None:
            new.append(CountedSpan(self.step.journal.plan or "", self.counted.start_us, self.counted.end_us))
        for span in new:
            spans = with_span(spans, span, None)
        return with_span(spans, None, needed_us)

    def plans(self) -> tuple[str, ...]:
        """Those that edges may still send frames under."""
        edges, before = self.step.setting.edges, self.step.before
        if not edges:
            return ()
        journal = self.step.journal
        return plans_to_keep(before.plans if before else (), journal.plan, from_json(journal.edges), edges)

    def lowest_us(self) -> int | None:
        before = self.step.before
        lowest_us = earlier(before.lowest_us if before else None, self.counted.start_us)
        for frame in self.step.journal.frames:
            lowest_us = earlier(lowest_us, frame.lowest_us)
        for span in self.step.journal.lost:
            lowest_us = earlier(lowest_us, span.start_us)
        return lowest_us

    def query_states(self, best_rows: Mapping[tuple[str, int], int]) -> dict[str, QueryState]:
        """Return how far each query is after the step. Reducers return states for the windows that they had rows in."""
        returned: dict[str, list[QueryState]] = {}
        for report in self.reports:
            for name, state in report.queries.items():
                returned.setdefault(name, []).append(state)
        errors = self.counted.errors
        for frame in self.step.journal.frames:
            errors = add_counts(errors, frame.errors)
        advanced = {}
        for name, registered in self.step.registry.queries.items():
            advanced[name] = state = state_of(self.step, name, registered)
            states = [part for part in returned.get(name, ()) if part.generation == registered.generation]
            if not states and name not in errors:
                continue
            ends_us = [part.last_end_us for part in states if part.last_end_us is not None]
            advanced[name] = replace(
                state,
                last_end_us=later(state.last_end_us, max(ends_us, default=None)),
                windows=max([state.windows, *(part.windows for part in states)]),
                rows=state.rows
                + sum(part.rows - state.rows for part in states)
                + best_rows.get((name, registered.generation), 0),
                errors=state.errors + sum(part.errors - state.errors for part in states) + errors.get(name, 0),
                left_out=state.left_out + sum(part.left_out - state.left_out for part in states),
                problem=next((part.problem for part in states if part.problem != state.problem), state.problem),
                skipped=next((part.skipped for part in states if part.skipped != state.skipped), state.skipped),
            )
        return advanced

    def windows(self) -> int:
        """Answered since the beginning, also of queries that have left."""
        before = self.step.before
        known = before.queries if before else {}
        answered: dict[tuple[str, int], int] = {}
        for name, state in (item for report in self.reports for item in report.queries.items()):
            answered[name, state.generation] = max(answered.get((name, state.generation), 0), state.windows)
        total = sum(answered.values())
        for name, generation in answered:
            total -= known[name].windows if name in known and known[name].generation == generation else 0
        return total + (before.windows if before else 0)

    # Results

    def best(self) -> tuple[ResultObject | None, dict[tuple[str, int], int]]:
        """Write the best rows of all reducers, for queries with LIMIT. Return also how many they are."""
        store = self.step.setting.directory.store
        candidates: dict[tuple[str, int], list[pa.Table]] = {}
        for report in self.reports:
            if report.results is not None and report.candidates:
                places = [(section.begin, section.end, section.digest) for section in report.candidates]
                tables = read_sections(store, report.results.name, places)
                for section, table in zip(report.candidates, tables, strict=True):
                    candidates.setdefault((section.query, section.generation), []).append(table)
        queries = {
            (name, registered.generation): registered.query
            for known in (self.step.closing, self.step.registry)
            for name, registered in known.queries.items()
        }
        writer, rows = ResultWriter(), {}
        for key, tables in candidates.items():
            query = queries[key]
            table = for_people(best_rows(query, tables), query.result_columns())
            writer.add(*key, table, end_column(query), is_former=self.step.is_former(*key))
            rows[key] = table.num_rows
        written = writer.finish(self.step.journal.step, BEST, uuid4().hex[:12])
        if written is None:
            return None, {}
        store.put(written[0].object.name, written[1])
        return written[0], rows


def best_rows(query: Query, tables: Sequence[pa.Table]) -> pa.Table:
    names = [output.name for output in query.outputs]
    orders = [[one_array(table[f"{ORDER}{place}"]) for place in range(len(query.order_by))] for table in tables]
    return best_of(query, [table.select(names) for table in tables], orders)


def list_left_out(journal: Journal, units: Iterable[UnitRead]) -> tuple[LeftOut, ...]:
    """The files that the step left out, with the rows that were read of those found bad midway."""
    files = {file.path: file for file in journal.bad_files}
    bad = {journal.units[unit.place].path: unit.problem for unit in units if unit.problem is not None}
    for path, reason in bad.items():
        rows = sum(unit.rows for unit in units if journal.units[unit.place].path == path)
        files[path] = LeftOut(path, reason, rows)
    return tuple(files.values())


def changed_queries(before: Commit | None, commit: Commit) -> Commit:
    """Return a commit as it is stored: with the queries that changed since the one before, and the names of those that
    left, unless it is one with all queries.
    """
    if before is None or commit.all_queries == commit.step:
        return commit
    changed = {name: state for name, state in commit.queries.items() if before.queries.get(name) != state}
    return replace(commit, queries=changed, left=tuple(before.queries.keys() - commit.queries.keys()))
