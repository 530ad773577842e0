"""What a node is computed from: rows of the stream, or the rows of another node. Both answer the same questions."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from datetime import UTC, tzinfo
from functools import cached_property

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from headrace.aggregates.partials import Partial
from headrace.expressions.columns import build_column
from headrace.expressions.evaluation import Evaluation
from headrace.kernel.combine import NodePartials
from headrace.kernel.groups import Encoded, Groups, encode, encode_columns, number_groups
from headrace.kernel.level1.cells import codes_of
from headrace.kernel.memo import memoize
from headrace.kernel.slots import Codes, Keys, Scratch
from headrace.kernel.states.columns import Columns
from headrace.kernel.states.kinds import state_of
from headrace.kernel.states.totals import Addends, IntegerTotals, addends
from headrace.model.arrays import Integers
from headrace.model.caches import cached
from headrace.model.expressions import Call, Expression, children, with_children
from headrace.model.schema import UserFunction
from headrace.planner.lattice import EVERYTHING, is_longer_prefix
from headrace.predicates import Dimension, Predicate

Rows = npt.NDArray[np.int64]
"""Positions of the rows that are taken, in order."""
MAX_TABLE_CELLS = 1 << 16
"""Of a table with an entry for every cell."""


class NodeSource(ABC):
    """Rows with a time, cells, groups and something to fold."""

    rows: Rows | None = None
    """Where these rows are among those that `groups` numbers; None if they are the same."""

    def __init__(self, times_us: Integers, keep: frozenset[Predicate], scratch: Scratch | None = None) -> None:
        """`keep` are the predicates whose rows are there."""
        self.times_us = times_us
        self.keep = keep
        self.scratch = scratch or Scratch()

    @cached_property
    def span_us(self) -> tuple[int, int]:
        """The first and the last time; there must be a row."""
        return int(self.times_us.min()), int(self.times_us.max())

    @abstractmethod
    def codes(self, dimension: Dimension) -> Codes:
        """Return the cell of each row in one dimension."""

    @abstractmethod
    def cells(self, dimensions: tuple[Dimension, ...]) -> Integers:
        """Return the cell of each row, as one number: those of all dimensions, in their order, as digits."""

    @abstractmethod
    def groups(self, trees: tuple[Expression, ...]) -> Groups:
        """Return the groups by some expressions."""

    @abstractmethod
    def addends(self, partial: Partial) -> Addends | None:
        """Return what each row adds to the partial, if this is a whole number that surely fits."""

    @abstractmethod
    def columns(self, partial: Partial) -> Columns:
        """Return what each row adds to the partial; no column if it is the row itself that counts."""

    @abstractmethod
    def fold(
        self, partial: Partial, slots: Integers, count: int, columns: Columns, is_compressed: bool = False
    ) -> Columns:
        """Return the partial of each slot. Rows of the stream may be compressed first; the partials are the same."""


BY_DICTIONARY = ("counters", "distinct")
"""Kinds that look at values as items: those of long types come as numbers into a dictionary."""


def is_long(arrow: pa.DataType) -> bool:
    return bool(pa.types.is_string(arrow) or pa.types.is_fixed_size_binary(arrow) or pa.types.is_decimal(arrow))


class StreamRows(NodeSource):
    """Rows of the stream, with their partners beside them. Each expression is evaluated and coded once."""

    def __init__(
        self,
        evaluation: Evaluation,
        times_us: Integers,
        finest: Mapping[Expression, Dimension],
        table_codes: Callable[[Dimension], Codes | None] = lambda dimension: None,
    ) -> None:
        """`table_codes` gives the cells of a dimension that is of a joined table alone."""
        super().__init__(times_us, frozenset((EVERYTHING,)))
        self.table_codes = table_codes
        self.evaluation = evaluation
        self.finest = finest

    def codes(self, dimension: Dimension) -> Codes:
        """Found by one search among the cuts of all nodes, then by a look-up."""
        finest = self.finest.get(dimension.expression, dimension)
        codes = self.search_cells(finest)
        return codes if finest == dimension else np.take(finest.coarsen(dimension), codes)

    @memoize
    def search_cells(self, dimension: Dimension) -> Codes:
        of_table = self.table_codes(dimension)
        return codes_of(dimension, self.values(dimension.expression)) if of_table is None else of_table

    def values(self, tree: Expression) -> pa.Array:
        return self.evaluation.evaluate(tree).values

    def cells(self, dimensions: tuple[Dimension, ...]) -> Integers:
        """Coarsened on the way."""
        digits = Keys(len(self.times_us))
        for dimension in dimensions:
            finest = self.finest.get(dimension.expression, dimension)
            table = None if finest == dimension else finest.coarsen(dimension)
            digits.extend(self.search_cells(finest), dimension.size, table)
        return digits.values

    @memoize
    def groups(self, trees: tuple[Expression, ...]) -> Groups:
        return number_groups({tree: self.encode_values(tree) for tree in trees}, len(self.times_us))

    @memoize
    def encode_values(self, tree: Expression) -> Encoded:
        return encode(self.values(tree))

    @memoize
    def encode_sorted(self, tree: Expression) -> pa.DictionaryArray:
        """Encode the values by a sorted dictionary, once for all nodes."""
        encoded = self.encode_values(tree)
        order = np.asarray(pc.sort_indices(encoded.dictionary))
        ranks = np.empty(encoded.size, dtype=np.int32)
        ranks[order], ranks[-1] = np.arange(len(order)), 0
        codes = pa.array(ranks[encoded.codes], mask=encoded.codes == len(order))
        return pa.DictionaryArray.from_arrays(codes, encoded.dictionary.take(pa.array(order)))

    @memoize
    def addends(self, partial: Partial) -> Addends | None:
        return addends(partial, self.columns(partial), len(self.times_us))

    @memoize
    def columns(self, partial: Partial) -> Columns:
        """NULL where the partial's FILTER is not TRUE."""
        columns = [self.values(argument) for argument in partial.arguments]
        if partial.filter is None:
            if partial.kind in BY_DICTIONARY and is_long(columns[0].type):
                columns[0] = self.encode_sorted(partial.arguments[0])
            return tuple(columns)
        passes = pc.fill_null(self.values(partial.filter), False)
        counted = columns or [pa.array(np.ones(len(self.times_us), dtype=np.int64))]
        return tuple(pc.if_else(passes, values, pa.scalar(None, values.type)) for values in counted)

    def fold(
        self, partial: Partial, slots: Integers, count: int, columns: Columns, is_compressed: bool = False
    ) -> Columns:
        return state_of(partial, is_compressed).lift(slots, count, *columns)


