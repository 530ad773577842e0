"""Collision rates of real tables beside the models, and the models beside each other [GS 4: figures 5-8, table 1]."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import exp, lgamma, log, log1p
from statistics import fmean

import numpy as np

from benchmarks.phantoms_streams import Integers, Stream, counted, relabelled
from headrace.planner.phantoms.collisions import clustered, low_rate, precise, rough
from headrace.planner.phantoms.configuration import Configuration, Table

Report = Callable[[int, int], None]

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


def measured_rates(streams: Sequence[Stream], rows: int, hashes: int, report: Report) -> Iterator[Rate]:
    """Of equally frequent groups, and of the packets, whose groups by fewer attributes are not."""
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
    for halves in relabelled(values, hashes):
        for buckets, found in zip(sizes, trials, strict=True):
            table = Configuration((Table(frozenset(names), None, True, buckets),))
            running, _ = counted(table, names, halves)
            found.append(running[0].collision_rate)
    for ratio, buckets, found in zip(PER_BUCKET, sizes, trials, strict=True):
        model, plain = (float(clustered(rate(groups, buckets), flow_length)) for rate in (precise, rough))
        yield Rate(data, relation, groups, ratio, fmean(found), found[0], model, plain)


# The models


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
    return Models(terms, variation, list(fitted_curve()), list(low_rates()))


def term(groups: int, buckets: int, k: int) -> float:
    """[GS equation 13]"""
    ways = lgamma(groups + 1) - lgamma(k + 1) - lgamma(groups - k + 1)
    chance = exp(ways - k * log(buckets) + (groups - k) * log1p(-1.0 / buckets))
    return buckets / groups * chance * (k - 1)


def fitted_curve() -> Iterator[tuple[float, float, float]]:
    """In six intervals, as in the paper, each longer than the one before; errors are relative."""
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
