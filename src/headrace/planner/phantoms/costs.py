"""What a configuration costs: per record while an epoch runs, and once at its end [GS 3.2]."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from headrace.planner.phantoms.collisions import Numbers, precise
from headrace.planner.phantoms.configuration import Configuration
from headrace.planner.phantoms.layout import Layout, layout_for
from headrace.planner.phantoms.sizes import Sizes

Amount = Any
"""A number, or an array with one for each of many allocations: the same formulas serve both."""


@dataclass(frozen=True, slots=True)
class Prices:
    """Of one update of a table, and of sending one entry off the edge; 1 to 50 in the paper's system [GS 6.1]."""

    probe: float = 1.0
    eviction: float = 50.0

    def __post_init__(self) -> None:
        if not (self.probe > 0 and self.eviction > 0):
            raise ValueError("prices are above zero")


class Costs(NamedTuple):
    maintenance: float
    """Per record of the stream [GS equation 7]; times the records of an epoch it is equation 4."""
    end_of_epoch: float


def cost(configuration: Configuration, sizes: Sizes, prices: Prices | None = None, *, is_sifted: bool = False) -> Costs:
    """By the paper's model, which configurations are chosen by. Sifted, the maintenance cost is closer to what will be
    measured where tables feed tables that feed tables.
    """
    prices = prices or Prices()
    layout = layout_for(configuration, sizes)
    entries = np.array([table.entries for table in configuration.tables], dtype=np.float64)
    rates = layout.sifted_rates(entries) if is_sifted else layout.rates(entries)
    return Costs(float(per_record(layout, rates, prices)), float(end_of_epoch(layout, entries, prices)))


def bytes_of(configuration: Configuration, sizes: Sizes) -> int:
    return sum(table.entries * sizes.entry_bytes(table.attributes) for table in configuration.tables)


def maintenance(layout: Layout, entries: npt.ArrayLike, prices: Prices) -> Amount:
    """Of any number of allocations at once."""
    return per_record(layout, layout.rates(entries), prices)


def per_record(layout: Layout, all_rates: Numbers, prices: Prices) -> Amount:
    """Equation 7. Where one query feeds another, what it evicts leaves the edge too: the paper has only leaves pay for
    that, and no query above another.
    """
    rates = by_table(all_rates)
    total: Amount = 0.0
    for place, arriving in enumerate(records_fed(layout, rates)):
        leaving = rates[place] * prices.eviction if layout.is_query[place] else 0.0
        total = total + arriving * (prices.probe + leaving)
    return total


def records_fed(layout: Layout, rates: Sequence[Amount]) -> list[Amount]:
    """How many records reach each table per record of the stream: the rates above it, multiplied [GS equation 5]."""
    arriving: list[Amount] = []
    for parent in layout.parents:
        arriving.append(1.0 if parent is None else arriving[parent] * rates[parent])
    return arriving


def end_of_epoch(layout: Layout, entries: npt.ArrayLike, prices: Prices) -> Amount:
    """Equation 8: tables are emptied from the top. Each entry of a table, and each that is pushed out of it by entries
    from above, goes to every child and, of a query, off the edge. Every entry is taken to be in use, so that more
    groups than foreseen do not break a limit. Other than in the paper rates are those without flows: when a table is
    emptied, each of its groups comes but once.
    """
    sizes = by_table(np.asarray(entries, dtype=np.float64))
    rates = by_table(precise(layout.groups, entries))
    total: Amount = 0.0
    leaving: list[Amount] = []
    for place, parent in enumerate(layout.parents):
        arriving = 0.0 if parent is None else leaving[parent]
        leaving.append(sizes[place] + arriving * rates[place])
        shipped = leaving[place] * prices.eviction if layout.is_query[place] else 0.0
        total = total + arriving * prices.probe + shipped
    return total


def by_table(values: Numbers) -> list[Amount]:
    """Plain numbers of one allocation: an array of one element is many times slower."""
    tables: list[Amount] = values.tolist() if values.ndim == 1 else list(np.moveaxis(values, -1, 0))
    return tables