class NodeRows(NodeSource):
    """The rows of a node."""

    def __init__(self, parent: NodePartials, functions: Iterable[UserFunction] = (), zone: tzinfo = UTC) -> None:
        super().__init__(parent.starts_us, parent.node.keep)
        self.parent = parent
        self.functions = tuple(functions)
        self.zone = zone
        self.parent_groups = encode_columns(parent.groups, parent.rows)
        table = self.parent_groups.table
        self.evaluation = Evaluation({}, table.size, self.functions, zone, table.columns)
        self.places = {dimension.expression: place for place, dimension in enumerate(parent.node.dimensions)}

    def at(self, rows: Rows) -> NodeRows:
        """Some of the rows, without their states."""
        without_states = replace(self.parent, groups=self.parent_groups, states={})
        return NodeRows(without_states.at(rows), self.functions, self.zone)

    @memoize
    def codes(self, dimension: Dimension) -> Codes:
        """From the node's cells, or else from its groups."""
        if self.determines(dimension):
            place = self.places[dimension.expression]
            return self.parent.node.dimensions[place].coarsen(dimension)[self.parent.digits(place)]
        return dimension.codes(self.values(dimension.expression))[self.parent_groups.codes]

    def cells(self, dimensions: tuple[Dimension, ...]) -> Integers:
        """Return the cell of each row, looked up in a table of the node's cells if these are few and determine all."""
        node = self.parent.node
        if node.dimensions == dimensions:
            return self.parent.cells
        if node.cells <= MAX_TABLE_CELLS and all(map(self.determines, dimensions)):
            return np.take(cell_map(node.dimensions, dimensions), self.parent.cells)
        digits = Keys(self.parent.rows)
        for dimension in dimensions:
            digits.extend(self.codes(dimension), dimension.size)
        return digits.values

    def determines(self, dimension: Dimension) -> bool:
        """Return whether the node's cells determine those of the dimension."""
        place = self.places.get(dimension.expression)
        return place is not None and self.parent.node.dimensions[place].covers(dimension)

    @memoize
    def groups(self, trees: tuple[Expression, ...]) -> Groups:
        """Found once per group of the node."""
        fine = self.parent_groups
        if fine.table.columns.keys() == set(trees):
            return fine
        coarse = number_groups({tree: encode(self.values(tree)) for tree in trees}, fine.table.size)
        return Groups(coarse.table, coarse.codes[fine.codes])

    def values(self, tree: Expression) -> pa.Array:
        """Of each group of the node."""
        return self.evaluation.evaluate(derive_tree(tree, self.parent_groups.table.columns)).values

    def addends(self, partial: Partial) -> Addends | None:
        states = self.parent.states
        return states.addends(partial) if isinstance(states, IntegerTotals) else None

    def columns(self, partial: Partial) -> Columns:
        return self.parent.states[partial]

    def fold(
        self, partial: Partial, slots: Integers, count: int, columns: Columns, is_compressed: bool = False
    ) -> Columns:
        return state_of(partial).combine(slots, count, columns)


