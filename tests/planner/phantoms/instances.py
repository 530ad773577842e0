"""Random small sets of queries, with sizes that fit together."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations
from math import exp, prod

from hypothesis import strategies as st

from headrace.planner.phantoms.relations import Relation, unions
from headrace.planner.phantoms.table_tree import Sizes

PAPER_GROUPS = {1: 552.0, 2: 1846.0, 3: 2117.0, 4: 2837.0}
"""Groups of the paper's relations, by their number of attributes [GS 4.2]."""
PAPER_QUERIES = (("A", "B", "C", "D"), ("AB", "BC", "BD", "CD"))
PAPER_UNITS = (20_000, 40_000, 60_000, 80_000, 100_000)


def relation(name: str) -> Relation:
    return frozenset(name)


def paper_sizes() -> Sizes:
    every = [frozenset(names) for count in range(1, 5) for names in combinations("ABCD", count)]
    return Sizes({each: PAPER_GROUPS[len(each)] for each in every}, attribute_bytes=4, aggregate_bytes=4)


@dataclass(frozen=True)
class Instance:
    queries: tuple[Relation, ...]
    sizes: Sizes
    memory_bytes: int


@st.composite
def instances(draw: st.DrawFn, attributes: str = "ABC", most_queries: int = 3, longest_flow: float = 1.0) -> Instance:
    """Attributes with 30 to 1000 values, of which up to 10,000 combinations occur; memory for half to ten entries per
    group of a query.
    """
    parts = st.sets(st.sampled_from(attributes), min_size=1, max_size=len(attributes)).map(frozenset)
    queries = draw(st.sets(parts, min_size=1, max_size=most_queries))
    values = {name: 10 ** draw(st.floats(1.5, 3.0)) for name in attributes}
    most = 10 ** draw(st.floats(2.8, 4.0))
    groups = {each: most * -(exp(-prod(values[name] for name in each) / most) - 1.0) for each in unions(queries)}
    width = {name: draw(st.sampled_from([4, 8, 16])) for name in attributes}
    # A flow of more attributes is no longer than one of fewer.
    flow = {each: 1.0 + (longest_flow - 1.0) / len(each) for each in groups}
    sizes = Sizes(groups, flow, width, 8)
    needed = sum(groups[query] * sizes.entry_bytes(query) for query in queries)
    return Instance(tuple(queries), sizes, int(needed * 10 ** draw(st.floats(-0.3, 1.0))))
