"""Records per second of the fixed-memory tables and of all of level 1 [GS 6], and the packets they are fed with."""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import cycle, product
from pathlib import Path
from statistics import median

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.timing import processor_seconds
from headrace.datasets import generate
from headrace.datasets.random_values import generator
from headrace.edge.tables.level1 import LevelOne
from headrace.edge.tables.memory_layout import StateColumn, StateKind
from headrace.edge.tables.tables import Evicted, Replacement, Tables
from headrace.engine.plan_in_force import SAMPLE_ROWS
from headrace.expressions.static_tables import Data
from headrace.planner.construction import make_plan
from headrace.planner.cost import FOR_EDGES, Cost
from headrace.planner.demand import demand
from headrace.planner.phantoms.configuration import Configuration, EdgeTable
from headrace.planner.statistics import draw
from headrace.sql import parse_script
from headrace.wire.orders import Orders

Integers = npt.NDArray[np.int64]

UNIFORM, CLUSTERED = "uniform", "clustered"
KINDS = (UNIFORM, CLUSTERED)
PRESETS = {UNIFORM: "uniform", CLUSTERED: "gigascope"}
ATTRIBUTES = {"A": "SourceIP", "B": "DestIP", "C": "SourcePort", "D": "DestPort"}
RATE = 310_000
"""Packets a second at which the paper's traffic generator sends [UDAF 5]."""
FLOW_LENGTH = 32
OPEN_FLOWS = 8
"""As the generated packets of both kinds have them."""
SHORTEST, LONGEST = 64, 1_500
"""Bytes: 782 on average, as the paper's traffic generator makes them."""


@dataclass(frozen=True, slots=True, eq=False)
class Packets:
    """`codes` has a row for each of A to D, `sizes` their code spaces; `times` are timestamps."""

    kind: str
    codes: Integers
    sizes: Mapping[str, int]
    lengths: Integers
    times: pa.ChunkedArray

    def __len__(self) -> int:
        return len(self.lengths)

    def group_count(self, attributes: str) -> int:
        """Count the different values of these attributes together."""
        mixed = np.zeros(len(self), dtype=np.int64)
        for name in attributes:
            mixed = mixed * self.sizes[name] + self.codes[list(self.sizes).index(name)]
        return len(np.unique(mixed))


def packets(kind: str, rows: int) -> Packets:
    """Generate the data set `packets`: 2,837 groups of four attributes, alone or in flows [GS 6]."""
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary) / "packets"
        generate("packets", rows, 1, folder, preset=PRESETS[kind], rate=RATE)
        table = pq.read_table(folder / "Packets")
    encoded = {name: table[column].combine_chunks().dictionary_encode() for name, column in ATTRIBUTES.items()}
    return Packets(
        kind,
        np.array([each.indices for each in encoded.values()], dtype=np.int64),
        {name: len(each.dictionary) for name, each in encoded.items()},
        table["Length"].to_numpy(),
        table["Time"],
    )


@dataclass(frozen=True, slots=True, eq=False)
class Trace:
    """Packets of one attribute, in slices of `slice_rows`."""

    kind: str
    groups: int
    codes: Integers
    lengths: Integers
    slice_rows: int

    def __len__(self) -> int:
        return len(self.lengths)


def trace(kind: str, groups: int, rows: int, slice_rows: int) -> Trace:
    rng = generator(1, KINDS.index(kind), groups)
    flow, flows = (np.arange(rows), rows) if kind == UNIFORM else interleave(rng, rows)
    codes = rng.integers(0, groups, flows)[flow]
    return Trace(kind, groups, codes.reshape(1, -1), rng.integers(SHORTEST, LONGEST, rows), slice_rows)


def interleave(rng: np.random.Generator, rows: int) -> tuple[Integers, int]:
    """Return the flow of each packet, and the number of flows: packets take turns at random between the open ones."""
    place = rng.integers(0, OPEN_FLOWS, rows)
    by_place = np.argsort(place, kind="stable")
    begins = rng.random(rows) * FLOW_LENGTH < 1.0
    begins[np.flatnonzero(np.diff(place[by_place], prepend=-1))] = True
    flow = np.empty(rows, dtype=np.int64)
    flow[by_place] = np.cumsum(begins) - 1
    return flow, int(begins.sum())


# The tables alone: four pairs of attributes below a phantom of all four [GS 6]

