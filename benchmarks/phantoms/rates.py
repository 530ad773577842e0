"""Packets of GS's experiments, and collision rates of real tables beside the models [GS 4: figures 5-8, table 1]."""

from __future__ import annotations

import tempfile
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations, pairwise
from math import exp, lgamma, log, log1p
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow.parquet as pq

from benchmarks.phantoms.model import Costs
from headrace.cli.progress import Report
from headrace.datasets import generate
from headrace.datasets.workloads.gigascope import ATTRIBUTES
from headrace.edge.tables.memory_layout import StateColumn, StateKind
from headrace.edge.tables.tables import Flush, Replacement, TableCounts, Tables
from headrace.planner.phantoms.collisions import SLOPE, Numbers, at_least_one, clustered_rates, precise
from headrace.planner.phantoms.configuration import Configuration, EdgeTable
from headrace.planner.phantoms.costs import Prices
from headrace.planner.phantoms.relations import Relation
from headrace.planner.phantoms.table_tree import Sizes

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
    """Generate packets of 2,837 groups, each drawn at random, or in interleaved flows of 32 packets."""
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary) / data
        generate("packets", rows, 1, folder, preset=PRESETS[data])
        table = pq.read_table(folder / "Packets", columns=list(ATTRIBUTES.values()))
    values = np.stack([number_values(table[name]) for name in ATTRIBUTES.values()])
    attributes = tuple(ATTRIBUTES)
    return Stream(data, attributes, values, observe_sizes(attributes, values, data == CLUSTERED))


def number_values(column: Any) -> Integers:
    """Return the values of an Arrow column as numbers from 0."""
    indices: Integers = column.combine_chunks().dictionary_encode().indices.to_numpy().astype(np.int64)
    return indices


def observe_sizes(attributes: Sequence[str], values: Integers, has_flows: bool) -> Sizes:
    """Count the groups of every relation and, of packets that come in flows, the length of these."""
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
    """Derive flows from time [GS 6.3]: a flow continues while its group comes again soon."""
    order = np.argsort(group, kind="stable")
    begins = (np.diff(group[order]) != 0) | (np.diff(order) > SAME_FLOW)
    return len(group) / (1 + int(np.count_nonzero(begins)))


# What tables count


def relabel(values: Integers, hashes: int) -> Iterator[Halves]:
    """Give records other codes, so that they fall into other buckets as if another function hashed them.

    The first half fills the tables, the second is counted.
    """
    for seed in range(hashes):
        rng = np.random.default_rng(seed)
        codes = np.stack([rng.permutation(CODE_SPACE)[row] for row in values])
        yield tuple(np.ascontiguousarray(half) for half in np.array_split(codes, 2, axis=1))


