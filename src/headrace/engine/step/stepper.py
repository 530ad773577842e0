"""Steps, on the driver: begin (decide, and write it in the journal), run, commit (write what came of it).

What is decided depends on the state, the requests, the files and the clock that are handed in, and on nothing else.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from msgspec.structs import replace

from headrace.engine.edge_inbox import Inbox, NewFrames
from headrace.engine.plan_in_force import Planner
from headrace.engine.quotas import Quotas
from headrace.engine.registry import (
    Registry,
    keep_registry,
    read_registry,
    requests,
    write_answers,
)
from headrace.engine.requests import Changes, NoQueries, QueryCatalogue
from headrace.engine.step.commit_record import Outcome, changed_queries
from headrace.engine.step.completeness import outlook
from headrace.engine.step.context import Step, StreamSetting
from headrace.engine.step.decision import StepFacts, decide_step, next_step
from headrace.engine.step.input import FileIntake, NewResults, Upstream, default_step_bytes, sample_of
from headrace.engine.step.quarantine import DIED, Bisection, is_death, named_failure, newcomers, with_quarantined
from headrace.engine.step.replay import check_unchanged
from headrace.engine.step.runner import Ran, Runner
from headrace.engine.step.task_counts import check_conserved, check_reducers
from headrace.engine.step.watermark import ENDED_US
from headrace.inputs import list_files
from headrace.kernel.failures import failures_named
from headrace.model.errors import QueryFailure, printable
from headrace.model.key_groups import Partitioning, choose_partitioning
from headrace.model.units import Unit
from headrace.planner.codec import digest_of, encode
from headrace.planner.cost import FOR_EDGES
from headrace.planner.plan import Plan
from headrace.storage.directory import Directory
from headrace.storage.disk import DamagedError, digest, to_record
from headrace.storage.garbage import collect_garbage, forget_answers, plans_in, show_rejected, sweep
from headrace.storage.ownership import Owner
from headrace.storage.records import Commit, Journal
from headrace.storage.seen_files import SeenFiles
from headrace.storage.store import store_threads
from headrace.storage.upgrade import upgrade_state
from headrace.wire.ledger import from_json

LOG = logging.getLogger(__name__)
NOTHING = Plan((), (), {}, 0.0, {})
"""A plan for no query: edges then count rows, and send none."""


@dataclass(frozen=True, slots=True)
class Input:
    """What a step may take: nothing but time, the files of the source, or a batch that Spark handed in."""

    clock_us: int | None = None
    batch: int | None = None
    offsets: tuple[str, ...] = ()
    rows: Any = None
    sample: Callable[[], pa.Table] | None = None
    ended: bool = False


class Stepper:
    """Runs steps, one after the other, on a state directory that it owns."""

    def __init__(
        self,
        setting: StreamSetting,
        runner: Runner,
        *,
        reducers: int = 1,
        quotas: Quotas | None = None,
        step_bytes: int | None = None,
        take_over: bool = False,
        tables: Mapping[str, Callable[[], pa.Table]] | None = None,
        catalogue: QueryCatalogue | None = None,
        upstream: Upstream | None = None,
        inbox: Inbox | None = None,
    ) -> None:
        """Take the state, and finish what its last commit promises. A new state begins with this many reducers."""
        self.setting = setting
        self.runner = runner
        self.step_bytes = step_bytes
        self.upstream = upstream
        self.inbox = inbox
        self.waiting = NewFrames()
        self.finished_us: int | None = None
        self.seconds: dict[str, float] = {}
        """What the step before took to close the windows of queries, of those that took long."""
        self.directory: Directory = setting.directory
        self.owner = Owner(self.directory, take_over=take_over)
        try:
            upgrade_state(self.directory, is_derived=setting.declared.derived is not None)
            self.resume(reducers, quotas or Quotas(), tables or {}, catalogue or NoQueries())
        except BaseException:
            self.owner.close()
            raise

    def resume(
        self,
        reducers: int,
        quotas: Quotas,
        tables: Mapping[str, Callable[[], pa.Table]],
        catalogue: QueryCatalogue,
    ) -> None:
        """Read where the state stands, and finish what its last commit promises."""
        setting, inbox = self.setting, self.inbox
        self.load()
        plan = self.directory.plan(self.commit.plan) if self.commit and self.commit.plan else None
        self.kept_plan: tuple[Plan | None, str] = None, ""
        if plan is not None and self.commit and digest_of(encode(plan)) == self.commit.plan:
            self.kept_plan = plan, self.commit.plan
        constants = FOR_EDGES if inbox is not None else None
        self.planner = Planner(setting.catalog, setting.declared, plan, self.registry.active, constants)
        begun = self.pending or self.commit
        versions = begun.tables if begun else {}
        if self.pending is not None:
            reducers = self.pending.partitioning.reducers
        elif self.commit is not None:
            reducers = self.commit.reducers
        self.changes = Changes(setting, self.planner, quotas, versions, tables, self.keep_table, catalogue, reducers)
        if self.commit is not None:
            self.finish(self.commit, self.directory.journal(self.commit.step, self.commit.attempt))
        forget_answers(self.directory, time.time())
        sweep(self.directory, self.commit, self.changes.tables)

    def load(self) -> None:
        """Read the last commit, and the step that was begun behind it."""
        self.commit = self.directory.last_commit()
        self.commit_digest = self.directory.commit_digest(self.commit.step) if self.commit else ""
        self.pending = self.directory.newest_journal(self.number)
        """The last attempt at a step that was begun and not committed: it must be run again before any other."""
        self.seen = SeenFiles(self.directory, self.commit)
        self.intake = FileIntake(self.setting, self.seen)

    # The registry before the next step

    @property
    def registry(self) -> Registry:
        return read_registry(self.directory, self.commit.registry if self.commit else 0)

    @property
    def names(self) -> set[str]:
        """Of all queries, those not yet registered among them."""
        return self.registry.values.keys() | self.changes.first.keys()

    @property
    def is_ended(self) -> bool:
        return self.commit is not None and self.commit.ended

    @property
    def number(self) -> int:
        return next_step(self.commit)

    # One step

    def step(self, available: Input) -> Commit | None:
        """Run one step, if there is anything to do; None if there is not."""
        journal = self.pending
        if journal is not None:
            check_unchanged(self.directory, journal)
        else:
            journal = self.begin(available)
        if journal is None:
            return None
        try:
            journal, ran = self.run_attempts(journal, available)
            commit = self.build_commit(journal, ran)
        except DamagedError:
            self.owner.check_held()  # a new owner deletes what this one still looks for
            raise
        for outcome in ran.reduced:
            for name, taken_s in outcome.report.seconds.items():
                self.seconds[name] = max(taken_s, self.seconds.get(name, 0.0))
        rows = sum(outcome.counted.totals.rows for outcome in ran.reduced)
        if rows:
            self.planner.observe(rows, sum(outcome.counted.node_rows for outcome in ran.reduced))
        known = self.registry
        unneeded = [name for outcome in ran.reduced for name in outcome.report.unneeded]
        if not self.write_commit(commit):
            commit, journal, unneeded = self.adopt_commit(commit.step)
        self.finish(commit, journal, unneeded)
        report_quarantine(known, self.registry)
        report_files(journal, commit)
        return commit

    def adopt_commit(self, step: int) -> tuple[Commit, Journal, list[str]]:
        """Continue from the commit of an older owner, who was quicker, and may have died before it finished it."""
        LOG.warning("step %s was committed by an engine that had the state before", step)
        self.load()
        assert self.commit is not None
        journal = self.directory.journal(self.commit.step, self.commit.attempt)
        assert journal is not None
        return self.commit, journal, []

    def write_commit(self, commit: Commit) -> bool:
        """Put the commit of a step. Return False if an older owner of the state was quicker, whose commit is the state
        then; raise an error if a newer owner was.
        """
        data = to_record(changed_queries(self.commit, commit))
        if not self.owner.write_commit(commit.step, data):
            return False
        self.commit, self.commit_digest, self.pending = commit, digest(data), None
        return True

    def begin(self, available: Input) -> Journal | None:
        """Gather what the step may take, decide what it does, and write that down; None if there is nothing to do."""
        held = store_threads().submit(self.owner.check_held)
        facts = self.gather(available)
        held.result()
        journal = decide_step(facts)
        if journal is None:
            return None
        if not self.directory.write_journal(journal):
            return self.adopt_journal(journal)
        self.changes.first = {}
        self.pending = journal
        return journal

    def adopt_journal(self, refused: Journal) -> Journal:
        """Return the journal of an older owner that was quicker to begin a step: it is the one to run."""
        journal = self.directory.newest_journal(refused.step)
        if journal is None or journal.epoch > self.owner.epoch or journal.batch != refused.batch:
            raise self.owner.lost_error()
        check_unchanged(self.directory, journal)
        self.pending = journal
        return journal

    def gather(self, available: Input) -> StepFacts:
        """Return all that the next step is decided from. What is written on the way has a name of its own, and counts
        only if a journal names it.
        """
        before = self.commit
        registry, taken = self.changes.take(self.registry, before.slice_bytes if before else 0)
        registry = self.without_slow(registry)
        tables = dict(self.changes.tables)
        tasks = self.runner.tasks
        step_bytes = self.step_bytes or default_step_bytes(tasks)
        files = self.intake.take(step_bytes, tasks)
        results = self.upstream.take(before, step_bytes) if self.upstream else NewResults()
        ledger = from_json(before.edges) if before else {}
        self.waiting = self.inbox.take(ledger, step_bytes, self.live_plans) if self.inbox else NewFrames()
        units = (*files.units, *results.units, *self.waiting.units)
        has_rows = bool(units) or available.rows is not None
        if self.upstream and has_rows:
            joined = self.upstream.tables(before.watermark_us if before else None)
            tables |= {name: self.keep_table(rows) for name, rows in joined.items()}
        plan = before.plan if before else None
        if has_rows or self.inbox:
            registry, plan = self.plan_queries(registry, tables, units, available)
        return StepFacts(
            before=before,
            stream=self.setting.declared,
            windows=frozenset(query.window for query in self.registry.active.values()),
            registry=registry.version,
            plan=plan,
            tables=tables,
            tasks=tasks,
            partitioning=self.choose_partitioning(registry),
            epoch=self.owner.epoch,
            files=files,
            results=results,
            frames=self.waiting,
            requests=tuple(request.id for request in taken),
            clock_us=available.clock_us,
            batch=available.batch,
            offsets=available.offsets,
            has_rows=has_rows,
            has_edges=self.inbox is not None,
            is_last=available.ended and self.has_ended(results, self.waiting),
            lost=self.upstream.lost_spans() if self.upstream else (),
        )

    def choose_partitioning(self, registry: Registry) -> Partitioning:
        ungrouped = sum(not query.group_by for query in registry.active.values())
        known = self.commit.partitioning if self.commit and self.commit.manifests else None
        return choose_partitioning(self.changes.reducers, ungrouped, known)

    def without_slow(self, registry: Registry) -> Registry:
        """With queries in quarantine whose windows took too long to close in the step before."""
        limit_s = self.changes.quotas.seconds
        for name in [name for name, taken_s in self.seconds.items() if taken_s > limit_s and name in registry.active]:
            reason = f"its windows took {self.seconds[name]:.0f} s to close in one step, {limit_s:g} s are allowed"
            closed_us = self.commit.closed_us if self.commit else None
            registry = keep_registry(self.directory, with_quarantined(registry, [name], reason, closed_us))
        self.seconds = {}
        return registry

    def has_ended(self, results: NewResults, new: NewFrames) -> bool:
        """Whether nothing more can come from other queries, nor from edges."""
        is_upstream_done = self.upstream is None or results.closed_us == ENDED_US
        return is_upstream_done and (self.inbox is None or (not new.is_more and self.inbox.all_ended(new.ledger)))

    def run_attempts(self, journal: Journal, available: Input) -> tuple[Journal, Ran]:
        """Run the step; if it fails for some queries, run it again without them. A worker that died may have died by
        accident: only if it dies again, the queries to blame are looked for.
        """
        base, search, has_died = journal, None, False
        suspects: dict[str, int] = {}
        while True:
            try:
                ran = self.run(journal, available.rows)
                if search is None or search.note_success():
                    return journal, ran
            except Exception as problem:
                failure = named_failure(problem)
                blamed = self.generations(failure.queries, base) if failure is not None else []
                if failure is not None and blamed:
                    base = self.leave_out(base, blamed, failure.reason, available)
                    search, has_died = None, False
                elif not is_death(problem) or (search is not None and not search.note_failure()):
                    raise
                elif not has_died:
                    has_died = True
                elif search is None:
                    if not (suspects := self.suspects(base)):
                        raise
                    search = Bisection(list(suspects))
            journal = base
            if search is not None:
                suspected = [(name, suspects[name]) for name in search.left_out]
                journal = self.leave_out(base, suspected, DIED, available, is_trial=True)

    def generations(self, names: Iterable[str], journal: Journal) -> list[tuple[str, int]]:
        """Which queries of these names an attempt may leave out. One that left with this step, whose last windows are
        closed, comes first: its name may have been taken over.
        """
        known, now = self.registry.queries, read_registry(self.directory, journal.registry)
        blamed = []
        for name in names:
            old, new = known.get(name), now.queries.get(name)
            has_left = old is not None and old.quarantine is None and (new is None or new.generation != old.generation)
            if old is not None and has_left and (name, old.generation) not in journal.left_out:
                blamed.append((name, old.generation))
            elif new is not None and name in now.active:
                blamed.append((name, new.generation))
        return blamed

    def suspects(self, journal: Journal) -> dict[str, int]:
        """The queries that came since the last commit, newest first, with their generations."""
        registry = read_registry(self.directory, journal.registry)
        return {name: registry.queries[name].generation for name in newcomers(registry, self.registry.queries)}

    def leave_out(
        self,
        journal: Journal,
        queries: Sequence[tuple[str, int]],
        reason: str,
        available: Input,
        *,
        is_trial: bool = False,
    ) -> Journal:
        """Journal a further attempt at the step, in which some queries are in quarantine."""
        registry = read_registry(self.directory, journal.registry)
        names = [name for name, known in registry.queries.items() if (name, known.generation) in queries]
        registry = keep_registry(self.directory, with_quarantined(registry, names, reason, journal.closed_us))
        plan = journal.plan
        if plan is not None and (journal.units or available.rows is not None):
            registry, plan = self.plan_queries(registry, journal.tables, journal.units, available)
        attempt = replace(
            journal,
            attempt=self.directory.attempts(journal.step),
            registry=registry.version,
            plan=plan,
            left_out=(*journal.left_out, *queries),
            is_trial=is_trial,
            epoch=self.owner.epoch,
        )
        if not self.directory.write_journal(attempt):
            raise self.owner.lost_error()
        if not is_trial:
            self.pending = attempt
        return attempt

    def run(self, journal: Journal, rows: Any) -> Ran:
        closes = journal.ended or (journal.watermark_us is not None and journal.watermark_us != journal.closed_us)
        if not journal.units and rows is None and not closes:
            return Ran([])
        with self.intake.prefetch(journal.files):
            return self.runner.run(Step(self.setting, journal, self.commit), rows)

    def plan_queries(
        self, registry: Registry, tables: Mapping[str, str], units: Sequence[Unit], available: Input
    ) -> tuple[Registry, str | None]:
        """The plan for the queries; those that can't be planned come into quarantine."""
        while True:
            try:
                return registry, self.plan_name(registry, tables, units, available)
            except QueryFailure as problem:
                self.planner.forget()  # the plan before has the same expressions
                closed_us = self.commit.closed_us if self.commit else None
                registry = with_quarantined(registry, problem.queries, problem.reason, closed_us)
                registry = keep_registry(self.directory, registry)

    def plan_name(
        self, registry: Registry, tables: Mapping[str, str], units: Sequence[Unit], available: Input
    ) -> str | None:
        sampled = available.sample or (lambda: self.sample_of(units, registry.version))
        with failures_named(registry.active):
            plan = self.planner.plan_for(registry.active, self.changes.rows_of(tables), sampled)
        if plan is None and not registry.active and self.inbox is not None:
            plan = NOTHING
        if plan is None:
            return None
        if plan is not self.kept_plan[0] or self.kept_plan[1] not in self.live_plans:
            self.kept_plan = plan, self.directory.keep_plan(plan, self.number, self.live_plans)
        return self.kept_plan[1]

    @property
    def live_plans(self) -> set[str]:
        """Those that the last commit names: of others the files may be deleted at any time."""
        return plans_in(self.commit)

    def keep_table(self, rows: pa.Table) -> str:
        """Store a static table for the next step; return its version."""
        return self.directory.keep_table(rows, self.number, set(self.commit.tables.values()) if self.commit else ())

    def sample_of(self, units: Sequence[Unit], version: int) -> pa.Table:
        """If all rows are at edges, which send them only until they have a plan, those that were seen then."""
        sample = sample_of(self.setting, units, version)
        return sample if self.inbox is None else self.inbox.sample(sample)

    # Commit

    def build_commit(self, journal: Journal, ran: Ran) -> Commit:
        """Return the state after the step, if no row of it was lost."""
        outcome = Outcome(Step(self.setting, journal, self.commit), ran.reduced)
        check_conserved(journal, outcome.counted, ran.dataframe_rows)
        check_reducers(journal, [report.reducer for report in outcome.reports])
        return outcome.commit(self.owner.epoch, self.commit_digest, self.list_inputs(journal))

    def list_inputs(self, journal: Journal) -> int:
        """The step of the newest list of all files that were read; now and then a new one is written."""
        self.seen.add(journal)
        if not self.seen.is_due(journal.step):
            return self.seen.listed
        if self.setting.source is None:  # journals behind a list can be deleted, also where no files are read
            return self.seen.write(journal.step, (), None)
        present = {file.path for file in list_files(self.setting.source)}
        return self.seen.write(journal.step, present, journal.clock_us)

    # After the commit, and after a crash behind it

    def finish(self, commit: Commit, journal: Journal | None, unneeded: Sequence[str] = ()) -> None:
        """Do what a commit promises: show rejected rows, answer requests, and delete objects that nobody needs."""
        show_rejected(self.directory.store, commit.rejected)
        self.finished_us = ENDED_US if commit.ended else commit.closed_us
        if journal is not None and self.inbox is not None:
            self.owner.check_held()  # edges must not get orders from an engine that lost the state
            self.inbox.forget(journal.frames)
            self.publish(commit)
        if journal is not None and journal.requests:
            names = {request.id: request.name for request in requests(self.directory)}
            answers = {id: self.answer(names.get(id, ""), commit) for id in journal.requests}
            write_answers(self.directory, journal.requests, answers)
        collect_garbage(self.directory, commit, self.changes.tables, unneeded)

    def publish(self, commit: Commit) -> None:
        """The plan that edges are to count under."""
        assert self.inbox is not None
        registry = read_registry(self.directory, commit.registry)
        plan = self.directory.plan(commit.plan) if commit.plan else None
        self.inbox.publish(plan, registry, commit.tables)

    def answer(self, name: str, commit: Commit) -> dict[str, Any]:
        """The answer to a request: since when it holds, and for a query its first window that will be complete, with
        those behind it that are left out.
        """
        reply: dict[str, Any] = {"version": commit.registry, "step": commit.step}
        registered = read_registry(self.directory, commit.registry).queries.get(name)
        state = commit.queries.get(name)
        if registered is not None and registered.quarantine is not None:
            return {**reply, "quarantine": registered.quarantine}
        if registered is not None and state is not None and state.after_us is not None:
            coming = outlook(self.directory, commit, registered.query, state)
            reply |= coming.document() if coming else {}
        return reply

    def close(self) -> None:
        try:
            self.intake.close()
        finally:
            self.owner.close()


def report_quarantine(before: Registry, after: Registry) -> None:
    """Log which queries came into quarantine with a step, and why."""
    for name, query in after.queries.items():
        known = before.queries.get(name)
        if query.quarantine is not None and (known is None or known.quarantine is None):
            LOG.warning("query %s is in quarantine: %s", printable(name), printable(query.quarantine))


def report_files(journal: Journal, commit: Commit) -> None:
    """Log files with rows that nobody will count as soon as they are known, not only as a number."""
    for file in commit.quarantined:
        part = f"; {file.rows:,} rows before the damage count" if file.rows else ""
        LOG.warning("left out: %s: %s%s", printable(file.path), printable(file.reason), part)
    for path in journal.changed:
        LOG.warning("changed after it was read: %s; its new rows are not read", printable(path))
