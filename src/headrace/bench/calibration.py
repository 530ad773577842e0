"""The constants of the cost model, measured on this machine with the whole-column operations that plans are made of."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headrace.kernel.strings import StringValues
from headrace.model.expressions import ColumnRef
from headrace.model.types import DOUBLE
from headrace.planner.cost import Constants
from headrace.predicates import Cut, Dimension, Kind

ROWS = 1_000_000
REPEATS = 5
Work = Callable[[], object]


def calibrate(rows: int = ROWS, repeats: int = REPEATS) -> Constants:
    """Each constant is the least of several runs: what the work takes when nothing disturbs it."""
    rng = np.random.default_rng(0)
    per_row = {name: least(work, repeats) / rows for name, work in row_work(rng, rows).items()}
    per_start = {name: least(work, 20 * repeats) for name, work in start_work(rng).items()}
    narrow, wide = (least(lambda size=size: ship(rows // 10, size), repeats) / (rows // 10) for size in (1, 16))  # type: ignore[misc]
    per_byte = max(0.0, wide - narrow) / (15 * 8)
    return Constants(**per_row, **per_start, ship_row_ns=max(0.0, narrow - 8 * per_byte), ship_byte_ns=per_byte)


def row_work(rng: np.random.Generator, rows: int) -> Mapping[str, Work]:
    """Work that grows with the rows."""
    doubles = pa.array(rng.random(rows))
    names = pa.array([f"S{number}" for number in range(5_000)])
    known = StringValues([names], names.type)
    symbols = names.take(pa.array(rng.integers(0, 5_000, rows)))
    dimension = Dimension(ColumnRef("S", "x", DOUBLE), Kind.INTERVAL, tuple(Cut(each / 64) for each in range(64)))
    cuts, times = np.arange(1_000) * 1_000, np.sort(rng.integers(0, 1_000_000, rows))
    few, more, many = (rng.integers(0, distinct, rows) for distinct in (1 << 12, 1 << 14, rows))
    dense = np.zeros(1 << 12)
    return {
        "join_ns": lambda: known.numbers(symbols),
        "evaluate_ns": lambda: pc.multiply(doubles, doubles),
        "code_ns": lambda: dimension.codes(doubles),
        "slice_ns": lambda: np.searchsorted(cuts, times, side="right"),
        "key_ns": lambda: few * 64 + more,
        "dense_ns": lambda: dense[few],
        "hash_ns": lambda: pa.array(more).dictionary_encode(),
        "large_hash_ns": lambda: pa.array(many).dictionary_encode(),
        "addition_ns": lambda: np.bincount(few, minlength=1 << 12),
    }


def start_work(rng: np.random.Generator) -> Mapping[str, Work]:
    """Work that is done once per node, or once per leaf, of a batch: the same on a handful of rows."""
    keys, times = rng.integers(0, 8, 8), np.arange(8)
    cuts = np.array([4])

    def node() -> object:
        combined = np.searchsorted(cuts, times, side="right") * 8 + keys
        _, inverse = np.unique(combined, return_inverse=True)
        return pa.table({"key": combined, "partial": np.bincount(inverse)[inverse]})

    return {"node_ns": node, "leaf_ns": lambda: np.bincount(keys[keys > 3])}


def ship(rows: int, columns: int) -> object:
    """Rows of 8-byte columns to a buffer and back."""
    table = pa.table({f"c{number}": np.arange(rows) for number in range(columns)})
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    back = pa.ipc.open_stream(sink.getvalue()).read_all()
    return back["c0"].combine_chunks().dictionary_encode()


def least(work: Work, repeats: int) -> float:
    """Nanoseconds of the fastest of several runs."""
    work()
    taken = []
    for _ in range(repeats):
        start = time.perf_counter_ns()
        work()
        taken.append(time.perf_counter_ns() - start)
    return float(min(taken))
