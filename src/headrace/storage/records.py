"""What is written down about a step: the journal before it, the commit record after it."""

from __future__ import annotations

from collections.abc import Mapping
from operator import add
from typing import Any, NamedTuple

from msgspec.structs import astuple

from headrace.model.key_groups import Partitioning
from headrace.model.record import Count, Record
from headrace.model.units import InputFile, Unit
from headrace.model.windows import Interval


class ObjectRef(NamedTuple):
    """An object that a reducer wrote, known by the step, the id of the attempt, and the digest."""

    step: int
    id: str
    digest: str


class StoredObject(Record, frozen=True):
    """An object by its name within the state, with the digest of its bytes."""

    name: str
    digest: str
    bytes: Count


class SliceObject(Record, frozen=True):
    """Partials of groups in the key groups [first, end). `end_us` is the latest end of a slice: when no window needs
    it, the object goes.

    `ungrouped`: whether its rows without groups count here; of several reducers that have them, one is read from.
    `is_shared`: written under another partitioning, so that several reducers may read parts of it.
    """

    object: StoredObject
    rows: Count
    end_us: int
    first: Count
    end: Count
    ungrouped: bool = True
    is_shared: bool = False


class ResultSection(Record, frozen=True, array_like=True):
    """Rows of a query's windows, as bytes [begin, end) of an object of results. Its windows end between `first_end_us`
    and `last_end_us`.

    `is_former`: the name of the query stands for another one since this step. `is_candidate`: the best rows of one
    reducer, of which the driver chooses.
    """

    query: str
    generation: Count
    begin: Count
    end: Count
    digest: str
    rows: Count
    first_end_us: int
    last_end_us: int
    is_former: bool = False
    is_candidate: bool = False


class ResultObject(Record, frozen=True):
    """All results of one reducer in one step, with a section for each query."""

    object: StoredObject
    sections: tuple[ResultSection, ...]


class RejectedFile(Record, frozen=True):
    """Rows that were not counted: written as `staged`, shown as `name` once the step is committed."""

    staged: StoredObject
    name: str
    rows: Count


class LeftOut(Record, frozen=True):
    """An input file that could not be read, and why. Found bad midway, it was read in part: `rows` before the damage
    count.
    """

    path: str
    reason: str = ""
    rows: Count = 0


class UnitRead(Record, frozen=True):
    """What a task read of a unit, which is known by its place in the journal: rows, or the rows of partials. With a
    problem it was read in part.
    """

    place: Count
    rows: Count
    problem: str | None = None
    is_partials: bool = False


class CountedSpan(Record, frozen=True):
    """Event times [start_us, end_us) in which rows were counted under a plan."""

    plan: str
    start_us: int
    end_us: int


class PartitionTime(Record, frozen=True):
    """The highest event time that a partition of the source sent, and what the clock said when it last sent any."""

    highest_us: int
    seen_us: int | None


class QueryState(Record, frozen=True):
    """How far a query is. Its windows end after `after_us`, the watermark when it joined; None: it was there first.

    `missed` are the times of rows that were counted before it joined and that no slice kept for it.
    """

    generation: Count
    after_us: int | None = None
    missed: tuple[Interval, ...] = ()
    last_end_us: int | None = None
    windows: int = 0
    rows: Count = 0
    errors: int = 0
    left_out: int = 0
    problem: str | None = None
    """What the code of a user raised last."""
    skipped: tuple[tuple[int, int], ...] = ()
    """Numbers [first, end) of instances behind the last one with rows that were due and not complete."""


class StreamTotals(Record, frozen=True):
    """Rows and files since the beginning. Bad rows could not be read; changed files are not read again.

    Every row that was read is bad, without a time, future or admitted. Late rows are among the admitted, and those
    that no open window could take among the late. `dropped` counts the latter and those without a time.
    """

    rows: int = 0
    late: int = 0
    future: int = 0
    dropped: int = 0
    bad: int = 0
    quarantined: int = 0
    changed: int = 0
    untimed: int = 0
    admitted: int = 0

    def plus(self, other: StreamTotals) -> StreamTotals:
        return StreamTotals(*map(add, astuple(self), astuple(other)))


class TakenFrame(Record, frozen=True):
    """A frame of an edge, by its name: its plan (None: rows as they are), the event times that it counts, the watermark
    of the edge, how many rows the edge read for it, and what is to be added to the counts of the tasks.
    """

    name: str
    edge: str
    plan: str | None
    lowest_us: int | None
    highest_us: int | None
    watermark_us: int | None
    read: int
    ended: bool
    totals: StreamTotals
    errors: Mapping[str, int]


class Attempt(NamedTuple):
    """A step, and which of its journals: each further one leaves something out that the one before failed at."""

    step: int
    number: int = 0


