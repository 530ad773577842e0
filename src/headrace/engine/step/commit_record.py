"""The commit record of a step, built from what the tasks returned and the state before."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

import pyarrow as pa
import pyarrow.parquet as pq
from msgspec.structs import replace

from headrace.engine.edge_inbox import highest_of, plans_to_keep, spans_of, with_edges
from headrace.engine.step.context import Step
from headrace.engine.step.level2_task import ORDER, Reduced, is_merged, state_of
from headrace.engine.step.task_counts import Counted, add_counts
from headrace.engine.step.watermark import (
    ENDED_US,
    moved_partitions,
    moved_watermark,
    needed_since_us,
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
    Manifest,
    QueryState,
    ResultFile,
    SliceFile,
    StreamTotals,
    UnitRead,
)
from headrace.storage.staged_results import begin_sync_staged, stage_results
from headrace.storage.store import read_object
from headrace.wire.ledger import from_json


@dataclass(frozen=True)
class Outcome:
    """A step that has run, and what its reducers did."""

    step: Step
    reduced: Sequence[Reduced]

    @property
    def manifests(self) -> list[Manifest]:
        return [reduced.manifest for reduced in self.reduced]

    @cached_property
    def counted(self) -> Counted:
        total = Counted()
        for reduced in self.reduced:
            total = total.plus(reduced.counted)
        return total

    def commit(self, epoch: int, retain_us: int | None, inputs: int) -> Commit:
        """The state after the step."""
        journal, before, counted = self.step.journal, self.step.before, self.counted
        directory, stream = self.step.setting.directory, self.step.setting.declared
        had_clock = before is not None and before.clock_us is not None
        known = before.partitions if before else {}
        highest_us = counted.highest_us | highest_of(journal.frames, stream, known)
        partitions = moved_partitions(known, highest_us, journal.clock_us, not had_clock)
        partitions = with_edges(partitions, self.step.setting.edges, from_json(journal.edges), journal.clock_us)
        watermark_us = moved_watermark(journal.watermark_us, partitions, journal, stream)
        windows = [query.window for query in self.step.registry.active.values()]
        needed_us = needed_since_us(windows, closed_after(journal), retain_us)
        forgotten_us = later(before.forgotten_us if before else None, needed_us)
        quarantined = list_left_out(journal, counted.units)
        totals = counted.totals.plus(StreamTotals(quarantined=len(quarantined), changed=len(journal.changed)))
        for frame in journal.frames:
            totals = totals.plus(frame.totals)
        results = self.results()
        return Commit(
            step=journal.step,
            epoch=epoch,
            previous=directory.commit_digest(journal.step - 1) if journal.step > 1 else "",
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
            queries=self.query_states(results),
            spans=self.spans(needed_us),
            needed_us=needed_us,
            forgotten_us=forgotten_us,
            lowest_us=self.lowest_us(),
            slices=live_slices(before, self.manifests, needed_us),
            results=results,
            rejected=tuple(counted.rejected),
            quarantined=quarantined,
            windows=self.windows(),
            totals=before.totals.plus(totals) if before else totals,
            edges=journal.edges,
            plans=self.plans(),
            inputs=inputs,
            attempt=journal.attempt,
        )

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

    def query_states(self, results: Iterable[ResultFile]) -> dict[str, QueryState]:
        """Return how far each query is after the step. Reducers return states for the windows that they had rows in."""
        rows: dict[tuple[str, int], int] = {}
        for file in results:
            if file.folder == 0:
                rows[file.query, file.generation] = rows.get((file.query, file.generation), 0) + file.rows
        returned: dict[str, list[QueryState]] = {}
        for manifest in self.manifests:
            for name, state in manifest.queries.items():
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
                rows=state.rows + rows.get((name, registered.generation), 0),
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
        for name, state in (item for manifest in self.manifests for item in manifest.queries.items()):
            answered[name, state.generation] = max(answered.get((name, state.generation), 0), state.windows)
        total = sum(answered.values())
        for name, generation in answered:
            total -= known[name].windows if name in known and known[name].generation == generation else 0
        return total + (windows_of(before) if before else 0)

    # Results

    def results(self) -> tuple[ResultFile, ...]:
        """The files of the reducers; of queries with LIMIT one file of the best rows of all."""
        setting = self.step.setting
        finished: list[ResultFile] = []
        candidates: dict[tuple[str, int], list[ResultFile]] = {}
        queries = {
            (name, registered.generation): registered.query
            for known in (self.step.closing, self.step.registry)
            for name, registered in known.queries.items()
        }
        for file in (file for manifest in self.manifests for file in manifest.results):
            key = file.query, file.generation
            (candidates.setdefault(key, []) if is_merged(queries[key], setting) else finished).append(file)
        for (name, generation), files in candidates.items():
            query = queries[name, generation]
            table = for_people(self.best_rows(query, files), query.result_columns())
            setting.directory.store.delete(file.staged.name for file in files)
            file_name = f"step-{self.step.journal.step:09}" + self.step.former(name, generation)
            merged = list(stage_results(self.step.setting.results, name, file_name, self.step.staging, table))
            begin_sync_staged(setting.results, merged)()
            finished += [replace(file, generation=generation) for file in merged]
        return tuple(finished)

    def best_rows(self, query: Query, files: Iterable[ResultFile]) -> pa.Table:
        store = self.step.setting.directory.store
        candidates = [read_object(store, file.staged.name, file.staged.digest) for file in files]
        tables = [pq.read_table(pa.BufferReader(data)) for data in candidates]
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


def windows_of(commit: Commit) -> int:
    """Older records have only those of their queries."""
    return commit.windows if commit.windows is not None else sum(state.windows for state in commit.queries.values())


def closed_after(journal: Journal) -> int | None:
    """The watermark up to which the step closed windows."""
    return ENDED_US if journal.ended else journal.watermark_us


def live_slices(before: Commit | None, manifests: Sequence[Manifest], needed_us: int | None) -> tuple[SliceFile, ...]:
    """Those that were there and those that came, without what was put together and what nobody needs."""
    compacted = {manifest.reducer for manifest in manifests if manifest.compacted}
    kept = [file for file in (before.slices if before else ()) if file.reducer not in compacted]
    kept += [file for manifest in manifests for file in manifest.slices]
    return tuple(file for file in kept if needed_us is None or file.end_us > needed_us)