def count_slice(
    configuration: Configuration, attributes: Sequence[str], halves: Halves
) -> tuple[Sequence[TableCounts], Sequence[TableCounts]]:
    """Return what direct-mapped tables count in one slice once they are full, and then when it ends."""
    tables = Tables(
        configuration,
        (StateColumn(StateKind.COUNT),),
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


def since(before: Sequence[TableCounts], after: Sequence[TableCounts]) -> list[TableCounts]:
    return [
        TableCounts(
            new.probes - old.probes,
            new.hits - old.hits,
            new.collisions - old.collisions,
            new.evictions - old.evictions,
        )
        for old, new in zip(before, after, strict=True)
    ]


def measure_costs(configuration: Configuration, stream: Stream, hashes: int) -> Costs:
    """Return the cost per record and at the end of the slice, as the tables count it [GS equations 4 and 8]."""
    runs = [count_slice(configuration, stream.attributes, halves) for halves in relabel(stream.values, hashes)]
    records = runs[0][0][configuration.children(None)[0]].probes
    return Costs(
        fmean(price(configuration, running) for running, _ in runs) / records,
        fmean(price(configuration, ended) for _, ended in runs),
    )


def price(configuration: Configuration, counts: Sequence[TableCounts]) -> float:
    """Price probes, and evictions of queries."""
    prices = Prices()
    return sum(
        each.probes * prices.probe + each.evictions * prices.eviction * table.is_query
        for table, each in zip(configuration.tables, counts, strict=True)
    )


# Collision rates of real tables beside the models


SYNTHETIC = "synthetic"
PAPER_GROUPS = (552, 1_846, 2_117, 2_837)
"""Of one to four attributes [GS 4.2]."""
RELATIONS = ("A", "AB", "ABC", "ABCD")
PER_BUCKET = (0.25, 0.5, 0.75, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0, 8.0, 16.0, 32.0)
"""Groups per bucket."""
BUCKETS = range(300, 3_001, 100)
LOW_RATE = 0.4
INTERVALS = 6


@dataclass(frozen=True, slots=True)
class Rate:
    """A point of figure 5. `measured` is the mean over several hash functions, `one_hash` is of the first alone."""

    data: str
    relation: str
    groups: int
    per_bucket: float
    measured: float
    one_hash: float
    precise: float
    rough: float

    @property
    def error(self) -> float:
        return abs(self.measured / self.precise - 1.0)

    @property
    def one_hash_error(self) -> float:
        return abs(self.one_hash / self.precise - 1.0)


def measure_rates(streams: Sequence[Stream], rows: int, hashes: int, report: Report) -> Iterator[Rate]:
    """Measure equally frequent groups, and the packets, whose groups by fewer attributes are not."""
    total = len(RELATIONS) * (1 + len(streams))
    for place, (relation, groups) in enumerate(zip(RELATIONS, PAPER_GROUPS, strict=True)):
        report(place, total)
        values = np.random.default_rng(groups).integers(0, groups, (1, rows))
        yield from rates_of(SYNTHETIC, relation, values, groups, 1.0, hashes)
    for place, (stream, relation) in enumerate(((s, r) for s in streams for r in RELATIONS), len(RELATIONS)):
        report(place, total)
        kept = frozenset(relation)
        values = stream.values[: len(relation), :rows]
        length = stream.sizes.flow_length_of(kept)
        yield from rates_of(stream.data, relation, values, int(stream.sizes.groups_of(kept)), length, hashes)


def rates_of(
    data: str, relation: str, values: Integers, groups: int, flow_length: float, hashes: int
) -> Iterator[Rate]:
    names = RELATIONS[-1][: len(values)]
    trials: list[list[float]] = [[] for _ in PER_BUCKET]
    sizes = [round(groups / ratio) for ratio in PER_BUCKET]
    for halves in relabel(values, hashes):
        for buckets, found in zip(sizes, trials, strict=True):
            table = Configuration((EdgeTable(frozenset(names), None, True, buckets),))
            running, _ = count_slice(table, names, halves)
            found.append(running[0].collision_rate)
    for ratio, buckets, found in zip(PER_BUCKET, sizes, trials, strict=True):
        model, plain = (float(clustered_rates(rate(groups, buckets), flow_length)) for rate in (precise, rough))
        yield Rate(data, relation, groups, ratio, fmean(found), found[0], model, plain)


# The models

INTERCEPT = 0.0267
"""Of the line of low rates [GS 4.4, equation 16]."""


def rough(groups: npt.ArrayLike, buckets: npt.ArrayLike) -> Numbers:
    """Return rates as if all buckets had as many groups [GS 4.1, equation 10]; too low where groups are few."""
    found, places = at_least_one(groups), at_least_one(buckets)
    return np.maximum(0.0, 1.0 - places / found)


def low_rate(groups: npt.ArrayLike, buckets: npt.ArrayLike) -> Numbers:
    """Return the line through the rates below 0.4, that is up to about one group per bucket [GS 4.4, equation 16]."""
    return INTERCEPT + SLOPE * at_least_one(groups) / at_least_one(buckets)


@dataclass(frozen=True, slots=True)
class Models:
    """Figures 6 to 8 and table 1."""

    terms: Sequence[tuple[int, float]]
    """What buckets of k groups add to the rate, with 3,000 groups in 1,000 buckets."""
    variation: Sequence[tuple[float, float]]
    """By groups per bucket, how far rates of 300 to 3,000 buckets are apart."""
    curve: Sequence[tuple[float, float, float]]
    """Groups per bucket; the precise rate; that of six parabolas."""
    low: Sequence[tuple[float, float, float]]
    """The same with the line of low rates, from a tenth of a group per bucket: below that it is far off."""

    @property
    def largest_variation(self) -> float:
        return max(found for _, found in self.variation)

    @property
    def parabola_errors(self) -> tuple[float, float]:
        """Mean and largest."""
        errors = [abs(fitted / rate - 1.0) for _, rate, fitted in self.curve]
        return fmean(errors), max(errors)

    @property
    def line_error(self) -> float:
        return fmean(abs(line / rate - 1.0) for _, rate, line in self.low)


def models() -> Models:
    terms = [(k, term(3_000, 1_000, k)) for k in range(2, 21)]
    variation = []
    for ratio in PER_BUCKET:
        rates = precise([ratio * buckets for buckets in BUCKETS], list(BUCKETS))
        variation.append((ratio, float(rates.max() / rates.min() - 1.0)))
    return Models(terms, variation, list(fit_curve()), list(low_rates()))


def term(groups: int, buckets: int, k: int) -> float:
    """Return one term of the sum over k [GS equation 13]."""
    ways = lgamma(groups + 1) - lgamma(k + 1) - lgamma(groups - k + 1)
    chance = exp(ways - k * log(buckets) + (groups - k) * log1p(-1.0 / buckets))
    return buckets / groups * chance * (k - 1)


def fit_curve() -> Iterator[tuple[float, float, float]]:
    """Fit parabolas in six intervals, as in the paper, each longer than the one before; errors are relative."""
    ends = np.geomspace(0.05, 32.0, INTERVALS + 1)
    for low, high in pairwise(ends.tolist()):
        ratios = np.geomspace(low, high, 20, endpoint=False)
        rates = precise(ratios * 1_000, 1_000)
        parabola = np.polynomial.Polynomial.fit(ratios, rates, 2, w=1.0 / rates)
        yield from zip(ratios.tolist(), rates.tolist(), parabola(ratios).tolist(), strict=True)


def low_rates() -> Iterator[tuple[float, float, float]]:
    ratios = np.arange(0.1, 1.2, 0.02)
    rates = precise(ratios * 1_000, 1_000)
    ratios, rates = ratios[rates <= LOW_RATE], rates[rates <= LOW_RATE]
    yield from zip(ratios.tolist(), rates.tolist(), low_rate(ratios * 1_000, 1_000).tolist(), strict=True)
