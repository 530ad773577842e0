"""Random stories of a stream: batches of disordered rows, a clock, queries that join and leave, restarts on the way."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from unittest.mock import patch
from uuid import uuid4

import pyarrow as pa
import pyarrow.parquet as pq
from hypothesis import strategies as st

from headrace.engine.registry import ask
from headrace.engine.sinks.sinks import ResultFolder
from headrace.engine.step.context import StreamSetting
from headrace.engine.step.runner import InProcess
from headrace.engine.step.stepper import Input, Stepper
from headrace.model.arrow import plain_values
from headrace.model.query import Output, Query
from headrace.model.schema import Catalog
from headrace.reference import Interpreter, StepResult
from headrace.sql import format_query, parse_query, parse_script
from headrace.storage.directory import prepare
from tests.engine.file_stepper import FileStepper
from tests.oracle.tables import STREAM, Row, tables
from tests.oracle.test_kernel import SCHEMA, weights
from tests.oracle.windowed import UNITS, queries

MAX_EMPTY = 3
Windows = dict[tuple[int, int], list[tuple[Any, ...]]]


@dataclass(frozen=True)
class Stay:
    """A query from before one batch on until before another, or to the end."""

    query: Query
    joins: int = 0
    leaves: int | None = None

    def is_there(self, batch: int) -> bool:
        return self.joins <= batch and (self.leaves is None or batch < self.leaves)


@dataclass(frozen=True)
class Story:
    catalog: Catalog
    table: list[Row]
    cuts: list[int]
    clocks: list[int | None]
    stays: dict[str, Stay]

    @property
    def batches(self) -> list[list[Row]]:
        return [self.table[begin:end] for begin, end in pairwise([0, *self.cuts, len(self.table)])]


@st.composite
def stories(draw: st.DrawFn, *, with_clock: bool = True, in_time: bool = False) -> Story:
    """In time: no row comes later than the lateness, so that it does not matter how the rows are cut into batches."""
    asked = [draw(queries()) for _ in range(draw(st.integers(1, 4)))]
    unit = asked[0].window.unit
    table = draw(tables(unit))
    lateness_us = 1_000_000 * UNITS["s"] if in_time else draw(st.sampled_from([0, 5, 20])) * UNITS[unit]
    partition = "" if not draw(st.booleans()) else " PARTITION s"
    clause = f"LATENESS '{lateness_us} us' SKEW '20 {unit}' IDLE '10 {unit}'{partition}"
    catalog = parse_script(f"{STREAM} {clause}").catalog
    cuts = sorted(draw(st.sets(st.integers(1, max(1, len(table) - 1)), max_size=4)))
    clocks: list[int | None] = [None] * (len(cuts) + 1)
    if with_clock and draw(st.booleans()):
        clocks = [
            place * UNITS[unit]
            for place in sorted(draw(st.lists(st.integers(-20, 60), min_size=len(clocks), max_size=len(clocks))))
        ]
    stays = {}
    parsed = [parse_query(each.ours(), catalog) for each in asked]
    for place, own in enumerate(parsed):
        query = replace(draw(st.sampled_from(parsed)), window=own.window) if draw(st.booleans()) else own
        joins = draw(st.integers(0, len(cuts)))
        leaves = draw(st.none() | st.integers(joins + 1, len(cuts) + 1)) if place else None
        stays[f"q{place}"] = Stay(query, joins, leaves)
    return Story(catalog, table, cuts, clocks, stays)


def arrow(rows: list[Row]) -> pa.Table:
    return pa.Table.from_pylist(rows, schema=SCHEMA)


# The engine


@dataclass
class Told:
    """What a run of the engine left: of each query its rows window by window, and the last commit record."""

    windows: dict[str, Windows] = field(default_factory=dict)
    commits: list[Any] = field(default_factory=list)


@contextmanager
def without_sync() -> Iterator[None]:
    """Nothing here loses its power."""
    with patch("os.fsync"):
        yield


def run_engine(
    story: Story,
    *,
    reducers: int = 2,
    partitions: int = 2,
    restarts: frozenset[int] = frozenset(),
    bounded_last: bool = False,
    rescales: Mapping[int, int] | None = None,
) -> Told:
    """Run a story. With `rescales` the number of reducers changes before some batches."""
    with TemporaryDirectory() as temporary, without_sync():
        root = Path(temporary)
        stream = story.catalog.streams[0]
        directory = prepare(root / "state", STREAM)
        told = Told()

        def started() -> Stepper:
            setting = StreamSetting(
                uuid4().hex,
                str(root / "state"),
                story.catalog,
                stream.name,
                None,
                max_empty=MAX_EMPTY,
            )
            folders = (ResultFolder(str(root / "results"), "parquet"),)
            return FileStepper(setting, InProcess(), folders, reducers=reducers)

        stepper = started()
        last = len(story.batches) - 1
        for batch, rows in enumerate(story.batches):
            for name, stay in story.stays.items():
                if stay.leaves == batch:
                    ask(directory, "drop", name)
            for name, stay in story.stays.items():
                if stay.joins == batch:
                    ask(directory, "add", name, format_query(stay.query))
            if rescales and batch in rescales:
                ask(directory, "rescale", str(rescales[batch]))
            size = -(-len(rows) // partitions) or 1
            parts = [arrow(rows[begin : begin + size]) for begin in range(0, len(rows), size)]
            ended = bounded_last and batch == last
            given = Input(story.clocks[batch], rows=parts, sample=partial(arrow, rows), ended=ended)
            told.commits.append(stepper.step(given))
            if batch in restarts:
                stepper.close()
                stepper = started()
        if not bounded_last:
            told.commits.append(stepper.step(Input(ended=True)))
        stepper.close()
        for name, stay in story.stays.items():
            told.windows[name] = read_results(root / "results" / name, stay.query)
        return told


def read_results(folder: Path, query: Query) -> Windows:
    """Every row of the result files; no two steps have the same window."""
    found: Windows = {}
    of_step: dict[tuple[int, int], str] = {}
    for path in sorted(folder.glob("*.parquet")) if folder.is_dir() else ():
        table = pq.read_table(path)
        columns = [plain_values(table.column(column.name), column.type) for column in query.result_columns()]
        step = path.stem.split("-")[1]
        for row in zip(*columns, strict=True):
            assert of_step.setdefault(row[:2], step) == step, "a window came twice"
            found.setdefault(row[:2], []).append(row)
    return found


# The reference


def run_reference(story: Story, *, from_the_start: bool = False) -> tuple[dict[str, Windows], list[StepResult]]:
    """Of each query its rows with weights behind them; queries join when they do, or all before the first batch."""
    interpreter = Interpreter(story.catalog.streams[0], max_empty=MAX_EMPTY)
    steps = []
    for batch, rows in enumerate(story.batches):
        for name, stay in story.stays.items():
            if stay.leaves == batch and name in interpreter.queries:
                interpreter.drop(name)
        for name, stay in story.stays.items():
            if (0 if from_the_start else stay.joins) == batch:
                extra = tuple(Output(f"w{place}", tree) for place, tree in weights(stay.query).items())
                interpreter.register(name, replace(stay.query, outputs=(*stay.query.outputs, *extra)))
        steps.append(interpreter.batch(rows, story.clocks[batch]))
    steps.append(interpreter.end())
    found: dict[str, Windows] = {name: {} for name in story.stays}
    for step in steps:
        for result in step.results:
            for row in result.rows:
                bounds = result.window.start_us, result.window.end_us
                found[result.query].setdefault(bounds, []).append(row)
    return found, steps
