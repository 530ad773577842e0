"""Steps, on the driver: begin (decide, and write it in the journal), run, commit (write what came of it).

What is decided depends on the state, the requests, the files and the clock that are handed in, and on nothing else.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

import pyarrow as pa

from headrace.edge.checking import check_rows
from headrace.edge.frames import from_bytes as frame_from_bytes
from headrace.edge.ledger import from_json, to_json
from headrace.kernel.joining import Joiner
from headrace.model.arrow import conform
from headrace.model.errors import HeadraceError, UsageError, nearest, printable
from headrace.model.query import Query
from headrace.planner.cost import FOR_EDGES
from headrace.planner.plan import Plan
from headrace.planner.sampling import Data
from headrace.spark.committing import Outcome
from headrace.spark.context import Setting, needed_columns, step_of
from headrace.spark.directory import Directory, Owner
from headrace.spark.disk import begin_sync
from headrace.spark.edges import Inbox, NewFrames, frame_at
from headrace.spark.garbage import collect_garbage, forget_answers, sweep
from headrace.spark.inputs import BadFile, InputFile, Unit, cut, list_files, read
from headrace.spark.planning import SAMPLE_ROWS, Planner
from headrace.spark.records import Commit, Journal, LeftOut
from headrace.spark.reducing import Reduced
from headrace.spark.registry import (
    Quotas,
    Registry,
    Request,
    answered,
    applied,
    checked,
    keep_registry,
    read_registry,
    refusal,
    requests,
    with_queries,
)
from headrace.spark.seen import Seen
from headrace.spark.staging import show, show_results
from headrace.spark.time import (
    ENDED_US,
    first_complete,
    later,
    moved_watermark,
)
from headrace.windows import instances_ending

LOG = logging.getLogger(__name__)
NOTHING = Plan((), (), {}, 0.0, {})
"""A plan for no query: edges then count rows, and send none."""
STEP_BYTES = 1 << 30
"""How much input one step takes; the rest waits for the next."""


class Runner(Protocol):
    """What runs the tasks of a step: Spark, or this process."""

    def run(self, setting: Setting, step: int, tasks: Sequence[Sequence[Unit]], rows: Any) -> list[Reduced]:
        """Level 1 over the units of each task, or over `rows`, then level 2 in each reducer."""

    @property
    def tasks(self) -> int:
        """How many tasks may run at once."""


class Upstream(Protocol):
    """For a stream of results: what it may read, and up to where it is known."""

    def closed_us(self) -> int | None: ...

    def is_ours(self, file: InputFile) -> bool: ...

    def accepts(self, file: InputFile, closed_us: int | None) -> bool: ...

    def known_us(self, left: Sequence[InputFile], closed_us: int | None) -> int | None: ...

    def tables(self, since_us: int | None) -> Mapping[str, pa.Table]: ...


@dataclass(frozen=True, slots=True)
class Input:
    """What a step may take: nothing but time, the files of the source, or a batch that Spark handed in."""

    clock_us: int | None = None
    batch: int | None = None
    offsets: tuple[str, ...] = ()
    rows: Any = None
    sample: Callable[[], pa.Table] | None = None
    ended: bool = False


@dataclass(slots=True)
class NewFiles:
    """What a step takes of the source: files and their units; those that are bad; those that are no longer what was
    read; and those that are left for another step.
    """

    files: list[InputFile] = field(default_factory=list)
    units: list[Unit] = field(default_factory=list)
    bad: list[LeftOut] = field(default_factory=list)
    changed: list[str] = field(default_factory=list)
    left: list[InputFile] = field(default_factory=list)


class Stepper:
    """Runs steps, one after the other, on a state directory that it owns."""

    def __init__(
        self,
        setting: Setting,
        runner: Runner,
        *,
        quotas: Quotas | None = None,
        retain_us: int | None = None,
        step_bytes: int = STEP_BYTES,
        take_over: bool = False,
        reload: Callable[[str], str] | None = None,
        upstream: Upstream | None = None,
        inbox: Inbox | None = None,
    ) -> None:
        self.setting = setting
        self.runner = runner
        self.quotas = quotas or Quotas()
        self.retain_us = retain_us
        self.step_bytes = step_bytes
        self.directory: Directory = setting.directory
        self.owner = Owner(self.directory, take_over=take_over)
        self.commit = self.directory.last_commit()
        self.seen = Seen(self.directory, self.commit)
        plan = self.directory.plan(self.commit.plan) if self.commit and self.commit.plan else None
        self.kept_plan: tuple[Plan | None, str] = plan, self.commit.plan or "" if self.commit else ""
        constants = FOR_EDGES if inbox is not None else None
        self.planner = Planner(setting.catalog, setting.declared, plan, self.registry.values, constants)
        begun = self.pending or self.commit
        self.tables: dict[str, str] = dict(begun.tables) if begun else {}
        self.first: dict[str, tuple[str, Query]] = {}
        self.reload = reload
        self.upstream = upstream
        self.inbox = inbox
        self.waiting = NewFrames()
        self.readable: Callable[[], Mapping[str, Query]] = dict
        self.readers: Callable[[str], Sequence[str]] = lambda name: ()
        self.finished_us: int | None = None
        self.wait_for_disk: Callable[[], None] = lambda: None
        self.finish(self.commit)
        forget_answers(self.directory)
        sweep(self.directory, self.setting.results, self.commit.step if self.commit else 0)

    # The registry before the next step

    @property
    def registry(self) -> Registry:
        return read_registry(self.directory.root, self.commit.registry if self.commit else 0)

    def register(self, queries: Mapping[str, tuple[str, Query]]) -> None:
        """What is to be there from the next step on: new queries are added, others of the same name replaced."""
        self.first = dict(queries)

    @property
    def pending(self) -> Journal | None:
        """A step that was begun and not committed: it must be run again before any other."""
        return self.directory.journal(self.number)

    @property
    def is_ended(self) -> bool:
        return self.commit is not None and self.commit.ended

    @property
    def number(self) -> int:
        return (self.commit.step if self.commit else 0) + 1

    # One step

    def step(self, given: Input) -> Commit | None:
        """Run one step, if there is anything to do; None if there is not."""
        journal = self.pending
        if journal is not None:
            check_unchanged(journal)
        else:
            journal = self.begin(given)
        if journal is None:
            return None
        reduced = self.run(journal, given.rows)
        commit = self.committed(journal, reduced)
        if any(each.counted.totals.rows for each in reduced):
            rows = sum(each.counted.totals.rows for each in reduced)
            self.planner.observe(rows, sum(each.counted.node_rows for each in reduced))
        self.wait_for_disk()
        self.owner.write_commit(commit)
        self.commit = commit
        self.finish(commit)
        tell_of_files(journal, commit)
        return commit

    def begin(self, given: Input) -> Journal | None:
        """Decide what the step does and write it down; None if there is nothing to do."""
        registry, taken, tables = self.changed_registry()
        upstream_us = self.upstream.closed_us() if self.upstream else None
        taken_in = self.new_files(upstream_us) if self.setting.source else NewFiles()
        before = self.commit
        known = from_json(before.edges) if before else {}
        self.waiting = new = self.inbox.take(known, self.step_bytes) if self.inbox else NewFrames()
        files, units, left = taken_in.files, [*taken_in.units, *new.units], taken_in.left
        has_rows = bool(units) or given.rows is not None
        if self.upstream and has_rows:
            results = self.upstream.tables(before.watermark_us if before else None)
            tables |= {name: self.directory.keep_table(rows) for name, rows in results.items()}
        clock_us = later(before.clock_us if before else None, given.clock_us)
        watermark_us, closed_us = (before.watermark_us, before.closed_us) if before else (None, None)
        journal = Journal(
            step=self.number,
            clock_us=clock_us,
            watermark_us=watermark_us,
            closed_us=closed_us,
            registry=registry.version,
            plan=self.plan_name(registry, tables, units, given)
            if has_rows or self.inbox
            else (before.plan if before else None),
            tables=tables,
            units=tuple(units),
            files=tuple(files),
            quarantined=tuple(taken_in.bad),
            changed=tuple(taken_in.changed),
            requests=tuple(request.id for request in taken),
            batch=given.batch,
            offsets=given.offsets,
            ended=given.ended and not left and self.has_ended(upstream_us, new),
            upstream_us=self.upstream.known_us(left, upstream_us) if self.upstream else None,
            frames=tuple(new.frames),
            edges=to_json(new.ledger),
        )
        ends = journal.ended and not (before is not None and before.ended)
        changes = registry.version != (before.registry if before else 0)
        comes = has_rows or files or new.frames or taken_in.changed or taken
        if not (comes or changes or ends or self.is_due(journal)):
            return None
        if not self.directory.write_journal(journal):
            raise UsageError("state-lost", f"another engine began step {journal.step}")
        self.first = {}
        return journal

    def has_ended(self, upstream_us: int | None, new: NewFrames) -> bool:
        """Whether nothing more can come from other queries, nor from edges."""
        is_upstream_done = self.upstream is None or upstream_us == ENDED_US
        return is_upstream_done and (self.inbox is None or (not new.is_more and self.inbox.all_ended(new.ledger)))

    def is_due(self, journal: Journal) -> bool:
        """Whether some window must be closed, or the watermark moves without rows."""
        before = self.commit
        if before is None or before.ended:
            return False
        moved_us = moved_watermark(before.watermark_us, before.partitions, journal, self.setting.declared)
        if moved_us != before.watermark_us:
            return True
        if before.watermark_us is None or before.watermark_us == before.closed_us:
            return False
        after_us = before.closed_us if before.closed_us is not None else -ENDED_US
        windows = {each.query.window for each in self.registry.queries.values()}
        spans = [instances_ending(window, after_us, before.watermark_us) for window in windows]
        return any(first <= last for first, last in spans)

    def run(self, journal: Journal, rows: Any) -> list[Reduced]:
        tasks = shared_out(journal.units, self.runner.tasks)
        if not tasks and rows is None and not self.closes(journal):
            return []
        return self.runner.run(self.setting, journal.step, tasks, rows)

    def closes(self, journal: Journal) -> bool:
        return journal.ended or (journal.watermark_us is not None and journal.watermark_us != journal.closed_us)

    # Requests

    def changed_registry(self) -> tuple[Registry, list[Request], dict[str, str]]:
        """The registry with the requests in the inbox, those that were taken, and the tables as they are now."""
        registry, taken = self.registry, []
        changed = with_queries(registry, self.first)
        if len(changed.queries) > self.quotas.queries:
            problem = f"there are {len(changed.queries)} queries, {self.quotas.queries} are allowed"
            raise UsageError("quota", problem, hint="raise the quota, or register fewer")
        registered = changed
        for request in requests(self.directory):
            try:
                if request.action == "reload":
                    tables = self.tables | {request.name: self.reloaded(request.name)}
                    self.check_joins(changed.values.values(), tables)
                    self.tables = tables
                else:
                    self.check_readers(request)
                    query = self.checked(request)
                    self.check_room(query)
                    changed = applied(changed, request, query, self.quotas)
                    self.check_joins([query] if query else [], self.tables)
                registered = changed
                taken.append(request)
            except HeadraceError as problem:
                changed = registered
                answered(self.directory, [request.id], {request.id: refusal(problem)})
        if changed is not registry:
            changed = replace(changed, version=registry.version + 1)
            keep_registry(self.directory, changed)
        return changed, taken, dict(self.tables)

    def check_joins(self, queries: Iterable[Query], tables: Mapping[str, str]) -> None:
        """Whether the tables have each key once. Those of results are looked at when they are there."""
        known, catalog = self.table_rows(tables), self.setting.catalog
        joining = [query for query in queries if all(catalog.table(join.table) is not None for join in query.joins)]
        Joiner(Data(catalog, self.setting.declared, pa.table({}), known), joining)

    def reloaded(self, table: str) -> str:
        if table not in self.tables or self.reload is None:
            raise UsageError("no-table", f"there is no table '{table}'", hint=nearest(table, self.tables))
        return self.reload(table)

    def checked(self, request: Request) -> Query | None:
        """The query that is asked for; none is if one is to be dropped."""
        if request.action == "drop":
            return None
        return checked(request.sql, self.setting.catalog, self.setting.stream, self.readable())

    def check_readers(self, request: Request) -> None:
        if request.action == "add" and request.name in self.readable() and request.name not in self.registry.queries:
            raise UsageError("query-exists", f"there is a query '{request.name}' already, over other rows")
        readers = self.readers(request.name) if request.action in ("drop", "replace") else ()
        if readers:
            problem = f"{', '.join(readers)} reads the results of '{request.name}'"
            raise UsageError("query-read", problem, hint=f"drop {', '.join(readers)} first")

    def check_room(self, query: Query | None) -> None:
        """Whether there is room for one more query, by what is there and by what the sample says of its groups."""
        if query is None:
            return
        size = sum(file.file.bytes for file in self.commit.slices) if self.commit else 0
        if size > self.quotas.state_bytes:
            raise UsageError("quota", f"the state has {size:,} bytes, {self.quotas.state_bytes:,} are allowed")
        groups = self.planner.groups_of(query, self.table_rows(self.tables))
        if groups is not None and groups > self.quotas.groups:
            problem = f"the query would have about {groups:,.0f} groups, {self.quotas.groups:,} are allowed"
            raise UsageError("quota", problem, hint="group by fewer or coarser expressions")

    def table_rows(self, tables: Mapping[str, str]) -> dict[str, pa.Table]:
        return {name: self.directory.table(version) for name, version in tables.items()}

    # Input

    def new_files(self, upstream_us: int | None) -> NewFiles:
        """Files that no step has read, oldest first, as many as a step takes."""
        source = self.setting.source
        assert source is not None
        listed = list_files(source)
        found = NewFiles(changed=self.seen.changed(listed))
        size = 0
        new = self.seen.new(listed)
        if self.upstream:
            new = [file for file in new if self.upstream.is_ours(file)]
        for place, file in enumerate(new):
            is_held_back = self.upstream is not None and not self.upstream.accepts(file, upstream_us)
            if is_held_back or (found.files and size + file.size > self.step_bytes):
                found.left = new[place:]
                return found
            size += file.size
            try:
                found.units += cut(source, file, self.setting.declared)
            except BadFile as problem:
                if self.setting.on_bad_file == "stop":
                    raise
                found.bad.append(LeftOut(file.path, problem.reason))
            found.files.append(file)
        return found

    def plan_name(
        self, registry: Registry, tables: Mapping[str, str], units: Sequence[Unit], given: Input
    ) -> str | None:
        sampled = given.sample or (lambda: self.sample_of(units, registry.version))
        plan = self.planner.plan_for(registry.values, self.table_rows(tables), sampled)
        if plan is None and not registry.queries and self.inbox is not None:
            plan = NOTHING
        if plan is None:
            return None
        if plan is not self.kept_plan[0]:
            self.kept_plan = plan, self.directory.keep_plan(plan)
        return self.kept_plan[1]

    def sample_of(self, units: Sequence[Unit], version: int) -> pa.Table:
        """Rows from the middle of the input. If it is all at edges, which send rows only until they have a plan, those
        that were seen then.
        """
        middle = len(units) // 2
        found = [conform(pa.table({}), self.setting.declared.columns)]
        for rows in (rows for unit in (*units[middle:], *units[:middle]) for rows in self.sampled_rows(unit, version)):
            found.append(rows)
            if sum(table.num_rows for table in found) >= SAMPLE_ROWS // 4:
                break
        sample = pa.concat_tables(found)
        return sample if self.inbox is None else self.inbox.sample(sample)

    def sampled_rows(self, unit: Unit, version: int) -> Iterator[pa.Table]:
        """Of a damaged file, if such files are left out, what the step will read: the columns that queries name. The
        step says what is wrong with it.
        """
        stream, source = self.setting.declared, self.setting.source
        if (frame := frame_at(self.setting.root, unit)) is not None:
            sent = frame_from_bytes(frame.read_bytes())
            yield from check_rows(sent, stream) if sent.header.plan is None else ()
            return
        assert source is not None
        for columns in ({column.name for column in stream.columns}, needed_columns(self.setting, version)):
            is_begun = False
            try:
                for rows in read(source, unit, stream, columns):
                    is_begun = True
                    is_whole = rows.table.num_columns == len(stream.columns)
                    yield rows.table if is_whole else conform(rows.table, stream.columns)
            except BadFile:
                if self.setting.on_bad_file == "stop":
                    raise
                if not is_begun:
                    continue
            return

    # Commit

    def committed(self, journal: Journal, reduced: Sequence[Reduced]) -> Commit:
        """The state after the step."""
        step = step_of(self.setting, journal.step)
        vars(step)["before"] = self.commit  # it need not be read again
        return Outcome(step, reduced).commit(self.owner.epoch, self.retain_us, self.list_inputs(journal))

    def list_inputs(self, journal: Journal) -> int:
        """The step of the newest list of all files that were read; now and then a new one is written."""
        self.seen.add(journal)
        if self.setting.source is None or not self.seen.is_due(journal.step):
            return self.seen.listed
        return self.seen.write(journal.step, {file.path for file in list_files(self.setting.source)})

    # After the commit, and after a crash behind it

    def finish(self, commit: Commit | None) -> None:
        """What a commit promises: files under their names, answers to requests, and no files that nobody names."""
        if commit is None:
            return
        self.directory.note_commit(commit.step)
        shown = show_results(self.setting.results, commit.results) | show(self.directory.root, commit.rejected)
        self.wait_for_disk = begin_sync(shown)
        self.finished_us = ENDED_US if commit.ended else commit.closed_us
        journal = self.directory.journal(commit.step)
        if journal is not None and self.inbox is not None:
            self.inbox.forget(journal.frames)
            self.publish(commit)
        if journal is not None and journal.requests:
            asked = {request.id: request.name for request in requests(self.directory)}
            answers = {id: self.answer(asked.get(id, ""), commit) for id in journal.requests}
            answered(self.directory, journal.requests, answers)
        collect_garbage(self.directory, commit, self.tables)

    def publish(self, commit: Commit) -> None:
        """The plan that edges are to count under."""
        assert self.inbox is not None
        registry = read_registry(self.directory.root, commit.registry)
        plan = self.directory.plan(commit.plan) if commit.plan else None
        self.inbox.publish(plan, registry, commit.tables)

    def answer(self, name: str, commit: Commit) -> dict[str, Any]:
        """What is told to who asked: since when, and for a query its first window that will be complete."""
        told: dict[str, Any] = {"version": commit.registry, "step": commit.step}
        registered = read_registry(self.directory.root, commit.registry).queries.get(name)
        if registered is not None and (state := commit.queries.get(name)) is not None and state.after_us is not None:
            told |= first_complete(registered.query.window, state.after_us, state.missed)._asdict()
        return told

    def close(self) -> None:
        try:
            self.wait_for_disk()
        finally:
            self.owner.close()


def tell_of_files(journal: Journal, commit: Commit) -> None:
    """Rows that nobody will count are told of when they are known, not only as a number."""
    for file in commit.quarantined:
        LOG.warning("left out: %s: %s", printable(file.path), printable(file.reason))
    for path in journal.changed:
        LOG.warning("changed after it was read: %s; its new rows are not read", printable(path))


PUT_BACK = "put it back as it was: a step that has begun reads what it began with"


def check_unchanged(journal: Journal) -> None:
    """A step that is run again must read what it would have read."""
    for file in journal.files:
        try:
            found = os.stat(file.path)
        except OSError as problem:
            message = f"step {journal.step} began with it, and it can't be read"
            raise BadFile(file.path, message, str(problem), PUT_BACK) from None
        if (found.st_size, found.st_mtime_ns) != (file.size, file.modified_ns):
            raise BadFile(file.path, f"it has changed since step {journal.step} began with it", hint=PUT_BACK)


def shared_out(units: Sequence[Unit], tasks: int) -> list[list[Unit]]:
    """Units in their order, for each task about the same number of bytes."""
    if not units:
        return []
    total = sum(unit.size for unit in units)
    found: list[list[Unit]] = [[] for _ in range(min(tasks, len(units)))]
    begun = 0
    for unit in units:
        found[min(len(found) - 1, (begun + unit.size // 2) * len(found) // max(1, total))].append(unit)
        begun += unit.size
    return [task for task in found if task]
