"""The packets that GS's experiments run over, what an edge observes of them, and what real tables count."""

from __future__ import annotations

import tempfile
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow.parquet as pq

from headrace.datasets import generate
from headrace.datasets.workloads.gigascope import ATTRIBUTES
from headrace.edge.tables.memory_layout import Column, Kind
from headrace.edge.tables.tables import Counts, Flush, Replacement, Tables
from headrace.planner.phantoms.configuration import Configuration
from headrace.planner.phantoms.costs import Costs, Prices
from headrace.planner.phantoms.relations import Relation
from headrace.planner.phantoms.sizes import Sizes

Integers = npt.NDArray[np.int64]
Halves = Sequence[Integers]

UNIFORM, CLUSTERED = "uniform", "clustered"
PRESETS = {UNIFORM: "uniform", CLUSTERED: "gigascope"}
UNIT_BYTES = 4
"""An attribute and a counter take one unit of memory each [GS 6.1]."""
CODE_SPACE = 1 << 16
SAME_FLOW = 256
"""Records after which the next one of a group begins a new flow: eight flows are open at a time."""


@dataclass(frozen=True, slots=True, eq=False)
class Stream:
    """Packets in order: a row of numbers below the number of values for each attribute."""

    data: str
    attributes: Sequence[str]
    values: Integers
    sizes: Sizes


def packets(data: str, rows: int) -> Stream:
    """Packets of 2,837 groups, each drawn at random, or in interleaved flows of 32 packets."""
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary) / data
        generate("packets", rows, 1, folder, preset=PRESETS[data])
        table = pq.read_table(folder / "Packets", columns=list(ATTRIBUTES.values()))
    values = np.stack([numbered(table[name]) for name in ATTRIBUTES.values()])
    attributes = tuple(ATTRIBUTES)
    return Stream(data, attributes, values, observed(attributes, values, data == CLUSTERED))


def numbered(column: Any) -> Integers:
    """The values of an Arrow column as numbers from 0."""
    indices: Integers = column.combine_chunks().dictionary_encode().indices.to_numpy().astype(np.int64)
    return indices


def observed(attributes: Sequence[str], values: Integers, has_flows: bool) -> Sizes:
    """Groups of every relation and, of packets that come in flows, how long these are."""
    groups: dict[Relation, float] = {}
    flow_length: dict[Relation, float] = {}
    for count in range(1, len(attributes) + 1):
        for places in combinations(range(len(attributes)), count):
            relation = frozenset(attributes[place] for place in places)
            group = group_numbers(values[list(places)])
            groups[relation] = float(group.max() + 1)
            flow_length[relation] = mean_flow_length(group) if has_flows else 1.0
    return Sizes(groups, flow_length, attribute_bytes=UNIT_BYTES, aggregate_bytes=UNIT_BYTES)


def group_numbers(values: Integers) -> Integers:
    code = np.zeros(values.shape[1], dtype=np.int64)
    for row in values:
        code = code * CODE_SPACE + row
    return np.unique(code, return_inverse=True)[1].reshape(-1)


def mean_flow_length(group: Integers) -> float:
    """Derived temporally [GS 6.3]: a flow goes on while its group comes again soon."""
    order = np.argsort(group, kind="stable")
    begins = (np.diff(group[order]) != 0) | (np.diff(order) > SAME_FLOW)
    return len(group) / (1 + int(np.count_nonzero(begins)))


# What tables count


def relabelled(values: Integers, hashes: int) -> Iterator[Halves]:
    """The records under other codes fall into other buckets: each time it is as if another function hashed them. The
    first half fills the tables, the second is counted.
    """
    for seed in range(hashes):
        rng = np.random.default_rng(seed)
        codes = np.stack([rng.permutation(CODE_SPACE)[row] for row in values])
        yield tuple(np.ascontiguousarray(half) for half in np.array_split(codes, 2, axis=1))


def counted(
    configuration: Configuration, attributes: Sequence[str], halves: Halves
) -> tuple[Sequence[Counts], Sequence[Counts]]:
    """What direct-mapped tables count in one slice once they are full, and then when it ends."""
    tables = Tables(
        configuration,
        (Column(Kind.COUNT),),
        dict.fromkeys(attributes, CODE_SPACE),
        replacement=Replacement.DIRECT_MAPPED,
        flush=Flush.EAGER,
        buffered=1 << 14,
    )
    first, second = halves
    seen = []
    for evicted in (tables.feed(first, (), 0), tables.feed(second, (), 0), tables.flush()):
        deque(evicted, maxlen=0)
        seen.append(tables.counts)
    full, running, ended = seen
    return since(full, running), since(running, ended)


def since(before: Sequence[Counts], after: Sequence[Counts]) -> list[Counts]:
    return [
        Counts(
            new.probes - old.probes,
            new.hits - old.hits,
            new.collisions - old.collisions,
            new.evictions - old.evictions,
        )
        for old, new in zip(before, after, strict=True)
    ]


def measured_costs_of(configuration: Configuration, stream: Stream, hashes: int) -> Costs:
    """Per record and at the end of the slice, by what the tables count [GS equations 4 and 8]."""
    runs = [counted(configuration, stream.attributes, halves) for halves in relabelled(stream.values, hashes)]
    records = runs[0][0][configuration.children(None)[0]].probes
    return Costs(
        fmean(price(configuration, running) for running, _ in runs) / records,
        fmean(price(configuration, ended) for _, ended in runs),
    )


def price(configuration: Configuration, counts: Sequence[Counts]) -> float:
    """Probes, and evictions of queries."""
    prices = Prices()
    return sum(
        each.probes * prices.probe + each.evictions * prices.eviction * table.is_query
        for table, each in zip(configuration.tables, counts, strict=True)
    )
