"""Divide memory by moving space to where a byte saves most [GS 5.2].

With rates on a line through zero the cost is a sum of products of powers of the spaces, so it is convex in their
logarithms and what the ascent finds is the optimum. The precise rates level off at 1, which can make a second optimum
where a table is given up; so the search may begin at several places.
"""

from __future__ import annotations

import numpy as np

from headrace.planner.phantoms.collisions import Numbers, precise_slope
from headrace.planner.phantoms.costs import Prices, by_table, maintenance, records_fed
from headrace.planner.phantoms.layout import Layout

MAX_ROUNDS = 120
MIN_STEP = 1e-3


def ascent(layout: Layout, spaces: Numbers, prices: Prices, tolerance: float = 1e-7) -> Numbers:
    """Move space to where a byte saves most, for all rows of `spaces` at once, until a byte saves the same everywhere.

    Rates are about inverse to space, savings to its square: hence the root of the savings as a factor.
    """
    total = spaces.sum(axis=1, keepdims=True)
    least = layout.entry_bytes.astype(np.float64)
    spaces = np.maximum(spaces, least)
    spaces *= total / spaces.sum(axis=1, keepdims=True)
    paid = maintenance(layout, spaces / least, prices)
    power = np.full((len(spaces), 1), 0.5)
    for _ in range(MAX_ROUNDS):
        tried = spaces * np.maximum(savings(layout, spaces, prices), 1e-300) ** power
        tried = np.maximum(tried * (total / tried.sum(axis=1, keepdims=True)), least)
        tried *= total / tried.sum(axis=1, keepdims=True)
        price = maintenance(layout, tried / least, prices)
        better = price < paid
        gained = float(((paid - price) / paid)[better].max(initial=0.0))
        spaces = np.where(better[:, None], tried, spaces)
        paid = np.minimum(price, paid)
        power = np.where(better[:, None], power, power / 2)
        if gained < tolerance and (better | (power[:, 0] < MIN_STEP)).all():
            break
    return spaces


def savings(layout: Layout, spaces: Numbers, prices: Prices) -> Numbers:
    """Return by how much one more byte of each table makes a record cheaper."""
    entries = spaces / layout.entry_bytes
    rates = by_table(layout.rates(entries))
    arriving = records_fed(layout, rates)
    burden = evicting(layout, rates, prices)
    saved = [each * weight for each, weight in zip(arriving, burden, strict=True)]
    slopes = precise_slope(layout.groups, entries) / layout.flow_lengths / layout.entry_bytes
    return -np.stack(saved, axis=-1) * slopes


def evicting(layout: Layout, rates: list[Numbers], prices: Prices) -> list[Numbers]:
    """Return what one eviction from each table costs at once and further down."""
    burden = [np.full_like(rates[0], asked * prices.eviction) for asked in layout.is_query]
    for place in range(len(rates) - 1, -1, -1):
        parent = layout.parents[place]
        if parent is not None:
            burden[parent] = burden[parent] + prices.probe + rates[place] * burden[place]
    return burden
