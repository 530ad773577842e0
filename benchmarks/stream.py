"""The engine on Spark in steady state: a file arrives, a step takes it, and so on.

Steps are driven one by one, so that each takes exactly one file and no time goes by between them. Each closes the
windows that the step before it made due.
"""

from __future__ import annotations

import os
import shutil
import tempfile
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from statistics import median
from typing import Any
from uuid import uuid4

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import rich_click as click
from pyspark.sql import SparkSession

from benchmarks.data import queries_of
from benchmarks.otf import Watch, engine_over
from benchmarks.peers import THREADS
from benchmarks.tables import Document, show_figures
from headrace.cli.progress import Report, progress_bar
from headrace.datasets import generate
from headrace.datasets.files import write_parquet
from headrace.engine.registry import answer_to, ask
from headrace.engine.run import now_us
from headrace.engine.step.stepper import Stepper
from headrace.spark.session import session
from headrace.spark.single_query import Files, files_in
from headrace.sql import format_query
from headrace.storage.records import Commit

MAIN, LOW = "otf-regular", "otf-low"
FULL_STEPS = 200
MIN_STEPS = 4
WARM_STEPS = 10
EARLY, LATE = (31, 50), (181, 200)
"""Steps, of 200, between which resident memory is compared."""
SHORT_STEPS, SHORT_WARM_STEPS = 15, 5
"""Of the runs with other numbers of queries, and of layouts."""
CYCLE_FILES = 20
"""Files that are generated; after these their rows come again, later."""
ADDED = "added_while_running"
ADDED_SQL = (
    "SELECT sum(T.Price * T.Vol) AS value FROM Trades T [RANGE '777 s' SLIDE '333 s'], Close C, Index X "
    "WHERE T.Symbol = C.Symbol AND T.Symbol = X.Symbol AND X.R2000 = TRUE AND T.Vol > 77"
)
LAYOUTS = 64
LAYOUT_COLUMNS = ("Protocol", "ToS", "InputInterface", "OutputInterface", "NextHop", "SourceAS")


