"""How states that grow with what they see come about in a node, by the sample; `explain` shows it [UDAF 8]."""

from __future__ import annotations

from headrace.aggregates.partials import Partial
from headrace.planner.cost import Cost
from headrace.planner.explain.labels import percent
from headrace.planner.plan import STREAM, PlannedNode


def strategy(partial: Partial, planned: PlannedNode, cost: Cost) -> str | None:
    """How rows are folded, where there is a choice, and whether the states are exact; None if they do not grow."""
    if partial.traits.items is None:
        return None
    items = cost.items(partial, planned.node)
    is_exact = partial.traits.equality != "bounded" or items < (partial.size or partial.traits.default_size)
    parts = [] if partial.traits.fold_choice is None or planned.parent != STREAM else [folding(partial, planned, cost)]
    parts += ["exact" if is_exact else "sketch", f"about {max(1, round(items)):,} items"]
    return ", ".join(parts)


def folding(partial: Partial, planned: PlannedNode, cost: Cost) -> str:
    """In skewed data the same items come again and again: equal rows are put together in a small table, and few are
    left to count (compress). In uniform data hardly two meet there: rows are counted as they come (buffer).
    """
    how = "compress" if partial in planned.compressed else "buffer"
    return f"{how} as {percent(cost.repeats(partial, planned.node))} of the rows repeat"
