"""Sizes under which the end of an epoch is quick enough: by smaller tables, or smaller ones for queries [GS 3.2, 6]."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from benchmarks.phantoms.model import end_of_epoch, entries_of, tree_of
from headrace.planner.phantoms.collisions import Numbers
from headrace.planner.phantoms.configuration import Configuration
from headrace.planner.phantoms.costs import Prices, maintenance
from headrace.planner.phantoms.table_tree import Sizes

STEPS = 128
Resize = Callable[[float], Numbers]


def repair(
    configuration: Configuration, sizes: Sizes, end_of_epoch_limit: float, prices: Prices | None = None
) -> Configuration:
    """The cheaper per record of the two ways, where the limit is not kept already. A small excess is shifted away, a
    large one calls for less memory.
    """
    prices = prices or Prices()
    tree, entries = tree_of(configuration, sizes), entries_of(configuration)
    if end_of_epoch(tree, entries, prices) <= end_of_epoch_limit:
        return configuration
    ways = [way(configuration, sizes, end_of_epoch_limit, prices) for way in (shrink, shift)]
    kept = [resized for resized in ways if resized is not None]
    if not kept:
        raise ValueError(f"no sizes of {len(configuration.tables)} tables keep the end of an epoch below the limit")
    return min(kept, key=lambda resized: float(maintenance(tree, entries_of(resized), prices)))


def shrink(configuration: Configuration, sizes: Sizes, limit: float, prices: Prices) -> Configuration | None:
    """Make all tables smaller by the same factor."""
    entries = entries_of(configuration)
    return least_change(configuration, sizes, limit, prices, lambda part: np.maximum(1.0, np.floor(entries * part)))


def shift(configuration: Configuration, sizes: Sizes, limit: float, prices: Prices) -> Configuration | None:
    """What queries give up goes to the phantoms, as their sizes are; evictions cost more than probes."""
    entries, width = entries_of(configuration), tree_of(configuration, sizes).entry_bytes
    is_query = np.array([table.is_query for table in configuration.tables])
    if is_query.all():
        return None

    def resize(part: float) -> Numbers:
        smaller = np.where(is_query, np.maximum(1.0, np.floor(entries * part)), entries)
        freed = float((entries - smaller) @ width)
        growth = 1.0 + freed / float((entries * width)[~is_query].sum())
        return np.where(is_query, smaller, np.floor(entries * growth))

    return least_change(configuration, sizes, limit, prices, resize)


def least_change(
    configuration: Configuration, sizes: Sizes, limit: float, prices: Prices, resize: Resize
) -> Configuration | None:
    """The largest part that keeps the limit. The cost need not fall all the way with the part: larger phantoms flush
    more into smaller queries. So all steps are tried at once, then those between two of them.
    """
    tree = tree_of(configuration, sizes)

    def first(upper: float, lower: float) -> float | None:
        parts = np.linspace(upper, lower, STEPS + 1)
        keeps = end_of_epoch(tree, np.array([resize(part) for part in parts]), prices) <= limit
        return float(parts[keeps.argmax()]) if keeps.any() else None

    part = first(1.0, 0.0)
    if part is None:
        return None
    finer = first(min(1.0, part + 1 / STEPS), part)
    entries = resize(part if finer is None else finer)
    return resize_tables(configuration, entries)


def resize_tables(configuration: Configuration, entries: Numbers) -> Configuration:
    pairs = zip(configuration.tables, entries, strict=True)
    return Configuration(tuple(replace(table, entries=int(count)) for table, count in pairs))
