"""How states that grow with what they see are kept in a node, by the sample; `explain` shows it [UDAF 8]."""

from __future__ import annotations

from headrace.aggregates.partials import COUNTERS, Partial
from headrace.planner.cost import Cost
from headrace.planner.nodes import Node

EXACT = {"quantiles": 400, "distinct": 384, "counters": COUNTERS}
"""Up to so many items a state is exact."""
FEW_REPEAT = 0.9


def strategy(partial: Partial, node: Node, cost: Cost) -> str | None:
    """None for states of a fixed size. In skewed data a few items come again and again: a list of them with counts is
    shipped (compress), and the high level keeps lists until they are long (adaptive).
    """
    if partial.traits.items is None:
        return None
    items, rows = cost.items(partial, node), cost.sample.rows(node)
    seen = cost.sample.batch_rows * cost.sample.selectivity(node.keep) / rows if rows else 0.0
    exact = max(EXACT.get(partial.kind, 0), partial.size)
    if partial.kind == "counters":
        how = "low sketch" if items >= exact else "buffer" if items > FEW_REPEAT * seen > 1 else "compress"
    else:
        how = "exact" if items < exact or partial.kind in ("values", "multiset") else "sketch"
    return f"{how}, about {max(1, round(items)):,} items"
