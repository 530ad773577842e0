"""What the data are like: the rows that a node would have, estimated from a sample of one batch."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from headrace.expressions.evaluation import Evaluation
from headrace.expressions.static_tables import Data, Partners
from headrace.model.arrays import Mask
from headrace.model.arrow import one_array
from headrace.model.errors import DataError
from headrace.model.expressions import Expression
from headrace.model.query import Query
from headrace.model.stable_names import stable_text
from headrace.model.time import SECOND_US
from headrace.planner.lattice import EVERYTHING, Node, is_matched
from headrace.predicates import Dimension, Predicate
from headrace.windows import Boundaries, slices_holding

Codes = npt.NDArray[np.int64]
MAX_KEYS = 1 << 62
SAMPLE_ROWS = 20_000
RARE = 2
"""A value that a sample holds at most this often says nothing yet about its frequency."""


class RowCodes(NamedTuple):
    """A small number for each row, below `size`."""

    codes: Codes
    size: int


def distinct_estimate(counts: npt.NDArray[np.intp], total_rows: float) -> float:
    """Distinct values among `total_rows` rows, from how often each value occurs in a sample of them.

    GEE has a guarantee, but of n rows out of N it never says more than sqrt(N * n). The other estimate sees how rare
    the rare values are, and falls short where some are much rarer than others: then the truth lies between the two
    (docs/decisions/0003).
    """
    if not len(counts):
        return 0.0
    once, twice = float((counts == 1).sum()), float((counts == 2).sum())
    seen, growth = float(len(counts)), max(1.0, total_rows / float(counts.sum()))
    guaranteed = guaranteed_error_estimate(seen, once, growth)
    fitted = equal_rarity_estimate(seen, once, twice, growth)
    estimate = math.sqrt(guaranteed * fitted) if guaranteed > fitted else fitted
    return min(estimate, max(total_rows, seen))


def guaranteed_error_estimate(seen: float, once: float, growth: float) -> float:
    """GEE, of Charikar, Chaudhuri, Motwani and Narasayya (2000), which NFC cites: values seen once stand for
    sqrt(growth) values each, the others for themselves. No estimator has a better guarantee on its ratio error.
    """
    return math.sqrt(growth) * once + (seen - once)


def equal_rarity_estimate(seen: float, once: float, twice: float, growth: float) -> float:
    """As if the values seen once or twice came from a set of equally rare ones: how many of them more rows will show.

    Of m values, each expected x times in the sample, m * x * exp(-x) are seen once and x / 2 times as many twice.
    """
    if twice == 0 or once == 0:
        return seen + once * (growth - 1.0)
    expected = 2.0 * twice / once
    unseen = once / expected  # m * exp(-x), since m * x * exp(-x) were seen once
    return seen - unseen * math.expm1(-expected * (growth - 1.0))


def meeting_estimate(counts: npt.NDArray[np.intp], total_rows: float, places: float) -> float:
    """The share of `total_rows` rows that find one of their own value in a table where the last comer has the place,
    from how often each value occurs in a sample of them.

    From one row of a value that comes c times to its next there are total_rows / c others, and each takes the place
    away with a chance of 1 / places. Values seen once or twice are taken for equally rare.
    """
    if not len(counts):
        return 0.0
    others = total_rows / places
    often = counts[counts > RARE] * max(1.0, total_rows / float(counts.sum()))
    rare_rows = max(0.0, total_rows - float(often.sum()))
    rare = max(1.0, rare_rows / max(1.0, distinct_estimate(counts, total_rows) - len(often)))
    met = float(((often - 1.0) * often / (often + others)).sum()) + rare_rows * (rare - 1.0) / (rare + others)
    return met / total_rows


class BatchSample:
    """Rows drawn from one batch of `batch_rows` rows. What nodes have in common is computed once."""

    def __init__(self, evaluation: Evaluation, times_us: Codes, batch_rows: float) -> None:
        self.evaluation = evaluation
        self.times_us = times_us
        self.batch_rows = batch_rows
        self.first_us, self.last_us = (int(times_us.min()), int(times_us.max())) if len(times_us) else (0, 0)
        self.known_rows: dict[Node, float] = {}
        self.known_repeats: dict[tuple[Node, int], float] = {}
        self.known_spaces: dict[Node, float] = {}
        self.known_shares: dict[frozenset[Predicate], float] = {}
        self.known_columns: dict[object, RowCodes] = {}
        self.known_masks: dict[Predicate | frozenset[Predicate], Mask] = {}

    @property
    def rows_per_s(self) -> float:
        """The rate of the stream in this batch, by event time."""
        return self.batch_rows * SECOND_US / max(1, self.last_us - self.first_us)

    def take(self, rows: npt.NDArray[np.intp]) -> BatchSample:
        """The sample of these rows alone."""
        places = pa.array(rows)
        known = self.evaluation
        columns = {name: column.take(places) for name, column in known.columns.items()}
        partners = {tree: column.values.take(places) for tree, column in known.computed.items() if is_matched(tree)}
        evaluation = Evaluation(columns, len(rows), known.functions.values(), known.zone, partners)
        return BatchSample(evaluation, self.times_us[rows], float(len(rows)))

    def rows(self, node: Node) -> float:
        """The distinct (slice, cell, group) triples of the node in one batch."""
        if node not in self.known_rows:
            rows = self.batch_rows * self.selectivity(node.keep)
            self.known_rows[node] = distinct_estimate(self.triple_counts(node), rows)
        return self.known_rows[node]

    def triple_counts(self, node: Node) -> npt.NDArray[np.intp]:
        """How often each triple of the node occurs in the sample."""
        return np.unique_counts(self.keys(node)[self.mask_kept(node.keep)]).counts

    def repeats(self, node: Node, places: int) -> float:
        """Return the share of the rows of a batch that find one of their own triple in a table of `places` places.

        Rows come slice after slice.
        """
        key = node, places
        if key not in self.known_repeats:
            in_slice = places * max(1, self.slices(node.boundaries).size)
            rows = self.batch_rows * self.selectivity(node.keep)
            self.known_repeats[key] = meeting_estimate(self.triple_counts(node), rows, in_slice)
        return self.known_repeats[key]

    def keys(self, node: Node) -> Codes:
        """One number for each row, the same for rows of the same triple."""
        keys, size = np.zeros(len(self.times_us), dtype=np.int64), 1
        for column in self.columns(node):
            if size * column.size > MAX_KEYS:
                keys, size = compact(keys)
            keys, size = keys * column.size + column.codes, size * column.size
        return keys

    def columns(self, node: Node) -> Iterable[RowCodes]:
        yield self.slices(node.boundaries)
        for dimension in node.dimensions:
            yield self.cells(dimension)
        for tree in sorted(node.groups, key=stable_text):
            yield self.values(tree)

    def key_space(self, node: Node) -> float:
        """How many keys a dense array would hold: slices x cells x groups, whether they occur or not."""
        if node not in self.known_spaces:
            self.known_spaces[node] = math.prod(float(column.size) for column in self.columns(node))
        return self.known_spaces[node]

    def selectivity(self, keep: frozenset[Predicate]) -> float:
        if keep not in self.known_shares:
            self.known_shares[keep] = float(self.mask_kept(keep).mean()) if len(self.times_us) else 0.0
        return self.known_shares[keep]

    def mask_kept(self, keep: frozenset[Predicate]) -> Mask:
        if keep not in self.known_masks:
            passes = np.zeros(len(self.times_us), dtype=np.bool_)
            for predicate in keep:
                passes |= self.passing(predicate)
            self.known_masks[keep] = passes
        return self.known_masks[keep]

    def passing(self, predicate: Predicate) -> Mask:
        if predicate not in self.known_masks:
            if predicate == EVERYTHING or predicate.tree is None:
                self.known_masks[predicate] = np.ones(len(self.times_us), dtype=np.bool_)
            else:
                values = self.evaluation.evaluate(predicate.tree).values
                self.known_masks[predicate] = np.asarray(pc.fill_null(values, False), dtype=np.bool_)
        return self.known_masks[predicate]

    def slices(self, boundaries: tuple[Boundaries, ...]) -> RowCodes:
        if boundaries not in self.known_columns:
            slices, codes = slices_holding(boundaries, self.times_us)
            self.known_columns[boundaries] = RowCodes(codes.astype(np.int64), len(slices.starts_us))
        return self.known_columns[boundaries]

    def cells(self, dimension: Dimension) -> RowCodes:
        if dimension not in self.known_columns:
            values = self.evaluation.evaluate(dimension.expression).values
            self.known_columns[dimension] = RowCodes(dimension.codes(values).astype(np.int64), dimension.size)
        return self.known_columns[dimension]

    def values(self, tree: Expression) -> RowCodes:
        if tree not in self.known_columns:
            encoded = self.evaluation.evaluate(tree).values.dictionary_encode()
            indices = pc.fill_null(encoded.indices, len(encoded.dictionary))
            self.known_columns[tree] = RowCodes(np.asarray(indices).astype(np.int64), len(encoded.dictionary) + 1)
        return self.known_columns[tree]


def compact(keys: Codes) -> RowCodes:
    """The same keys as numbers without gaps."""
    distinct, codes = np.unique(keys, return_inverse=True)
    return RowCodes(codes.astype(np.int64), len(distinct))


def draw(
    data: Data,
    queries: Iterable[Query],
    batch_rows: int | None = None,
    sample_rows: int | None = SAMPLE_ROWS,
    seed: int = 0,
) -> BatchSample:
    """Draw rows from one batch in the middle of the data; `sample_rows` None takes every row of it.

    Without `batch_rows` all data are one batch.
    """
    batch = middle(data.rows, batch_rows)
    counted = batch.filter(pc.is_valid(batch[data.stream.event_time]))
    if counted.num_rows == 0:
        raise DataError("no-data", f"there is no row with an event time in {data.stream.name}")
    rows = counted if sample_rows is None else draw_rows(counted, sample_rows, seed)
    times = one_array(rows[data.stream.event_time]).cast(pa.int64())
    return BatchSample(Partners(data, queries).evaluation(rows), np.asarray(times), float(counted.num_rows))


def middle(rows: pa.Table, batch_rows: int | None) -> pa.Table:
    if batch_rows is None or batch_rows >= rows.num_rows:
        return rows
    return rows.slice((rows.num_rows - batch_rows) // 2, batch_rows)


def draw_rows(rows: pa.Table, count: int, seed: int) -> pa.Table:
    if rows.num_rows <= count:
        return rows
    rng = np.random.default_rng(seed)
    return rows.take(pa.array(np.sort(rng.choice(rows.num_rows, count, replace=False))))
