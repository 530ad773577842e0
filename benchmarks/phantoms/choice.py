"""Choosing phantoms: greedy ways beside the best of all, by the model and as counted [GS 6.3: figures 11 to 15]."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from benchmarks.phantoms.model import cost, tree_of
from benchmarks.phantoms.peak import shift, shrink
from benchmarks.phantoms.rates import UNIT_BYTES, Stream, measure_costs
from benchmarks.phantoms.space import best_of_all, notation
from benchmarks.timing import processor_seconds
from headrace.cli.progress import Report
from headrace.datasets.workloads.gigascope import PAIRS, SINGLE
from headrace.planner.phantoms.allocation import Allocation, proportional_linear, supernode_linear
from headrace.planner.phantoms.choice import DEFAULT_PRICES, by_rates, by_space, choose, divide_memory
from headrace.planner.phantoms.configuration import Configuration
from headrace.planner.phantoms.costs import Prices
from headrace.planner.phantoms.relations import Relation, feeding_graph
from headrace.planner.phantoms.table_tree import Sizes, build_tree

PHIS = (0.6, 0.7, 0.8, 0.9, 1.0, 1.1, 1.2, 1.3)
"""Entries per group of GS; figure 11 varies them."""
QUERY_SETS = (SINGLE, PAIRS, ("A", "B", "C"), ("AB", "BC", "CD"), ("A", "BC", "CD"), ("ABC", "BCD", "AD"))
PEAK_UNITS = 40_000
"""The memory of figures 11, 12 and 15."""
LIMIT_PERCENTS = (98, 96, 94, 92, 90, 86, 82)
WAYS = {"shrink": shrink, "shift": shift}
TIMED = 5
GC, GS, BEST, ALONE, CHOSEN = "GC+SL", "GS", "best", "no phantoms", "choose"


@dataclass(frozen=True, slots=True)
class Choice:
    """Costs per record by the model [GS equation 7], and processor milliseconds of a choice."""

    data: str
    queries: str
    units: int
    gc: float
    gs: Mapping[str, float]
    """By entries per group."""
    best: float
    chosen: float
    alone: float
    gc_ms: float
    choice_ms: float

    @property
    def gc_over_best(self) -> float:
        return self.gc / self.best

    @property
    def chosen_over_best(self) -> float:
        return self.chosen / self.best


@dataclass(frozen=True, slots=True)
class Cost:
    """Per record, of one configuration: by the paper's model, by the sifted one, and as counted by tables. Then of the
    end of an epoch.
    """

    data: str
    queries: str
    units: int
    scheme: str
    tree: str
    modelled: float
    sifted: float
    measured: float
    end_modelled: float
    end_measured: float
    end_groups: float
    """One entry for each group of each query."""


@dataclass(frozen=True, slots=True)
class Repair:
    """Figure 15: a limit on the end of an epoch as a percentage of its modelled cost, kept by smaller tables; measured
    costs per record and at the end, and the first without the limit. Nothing is here where a way cannot keep it.
    """

    data: str
    queries: str
    units: int
    percent: int
    way: str
    measured: float
    unlimited: float
    end_measured: float


def greedy_by_rates(
    queries: Iterable[Iterable[str]],
    sizes: Sizes,
    memory_bytes: int,
    prices: Prices = DEFAULT_PRICES,
    allocate: Allocation = supernode_linear,
) -> Configuration:
    """Choose by GC, by default with SL [GS 3]."""
    found = by_rates(feeding_graph(queries, sizes.groups.keys()), sizes, memory_bytes, prices, allocate)
    return found.tree.with_entries(found.entries)


def greedy_by_space(
    queries: Iterable[Iterable[str]],
    sizes: Sizes,
    memory_bytes: int,
    prices: Prices = DEFAULT_PRICES,
    entries_per_group: float = 1.0,
) -> Configuration:
    """Choose by GS; `entries_per_group` is the paper's phi [GS 3.4]."""
    graph = feeding_graph(queries, sizes.groups.keys())
    found = by_space(graph, sizes, memory_bytes, prices, entries_per_group)
    return found.tree.with_entries(found.entries)


class Instance:
    """Queries over a stream in an amount of memory, and all ways to choose for them."""

    def __init__(self, stream: Stream, queries: Sequence[str], units: int) -> None:
        self.stream, self.queries, self.units = stream, queries, units
        self.sizes, self.memory_bytes = stream.sizes, units * UNIT_BYTES

    @property
    def name(self) -> str:
        return " ".join(self.queries)

    def by_rates(self, allocate: Allocation = supernode_linear) -> Configuration:
        return greedy_by_rates(self.queries, self.sizes, self.memory_bytes, allocate=allocate)

    def by_space(self, phi: float) -> Configuration:
        return greedy_by_space(self.queries, self.sizes, self.memory_bytes, entries_per_group=phi)

    @cached_property
    def best(self) -> Configuration:
        return best_of_all(self.queries, self.sizes, self.memory_bytes)

    def alone(self) -> Configuration:
        known = {frozenset(query): self.sizes.groups[frozenset(query)] for query in self.queries}
        return greedy_by_rates(self.queries, replace(self.sizes, groups=known), self.memory_bytes)

    def choose_phantoms(self) -> Configuration:
        return choose(
            self.queries,
            self.sizes.groups,
            self.memory_bytes,
            self.sizes.flow_length,
            attribute_bytes=UNIT_BYTES,
            aggregate_bytes=UNIT_BYTES,
        )

    def compute_cost(self, configuration: Configuration, *, is_sifted: bool = False) -> float:
        return cost(configuration, self.sizes, is_sifted=is_sifted).maintenance