class Journal(Record, frozen=True):
    """All that a step depends on, written before it runs: a replay reads it and makes no decision of its own.

    `watermark_us` is the one that the step enters with; windows that end by it, later than `closed_us`, are closed.
    """

    step: Count
    clock_us: int | None
    watermark_us: int | None
    closed_us: int | None
    registry: Count
    plan: str | None
    tables: Mapping[str, str]
    tasks: Count = 1
    """Among which the units are shared out."""
    epoch: Count = 0
    """Of the engine that wrote it."""
    partitioning: Partitioning = Partitioning(1, 1)
    """Which reducer has which rows that the step writes."""
    units: tuple[Unit, ...] = ()
    files: tuple[InputFile, ...] = ()
    quarantined: tuple[LeftOut | str, ...] = ()
    changed: tuple[str, ...] = ()
    """Files that are no longer what an earlier step read."""
    requests: tuple[str, ...] = ()
    batch: int | None = None
    offsets: tuple[str, ...] = ()
    ended: bool = False
    upstream_us: int | None = None
    """For a stream of results: up to where these are known when the step has read its units."""
    upstream_step: Count = 0
    """For a stream of results: the step up to which it has read them then."""
    frames: tuple[TakenFrame, ...] = ()
    """Of edges; they are among the units."""
    edges: Mapping[str, Any] = {}
    """The ledger of their frames, with these."""
    attempt: Count = 0
    left_out: tuple[tuple[str, int], ...] = ()
    """Queries, by name and generation, that this attempt leaves out, as those before it did."""
    is_trial: bool = False
    """Whether it only looks for the queries to blame: it is not what a restart runs."""
    lost: tuple[CountedSpan, ...] = ()
    """Times of rows that were in input that is gone, and was abandoned."""

    @property
    def key(self) -> Attempt:
        return Attempt(self.step, self.attempt)

    @property
    def bad_files(self) -> tuple[LeftOut, ...]:
        """The files in quarantine. The first journals had nothing but their paths."""
        return tuple(LeftOut(file) if isinstance(file, str) else file for file in self.quarantined)


class Commit(Record, frozen=True):
    """The whole state after a step, but for what is in the objects it names. `closed_us` is the watermark up to which
    windows have been closed; `watermark_us` the one that the next step enters with.
    """

    step: Count
    epoch: Count
    previous: str
    registry: Count
    plan: str | None
    tables: Mapping[str, str]
    clock_us: int | None = None
    watermark_us: int | None = None
    closed_us: int | None = None
    batch: int | None = None
    offsets: tuple[str, ...] = ()
    ended: bool = False
    partitions: Mapping[str, PartitionTime] = {}
    queries: Mapping[str, QueryState] = {}
    """Of all queries. A stored record has only those that changed since the one before, and the names of those that
    left; the record of the step `all_queries` has all.
    """
    left: tuple[str, ...] = ()
    all_queries: Count = 0
    spans: tuple[CountedSpan, ...] = ()
    needed_us: int | None = None
    """Slices that end by then nobody needs. A query that joins may need older ones."""
    forgotten_us: int | None = None
    """Slices that end by then may be gone."""
    lowest_us: int | None = None
    """No row before then was ever counted."""
    reducers: Count = 1
    """How many the next step has."""
    partitioning: Partitioning = Partitioning(1, 1)
    """The one that the manifests were written under."""
    manifests: tuple[ObjectRef | None, ...] = ()
    """The newest of each reducer. One of an earlier step has no results of this one."""
    slice_objects: Count = 0
    slice_bytes: Count = 0
    best: ResultObject | None = None
    """The best rows of all reducers, for queries with LIMIT."""
    result_sections: Count = 0
    rejected: tuple[RejectedFile, ...] = ()
    quarantined: tuple[LeftOut, ...] = ()
    """Files that the step left out."""
    totals: StreamTotals = StreamTotals()
    windows: int = 0
    """Answered since the beginning, also of queries that have left."""
    edges: Mapping[str, Any] = {}
    """The ledger of the frames that edges sent."""
    plans: tuple[str, ...] = ()
    """Those that frames of edges may still come under, oldest first."""
    inputs: Count = 0
    """The step up to which the list of files read is in a file of its own."""
    upstream_step: Count = 0
    """For a stream of results: the step up to which it has read them."""
    attempt: Count = 0
    """Which journal of the step it is of."""


class Manifest(Record, frozen=True):
    """What a reducer has after a step: its slices; and the results that it wrote in that step."""

    step: Count
    reducer: Count
    slices: tuple[SliceObject, ...] = ()
    results: ResultObject | None = None


class ReducerReport(Record, frozen=True):
    """What a reducer reports to the driver: its manifest, how far queries are, the sections of results that the driver
    chooses from, which objects are not needed any more, and the seconds of queries whose windows took long to close.
    """

    reducer: Count
    manifest: ObjectRef | None
    slice_objects: Count
    slice_bytes: Count
    queries: Mapping[str, QueryState]
    section_count: Count = 0
    results: StoredObject | None = None
    candidates: tuple[ResultSection, ...] = ()
    unneeded: tuple[str, ...] = ()
    seconds: Mapping[str, float] = {}
