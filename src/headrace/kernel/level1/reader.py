"""Partial aggregation of batches of rows: the one reader that tasks, `eval` and tests call."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headrace.expressions.static_tables import Data, Positions
from headrace.kernel.close.retained_partials import Retained
from headrace.kernel.combine import NodePartials
from headrace.kernel.failures import failures_named
from headrace.kernel.level1.fold import BUDGET_BYTES, finest_dimensions, fold_chunk, level_one
from headrace.kernel.level1.join import Joiner, codes_by_table
from headrace.kernel.level1.rows import StreamRows
from headrace.kernel.row_errors import RowErrors
from headrace.kernel.threads import in_order
from headrace.model.arrow import one_array
from headrace.model.errors import ExpressionFailure
from headrace.model.query import Query
from headrace.model.windows import Interval
from headrace.planner.plan import STREAM, Plan
from headrace.predicates import Dimension
from headrace.predicates.dimensions import Codes

CHUNK_ROWS = 200_000
"""A column of this many numbers fits a processor's cache."""
Folded = tuple[Mapping[int, NodePartials], Mapping[str, int]]
"""Rows of the nodes that are computed from the stream, by place, and how many values failed, by query."""


@dataclass(slots=True)
class ReadResult:
    """What was read so far: partials of shipped nodes, and counts."""

    retained: Retained = field(default_factory=Retained)
    rows: int = 0
    dropped: int = 0
    errors: dict[str, int] = field(default_factory=dict)


@dataclass(eq=False)
class Reader:
    """Reads batches for the same queries and plan."""

    data: Data
    queries: Mapping[str, Query]
    plan: Plan
    budget_bytes: int = BUDGET_BYTES
    threads: int = 1
    closed_us: int | None = None

    def __post_init__(self) -> None:
        self.joiner = Joiner(self.data, self.queries.values())
        self.errors = RowErrors(self.queries)
        self.finest = finest_dimensions([self.plan.nodes[place].node for place in self.plan.children(STREAM)])

    def take_batch(self, run: ReadResult, rows: pa.Table) -> None:
        stream = self.data.stream
        times = rows[stream.event_time]
        timed = rows.filter(pc.is_valid(times)) if times.null_count else rows
        run.rows += rows.num_rows
        run.dropped += rows.num_rows - timed.num_rows
        run.retained.add(self.plan, {}, span_of(timed[stream.event_time]))
        functions = self.data.catalog.functions
        chunks = self.chunks(run, timed)
        with failures_named(self.queries):
            for shipped in level_one(self.plan, chunks, functions, stream.zone, self.budget_bytes, self.threads):
                run.retained.add(self.plan, shipped)

    def chunks(self, run: ReadResult, rows: pa.Table) -> Iterator[Mapping[int, NodePartials]]:
        """The partials of the rows in pieces; what failed on them is counted."""
        pieces = cut(rows, self.threads)
        for folded in in_order([partial(self.fold_in_memory, piece) for piece in pieces], self.threads):
            for partials, errors in folded:
                yield partials
                for name, failed in errors.items():
                    run.errors[name] = run.errors.get(name, 0) + failed

    def fold_in_memory(self, piece: pa.Table) -> list[Folded]:
        """Fold the rows at once, or half by half where expressions take too much memory for all of them."""
        try:
            return [self.fold(piece)]
        except ExpressionFailure as problem:
            if not problem.is_too_large or piece.num_rows < 2:
                raise
        middle = piece.num_rows // 2
        return [*self.fold_in_memory(piece.slice(0, middle)), *self.fold_in_memory(piece.slice(middle))]

    def fold(self, piece: pa.Table) -> Folded:
        """The nodes computed from some rows with their partners beside them, and the errors of each query."""
        evaluation, positions = self.joiner.batch(piece)
        times_us = np.asarray(one_array(piece[self.data.stream.event_time]).cast(pa.int64()))
        source = StreamRows(evaluation, times_us, self.finest, partial(self.table_codes, positions))
        return fold_chunk(self.plan, source), self.errors.count(evaluation, times_us, self.closed_us)

    def table_codes(self, positions: Mapping[str, Positions], dimension: Dimension) -> Codes | None:
        table = self.joiner.table_codes(dimension)
        return None if table is None else codes_by_table(table[1], positions[table[0]])


def cut(rows: pa.Table, threads: int) -> list[pa.Table]:
    """Into as many chunks for each thread, none too large."""
    rounds = math.ceil(rows.num_rows / (CHUNK_ROWS * threads))
    size = max(1, math.ceil(rows.num_rows / max(1, rounds * threads)))
    return [rows.slice(begin, size) for begin in range(0, rows.num_rows, size)]


def span_of(times: pa.ChunkedArray) -> Interval | None:
    lowest, highest = (bound.cast(pa.int64()).as_py() for bound in pc.min_max(times).values())
    return None if lowest is None else Interval(lowest, highest + 1)
