"""What a configuration costs by the model: per record while an epoch runs, and once at its end [GS 3.2]."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from headrace.planner.phantoms.collisions import Numbers, at_least_one, clustered_rates, log_missed, precise
from headrace.planner.phantoms.configuration import Configuration
from headrace.planner.phantoms.costs import Amount, Prices, by_table, per_record
from headrace.planner.phantoms.table_tree import Sizes, TableTree, with_sizes


class Costs(NamedTuple):
    maintenance: float
    """Per record of the stream [GS equation 7]; times the records of an epoch it is equation 4."""
    end_of_epoch: float


def cost(configuration: Configuration, sizes: Sizes, prices: Prices | None = None, *, is_sifted: bool = False) -> Costs:
    """Compute the costs by the paper's model, which configurations are chosen by.

    Sifted, the maintenance cost is closer to what will be measured where tables feed tables that feed tables.
    """
    prices = prices or Prices()
    tree, entries = tree_of(configuration, sizes), entries_of(configuration)
    rates = sifted_rates(tree, entries) if is_sifted else tree.rates(entries)
    return Costs(float(per_record(tree, rates, prices)), float(end_of_epoch(tree, entries, prices)))


def tree_of(configuration: Configuration, sizes: Sizes) -> TableTree:
    tables = configuration.tables
    return with_sizes(
        tuple(table.attributes for table in tables),
        [table.parent for table in tables],
        [table.is_query for table in tables],
        sizes,
    )


def entries_of(configuration: Configuration) -> Numbers:
    return np.array([table.entries for table in configuration.tables], dtype=np.float64)


def bytes_of(configuration: Configuration, sizes: Sizes) -> int:
    return sum(table.entries * sizes.entry_bytes(table.attributes) for table in configuration.tables)


def sifted_rates(tree: TableTree, entries: npt.ArrayLike) -> Numbers:
    """Let only those groups of a table reach its children that have company in their bucket.

    The paper has all of them arrive, so its rates are too high below the first table, and the more so the lower they
    are.
    """
    counts = np.asarray(entries, dtype=np.float64)
    arriving: list[Numbers] = []
    passing: list[Numbers] = []
    for place, parent in enumerate(tree.parents):
        every = tree.groups[place]
        if parent is None:
            arriving.append(np.full(counts.shape[:-1], every))
        else:
            finer = tree.groups[parent]
            missed = np.log1p(-np.minimum(passing[parent] / finer, 1.0 - 1e-12))
            arriving.append(every * -np.expm1(max(1.0, finer / every) * missed))
        passing.append(arriving[place] * crowded_rates(arriving[place], counts[..., place]))
    return clustered_rates(precise(np.stack(arriving, axis=-1), counts), tree.flow_lengths)


def crowded_rates(groups: npt.ArrayLike, buckets: npt.ArrayLike) -> Numbers:
    """Return the part of the groups that share their bucket with another: only those are ever pushed out."""
    return -np.expm1((at_least_one(groups) - 1.0) * log_missed(at_least_one(buckets)))


def end_of_epoch(tree: TableTree, entries: npt.ArrayLike, prices: Prices) -> Amount:
    """Equation 8: tables are emptied from the top. Each entry of a table, and each that is pushed out of it by entries
    from above, goes to every child and, of a query, off the edge. Every entry is taken to be in use, so that more
    groups than foreseen do not break a limit. Other than in the paper rates are those without flows: when a table is
    emptied, each of its groups comes but once.
    """
    sizes = by_table(np.asarray(entries, dtype=np.float64))
    rates = by_table(precise(tree.groups, entries))
    total: Amount = 0.0
    leaving: list[Amount] = []
    for place, parent in enumerate(tree.parents):
        arriving = 0.0 if parent is None else leaving[parent]
        leaving.append(sizes[place] + arriving * rates[place])
        shipped = leaving[place] * prices.eviction if tree.is_query[place] else 0.0
        total = total + arriving * prices.probe + shipped
    return total
