"""From a kind, a size and a seed to a directory of Parquet files and a schema."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from pathlib import Path

import numpy as np
import pyarrow as pa

from headrace.datasets.arrivals import Arrivals
from headrace.datasets.files import TIMESTAMP, Piece, write_parquet, write_spans, write_text
from headrace.datasets.kinds import CHUNK_ROWS, Chunk, Columns, DataKind, Recipe
from headrace.datasets.random_values import generator
from headrace.model.arrays import Integers
from headrace.model.errors import UsageError

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
MICROSECOND = timedelta(microseconds=1)

ARRIVALS, CHUNKS, DELAYS = 0, 2, 3
"""Purposes of random streams; 1 is a kind's own."""

Progress = Callable[[int, int], None]
"""Called with the rows written so far and the rows in total."""


@dataclass(frozen=True, slots=True)
class DatasetSummary:
    """What was written: rows of the stream, Parquet files with their bytes (static tables included), event times."""

    rows: int
    files: int
    bytes: int
    first_time: datetime
    last_time: datetime


@dataclass(frozen=True, slots=True)
class FileLayout:
    """How rows are laid out in files: the time span of each file, and how late a row may come after its event time."""

    file_span_us: int
    disorder_us: int


def write_dataset(
    kind: DataKind, recipe: Recipe, layout: FileLayout, out: Path, progress: Progress | None
) -> DatasetSummary:
    """Write static tables, then the stream, then `schema.sql`, which therefore marks a complete data set."""
    _refuse_occupied(out)
    source = kind.prepare(recipe)
    paths = []
    for name, columns in source.tables().items():
        paths.append(out / name / "part-00000.parquet")
        write_parquet(paths[-1], [pa.table(dict(columns))])
    seen = _Seen(recipe.rows, progress)
    pieces = _pieces(seen.watch(_chunks(recipe)), source.columns, recipe, layout)
    paths += write_spans(out / kind.stream, pieces)
    write_text(out / "schema.sql", kind.schema_sql)
    return DatasetSummary(recipe.rows, len(paths), sum(path.stat().st_size for path in paths), *seen.times())


def _refuse_occupied(out: Path) -> None:
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise UsageError("dataset", f"{out} is not an empty directory", hint="choose a new directory for each data set")


def _chunks(recipe: Recipe) -> Iterator[Chunk]:
    arrivals = Arrivals.over(recipe.start_us, recipe.span_us, recipe.rows, generator(recipe.seed, ARRIVALS))
    for index in range(recipe.chunks):
        rng = generator(recipe.seed, CHUNKS, index)
        first = index * CHUNK_ROWS
        yield Chunk(index, arrivals.times_us(first, min(first + CHUNK_ROWS, recipe.rows), rng), rng)


def _pieces(
    chunks: Iterator[Chunk], columns: Callable[[Chunk], Columns], recipe: Recipe, layout: FileLayout
) -> Iterator[Piece]:
    """Cut chunks where a file's span ends; with disorder, files are cut by the times at which rows come."""
    span = 0
    for chunk in chunks:
        table = pa.table({"Time": pa.array(chunk.times_us, type=TIMESTAMP), **columns(chunk)})
        comes_us = chunk.times_us
        if layout.disorder_us:
            order, comes_us = _delay(comes_us, layout.disorder_us, generator(recipe.seed, DELAYS, chunk.index))
            table = table.take(order)
        spans = np.maximum((comes_us - recipe.start_us) // layout.file_span_us, span)
        span = int(spans[-1])
        cuts = [0, *np.flatnonzero(np.diff(spans)) + 1, len(spans)]
        yield from ((int(spans[a]), table.slice(a, b - a)) for a, b in pairwise(cuts))


def _delay(times_us: Integers, disorder_us: int, rng: np.random.Generator) -> tuple[Integers, Integers]:
    """Return the order in which rows come when each is up to `disorder_us` late, and the times at which they come."""
    comes_us = times_us + rng.integers(0, disorder_us, len(times_us), endpoint=True)
    order = np.argsort(comes_us, kind="stable")
    return order, comes_us[order]


@dataclass(slots=True)
class _Seen:
    """Counts rows as chunks go by and remembers the ends of their event times."""

    rows: int
    progress: Progress | None
    first_us: int = 0
    last_us: int = 0

    def watch(self, chunks: Iterator[Chunk]) -> Iterator[Chunk]:
        done = 0
        for chunk in chunks:
            if not done:
                self.first_us = int(chunk.times_us[0])
            self.last_us = int(chunk.times_us[-1])
            yield chunk
            done += chunk.count
            if self.progress is not None:
                self.progress(done, self.rows)

    def times(self) -> tuple[datetime, datetime]:
        return EPOCH + self.first_us * MICROSECOND, EPOCH + self.last_us * MICROSECOND
