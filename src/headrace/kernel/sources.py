"""What a node is computed from: rows of the stream, or the rows of another node. Both answer the same questions."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from datetime import UTC, tzinfo
from functools import lru_cache
from typing import Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from headrace.aggregates.partials import Partial
from headrace.expressions.columns import built
from headrace.expressions.evaluation import Evaluation
from headrace.kernel.coding import codes_of
from headrace.kernel.partials import Encoded, Integers, NodePartials, encode
from headrace.kernel.slots import Codes, Keys, Slots
from headrace.kernel.states import KINDS
from headrace.kernel.states_columns import Columns
from headrace.model.expressions import Call, Expression, children, with_children
from headrace.model.schema import UserFunction
from headrace.planner.nodes import EVERYTHING, is_longer_prefix
from headrace.predicates import Dimension, Predicate

Rows = npt.NDArray[np.int64]
"""Positions of the rows that are taken, in order."""
MOST_CELLS = 1 << 16
"""Of a table with an entry for every cell."""


class Source(Protocol):
    """Rows with a time, cells, groups and something to fold."""

    times_us: Integers
    keep: frozenset[Predicate]
    """The predicates whose rows are there."""

    def codes(self, dimension: Dimension) -> Codes:
        """The cell of each row in one dimension."""
        ...

    def cells(self, dimensions: tuple[Dimension, ...]) -> Integers:
        """The cell of each row, as one number: those of all dimensions, in their order, as digits."""
        ...

    def group(self, tree: Expression) -> Encoded:
        """The value of a group-by expression of each row, as numbers."""
        ...

    def columns(self, partial: Partial) -> Columns:
        """What each row adds to the partial; no column if it is the row itself that counts."""
        ...

    def fold(self, partial: Partial, slots: Slots, columns: Columns) -> Columns:
        """The partial of each slot."""
        ...


class StreamRows:
    """Rows of the stream, with their partners beside them. Each expression is evaluated and coded once."""

    def __init__(
        self,
        evaluation: Evaluation,
        times_us: Integers,
        finest: Mapping[Expression, Dimension],
        table_codes: Callable[[Dimension], Codes | None] = lambda dimension: None,
    ) -> None:
        """`table_codes` gives the cells of a dimension that is of a joined table alone."""
        self.table_codes = table_codes
        self.keep = frozenset((EVERYTHING,))
        self.evaluation = evaluation
        self.times_us = times_us
        self.finest = finest
        self.known_codes: dict[Dimension, Codes] = {}
        self.known_groups: dict[Expression, Encoded] = {}
        self.known_columns: dict[Partial, Columns] = {}

    def codes(self, dimension: Dimension) -> Codes:
        """Found by one search among the cuts of all nodes, then by a look-up."""
        finest = self.finest.get(dimension.expression, dimension)
        if finest != dimension:
            return np.take(finest.coarsen(dimension), self.codes(finest))
        if dimension not in self.known_codes:
            found = self.table_codes(dimension)
            self.known_codes[dimension] = self.searched(dimension) if found is None else found
        return self.known_codes[dimension]

    def cells(self, dimensions: tuple[Dimension, ...]) -> Integers:
        """Coarsened on the way."""
        digits = Keys(len(self.times_us))
        for dimension in dimensions:
            finest = self.finest.get(dimension.expression, dimension)
            table = None if finest == dimension else finest.coarsen(dimension)
            digits.extend(self.codes(finest), dimension.size, table)
        return digits.values

    def searched(self, dimension: Dimension) -> Codes:
        return codes_of(dimension, self.evaluation.evaluate(dimension.expression).values)

    def group(self, tree: Expression) -> Encoded:
        if tree not in self.known_groups:
            self.known_groups[tree] = encode(self.evaluation.evaluate(tree).values)
        return self.known_groups[tree]

    def fold(self, partial: Partial, slots: Slots, columns: Columns) -> Columns:
        return KINDS[partial.kind].lift(slots.of_row, slots.count, *columns or (None,))

    def columns(self, partial: Partial) -> Columns:
        """NULL where the partial's FILTER is not TRUE."""
        if partial not in self.known_columns:
            values = self.evaluation.evaluate(partial.arguments[0]).values if partial.arguments else None
            if partial.filter is not None:
                passes = pc.fill_null(self.evaluation.evaluate(partial.filter).values, False)
                counted = pa.array(np.ones(len(self.times_us), dtype=np.int64)) if values is None else values
                values = pc.if_else(passes, counted, pa.scalar(None, counted.type))
            self.known_columns[partial] = () if values is None else (values,)
        return self.known_columns[partial]


