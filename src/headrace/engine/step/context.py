"""What a task needs to know of its step. The journal is sent with the task; plans, queries and tables are read from the
state and kept for the next step.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from pathlib import Path
from socket import gethostname

import pyarrow as pa

from headrace.aggregates.registry import register_aggregates
from headrace.engine.registry import Registry, read_registry
from headrace.engine.step.watermark import closed_after, needed_since_us
from headrace.expressions.static_tables import Data
from headrace.inputs import Source
from headrace.kernel.close.instances import MAX_RESULT_ROWS
from headrace.kernel.level1.reader import Reader
from headrace.model.caches import note_plan
from headrace.model.errors import UsageError
from headrace.model.query import needed_columns
from headrace.model.schema import Catalog, Stream
from headrace.planner.plan import Plan
from headrace.storage.directory import Directory, journal_name
from headrace.storage.disk import from_json, to_json
from headrace.storage.records import Attempt, Commit, Journal
from headrace.storage.store import is_remote, open_store


@dataclass(frozen=True, eq=False)
class StreamSetting:
    """What stays the same while an engine runs; it travels to the workers, who know it again by its id."""

    id: str
    root: str
    catalog: Catalog
    stream: str
    source: Source | None
    on_bad_file: str = "stop"
    max_empty: int = 1_000
    since_us: int | None = None
    """For a stream of results: what was closed before it began is not there."""
    edges: tuple[str, ...] = ()
    """The names of those that send frames of the stream."""
    max_result_rows: int = MAX_RESULT_ROWS
    """Of one query, in one step and reducer."""
    retain_us: int | None = None
    """How long slices are kept for queries to come; None: for the longest range."""

    def __eq__(self, other: object) -> bool:
        return isinstance(other, StreamSetting) and self.id == other.id

    def __hash__(self) -> int:
        return hash(self.id)

    @property
    def directory(self) -> Directory:
        return Directory(open_store(self.root), self.id)

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
    before: Commit | None
    """The commit before this step. Tasks of level 1 do without."""

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

    def is_former(self, name: str, generation: int) -> bool:
        """Whether the name of a query stands for another one by now."""
        known = self.registry.queries.get(name)
        return known is not None and known.generation != generation

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

    @cached_property
    def needed_us(self) -> int | None:
        """Slices that end by then nobody needs when the step is committed."""
        windows = [query.window for query in self.registry.active.values()]
        return needed_since_us(windows, closed_after(self.journal), self.setting.retain_us)

    @property
    def plan(self) -> Plan:
        assert self.journal.plan is not None
        return self.setting.directory.plan(self.journal.plan)


@dataclass(frozen=True)
class StepMessage:
    """A step on its way to a task. It is known by its attempt; what it depends on is beside, as JSON."""

    setting: StreamSetting
    attempt: Attempt
    has_state: bool
    journal: bytes = field(compare=False, repr=False)
    before: bytes | None = field(compare=False, repr=False)


def to_message(step: Step, *, has_state: bool) -> StepMessage:
    """Return a step as it is sent to tasks: those of level 2 need the commit before it."""
    before = to_json(step.before) if has_state and step.before is not None else None
    return StepMessage(step.setting, step.journal.key, has_state, to_json(step.journal), before)


@lru_cache(maxsize=8)
def open_step(message: StepMessage) -> Step:
    """Return the step that a task works on."""
    register_aggregates(message.setting.catalog.aggregates)
    check_reachable(message.setting, message.attempt)
    journal = from_json(message.journal, Journal)
    if journal.plan is not None:
        note_plan(journal.plan)
    before = None if message.before is None else from_json(message.before, Commit)
    return Step(message.setting, journal, before)


def check_reachable(setting: StreamSetting, attempt: Attempt) -> None:
    """Raise an error if the state is on a disk, and not the one that the driver has."""
    if not is_remote(setting.root) and not Path(setting.root, journal_name(*attempt)).exists():
        problem = (
            f"{gethostname()}, where a task runs, does not see the journal of step {attempt.step} in {setting.root}"
        )
        hint = "use a file system that driver and workers share under the same path, or an object store"
        raise UsageError("state-unreachable", problem, hint=hint)


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
