"""What the tables of a tree cost per record while an epoch runs [GS 3.2]."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from headrace.planner.phantoms.collisions import Numbers
from headrace.planner.phantoms.table_tree import TableTree

Amount = Any
"""A number, or an array with one for each of many allocations: the same formulas serve both."""


@dataclass(frozen=True, slots=True)
class Prices:
    """What one update of a table costs, and sending one entry off the edge; 1 to 50 in the paper's system [GS 6.1]."""

    probe: float = 1.0
    eviction: float = 50.0

    def __post_init__(self) -> None:
        if not (self.probe > 0 and self.eviction > 0):
            raise ValueError("prices are above zero")


def maintenance(tree: TableTree, entries: npt.ArrayLike, prices: Prices) -> Amount:
    """Return the cost per record, for any number of allocations at once."""
    return per_record(tree, tree.rates(entries), prices)


def per_record(tree: TableTree, all_rates: Numbers, prices: Prices) -> Amount:
    """Equation 7. Where one query feeds another, what it evicts leaves the edge too: the paper has only leaves pay for
    that, and no query above another.
    """
    rates = by_table(all_rates)
    total: Amount = 0.0
    for place, arriving in enumerate(records_fed(tree, rates)):
        leaving = rates[place] * prices.eviction if tree.is_query[place] else 0.0
        total = total + arriving * (prices.probe + leaving)
    return total


def records_fed(tree: TableTree, rates: Sequence[Amount]) -> list[Amount]:
    """How many records reach each table per record of the stream: the rates above it, multiplied [GS equation 5]."""
    arriving: list[Amount] = []
    for parent in tree.parents:
        arriving.append(1.0 if parent is None else arriving[parent] * rates[parent])
    return arriving


def by_table(values: Numbers) -> list[Amount]:
    """Plain numbers of one allocation: an array of one element is many times slower."""
    tables: list[Amount] = values.tolist() if values.ndim == 1 else list(np.moveaxis(values, -1, 0))
    return tables
