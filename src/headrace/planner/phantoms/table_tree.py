"""A tree of tables before they have entries, as the arrays that costs and allocations are computed with."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final

import numpy as np
import numpy.typing as npt

from headrace.planner.phantoms.collisions import Numbers, clustered_rates, precise
from headrace.planner.phantoms.configuration import Configuration, EdgeTable
from headrace.planner.phantoms.relations import FeedingGraph, Relation

WORD_BYTES: Final = 8
"""Keys at an edge have a fixed width, and so have the counters and sums beside them."""


@dataclass(frozen=True, slots=True)
class Sizes:
    """What was observed of each relation at run time: its groups, the length of its flows, the bytes of an entry.

    A mapping gives each its own value instead of one number for all: flow lengths of each relation, bytes of each
    attribute, bytes of each relation's aggregates.
    """

    groups: Mapping[Relation, float]
    flow_length: float | Mapping[Relation, float] = 1.0
    """Records of the stream that follow each other with the same group, on average [GS 4.3]."""
    attribute_bytes: int | Mapping[str, int] = WORD_BYTES
    aggregate_bytes: int | Mapping[Relation, int] = WORD_BYTES

    def groups_of(self, relation: Relation) -> float:
        if relation not in self.groups:
            raise ValueError(f"nobody counted the groups of ({', '.join(sorted(relation))})")
        return max(1.0, self.groups[relation])

    def flow_length_of(self, relation: Relation) -> float:
        length = self.flow_length
        return max(1.0, length if isinstance(length, (int, float)) else length[relation])

    def entry_bytes(self, relation: Relation) -> int:
        width = self.attribute_bytes
        keys = width * len(relation) if isinstance(width, int) else sum(width[name] for name in relation)
        states = self.aggregate_bytes
        return keys + (states if isinstance(states, int) else states[relation])


@dataclass(frozen=True, eq=False)
class TableTree:
    """Parents come before their children. Arrays of sizes have the tables on their last axis."""

    relations: tuple[Relation, ...]
    parents: tuple[int | None, ...]
    is_query: tuple[bool, ...]
    groups: Numbers
    flow_lengths: Numbers
    """The lengths of what arrives at a table. Entries pushed out of one by chance are no flows any more, so it is 1
    below the first: the paper divides every rate by its relation's flow length [GS 5.3], and measured ones lie far
    above that.
    """
    entry_bytes: npt.NDArray[np.int64]

    @cached_property
    def children(self) -> tuple[tuple[int, ...], ...]:
        below: list[list[int]] = [[] for _ in self.relations]
        for place, parent in enumerate(self.parents):
            if parent is not None:
                below[parent].append(place)
        return tuple(map(tuple, below))

    @property
    def phantoms(self) -> frozenset[Relation]:
        pairs = zip(self.relations, self.is_query, strict=True)
        return frozenset(relation for relation, is_query in pairs if not is_query)

    @cached_property
    def min_bytes(self) -> int:
        """With one entry in every table."""
        return int(self.entry_bytes.sum())

    def rates(self, entries: npt.ArrayLike) -> Numbers:
        return clustered_rates(precise(self.groups, entries), self.flow_lengths)

    def with_entries(self, entries: Iterable[int]) -> Configuration:
        tables = zip(self.relations, self.parents, self.is_query, entries, strict=True)
        return Configuration(tuple(EdgeTable(*table) for table in tables))


def build_tree(graph: FeedingGraph, phantoms: Collection[Relation], sizes: Sizes) -> TableTree:
    """Feed each table from the one above it with the fewest groups, which lets the fewest records through."""
    relations = tuple(relation for relation in graph.relations if relation in graph.queries or relation in phantoms)
    groups = [sizes.groups_of(relation) for relation in relations]
    parents: list[int | None] = []
    for place, relation in enumerate(relations):
        # Among equals the last: it has fewer attributes.
        above = [(groups[other], -other) for other in range(place) if relation < relations[other]]
        parents.append(-min(above)[1] if above else None)
    return with_sizes(relations, parents, [relation in graph.queries for relation in relations], sizes)


def with_sizes(
    relations: tuple[Relation, ...], parents: Sequence[int | None], is_query: Iterable[bool], sizes: Sizes
) -> TableTree:
    pairs = zip(relations, parents, strict=True)
    lengths = [sizes.flow_length_of(relation) if parent is None else 1.0 for relation, parent in pairs]
    return TableTree(
        relations,
        tuple(parents),
        tuple(is_query),
        np.array([sizes.groups_of(relation) for relation in relations]),
        np.array(lengths),
        np.array([sizes.entry_bytes(relation) for relation in relations], dtype=np.int64),
    )