@dataclass(frozen=True, slots=True)
class Size:
    steps: int
    step_rows: int
    rate: float

    @property
    def warm_steps(self) -> int:
        return min(WARM_STEPS, self.steps // 4)

    @property
    def short(self) -> Size:
        return Size(min(SHORT_STEPS, self.steps), self.step_rows, self.rate)


def measure(queries: int, steps: int, step_rows: int, rate: float, by_queries: Sequence[int]) -> Document:
    size = Size(steps, step_rows, rate)
    with tempfile.TemporaryDirectory(prefix="headrace-stream-") as temporary, session(f"local[{THREADS}]") as spark:
        return measure_stream(spark, queries, size, by_queries, Path(temporary))


def show(document: Document) -> None:
    show_figures(document)
    if document["steps"] != FULL_STEPS:
        click.echo(f"{document['steps']} steps instead of {FULL_STEPS}: memory is compared between rss_steps", err=True)


def measure_stream(spark: SparkSession, queries: int, size: Size, by_queries: Iterable[int], scratch: Path) -> Document:
    with progress_bar("generating trades") as report:
        trades = Feed.generate("trades", size, scratch, report)
    figures: dict[str, Any] = {"queries": queries, "steps": size.steps, "step_rows": size.step_rows, "rate": size.rate}
    with progress_bar(f"{queries} queries of {MAIN}") as report:
        figures |= steady_figures(drive(spark, trades, script_of(MAIN, queries), size, report), size, "")
    low = Size(max(MIN_STEPS, size.steps // 4), size.step_rows, size.rate)
    with progress_bar(f"{queries} queries of {LOW}") as report:
        figures |= steady_figures(drive(spark, trades, script_of(LOW, queries), low, report), low, "_low")
    figures["rows_per_s_by_queries"] = {}
    for count in by_queries:
        with progress_bar(f"{count} queries") as report:
            run = drive_short(spark, trades, script_of(LOW, count), size.short, report)
        figures["rows_per_s_by_queries"][str(count)] = size.step_rows / mean_s(run)
    with progress_bar("generating flows") as report:
        flows = Feed.generate("netflow", size.short, scratch, report)
    with progress_bar(f"{LAYOUTS} layouts") as report:
        run = drive_short(spark, flows, layouts(flows.files), size.short, report)
    figures["layouts_ms_p50"] = 1_000 * median(run.step_s)
    figures["layouts_stages_ms"] = run.stages_ms
    return figures


def script_of(name: str, queries: int) -> Mapping[str, str]:
    return {each: format_query(query) for each, query in queries_of(name, queries).items()}


def layouts(files: Files) -> Mapping[str, str]:
    """Return a query for each of 64 different group-bys."""
    groups = [each for size in range(1, len(LAYOUT_COLUMNS) + 1) for each in combinations(LAYOUT_COLUMNS, size)]
    named = {f"layout_{place:02}": ", ".join(each) for place, each in enumerate([*groups, ("DestAS",)])}
    assert len(named) == LAYOUTS
    return {
        name: f"SELECT {columns}, sum(Bytes) AS bytes, count(*) AS flows FROM {files.stream.name} "
        f"[RANGE '120 s' SLIDE '60 s'] GROUP BY {columns}"
        for name, columns in named.items()
    }


# Files that arrive


class Feed:
    """Files of equal size, one after the other without end, moved whole into the directory that is watched."""

    def __init__(self, files: Files, step_rows: int, span_us: int) -> None:
        self.files = files
        self.step_rows = step_rows
        self.span_us = span_us
        self.rows = pq.read_table(files.paths[files.stream.name]).combine_chunks()
        self.given = 0

    @classmethod
    def generate(cls, kind: str, size: Size, scratch: Path, report: Report) -> Feed:
        rows = size.step_rows * min(CYCLE_FILES, size.steps + SHORT_WARM_STEPS)
        generate(kind, rows, 1, scratch / kind, rate=size.rate, progress=report)
        return cls(files_in(scratch / kind), size.step_rows, round(rows / size.rate * 1_000_000))

    @property
    def watched(self) -> Path:
        return self.files.paths[self.files.stream.name]

    def empty(self) -> None:
        shutil.rmtree(self.watched)
        self.watched.mkdir()
        self.given = 0

    def give(self) -> None:
        """Write the next file."""
        cycle, begin = divmod(self.given * self.step_rows, self.rows.num_rows)
        table = self.rows.slice(begin, self.step_rows)
        place = table.column_names.index(self.files.stream.event_time)
        times = table.column(place)
        later = pc.add(times.cast(pa.int64()), cycle * self.span_us).cast(times.type)
        write_parquet(self.watched / f"{self.given:06}.parquet", [table.set_column(place, table.field(place), later)])
        self.given += 1


# Runs


@dataclass(frozen=True, slots=True)
class Steady:
    """Seconds of each step after the warm ones; of all steps resident memory and the most files of a reducer."""

    step_s: Sequence[float]
    stages_ms: Mapping[str, float]
    resident: Sequence[int]
    store_files: Sequence[int]
    add_batches: int | None


def drive_short(spark: SparkSession, feed: Feed, queries: Mapping[str, str], size: Size, report: Report) -> Steady:
    warm_steps = min(SHORT_WARM_STEPS, size.steps)
    longer = Size(size.steps + warm_steps, size.step_rows, size.rate)
    return drive(spark, feed, queries, longer, report, warm_steps, adds=False)


def drive(
    spark: SparkSession,
    feed: Feed,
    queries: Mapping[str, str],
    size: Size,
    report: Report,
    warm_steps: int | None = None,
    adds: bool = True,
) -> Steady:
    """Run steps of one file each, from an empty state. Half way another query is added, through the inbox."""
    warm = size.warm_steps if warm_steps is None else warm_steps
    feed.empty()
    engine = engine_over(spark, feed.files, {})
    engine.state = f"{engine.state}/{uuid4().hex}"
    for name, sql in queries.items():
        engine.add(name, sql)
    taken, resident, store_files = [], [], []
    adding = AddedQuery()
    with engine.run() as run:
        (pipeline,) = run.pipelines
        watch, warm_stages = Watch(pipeline.stepper), {}
        for step in range(size.steps):
            report(step, size.steps)
            feed.give()
            if adds and step == size.steps // 2:
                adding.ask(pipeline.stepper)
            if step == warm:
                warm_stages = watch.stages
            begun = time.perf_counter()
            commit = pipeline.tick(now_us())
            taken.append(time.perf_counter() - begun)
            adding.look(pipeline.stepper)
            check_step(commit, (step + 1) * size.step_rows)
            store_files.append(most_files(commit))
            resident.append(resident_bytes(os.getpid()))
        stages = watch.stages
    if adds and adding.batches is None:
        raise RuntimeError(f"the query that was added did not come in within {adding.waited} steps")
    shutil.rmtree(engine.state)
    count = len(taken) - warm
    stages_ms = {name: 1_000 * (stages[name] - warm_stages[name]) / count for name in stages}
    return Steady(taken[warm:], stages_ms, resident, store_files, adding.batches)


def check_step(commit: Commit | None, rows: int) -> None:
    if commit is None or commit.totals.rows != rows:
        raise RuntimeError(f"a step did not take exactly one file: {commit and commit.totals} instead of {rows:,} rows")


def most_files(commit: Commit | None) -> int:
    """Count the objects of slices of a reducer."""
    return -(-commit.slice_objects // commit.partitioning.reducers) if commit else 0


class AddedQuery:
    """A query that is added while the stream runs, and the steps until the reply confirms it."""

    def __init__(self) -> None:
        self.request: str | None = None
        self.waited = 0
        self.batches: int | None = None

    def ask(self, stepper: Stepper) -> None:
        self.request = ask(stepper.directory, "add", ADDED, ADDED_SQL)

    def look(self, stepper: Stepper) -> None:
        """Look for the reply, after a step."""
        if self.request is None or self.batches is not None:
            return
        self.waited += 1
        answer = answer_to(stepper.directory, self.request)
        if answer is not None and "refused" in answer:
            raise RuntimeError(f"the query was refused: {answer['message']}")
        if answer is not None and ADDED in stepper.registry.queries:
            self.batches = self.waited


# Figures


def steady_figures(run: Steady, size: Size, suffix: str) -> Mapping[str, Any]:
    early, late = (scale_steps(steps, size.steps) for steps in (EARLY, LATE))
    growth = median(run.resident[slice(*late)]) / median(run.resident[slice(*early)]) - 1
    figures = {
        "rows_per_s": size.step_rows / mean_s(run),
        "batch_ms_p50": 1_000 * median(run.step_s),
        "batch_ms_p95": 1_000 * float(np.quantile(run.step_s, 0.95)),
        "add_batches": run.add_batches,
        "rss_growth": growth,
        "rss_mb": median(run.resident[slice(*late)]) / 1e6,
        "rss_steps": [[early[0] + 1, early[1]], [late[0] + 1, late[1]]],
        "store_files_max": max(run.store_files),
        "stages_ms": run.stages_ms,
    }
    return {f"{name}{suffix}": value for name, value in figures.items()}


def mean_s(run: Steady) -> float:
    return sum(run.step_s) / len(run.step_s)


def scale_steps(steps: tuple[int, int], count: int) -> tuple[int, int]:
    """Return the first place, and the one behind the last, of steps of 200 in a run of another length."""
    first, last = steps
    begin = (first - 1) * count // FULL_STEPS
    return begin, max(begin + 1, last * count // FULL_STEPS)


def resident_bytes(root: int) -> int:
    """Return the resident memory of a process and all below it: Python, the JVM, and its Python workers.

    Shared pages count in each.
    """
    children: dict[int, list[int]] = {}
    sizes: dict[int, int] = {}
    page = os.sysconf("SC_PAGE_SIZE")
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            parent = int((folder / "stat").read_text().rpartition(")")[2].split()[1])
            sizes[int(folder.name)] = int((folder / "statm").read_text().split()[1]) * page
        except OSError:
            continue
        children.setdefault(parent, []).append(int(folder.name))
    found, waiting = 0, [root]
    while waiting:
        process = waiting.pop()
        found += sizes.get(process, 0)
        waiting += children.get(process, [])
    return found
