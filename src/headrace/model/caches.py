"""Caches of values that are computed from parts of plans: nodes, dimensions, predicates, queries.

When queries come and go, each plan has parts that no plan before it had. A cache that is only bounded by its size keeps
those of thousands of former plans, so a process forgets all parts after some number of plans.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import _lru_cache_wrapper, lru_cache
from typing import Any, TypeVar

MAX_ENTRIES = 4_096
MAX_PLANS = 32
"""How many plans are noted before the caches are emptied; the next step fills them again."""

T = TypeVar("T")

CACHES: list[_lru_cache_wrapper[Any]] = []
PLANS: set[str] = set()
"""The plans that this process used since the caches were emptied."""


def cached(function: Callable[..., T]) -> _lru_cache_wrapper[T]:
    """Keep what the function returns for parts of recent plans."""
    cache = lru_cache(maxsize=MAX_ENTRIES)(function)
    CACHES.append(cache)
    return cache


def note_plan(name: str) -> None:
    """Note that a step uses a plan; empty the caches if there were many others."""
    if name not in PLANS and len(PLANS) >= MAX_PLANS:
        PLANS.clear()
        for cache in CACHES:
            cache.cache_clear()
    PLANS.add(name)