def choices(instances: Sequence[Instance], report: Report) -> Iterator[Choice]:
    for place, asked in enumerate(instances):
        report(place, len(instances))
        yield Choice(
            asked.stream.data,
            asked.name,
            asked.units,
            asked.compute_cost(asked.by_rates()),
            {f"{phi:g}": asked.compute_cost(asked.by_space(phi)) for phi in PHIS},
            asked.compute_cost(asked.best),
            asked.compute_cost(asked.choose_phantoms()),
            asked.compute_cost(asked.alone()),
            least_ms(asked.by_rates),
            least_ms(asked.choose_phantoms),
        )


def least_ms(choice: Callable[[], Configuration]) -> float:
    """Return the least of several times: others may use the machine."""
    taken = []
    for _ in range(TIMED):
        taken.append(1_000 * processor_seconds(choice))
    return min(taken)


# Figures 11 and 12


def one_by_one(asked: Instance) -> dict[str, list[float]]:
    """Return the cost while the phantoms that each way chooses join, from none to all of them."""
    steps = {
        GC: join_phantoms(asked, asked.by_rates(), supernode_linear),
        "GC+PL": join_phantoms(asked, asked.by_rates(proportional_linear), proportional_linear),
    }
    return steps | {f"GS {phi:g}": join_phantoms(asked, asked.by_space(phi), proportional_linear) for phi in PHIS}


def join_phantoms(asked: Instance, configuration: Configuration, allocate: Allocation) -> list[float]:
    """Add always the one that leaves the least cost, which is the order of GC."""
    graph = feeding_graph(asked.queries, asked.sizes.groups.keys())

    def price_phantoms(phantoms: frozenset[Relation]) -> float:
        tree = build_tree(graph, phantoms, asked.sizes)
        spaces = allocate(tree, asked.memory_bytes, DEFAULT_PRICES)
        return divide_memory(tree, spaces, asked.memory_bytes, DEFAULT_PRICES).paid

    waiting = {configuration.tables[place].attributes for place in configuration.phantoms}
    chosen = frozenset[Relation]()
    costs = [price_phantoms(chosen)]
    while waiting:
        price, _, joined = min((price_phantoms(chosen | {phantom}), sorted(phantom), phantom) for phantom in waiting)
        costs.append(price)
        chosen |= {joined}
        waiting.remove(joined)
    return costs


# Figures 13 to 15


def measure_schemes(instances: Sequence[Instance], hashes: int, report: Report) -> Iterator[Cost]:
    """Measure each scheme; of GS the entries per group that are cheapest when measured."""
    for place, asked in enumerate(instances):
        report(place, len(instances))
        found = {GC: asked.by_rates(), BEST: asked.best, CHOSEN: asked.choose_phantoms(), ALONE: asked.alone()}
        yield from (measure_scheme(asked, name, each, hashes) for name, each in found.items())
        by_space = dict.fromkeys(asked.by_space(phi) for phi in PHIS)
        yield min((measure_scheme(asked, GS, each, hashes) for each in by_space), key=lambda each: each.measured)


def measure_scheme(asked: Instance, scheme: str, configuration: Configuration, hashes: int) -> Cost:
    found = measure_costs(configuration, asked.stream, hashes)
    return Cost(
        asked.stream.data,
        asked.name,
        asked.units,
        scheme,
        notation(tree_of(configuration, asked.sizes)),
        asked.compute_cost(configuration),
        asked.compute_cost(configuration, is_sifted=True),
        found.maintenance,
        cost(configuration, asked.sizes).end_of_epoch,
        found.end_of_epoch,
        DEFAULT_PRICES.eviction * sum(asked.sizes.groups_of(frozenset(query)) for query in asked.queries),
    )


def repairs(asked: Instance, hashes: int) -> Iterator[Repair]:
    found = asked.by_rates()
    modelled, unlimited = cost(found, asked.sizes), measure_costs(found, asked.stream, hashes)
    for percent in LIMIT_PERCENTS:
        for name, way in WAYS.items():
            kept = way(found, asked.sizes, percent / 100 * modelled.end_of_epoch, DEFAULT_PRICES)
            if kept is not None:
                paid = measure_costs(kept, asked.stream, hashes)
                yield Repair(
                    asked.stream.data,
                    asked.name,
                    asked.units,
                    percent,
                    name,
                    paid.maintenance,
                    unlimited.maintenance,
                    paid.end_of_epoch,
                )
