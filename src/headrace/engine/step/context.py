"""What a task needs to know of its step, read from the state directory and kept for the next one.

A task is sent only where the state is, and the number of the step: what is journalled is all that it depends on.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from socket import gethostname

import pyarrow as pa

from headrace.aggregates.registry import register_aggregates
from headrace.engine.registry import Registry, read_registry
from headrace.expressions.static_tables import Data
from headrace.inputs import Source
from headrace.kernel.close.instances import MAX_RESULT_ROWS
from headrace.kernel.level1.reader import Reader
from headrace.model.caches import note_plan
from headrace.model.errors import UsageError
from headrace.model.query import needed_columns
from headrace.model.schema import Catalog, Stream
from headrace.planner.plan import Plan
from headrace.storage.directory import Directory
from headrace.storage.records import Attempt, Commit, Journal, ResultFolder
from headrace.storage.staged_results import Staging
from headrace.storage.store import open_store


@dataclass(frozen=True, eq=False)
class StreamSetting:
    """What stays the same while an engine runs; it travels to the workers, who know it again by its id."""

    id: str
    root: str
    reducers: int
    catalog: Catalog
    stream: str
    source: Source | None
    results: tuple[ResultFolder, ...]
    on_bad_file: str = "stop"
    max_empty: int = 1_000
    since_us: int | None = None
    """For a stream of results: what was closed before it began is not there."""
    edges: tuple[str, ...] = ()
    """The names of those that send frames of the stream."""
    max_result_rows: int = MAX_RESULT_ROWS
    """Of one query, in one step and reducer."""

    def __eq__(self, other: object) -> bool:
        return isinstance(other, StreamSetting) and self.id == other.id

    def __hash__(self) -> int:
        return hash(self.id)

    @property
    def directory(self) -> Directory:
        return Directory(open_store(self.root), self.reducers, self.id)

    @property
    def declared(self) -> Stream:
        stream = self.catalog.stream(self.stream)
        assert stream is not None
        return stream


@dataclass(frozen=True)
class Step:
    """One step: its journal, the state before it, the queries and the plan."""

    setting: StreamSetting
    journal: Journal
    last_commit: Commit | None = None
    """The commit before this step, where it is known already."""

    @cached_property
    def before(self) -> Commit | None:
        """The commit before this step. It is read where it is needed: with many queries it is large."""
        if self.last_commit is not None:
            return self.last_commit
        return self.setting.directory.commit(self.journal.step - 1) if self.journal.step > 1 else None

    @cached_property
    def registry(self) -> Registry:
        return read_registry(self.setting.directory, self.journal.registry)

    @property
    def closing(self) -> Registry:
        """The queries whose windows the watermark has passed: those of the step before, also if they left since, but
        none that this attempt leaves out, or that is in quarantine by now.
        """
        registry = read_registry(self.setting.directory, self.before.registry if self.before else 0)
        now = self.registry.queries
        left_out = {(name, query.generation) for name, query in now.items() if query.quarantine is not None}
        left_out |= set(self.journal.left_out)
        queries = {name: query for name, query in registry.queries.items() if (name, query.generation) not in left_out}
        return registry if len(queries) == len(registry.queries) else replace(registry, queries=queries)

    def former(self, name: str, generation: int) -> str:
        """What marks the file of a query whose name another has taken over."""
        known = self.registry.queries.get(name)
        return f"-former-{generation}" if known is not None and known.generation != generation else ""

    @cached_property
    def shares(self) -> list[list[int]]:
        """For each task the places of its units in the journal, in order: about the same number of bytes each."""
        units = self.journal.units
        total = sum(unit.size for unit in units)
        shares: list[list[int]] = [[] for _ in range(min(self.journal.tasks, len(units)))]
        begun = 0
        for place, unit in enumerate(units):
            shares[min(len(shares) - 1, (begun + unit.size // 2) * len(shares) // max(1, total))].append(place)
            begun += unit.size
        return [share for share in shares if share]

    @property
    def staging(self) -> Staging:
        """Whose files this step stages."""
        return Staging(self.setting.directory.name, self.journal.step)

    @property
    def plan(self) -> Plan:
        assert self.journal.plan is not None
        return self.setting.directory.plan(self.journal.plan)


@lru_cache(maxsize=4)
def step_of(setting: StreamSetting, attempt: Attempt) -> Step:
    register_aggregates(setting.catalog.aggregates)
    journal = setting.directory.journal(*attempt)
    if journal is None:
        problem = (
            f"{gethostname()}, where a task runs, does not see the journal of step {attempt.step} in {setting.root}"
        )
        hint = "driver and workers must see state, results and input under the same paths: use a file system they share"
        raise UsageError("state-unreachable", problem, hint=hint)
    if journal.plan is not None:
        note_plan(journal.plan)
    return Step(setting, journal)


def reader_of(step: Step) -> Reader:
    """The reader for the step's queries, plan and tables, with its joins prepared."""
    prepared = prepared_reader(
        step.setting, step.journal.registry, step.journal.plan, tuple(step.journal.tables.items())
    )
    prepared.closed_us = step.journal.watermark_us
    return prepared


@lru_cache(maxsize=4)
def prepared_reader(setting: StreamSetting, registry: int, plan: str, tables: tuple[tuple[str, str], ...]) -> Reader:
    directory, stream = setting.directory, setting.declared
    known = {name: directory.table(version) for name, version in tables}
    data = Data(setting.catalog, stream, pa.table({}), known)
    return Reader(data, read_registry(directory, registry).active, directory.plan(plan))


@lru_cache(maxsize=4)
def step_columns(setting: StreamSetting, version: int) -> frozenset[str]:
    """Return the columns that the queries of this version of the registry need."""
    return needed_columns(setting.declared, read_registry(setting.directory, version).active.values())