class NodeRows:
    """The rows of a node."""

    def __init__(self, parent: NodePartials, functions: Iterable[UserFunction] = (), zone: tzinfo = UTC) -> None:
        self.parent = parent
        self.keep = parent.node.keep
        self.times_us = parent.starts_us
        self.evaluation = Evaluation({}, parent.rows, functions, zone, parent.groups)
        self.places = {dimension.expression: place for place, dimension in enumerate(parent.node.dimensions)}
        self.known_codes: dict[Dimension, Codes] = {}
        self.known_groups: dict[Expression, Encoded] = {}

    def codes(self, dimension: Dimension) -> Codes:
        """From the node's own cells, or else from its groups."""
        if dimension not in self.known_codes:
            if self.tells(dimension):
                place = self.places[dimension.expression]
                coarse = self.parent.node.dimensions[place].coarsen(dimension)
                self.known_codes[dimension] = coarse[self.parent.digits(place)]
            else:
                self.known_codes[dimension] = dimension.codes(self.values(dimension.expression))
        return self.known_codes[dimension]

    def cells(self, dimensions: tuple[Dimension, ...]) -> Integers:
        """By a table of the node's cells, where these tell all and are few."""
        own = self.parent.node.dimensions
        if own == dimensions:
            return self.parent.cells
        if math.prod(each.size for each in own) <= MOST_CELLS and all(self.tells(each) for each in dimensions):
            return np.take(cell_map(own, dimensions), self.parent.cells)
        digits = Keys(self.parent.rows)
        for dimension in dimensions:
            digits.extend(self.codes(dimension), dimension.size)
        return digits.values

    def tells(self, dimension: Dimension) -> bool:
        """Whether the node's own cells do."""
        place = self.places.get(dimension.expression)
        return place is not None and self.parent.node.dimensions[place].covers(dimension)

    def group(self, tree: Expression) -> Encoded:
        if tree not in self.known_groups:
            self.known_groups[tree] = encode(self.values(tree))
        return self.known_groups[tree]

    def values(self, tree: Expression) -> pa.Array:
        return self.evaluation.evaluate(derived(tree, self.parent.groups)).values

    def columns(self, partial: Partial) -> Columns:
        return self.parent.states[partial]

    def fold(self, partial: Partial, slots: Slots, columns: Columns) -> Columns:
        return KINDS[partial.kind].combine(slots.of_row, slots.count, columns)


class KeptRows:
    """Some rows of another source, for all nodes that keep them."""

    def __init__(
        self,
        source: Source,
        rows: Rows,
        keep: frozenset[Predicate],
        dimensions: tuple[Dimension, ...] = (),
        cells: Integers | None = None,
    ) -> None:
        """`cells` are those of the rows in some dimensions, where these are known."""
        self.source = source
        self.rows = rows
        self.keep = keep
        self.times_us = source.times_us[rows]
        self.dimensions = dimensions
        self.own_cells = np.zeros(len(rows), dtype=np.int64) if cells is None else cells
        self.known_groups: dict[Expression, Encoded] = {}
        self.known_columns: dict[Partial, Columns] = {}

    def codes(self, dimension: Dimension) -> Codes:
        return self.source.codes(dimension)[self.rows]

    def cells(self, dimensions: tuple[Dimension, ...]) -> Integers:
        if dimensions == self.dimensions:
            return self.own_cells
        own = {each.expression: each for each in self.dimensions}
        if all(each.expression in own and own[each.expression].covers(each) for each in dimensions):
            return np.take(cell_map(self.dimensions, dimensions), self.own_cells)
        return self.source.cells(dimensions)[self.rows]

    def group(self, tree: Expression) -> Encoded:
        if tree not in self.known_groups:
            whole = self.source.group(tree)
            self.known_groups[tree] = replace(whole, codes=whole.codes[self.rows])
        return self.known_groups[tree]

    def columns(self, partial: Partial) -> Columns:
        if partial not in self.known_columns:
            self.known_columns[partial] = taken(self.source.columns(partial), self.rows)
        return self.known_columns[partial]

    def fold(self, partial: Partial, slots: Slots, columns: Columns) -> Columns:
        return self.source.fold(partial, slots, columns)


def taken(columns: Columns, rows: Rows) -> Columns:
    places = built(rows, pa.int64())
    return tuple(pc.take(column, places, boundscheck=False) for column in columns)


@lru_cache(maxsize=4_096)
def cell_map(fine: tuple[Dimension, ...], coarse: tuple[Dimension, ...]) -> Integers:
    """For each cell of some dimensions that of others, each of which they cover."""
    sizes = [dimension.size for dimension in fine]
    digits = dict(zip((each.expression for each in fine), np.indices(sizes, sparse=True), strict=True))
    finer = {dimension.expression: dimension for dimension in fine}
    numbers = np.zeros([1] * len(sizes), dtype=np.int64)
    for dimension in coarse:
        own = finer[dimension.expression].coarsen(dimension)[digits[dimension.expression]]
        numbers = numbers * dimension.size + own
    return np.broadcast_to(numbers, sizes).reshape(-1)


def truth(predicate: Predicate, source: Source) -> npt.NDArray[np.bool_]:
    """Whether the predicate is TRUE, for each row."""
    codes = tuple(source.codes(dimension) for dimension in predicate.dimensions)
    if not codes:
        return np.full(len(source.times_us), bool(predicate.table))
    return np.asarray(predicate.table[codes], dtype=np.bool_)


def derived(tree: Expression, known: Mapping[Expression, pa.Array]) -> Expression:
    """The tree in terms of what is known: a short prefix of an address is a prefix of a longer one."""
    if tree in known or not isinstance(tree, Call):
        return tree
    if tree.function == "ip_prefix":
        for longer in known:
            if is_longer_prefix(longer, tree):
                return Call("ip_prefix", (longer, tree.arguments[1]), tree.type)
    return with_children(tree, tuple(derived(child, known) for child in children(tree)))
