"""What the data are like: the rows that a node would have, estimated from a sample of one batch."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import numpy.typing as npt
import pyarrow.compute as pc

from headrace.expressions.evaluation import Evaluation
from headrace.model.expressions import Expression
from headrace.planner.nodes import EVERYTHING, Node
from headrace.predicates import Dimension, Predicate
from headrace.windows import Boundaries, boundaries_between

Codes = npt.NDArray[np.int64]


def guaranteed_error_estimate(counts: npt.NDArray[np.intp], total_rows: float) -> float:
    """Distinct values among `total_rows` rows, from how often each value occurs in a sample of them.

    The estimator GEE of Charikar, Chaudhuri, Motwani and Narasayya (2000), which NFC cites: values seen once stand for
    sqrt(rows / sample) values each, the others for themselves. Its ratio error is of the order of sqrt(rows / sample),
    and no estimator has a better guarantee.
    """
    sample_rows = float(counts.sum())
    if sample_rows == 0:
        return 0.0
    once = float((counts == 1).sum())
    estimate = np.sqrt(max(1.0, total_rows / sample_rows)) * once + (len(counts) - once)
    return float(min(estimate, max(total_rows, len(counts))))


class Sample:
    """Rows drawn from one batch of `batch_rows` rows. What nodes have in common is computed once."""

    def __init__(self, evaluation: Evaluation, times_us: Codes, batch_rows: float) -> None:
        self.evaluation = evaluation
        self.times_us = times_us
        self.batch_rows = batch_rows
        self.known: dict[Node, float] = {}
        self.codes: dict[object, Codes] = {}

    def rows(self, node: Node) -> float:
        """The distinct (slice, cell, group) triples of the node in one batch."""
        found = self.known.get(node)
        if found is None:
            found = self.known[node] = self.estimate(node)
        return found

    def estimate(self, node: Node) -> float:
        kept = self.kept(node.keep)
        if not kept.any():
            return 0.0
        keys = np.zeros(int(kept.sum()), dtype=np.int64)
        for column in self.columns(node):
            _, compact = np.unique(column[kept], return_inverse=True)
            _, keys = np.unique(keys * (int(compact.max()) + 1) + compact, return_inverse=True)
        counts = np.bincount(keys)
        return guaranteed_error_estimate(counts, self.batch_rows * self.selectivity(node.keep))

    def columns(self, node: Node) -> Iterable[Codes]:
        yield self.slice_codes(node.boundaries)
        for dimension in node.dimensions:
            yield self.cell_codes(dimension)
        for tree in sorted(node.groups, key=repr):
            yield self.group_codes(tree)

    def selectivity(self, keep: frozenset[Predicate]) -> float:
        return float(self.kept(keep).mean()) if len(self.times_us) else 0.0

    def kept(self, keep: frozenset[Predicate]) -> npt.NDArray[np.bool_]:
        passes = np.zeros(len(self.times_us), dtype=np.bool_)
        for predicate in keep:
            passes |= self.passing(predicate)
        return passes

    def passing(self, predicate: Predicate) -> npt.NDArray[np.bool_]:
        if predicate == EVERYTHING or predicate.tree is None:
            return np.ones(len(self.times_us), dtype=np.bool_)
        values = self.evaluation.evaluate(predicate.tree).values
        return np.asarray(pc.fill_null(values, False), dtype=np.bool_)

    def slice_codes(self, boundaries: tuple[Boundaries, ...]) -> Codes:
        if boundaries not in self.codes:
            first, last = int(self.times_us.min(initial=0)), int(self.times_us.max(initial=0))
            cuts = boundaries_between(boundaries, first, last)
            self.codes[boundaries] = np.searchsorted(cuts, self.times_us, side="right")
        return self.codes[boundaries]

    def cell_codes(self, dimension: Dimension) -> Codes:
        if dimension not in self.codes:
            values = self.evaluation.evaluate(dimension.expression).values
            self.codes[dimension] = dimension.codes(values).astype(np.int64)
        return self.codes[dimension]

    def group_codes(self, tree: Expression) -> Codes:
        if tree not in self.codes:
            encoded = self.evaluation.evaluate(tree).values.dictionary_encode()
            indices = pc.fill_null(encoded.indices, len(encoded.dictionary))
            self.codes[tree] = np.asarray(indices).astype(np.int64)
        return self.codes[tree]
