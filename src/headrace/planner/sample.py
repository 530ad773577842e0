"""A sample of a batch: rows drawn from the stream's data, with their partners in the static tables."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headrace.expressions.static_tables import Data, Partners
from headrace.model.arrow import one_array
from headrace.model.errors import DataError
from headrace.model.query import Query
from headrace.planner.statistics import Sample

SAMPLE_ROWS = 20_000


def draw(
    data: Data,
    queries: Iterable[Query],
    batch_rows: int | None = None,
    sample_rows: int | None = SAMPLE_ROWS,
    seed: int = 0,
) -> Sample:
    """Rows drawn from one batch in the middle of the data; `sample_rows` None takes every row of it.

    Without `batch_rows` all data are one batch.
    """
    batch = middle(data.rows, batch_rows)
    counted = batch.filter(pc.is_valid(batch[data.stream.event_time]))
    if counted.num_rows == 0:
        raise DataError("no-data", f"there is no row with an event time in {data.stream.name}")
    rows = counted if sample_rows is None else some_of(counted, sample_rows, seed)
    times = one_array(rows[data.stream.event_time]).cast(pa.int64())
    return Sample(Partners(data, queries).evaluation(rows), np.asarray(times), float(counted.num_rows))


def middle(rows: pa.Table, batch_rows: int | None) -> pa.Table:
    if batch_rows is None or batch_rows >= rows.num_rows:
        return rows
    return rows.slice((rows.num_rows - batch_rows) // 2, batch_rows)


def some_of(rows: pa.Table, count: int, seed: int) -> pa.Table:
    if rows.num_rows <= count:
        return rows
    rng = np.random.default_rng(seed)
    return rows.take(pa.array(np.sort(rng.choice(rows.num_rows, count, replace=False))))