PAIRS = ("AB", "BC", "BD", "CD")
PHANTOM = "ABCD"
COLUMNS = (StateColumn(StateKind.COUNT),)
"""As in the paper's queries."""
BATCH_ROWS = 1 << 16
MAX_ENTRIES = 1 << 18
ROUNDS = 11
"""All rows go in this often, each time as a new slice, and the median counts."""


@dataclass(frozen=True, slots=True)
class Speed:
    """One configuration: the rate that was asked for, the rate of the phantom while it was timed, and its speed."""

    packets: str
    replacement: str
    wanted_rate: float
    collision_rate: float
    phantom_entries: int
    nbytes: int
    partials_per_record: float
    records_per_s: float


def speeds(traffic: Packets, rates: Sequence[float]) -> Iterator[Speed]:
    entries = {pair: traffic.group_count(pair) for pair in PAIRS}
    for replacement in Replacement:
        for wanted in rates:
            phantom = entries_for(traffic, replacement, wanted)
            yield speed(traffic, replacement, wanted, pairs_below(phantom, entries))


def pairs_below(phantom: int, entries: Mapping[str, int]) -> Configuration:
    """Configure queries with as many entries as groups, below a phantom of any size."""
    queries = (EdgeTable(frozenset(pair), 0, True, entries[pair]) for pair in PAIRS)
    return Configuration((EdgeTable(frozenset(PHANTOM), None, False, phantom), *queries))


def speed(traffic: Packets, replacement: Replacement, wanted: float, configuration: Configuration) -> Speed:
    tables = Tables(configuration, COLUMNS, traffic.sizes, replacement=replacement)
    feed(tables, traffic, 0)
    runs_s = [processor_seconds(partial(feed, tables, traffic, 1 + number)) for number in range(ROUNDS)]
    sent = sum(tables.counts[number].evictions for number in configuration.children(0))
    return Speed(
        packets=traffic.kind,
        replacement=replacement.value,
        wanted_rate=wanted,
        collision_rate=tables.counts[0].collision_rate,
        phantom_entries=configuration.tables[0].entries,
        nbytes=tables.nbytes,
        partials_per_record=sent / tables.counts[0].probes,
        records_per_s=len(traffic) / median(runs_s),
    )


def feed(tables: Tables, traffic: Packets, slice_: int) -> None:
    """Feed all packets as one slice, while the one before leaves."""
    for begin in range(0, len(traffic), BATCH_ROWS):
        partials_in(tables.feed(traffic.codes[:, begin : begin + BATCH_ROWS], (), slice_))


def partials_in(evicted: Iterable[Evicted]) -> int:
    return sum(map(len, evicted))


def entries_for(traffic: Packets, replacement: Replacement, wanted: float) -> int:
    """Return about the fewest entries of the phantom, alone, that collide no more often than wanted."""
    low, high = 0, MAX_ENTRIES
    while high - low > 1 + low // 64:
        middle = (low + high) // 2
        if collision_rate(traffic, replacement, middle) > wanted:
            low = middle
        else:
            high = middle
    return high


def collision_rate(traffic: Packets, replacement: Replacement, entries: int) -> float:
    configuration = Configuration((EdgeTable(frozenset(PHANTOM), None, False, entries),))
    tables = Tables(configuration, COLUMNS, traffic.sizes, replacement=replacement)
    partials_in(tables.feed(traffic.codes, (), 0))
    return tables.counts[0].collision_rate


# All of level 1: four group-bys with four predicates and three windows

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
    """Return 4 queries: each has a different group-by and predicate, and the next window."""
    return [query_text(*each) for each in zip(PAIRS, PREDICATES, cycle(WINDOWS_S), strict=False)]


def all_with_all() -> list[str]:
    """Return 48 queries: each group-by with each predicate and each window."""
    return [query_text(*each) for each in product(PAIRS, PREDICATES, WINDOWS_S)]


def full_speeds(traffic: Packets) -> Iterator[FullSpeed]:
    for texts in (one_by_one(), all_with_all()):
        yield full_speed(traffic, texts)


def full_speed(traffic: Packets, texts: Sequence[str]) -> FullSpeed:
    """Time rows from memory, all of them in one frame; the tables have adapted to them in a first one.

    The plan is what a root would send, from as many rows as it keeps.
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
