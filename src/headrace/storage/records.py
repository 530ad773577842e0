"""What is written down about a step: the journal before it, the commit record after it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, NamedTuple

from headrace.model.units import InputFile, Unit
from headrace.model.windows import Interval


class ResultFolder(NamedTuple):
    """Where files of results go, one folder per query, and what they are."""

    path: str
    format: str


@dataclass(frozen=True, slots=True)
class StoredFile:
    """A file by its name within the state or result directory, with the digest of its bytes."""

    name: str
    digest: str
    bytes: int


@dataclass(frozen=True, slots=True)
class SliceFile:
    """Partials of one reducer. `end_us` is the latest end of a slice: when no window needs it, the file goes."""

    file: StoredFile
    reducer: int
    rows: int
    end_us: int


@dataclass(frozen=True, slots=True)
class ResultFile:
    """Rows of a query's windows, or of none: rejected ones. Written as `staged`, shown as `name`.

    Folders of results are known by their places.
    """

    query: str
    staged: StoredFile
    name: str
    rows: int
    folder: int = 0
    generation: int = 0


@dataclass(frozen=True, slots=True)
class LeftOut:
    """An input file that could not be read, and why. Found bad midway, it was read in part: `rows` before the damage
    count.
    """

    path: str
    reason: str = ""
    rows: int = 0


@dataclass(frozen=True, slots=True)
class UnitRead:
    """What a task read of a unit, which is known by its place in the journal: rows, or the rows of partials. With a
    problem it was read in part.
    """

    place: int
    rows: int
    problem: str | None = None
    is_partials: bool = False


@dataclass(frozen=True, slots=True)
class Span:
    """Event times [start_us, end_us) in which rows were counted under a plan."""

    plan: str
    start_us: int
    end_us: int


@dataclass(frozen=True, slots=True)
class Partition:
    """The highest event time that a partition of the source sent, and what the clock said when it last sent any."""

    highest_us: int
    seen_us: int | None


@dataclass(frozen=True, slots=True)
class QueryState:
    """How far a query is. Its windows end after `after_us`, the watermark when it joined; None: it was there first.

    `missed` are the times of rows that were counted before it joined and that no slice kept for it.
    """

    generation: int
    after_us: int | None = None
    missed: tuple[Interval, ...] = ()
    last_end_us: int | None = None
    windows: int = 0
    rows: int = 0
    errors: int = 0
    left_out: int = 0
    problem: str | None = None
    """What the code of a user raised last."""
    skipped: tuple[tuple[int, int], ...] = ()
    """Numbers [first, end) of instances behind the last one with rows that were due and not complete."""


@dataclass(frozen=True, slots=True)
class Totals:
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

    def plus(self, other: Totals) -> Totals:
        return Totals(*(mine + theirs for mine, theirs in zip(values(self), values(other), strict=True)))


def values(totals: Totals) -> tuple[int, ...]:
    return tuple(asdict(totals).values())


@dataclass(frozen=True, slots=True)
class TakenFrame:
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
    totals: Totals
    errors: Mapping[str, int]


class Attempt(NamedTuple):
    """A step, and which of its journals: each further one leaves something out that the one before failed at."""

    step: int
    number: int = 0


@dataclass(frozen=True, slots=True)
class Journal:
    """All that a step depends on, written before it runs: a replay reads it and makes no decision of its own.

    `watermark_us` is the one that the step enters with; windows that end by it, later than `closed_us`, are closed.
    """

    step: int
    clock_us: int | None
    watermark_us: int | None
    closed_us: int | None
    registry: int
    plan: str | None
    tables: Mapping[str, str]
    tasks: int = 1
    """Among which the units are shared out."""
    units: tuple[Unit, ...] = ()
    files: tuple[InputFile, ...] = ()
    quarantined: tuple[LeftOut, ...] = ()
    changed: tuple[str, ...] = ()
    """Files that are no longer what an earlier step read."""
    requests: tuple[str, ...] = ()
    batch: int | None = None
    offsets: tuple[str, ...] = ()
    ended: bool = False
    upstream_us: int | None = None
    """For a stream of results: up to where these are known when the step has read its files."""
    frames: tuple[TakenFrame, ...] = ()
    """Of edges; they are among the units."""
    edges: Mapping[str, Any] = field(default_factory=dict)
    """The ledger of their frames, with these."""
    attempt: int = 0
    left_out: tuple[tuple[str, int], ...] = ()
    """Queries, by name and generation, that this attempt leaves out, as those before it did."""
    is_trial: bool = False
    """Whether it only looks for the queries to blame: it is not what a restart runs."""
    lost: tuple[Span, ...] = ()
    """Times of rows that were in input that is gone, and was abandoned."""

    @property
    def key(self) -> Attempt:
        return Attempt(self.step, self.attempt)


@dataclass(frozen=True, slots=True)
class Commit:
    """The whole state after a step, but for the bytes in the files it names. `closed_us` is the watermark up to which
    windows have been closed; `watermark_us` the one that the next step enters with.
    """

    step: int
    epoch: int
    previous: str
    registry: int
    plan: str | None
    tables: Mapping[str, str]
    clock_us: int | None = None
    watermark_us: int | None = None
    closed_us: int | None = None
    batch: int | None = None
    offsets: tuple[str, ...] = ()
    ended: bool = False
    partitions: Mapping[str, Partition] = field(default_factory=dict)
    queries: Mapping[str, QueryState] = field(default_factory=dict)
    spans: tuple[Span, ...] = ()
    needed_us: int | None = None
    """Slices that end by then nobody needs. A query that joins may need older ones."""
    forgotten_us: int | None = None
    """Slices that end by then may be gone."""
    lowest_us: int | None = None
    """No row before then was ever counted."""
    slices: tuple[SliceFile, ...] = ()
    results: tuple[ResultFile, ...] = ()
    rejected: tuple[ResultFile, ...] = ()
    quarantined: tuple[LeftOut, ...] = ()
    """Files that the step left out."""
    totals: Totals = Totals()
    windows: int | None = None
    """Answered since the beginning, also of queries that have left; None in records that did not have it."""
    edges: Mapping[str, Any] = field(default_factory=dict)
    """The ledger of the frames that edges sent."""
    plans: tuple[str, ...] = ()
    """Those that frames of edges may still come under, oldest first."""
    inputs: int = 0
    """The step up to which the list of files read is in a file of its own."""
    attempt: int = 0
    """Which journal of the step it is of."""


@dataclass(frozen=True, slots=True)
class Manifest:
    """What one reducer did in a step."""

    reducer: int
    slices: tuple[SliceFile, ...]
    compacted: bool
    results: tuple[ResultFile, ...]
    queries: Mapping[str, QueryState]
    seconds: Mapping[str, float] = field(default_factory=dict)
    """Of queries whose windows took long to close."""


def journal_from(document: Mapping[str, Any]) -> Journal:
    found = lists_to_tuples(document, "changed", "requests", "offsets")
    found["left_out"] = tuple((name, generation) for name, generation in document.get("left_out", ()))
    found["lost"] = tuple(Span(**each) for each in document.get("lost", ()))
    found["quarantined"] = files_left_out(document["quarantined"])
    found["units"] = tuple(Unit(**each) for each in document["units"])
    found["files"] = tuple(InputFile(**each) for each in document["files"])
    found["frames"] = tuple(
        TakenFrame(**{**each, "totals": Totals(**each["totals"])}) for each in document.get("frames", ())
    )
    return Journal(**found)


def commit_from(document: Mapping[str, Any]) -> Commit:
    found = lists_to_tuples(document, "offsets", "plans") | {
        "partitions": {key: Partition(**each) for key, each in document["partitions"].items()},
        "queries": query_states(document["queries"]),
        "spans": tuple(Span(**each) for each in document["spans"]),
        "slices": slice_files(document["slices"]),
        "results": result_files(document["results"]),
        "rejected": result_files(document["rejected"]),
        "quarantined": files_left_out(document.get("quarantined", ())),
        "totals": Totals(**document["totals"]),
    }
    return Commit(**found)


def manifest_from(document: Mapping[str, Any]) -> Manifest:
    return Manifest(
        document["reducer"],
        slice_files(document["slices"]),
        document["compacted"],
        result_files(document["results"]),
        query_states(document["queries"]),
        document["seconds"],
    )


def lists_to_tuples(document: Mapping[str, Any], *names: str) -> dict[str, Any]:
    """Lists as tuples; a record that was written before there was such a field has an empty one."""
    return {**document, **{name: tuple(document.get(name, ())) for name in names}}


def files_left_out(documents: Iterable[Any]) -> tuple[LeftOut, ...]:
    """Once there was nothing but the path."""
    return tuple(LeftOut(each) if isinstance(each, str) else LeftOut(**each) for each in documents)


def query_states(document: Mapping[str, Any]) -> dict[str, QueryState]:
    return {
        name: QueryState(
            **{
                **each,
                "missed": tuple(Interval(*span) for span in each["missed"]),
                "skipped": tuple((first, end) for first, end in each.get("skipped", ())),
            }
        )
        for name, each in document.items()
    }


def slice_files(documents: list[dict[str, Any]]) -> tuple[SliceFile, ...]:
    return tuple(SliceFile(**{**each, "file": StoredFile(**each["file"])}) for each in documents)


def result_files(documents: list[dict[str, Any]]) -> tuple[ResultFile, ...]:
    return tuple(ResultFile(**{**each, "staged": StoredFile(**each["staged"])}) for each in documents)
