"""What a kind of data is: a schema, figures for its default size, and a source of columns."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import numpy as np

from headrace.model.arrays import Integers

CHUNK_ROWS = 1 << 18
"""Rows made at a time; part of what a seed means, so it is not an option."""

Columns = Mapping[str, Any]
"""Arrow or numpy arrays by column name, in the order of the schema."""


@dataclass(frozen=True, slots=True)
class Recipe:
    """All that decides the values of a data set, apart from its kind."""

    rows: int
    seed: int
    preset: str | None
    start_us: int
    span_us: int
    flow_length: float | None = None

    @property
    def chunks(self) -> int:
        """Count the chunks; the last one may be short."""
        return -(-self.rows // CHUNK_ROWS)

    @property
    def full_chunks(self) -> int:
        """Count the chunks that are not short, or 1 if there is only a short one."""
        return max(1, self.rows // CHUNK_ROWS)


@dataclass(frozen=True, slots=True, eq=False)
class Chunk:
    """A stretch of rows to be filled in: their event times, and a random stream of their own."""

    index: int
    times_us: Integers
    rng: np.random.Generator

    @property
    def count(self) -> int:
        """Count the rows of the chunk."""
        return len(self.times_us)


class RowGenerator(ABC):
    """A prepared generator: a chunk depends on the recipe and on itself alone, never on the chunks before it."""

    def tables(self) -> Mapping[str, Columns]:
        """Return the static tables beside the stream, by name."""
        return {}

    @abstractmethod
    def columns(self, chunk: Chunk) -> Columns:
        """Return the stream's columns after the event time."""


@dataclass(frozen=True, slots=True)
class DataKind:
    """A kind of data; its figures hold for `default_rows`, and other sizes keep the rate."""

    name: str
    summary: str
    stream: str
    schema_sql: str
    default_rows: int
    default_span_s: int
    default_start: datetime
    default_file_span_s: int
    prepare: Callable[[Recipe], RowGenerator]
    presets: tuple[str, ...] = ()
    presets_with_flows: frozenset[str] = frozenset()

    def span_us(self, rows: int, rate: float | None = None) -> int:
        """Return the time that `rows` rows take at this rate, by default at the kind's own."""
        if rate is not None:
            return max(1, round(rows / rate * 1_000_000))
        return max(1, rows * self.default_span_s * 1_000_000 // self.default_rows)
