"""Which group-bys can be computed from which: the relation feeding graph of a set of queries [GS 2.6]."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass

Relation = frozenset[str]
"""The attributes of a group-by."""


@dataclass(frozen=True, slots=True)
class FeedingGraph:
    """Relations in an order where those that feed come before those they feed."""

    relations: tuple[Relation, ...]
    queries: frozenset[Relation]

    @property
    def phantoms(self) -> tuple[Relation, ...]:
        return tuple(relation for relation in self.relations if relation not in self.queries)

    def relations_fed(self, relation: Relation) -> tuple[Relation, ...]:
        """All relations with more attributes: one may feed another across those between them."""
        return tuple(other for other in self.relations if relation < other)

    @property
    def arcs(self) -> tuple[tuple[Relation, Relation], ...]:
        """(parent, child) where no relation lies between: what a drawing of the graph shows."""
        return tuple((parent, child) for child in self.relations for parent in nearest(self.relations_fed(child)))


def feeding_graph(queries: Iterable[Iterable[str]], known: Collection[Relation] | None = None) -> FeedingGraph:
    """All unions of queries, or those among the `known` relations. A phantom that is no union of two or more queries
    could be replaced by the union of those it feeds, which has fewer groups.
    """
    asked = frozenset(frozenset(query) for query in queries)
    if not asked or not all(asked):
        raise ValueError("a query groups by at least one attribute")
    candidates = unions(asked) if known is None else known
    found = {relation for relation in candidates if is_union(relation, asked)}
    return FeedingGraph(in_order(asked | found), asked)


def unions(queries: Iterable[Relation]) -> set[Relation]:
    """At most 2 to the number of queries, or of attributes."""
    found: set[Relation] = set()
    for query in queries:
        found |= {query} | {query | other for other in found}
    return found


def is_union(relation: Relation, queries: Iterable[Relation]) -> bool:
    below = [query for query in queries if query < relation]
    return bool(below) and frozenset[str]().union(*below) == relation


def nearest(relations: Collection[Relation]) -> tuple[Relation, ...]:
    """Those that contain none of the others."""
    return tuple(each for each in relations if not any(other < each for other in relations))


def in_order(relations: Iterable[Relation]) -> tuple[Relation, ...]:
    """Once each, those with more attributes first, then by name: equal sets give equal configurations."""
    return tuple(sorted(set(relations), key=lambda relation: (-len(relation), sorted(relation))))
