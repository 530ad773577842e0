"""Memory divided in closed form beside its best division, over all trees [GS 6.2: figures 9, 10, tables 2, 3]."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from heapq import nsmallest
from statistics import fmean

from benchmarks.phantoms.exhaustive import ALLOCATIONS, all_trees, best_entries
from benchmarks.phantoms.rates import UNIT_BYTES, Stream
from headrace.cli.progress import Report
from headrace.datasets.workloads.gigascope import PAIRS, SINGLE
from headrace.planner.phantoms.allocation import whole_entries
from headrace.planner.phantoms.configuration import Configuration
from headrace.planner.phantoms.costs import Prices, maintenance
from headrace.planner.phantoms.table_tree import Sizes, TableTree

MAX_PHANTOMS = 5
MAX_TREES = 30
REPRESENTATIVE = (
    "ABCD(BCD(BC BD CD) AB)",
    "ABCD(ABC(AB BC) BD CD)",
    "ABCD(AB(A B) CD(C D))",
    "ABCD(ABC(A B C) D)",
)
"""Figures 9 and 10 have four trees, of which the text names none."""


@dataclass(frozen=True, slots=True)
class Division:
    """The cost of the best division of a tree's memory, and by which part of it each closed form is above."""

    data: str
    tree: str
    units: int
    has_closed_optimum: bool
    best: float
    above: Mapping[str, float]


def divisions(streams: Iterable[Stream], units: Sequence[int], report: Report) -> Iterator[Division]:
    trees = [
        (stream.data, tree)
        for stream in streams
        for queries in (SINGLE, PAIRS)
        for tree in trees_of(queries, stream.sizes)
    ]
    for place, (data, tree) in enumerate(trees):
        report(place, len(trees))
        yield from (division(data, tree, memory) for memory in units)


def trees_of(queries: Sequence[str], sizes: Sizes) -> Iterator[TableTree]:
    """Return the trees in which each phantom feeds two tables or more: the paper considers no others [GS 2.6]."""
    for tree in all_trees(queries, sizes, len(queries) - 1):
        pairs = zip(tree.is_query, tree.children, strict=True)
        if all(is_query or len(below) > 1 for is_query, below in pairs):
            yield tree


def division(data: str, tree: TableTree, units: int) -> Division:
    prices, memory_bytes = Prices(), units * UNIT_BYTES
    best = float(maintenance(tree, best_entries(tree, memory_bytes, prices), prices))
    above = {}
    for name, allocate in ALLOCATIONS.items():
        entries = whole_entries(tree, allocate(tree, memory_bytes, prices), memory_bytes)
        above[name] = float(maintenance(tree, entries, prices)) / best - 1.0
    return Division(data, notation(tree), units, has_closed_optimum(tree), best, above)


def best_of_all(queries: Sequence[str], sizes: Sizes, memory_bytes: int) -> Configuration:
    """Find the best configuration (EPES) with up to five phantoms.

    No closed form is far above the best division of its tree, so that is searched only in the trees which are cheapest
    by one of them; in trials the best of all was among the first ten.
    """
    prices = Prices()

    def quick(tree: TableTree) -> float:
        spaces = [allocate(tree, memory_bytes, prices) for allocate in ALLOCATIONS.values()]
        entries = [whole_entries(tree, space, memory_bytes) for space in spaces]
        return float(maintenance(tree, entries, prices).min())

    trees = (tree for tree in all_trees(queries, sizes, MAX_PHANTOMS) if tree.min_bytes <= memory_bytes)
    best: tuple[float, Configuration] | None = None
    for tree in nsmallest(MAX_TREES, trees, key=quick):
        entries = best_entries(tree, memory_bytes, prices)
        paid = float(maintenance(tree, entries, prices))
        if best is None or paid < best[0]:
            best = paid, tree.with_entries(entries)
    assert best is not None
    return best[1]


def has_closed_optimum(tree: TableTree) -> bool:
    """Return whether there are no phantoms, or one that feeds all queries [GS 5.1]."""
    return not tree.phantoms or (len(tree.phantoms) == 1 and tree.parents.count(None) == 1)


def notation(tree: TableTree) -> str:
    """Write a tree as in the paper: AB(A B) is a phantom AB that feeds A and B [GS 6.1]."""

    def write_table(place: int) -> str:
        name = "".join(sorted(tree.relations[place]))
        below = " ".join(write_table(child) for child in tree.children[place])
        return f"{name}({below})" if below else name

    return " ".join(write_table(place) for place, parent in enumerate(tree.parents) if parent is None)


# Tables 2 and 3


@dataclass(frozen=True, slots=True)
class Summary:
    """Of all trees without a closed optimum, in one memory."""

    data: str
    units: int
    trees: int
    above: Mapping[str, float]
    """The mean for each closed form [GS table 2]."""
    sl_best: float
    """The part of the trees where none of the others is better than SL, and elsewhere by how much the best one is,
    as a part of the optimum [GS table 3].
    """
    sl_behind: float


def summaries(found: Sequence[Division]) -> list[Summary]:
    cases: dict[tuple[str, int], list[Division]] = {}
    for each in found:
        if not each.has_closed_optimum:
            cases.setdefault((each.data, each.units), []).append(each)
    return [summary(data, units, those) for (data, units), those in sorted(cases.items())]


def summary(data: str, units: int, found: Sequence[Division]) -> Summary:
    behind = [each.above["SL"] - min(each.above.values()) for each in found]
    lost = [each for each in behind if each > 1e-6]
    return Summary(
        data,
        units,
        len(found),
        {name: fmean(each.above[name] for each in found) for name in ALLOCATIONS},
        1.0 - len(lost) / len(found),
        fmean(lost) if lost else 0.0,
    )
