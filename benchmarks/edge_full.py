"""Records per second of all of level 1 at the edge: four group-bys with four predicates and three windows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import cycle, product
from statistics import median

import pyarrow as pa

from benchmarks.edge_speed import BATCH_ROWS, PAIRS, ROUNDS, processor_seconds
from benchmarks.edge_traffic import Packets
from headrace.edge.tables.level1 import LevelOne
from headrace.engine.plan_in_force import SAMPLE_ROWS
from headrace.expressions.static_tables import Data
from headrace.planner.construction import make_plan
from headrace.planner.cost import FOR_EDGES, Cost
from headrace.planner.demand import demand
from headrace.planner.sample import draw
from headrace.sql import parse_script
from headrace.wire.orders import Orders

STREAM_SQL = """\
CREATE STREAM Packets (Time TIMESTAMP, A BIGINT, B BIGINT, C BIGINT, D BIGINT, Length BIGINT) EVENT TIME Time;
"""
PREDICATES = ("Length > 100", "Length > 500", "Length > 1000", "C < 100")
WINDOWS_S = (10, 20, 60)
MEMORY_BYTES = 4 << 20


@dataclass(frozen=True, slots=True)
class FullSpeed:
    """`partials_per_record` are rows of the interchange tables that a frame takes."""

    packets: str
    queries: int
    shipped_nodes: int
    nbytes: int
    partials_per_record: float
    records_per_s: float


def query_text(pair: str, predicate: str, window_s: int) -> str:
    name = f"{pair}_{PREDICATES.index(predicate)}_{window_s}"
    return (
        f"CREATE QUERY {name} AS SELECT {', '.join(pair)}, count(*) AS n, sum(Length) AS bytes "
        f"FROM Packets [RANGE '{window_s} s' SLIDE '{window_s} s'] WHERE {predicate} GROUP BY {', '.join(pair)};"
    )


def one_by_one() -> list[str]:
    """Four queries: each has a group-by and a predicate of its own, and the next window."""
    return [query_text(*each) for each in zip(PAIRS, PREDICATES, cycle(WINDOWS_S), strict=False)]


def all_with_all() -> list[str]:
    """48 queries: each group-by with each predicate and each window."""
    return [query_text(*each) for each in product(PAIRS, PREDICATES, WINDOWS_S)]


def full_speeds(traffic: Packets) -> Iterator[FullSpeed]:
    for texts in (one_by_one(), all_with_all()):
        yield full_speed(traffic, texts)


def full_speed(traffic: Packets, texts: Sequence[str]) -> FullSpeed:
    """Rows from memory, all of them in one frame; the tables have adapted to them in a first one. The plan is what a
    root would send, from as many rows as it keeps.
    """
    script = parse_script("\n".join([STREAM_SQL, *texts]))
    queries = {named.name: named.query for named in script.queries}
    (stream,) = script.catalog.streams
    columns = dict(zip(traffic.sizes, traffic.codes, strict=True))
    rows = pa.table({"Time": traffic.times, **columns, "Length": traffic.lengths})
    sample = draw(Data(script.catalog, stream, rows, {}), queries.values(), SAMPLE_ROWS)
    plan = make_plan({name: demand(query) for name, query in queries.items()}, Cost(sample, FOR_EDGES))
    level = LevelOne(Orders(stream.name, plan, queries), script.catalog, {}, memory_bytes=MEMORY_BYTES)
    shipped = sum(table.num_rows for table in frame_of(level, rows))
    runs_s = [processor_seconds(lambda: frame_of(level, rows)) for _ in range(ROUNDS)]
    return FullSpeed(
        packets=traffic.kind,
        queries=len(queries),
        shipped_nodes=len(plan.shipped),
        nbytes=level.nbytes,
        partials_per_record=shipped / rows.num_rows,
        records_per_s=rows.num_rows / median(runs_s),
    )


def frame_of(level: LevelOne, rows: pa.Table) -> tuple[pa.Table, ...]:
    for begin in range(0, rows.num_rows, BATCH_ROWS):
        level.feed(rows.slice(begin, BATCH_ROWS))
    return level.cut()
