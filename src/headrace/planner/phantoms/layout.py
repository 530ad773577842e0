"""A tree of tables before they have sizes, as the arrays that costs and allocations are computed with."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from headrace.planner.phantoms.collisions import Numbers, clustered_rates, crowded_rates, precise
from headrace.planner.phantoms.configuration import Configuration, Table
from headrace.planner.phantoms.relations import FeedingGraph, Relation
from headrace.planner.phantoms.sizes import Sizes


@dataclass(frozen=True, eq=False)
class Layout:
    """Parents come before their children. Arrays of sizes have the tables on their last axis."""

    relations: tuple[Relation, ...]
    parents: tuple[int | None, ...]
    is_query: tuple[bool, ...]
    groups: Numbers
    flow_lengths: Numbers
    """Of what arrives at a table. Entries pushed out of one by chance are no flows any more, so it is 1 below the
    first: the paper divides every rate by its relation's flow length [GS 5.3], and measured ones lie far above that.
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
        return frozenset(relation for relation, asked in pairs if not asked)

    @cached_property
    def least_bytes(self) -> int:
        """With one entry in every table."""
        return int(self.entry_bytes.sum())

    @property
    def has_idle_phantom(self) -> bool:
        """One that feeds nothing."""
        return any(not asked and not below for asked, below in zip(self.is_query, self.children, strict=True))

    def rates(self, entries: npt.ArrayLike) -> Numbers:
        return clustered_rates(precise(self.groups, entries), self.flow_lengths)

    def sifted_rates(self, entries: npt.ArrayLike) -> Numbers:
        """Of the groups of a table only those with company in their bucket ever reach its children. The paper has all
        of them arrive, so its rates are too high below the first table, and the more so the lower they are.
        """
        counts = np.asarray(entries, dtype=np.float64)
        arriving: list[Numbers] = []
        passing: list[Numbers] = []
        for place, parent in enumerate(self.parents):
            every = self.groups[place]
            if parent is None:
                arriving.append(np.full(counts.shape[:-1], every))
            else:
                finer = self.groups[parent]
                missed = np.log1p(-np.minimum(passing[parent] / finer, 1.0 - 1e-12))
                arriving.append(every * -np.expm1(max(1.0, finer / every) * missed))
            passing.append(arriving[place] * crowded_rates(arriving[place], counts[..., place]))
        return clustered_rates(precise(np.stack(arriving, axis=-1), counts), self.flow_lengths)

    def with_entries(self, entries: Iterable[int]) -> Configuration:
        tables = zip(self.relations, self.parents, self.is_query, entries, strict=True)
        return Configuration(tuple(Table(*table) for table in tables))


def layout_of(graph: FeedingGraph, phantoms: Collection[Relation], sizes: Sizes) -> Layout:
    """Each table is fed by the one above it with the fewest groups, which lets the fewest records through."""
    relations = tuple(each for each in graph.relations if each in graph.queries or each in phantoms)
    groups = [sizes.groups_of(relation) for relation in relations]
    parents: list[int | None] = []
    for place, relation in enumerate(relations):
        # Among equals the last: it has fewer attributes.
        above = [(groups[other], -other) for other in range(place) if relation < relations[other]]
        parents.append(-min(above)[1] if above else None)
    return layout(relations, parents, [relation in graph.queries for relation in relations], sizes)


def layout_for(configuration: Configuration, sizes: Sizes) -> Layout:
    tables = configuration.tables
    return layout(
        tuple(table.attributes for table in tables),
        [table.parent for table in tables],
        [table.is_query for table in tables],
        sizes,
    )


def layout(
    relations: tuple[Relation, ...], parents: Sequence[int | None], is_query: Iterable[bool], sizes: Sizes
) -> Layout:
    pairs = zip(relations, parents, strict=True)
    lengths = [sizes.flow_length_of(relation) if parent is None else 1.0 for relation, parent in pairs]
    return Layout(
        relations,
        tuple(parents),
        tuple(is_query),
        np.array([sizes.groups_of(relation) for relation in relations]),
        np.array(lengths),
        np.array([sizes.entry_bytes(relation) for relation in relations], dtype=np.int64),
    )