class KeptRows(NodeSource):
    """Some rows of another source, for all nodes that keep them."""

    rows: Rows

    def __init__(
        self,
        source: NodeSource,
        rows: Rows,
        keep: frozenset[Predicate],
        dimensions: tuple[Dimension, ...] = (),
        cells: Integers | None = None,
    ) -> None:
        """`cells` are those of the rows in some dimensions, where these are known."""
        super().__init__(np.take(source.times_us, rows), keep, source.scratch)
        self.source = source
        self.rows = rows
        self.dimensions = dimensions
        self.known_cells = np.zeros(len(rows), dtype=np.int64) if cells is None else cells

    def codes(self, dimension: Dimension) -> Codes:
        return self.source.codes(dimension)[self.rows]

    def cells(self, dimensions: tuple[Dimension, ...]) -> Integers:
        if dimensions == self.dimensions:
            return self.known_cells
        known = {dimension.expression: dimension for dimension in self.dimensions}
        if all(wanted.expression in known and known[wanted.expression].covers(wanted) for wanted in dimensions):
            return np.take(cell_map(self.dimensions, dimensions), self.known_cells)
        return self.source.cells(dimensions)[self.rows]

    def groups(self, trees: tuple[Expression, ...]) -> Groups:
        whole = self.source.groups(trees)
        return whole if self.source.rows is None else whole.at(self.source.rows)

    @memoize
    def addends(self, partial: Partial) -> Addends | None:
        whole = self.source.addends(partial)
        return None if whole is None else whole.at(self.rows)

    @memoize
    def columns(self, partial: Partial) -> Columns:
        return take_columns(self.source.columns(partial), self.rows)

    def fold(
        self, partial: Partial, slots: Integers, count: int, columns: Columns, is_compressed: bool = False
    ) -> Columns:
        return self.source.fold(partial, slots, count, columns, is_compressed)


def take_columns(columns: Columns, rows: Rows) -> Columns:
    places = build_column(rows, pa.int64())
    return tuple(pc.take(column, places, boundscheck=False) for column in columns)


@cached
def cell_map(fine: tuple[Dimension, ...], coarse: tuple[Dimension, ...]) -> Integers:
    """For each cell of some dimensions that of others, each of which they cover."""
    sizes = [dimension.size for dimension in fine]
    finer = {
        dimension.expression: (dimension, digits)
        for dimension, digits in zip(fine, np.indices(sizes, sparse=True), strict=True)
    }
    numbers = np.zeros([1] * len(sizes), dtype=np.int64)
    for dimension in coarse:
        known, digits = finer[dimension.expression]
        numbers = numbers * dimension.size + known.coarsen(dimension)[digits]
    return np.broadcast_to(numbers, sizes).reshape(-1)


def truth(predicate: Predicate, source: NodeSource) -> npt.NDArray[np.bool_]:
    """Whether the predicate is TRUE, for each row."""
    codes = tuple(source.codes(dimension) for dimension in predicate.dimensions)
    if not codes:
        return np.full(len(source.times_us), bool(predicate.table))
    return np.asarray(predicate.table[codes], dtype=np.bool_)


def derive_tree(tree: Expression, known: Mapping[Expression, pa.Array]) -> Expression:
    """The tree in terms of what is known: a short prefix of an address is a prefix of a longer one."""
    if tree in known or not isinstance(tree, Call):
        return tree
    if tree.function == "ip_prefix":
        for longer in known:
            if is_longer_prefix(longer, tree):
                return Call("ip_prefix", (longer, tree.arguments[1]), tree.type)
    return with_children(tree, tuple(derive_tree(child, known) for child in children(tree)))
