"""The constants of the cost model, measured on this machine with the kernel's own loops."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headrace.expressions.evaluation import Evaluation
from headrace.kernel.level1.cells import codes_of, slice_codes
from headrace.kernel.level1.fan_out import fan_out
from headrace.kernel.level1.fold import compute
from headrace.kernel.level1.join import StringValues
from headrace.kernel.level1.rows import NodeRows, StreamRows
from headrace.kernel.slots import MAX_KEYS, Keys, find_slots
from headrace.kernel.states.kinds import STATES
from headrace.model.expressions import ColumnRef
from headrace.model.types import DOUBLE
from headrace.model.windows import Window
from headrace.planner.cost import Constants
from headrace.planner.demand import demand, leaves_of
from headrace.planner.lattice import union
from headrace.predicates import Cut, Dimension, Kind
from headrace.sql import parse_script
from headrace.windows import paired_boundaries

ROWS = 1_000_000
REPEATS = 5
LEAVES = 16
SCHEMA = "CREATE STREAM S (t TIMESTAMP, x DOUBLE) EVENT TIME t LATENESS '0 s';"
QUERY = (
    "CREATE QUERY q{number} AS SELECT sum(x) AS s FROM S [RANGE '{number}1 s' SLIDE '{number}1 s'] WHERE x > {number};"
)
Work = Callable[[], object]


def calibrate(rows: int = ROWS, repeats: int = REPEATS) -> Constants:
    """Each constant is the least of several runs: what the work takes when nothing disturbs it."""
    rng = np.random.default_rng(0)
    per_row = {name: least(work, repeats) / rows for name, work in row_work(rng, rows).items()}
    per_start = {name: least(work, 20 * repeats) for name, work in start_work().items()}
    per_start["leaf_ns"] /= LEAVES
    narrow, wide = (least(lambda size=size: ship(rows // 10, size), repeats) / (rows // 10) for size in (1, 16))  # type: ignore[misc]
    per_byte = max(0.0, wide - narrow) / (15 * 8)
    return Constants(**per_row, **per_start, ship_row_ns=max(0.0, narrow - 8 * per_byte), ship_byte_ns=per_byte)


def row_work(rng: np.random.Generator, rows: int) -> Mapping[str, Work]:
    """Work that grows with the rows."""
    doubles = pa.array(rng.random(rows))
    names = pa.array([f"S{number}" for number in range(5_000)])
    known = StringValues([names], names.type)
    symbols = names.take(pa.array(rng.integers(0, 5_000, rows)))
    dimension = Dimension(ColumnRef("S", "x", DOUBLE), Kind.INTERVAL, tuple(Cut(place / 64) for place in range(64)))
    boundaries = paired_boundaries(Window(1_000_000, 1_000_000))
    times = np.sort(rng.integers(0, 1_000_000_000, rows))
    few, more, many = (rng.integers(0, distinct, rows) for distinct in (1 << 12, 1 << 14, rows))
    return {
        "join_ns": lambda: known.numbers(symbols),
        "evaluate_ns": lambda: pc.multiply(doubles, doubles),
        "code_ns": lambda: codes_of(dimension, doubles),
        "slice_ns": lambda: slice_codes((boundaries,), times),
        "key_ns": lambda: Keys(rows).extend(few, 1 << 12),
        "dense_ns": lambda: find_slots(few, 1 << 12),
        "hash_ns": lambda: find_slots(more, MAX_KEYS),
        "large_hash_ns": lambda: find_slots(many, MAX_KEYS),
        "addition_ns": lambda: STATES["sum"].lift(few, 1 << 12, doubles),
    }


def start_work() -> Mapping[str, Work]:
    """Work that is done once per node, or once per leaf, of a batch: the same on a handful of rows."""
    script = SCHEMA + "".join(QUERY.format(number=number) for number in range(LEAVES))
    queries = {named.name: demand(named.query) for named in parse_script(script).queries}
    leaves = [leaf.node for leaf in leaves_of(queries)]
    parent = union(leaves)
    rows = Evaluation({("S", "x"): pa.array(np.arange(8.0))}, 8)
    source = NodeRows(compute(parent, StreamRows(rows, np.arange(8) * 1_000_000, {})))
    return {"node_ns": lambda: compute(parent, source), "leaf_ns": lambda: fan_out(source, leaves)}


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
