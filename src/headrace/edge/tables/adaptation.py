"""Sizes seen at run time, from a sample of what the tables are fed, and the configuration that is chosen for them."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from itertools import combinations
from typing import NamedTuple

import numpy as np

from headrace.kernel.slots import MAX_KEYS, Keys, find_slots
from headrace.model.arrays import Integers
from headrace.planner.phantoms.choice import choose
from headrace.planner.phantoms.configuration import Configuration
from headrace.planner.phantoms.relations import Relation, unions
from headrace.planner.statistics import distinct_estimate

FEW_QUERIES = 4
"""For up to this many queries all unions may be phantoms; for more, the narrowest unions of two, and that of all."""
MAX_PAIRS = 16
DRIFT = 2.0
"""If no size has changed by more than this factor, the configuration stays."""
MEMORY_DRIFT = 0.25
"""If the memory has not changed by more than this fraction, it is not worth other tables."""
MIN_ENTRIES = 4
"""Of each table, on average, however short memory is."""


class SizeEstimates(NamedTuple):
    """Of each relation the groups in a slice, and how many rows follow each other with the same group."""

    groups: Mapping[Relation, float]
    flow_lengths: Mapping[Relation, float]


class CodeSample:
    """The first rows since the tables were empty: for each a slice, and a code for each field."""

    def __init__(self, fields: int, most_rows: int) -> None:
        self.codes = np.empty((1 + fields, most_rows), dtype=np.int64)
        self.clear()

    def clear(self) -> None:
        self.rows = 0
        self.fed = 0
        self.slices = 0
        self.last_slice: int | None = None

    def add(self, codes: Integers, slice_: int) -> None:
        """Rows of one slice."""
        count = min(codes.shape[1], self.codes.shape[1] - self.rows)
        self.codes[0, self.rows : self.rows + count] = slice_
        self.codes[1:, self.rows : self.rows + count] = codes[:, :count]
        self.rows += count
        self.fed += codes.shape[1]
        self.slices += slice_ != self.last_slice
        self.last_slice = slice_

    def measure(self, relations: Mapping[Relation, Sequence[int]]) -> SizeEstimates:
        """`relations` are given with the places of their fields. There must be a row."""
        numbered = [find_slots(column[: self.rows], MAX_KEYS + 1) for column in self.codes]
        slices = numbered[0].count
        likely_rows = max(float(self.rows), slices * self.fed / self.slices)
        groups, flow_lengths = {}, {}
        for relation, fields in relations.items():
            keys = Keys(self.rows)
            for place in (0, *(1 + field for field in fields)):
                keys.extend(numbered[place].of_row, numbered[place].count)
            slots = keys.slots()
            groups[relation] = distinct_estimate(np.bincount(slots.of_row), likely_rows) / slices
            flow_lengths[relation] = self.rows / (1 + np.count_nonzero(np.diff(slots.of_row)))
        return SizeEstimates(groups, flow_lengths)


def candidates(queries: Collection[Relation]) -> set[Relation]:
    """The queries, and what may be a phantom above them."""
    if len(queries) <= FEW_QUERIES:
        return unions(queries)
    pairs = {one | other for one, other in combinations(queries, 2)}
    narrowest = sorted(pairs, key=lambda pair: (len(pair), sorted(pair)))[:MAX_PAIRS]
    return {*queries, *narrowest, frozenset[str]().union(*queries)}


def has_drifted(before: SizeEstimates, now: SizeEstimates) -> bool:
    ratios = [max(1.0, now.groups[relation]) / max(1.0, groups) for relation, groups in before.groups.items()]
    return any(not 1 / DRIFT <= ratio <= DRIFT for ratio in ratios)


def configuration_for(
    queries: Collection[Relation], seen: SizeEstimates, memory_bytes: int, entry_bytes: Mapping[Relation, int]
) -> Configuration:
    least = MIN_ENTRIES * sum(entry_bytes[query] for query in queries)
    return choose(
        queries,
        seen.groups,
        max(memory_bytes, least),
        seen.flow_lengths,
        attribute_bytes=0,
        aggregate_bytes=entry_bytes,
    )
