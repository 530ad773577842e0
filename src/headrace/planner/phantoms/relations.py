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


def feeding_graph(queries: Iterable[Iterable[str]], known: Collection[Relation] | None = None) -> FeedingGraph:
    """All unions of queries, or those among the `known` relations. A phantom that is no union of two or more queries
    could be replaced by the union of those it feeds, which has fewer groups.
    """
    group_bys = frozenset(frozenset(query) for query in queries)
    if not group_bys or not all(group_bys):
        raise ValueError("a query groups by at least one attribute")
    candidates = unions(group_bys) if known is None else known
    phantoms = {relation for relation in candidates if is_union(relation, group_bys)}
    return FeedingGraph(in_order(group_bys | phantoms), group_bys)


def unions(queries: Iterable[Relation]) -> set[Relation]:
    """At most 2 to the number of queries, or of attributes."""
    relations: set[Relation] = set()
    for query in queries:
        relations |= {query} | {query | other for other in relations}
    return relations


def is_union(relation: Relation, queries: Iterable[Relation]) -> bool:
    below = [query for query in queries if query < relation]
    return bool(below) and frozenset[str]().union(*below) == relation


def in_order(relations: Iterable[Relation]) -> tuple[Relation, ...]:
    """Once each, those with more attributes first, then by name: equal sets give equal configurations."""
    return tuple(sorted(set(relations), key=lambda relation: (-len(relation), sorted(relation))))
