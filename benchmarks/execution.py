"""Run a plan's tree over rows and count: the rows that each node takes and gives, and count(*) for every answer.

No engine runs: each row of a node is represented by one row of the stream, with the number of rows behind it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from headrace.model.windows import AnyWindow, SlicedWindow
from headrace.planner.lattice import Node
from headrace.planner.plan import STREAM, Plan
from headrace.planner.statistics import BatchSample

Numbers = npt.NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class NodeRun:
    """`taken` rows of the parent were folded or combined into the rows of `sample`, each standing for `counts` rows."""

    taken: int
    sample: BatchSample
    counts: Numbers


def run_tree(nodes: Sequence[Node], parents: Sequence[int], rows: BatchSample) -> list[NodeRun]:
    """Run all nodes, parents first, each from its parent's rows alone."""
    runs: list[NodeRun] = []
    for node, parent in zip(nodes, parents, strict=True):
        whole = NodeRun(0, rows, np.ones(len(rows.times_us), dtype=np.int64)) if parent == STREAM else runs[parent]
        runs.append(run_node(node, whole))
    return runs


def run_plan(plan: Plan, rows: BatchSample) -> list[NodeRun]:
    return run_tree([each.node for each in plan.nodes], [each.parent for each in plan.nodes], rows)


def run_node(node: Node, parent: NodeRun) -> NodeRun:
    kept = np.flatnonzero(parent.sample.mask_kept(node.keep))
    keys = parent.sample.keys(node)[kept]
    _, first, inverse = np.unique(keys, return_index=True, return_inverse=True)
    counts = np.bincount(inverse, weights=parent.counts[kept], minlength=len(first)).astype(np.int64)
    return NodeRun(len(kept), parent.sample.take(kept[first]), counts)


def windows_combined(plan: Plan, runs: Sequence[NodeRun], until_us: int) -> int:
    """Count the partials combined into the windows that end by `until_us`: each into every window it lies in."""
    total = 0
    for answer in plan.answers:
        sample = runs[answer.place].sample
        times_us = sample.times_us[sample.mask_kept(answer.leaf.node.keep)]
        total += sum(memberships(ask.window, times_us, until_us) for ask in answer.leaf.asks)
    return total


def memberships(window: AnyWindow, times_us: Numbers, until_us: int) -> int:
    """Count the instances that end by `until_us`, once for each row that lies in them."""
    if isinstance(window, SlicedWindow):
        return len(times_us)
    last = np.minimum(times_us + window.range_us, until_us)
    ends = (last - window.offset_us) // window.slide_us - (times_us - window.offset_us) // window.slide_us
    return int(np.maximum(ends, 0).sum())
