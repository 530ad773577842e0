"""What a node is computed from: rows of the stream, or the rows of another node. Both answer the same questions."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, tzinfo
from functools import cached_property
from typing import Protocol

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
from headrace.kernel.slots import Codes, Keys, Scratch
from headrace.kernel.states.columns import Columns
from headrace.kernel.states.kinds import state_of
from headrace.kernel.states.totals import Addends, Totals, addends
from headrace.model.arrays import Integers
from headrace.model.caches import cached
from headrace.model.expressions import Call, Expression, children, with_children
from headrace.model.schema import UserFunction
from headrace.planner.lattice import EVERYTHING, is_longer_prefix
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
    scratch: Scratch

    @property
    def rows(self) -> Rows | None:
        """Where these rows are among those that `groups` numbers; None if they are the same."""
        ...

    @property
    def span_us(self) -> tuple[int, int]:
        """The first and the last time; there must be a row."""
        ...

    def codes(self, dimension: Dimension) -> Codes:
        """The cell of each row in one dimension."""
        ...

    def cells(self, dimensions: tuple[Dimension, ...]) -> Integers:
        """The cell of each row, as one number: those of all dimensions, in their order, as digits."""
        ...

    def groups(self, trees: tuple[Expression, ...]) -> Groups:
        """The groups by some expressions."""
        ...

    def addends(self, partial: Partial) -> Addends | None:
        """What each row adds to the partial, if this is a whole number that surely fits."""
        ...

    def columns(self, partial: Partial) -> Columns:
        """What each row adds to the partial; no column if it is the row itself that counts."""
        ...

    def fold(
        self, partial: Partial, slots: Integers, count: int, columns: Columns, is_compressed: bool = False
    ) -> Columns:
        """The partial of each slot. Rows of the stream may be compressed first; the partials are the same."""
        ...


BY_DICTIONARY = ("counters", "distinct")
"""Kinds that look at values as items: those of long types come as numbers into a dictionary."""


def is_long(arrow: pa.DataType) -> bool:
    return bool(pa.types.is_string(arrow) or pa.types.is_fixed_size_binary(arrow) or pa.types.is_decimal(arrow))


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
        self.rows: Rows | None = None
        self.scratch = Scratch()
        self.known_codes: dict[Dimension, Codes] = {}
        self.known_groups: dict[tuple[Expression, ...], Groups] = {}
        self.known_encoded: dict[Expression, Encoded] = {}
        self.known_ordered: dict[Expression, pa.DictionaryArray] = {}
        self.known_columns: dict[Partial, Columns] = {}
        self.known_addends: dict[Partial, Addends | None] = {}

    @cached_property
    def span_us(self) -> tuple[int, int]:
        return span_of(self.times_us)

    def codes(self, dimension: Dimension) -> Codes:
        """Found by one search among the cuts of all nodes, then by a look-up."""
        finest = self.finest.get(dimension.expression, dimension)
        if finest != dimension:
            return np.take(finest.coarsen(dimension), self.codes(finest))
        if dimension not in self.known_codes:
            found = self.table_codes(dimension)
            self.known_codes[dimension] = self.search_cells(dimension) if found is None else found
        return self.known_codes[dimension]

    def cells(self, dimensions: tuple[Dimension, ...]) -> Integers:
        """Coarsened on the way."""
        digits = Keys(len(self.times_us))
        for dimension in dimensions:
            finest = self.finest.get(dimension.expression, dimension)
            table = None if finest == dimension else finest.coarsen(dimension)
            digits.extend(self.codes(finest), dimension.size, table)
        return digits.values

    def search_cells(self, dimension: Dimension) -> Codes:
        return codes_of(dimension, self.evaluation.evaluate(dimension.expression).values)

    def groups(self, trees: tuple[Expression, ...]) -> Groups:
        if trees not in self.known_groups:
            encoded = {tree: self.encode_values(tree) for tree in trees}
            self.known_groups[trees] = number_groups(encoded, len(self.times_us))
        return self.known_groups[trees]

    def encode_values(self, tree: Expression) -> Encoded:
        if tree not in self.known_encoded:
            self.known_encoded[tree] = encode(self.evaluation.evaluate(tree).values)
        return self.known_encoded[tree]

    def encode_sorted(self, tree: Expression) -> pa.DictionaryArray:
        """Encode the values by a sorted dictionary, once for all nodes."""
        if tree not in self.known_ordered:
            encoded = self.encode_values(tree)
            order = np.asarray(pc.sort_indices(encoded.dictionary))
            ranks = np.empty(encoded.size, dtype=np.int32)
            ranks[order], ranks[-1] = np.arange(len(order)), 0
            codes = pa.array(ranks[encoded.codes], mask=encoded.codes == len(order))
            self.known_ordered[tree] = pa.DictionaryArray.from_arrays(codes, encoded.dictionary.take(pa.array(order)))
        return self.known_ordered[tree]

    def addends(self, partial: Partial) -> Addends | None:
        if partial not in self.known_addends:
            self.known_addends[partial] = addends(partial, self.columns(partial), len(self.times_us))
        return self.known_addends[partial]

    def fold(
        self, partial: Partial, slots: Integers, count: int, columns: Columns, is_compressed: bool = False
    ) -> Columns:
        return state_of(partial, is_compressed).lift(slots, count, *columns)

    def columns(self, partial: Partial) -> Columns:
        """NULL where the partial's FILTER is not TRUE."""
        if partial not in self.known_columns:
            found = [self.evaluation.evaluate(argument).values for argument in partial.arguments]
            if partial.filter is None and partial.kind in BY_DICTIONARY and is_long(found[0].type):
                found[0] = self.encode_sorted(partial.arguments[0])
            if partial.filter is not None:
                passes = pc.fill_null(self.evaluation.evaluate(partial.filter).values, False)
                counted = found or [pa.array(np.ones(len(self.times_us), dtype=np.int64))]
                found = [pc.if_else(passes, values, pa.scalar(None, values.type)) for values in counted]
            self.known_columns[partial] = tuple(found)
        return self.known_columns[partial]


class NodeRows:
    """The rows of a node."""

    def __init__(self, parent: NodePartials, functions: Iterable[UserFunction] = (), zone: tzinfo = UTC) -> None:
        self.parent = parent
        self.keep = parent.node.keep
        self.times_us = parent.starts_us
        self.rows: Rows | None = None
        self.scratch = Scratch()
        self.functions = tuple(functions)
        self.zone = zone
        self.own_groups = encode_columns(parent.groups, parent.rows)
        table = self.own_groups.table
        self.evaluation = Evaluation({}, table.size, self.functions, zone, table.columns)
        self.places = {dimension.expression: place for place, dimension in enumerate(parent.node.dimensions)}
        self.known_codes: dict[Dimension, Codes] = {}
        self.known_groups: dict[tuple[Expression, ...], Groups] = {}

    @cached_property
    def span_us(self) -> tuple[int, int]:
        return span_of(self.times_us)

    def at(self, rows: Rows) -> NodeRows:
        """Some of the rows, without their states."""
        own = self.parent
        some = NodePartials(
            own.node, own.starts_us[rows], own.ends_us[rows], own.cells[rows], self.own_groups.at(rows), {}
        )
        return NodeRows(some, self.functions, self.zone)

    def codes(self, dimension: Dimension) -> Codes:
        """From the node's own cells, or else from its groups."""
        if dimension not in self.known_codes:
            if self.determines(dimension):
                place = self.places[dimension.expression]
                coarse = self.parent.node.dimensions[place].coarsen(dimension)
                self.known_codes[dimension] = coarse[self.parent.digits(place)]
            else:
                of_group = dimension.codes(self.values(dimension.expression))
                self.known_codes[dimension] = of_group[self.own_groups.codes]
        return self.known_codes[dimension]

    def cells(self, dimensions: tuple[Dimension, ...]) -> Integers:
        """Return the cell of each row, looked up in a table of the node's cells if these are few and determine all."""
        own = self.parent.node.dimensions
        if own == dimensions:
            return self.parent.cells
        if math.prod(each.size for each in own) <= MOST_CELLS and all(self.determines(each) for each in dimensions):
            return np.take(cell_map(own, dimensions), self.parent.cells)
        digits = Keys(self.parent.rows)
        for dimension in dimensions:
            digits.extend(self.codes(dimension), dimension.size)
        return digits.values

    def determines(self, dimension: Dimension) -> bool:
        """Return whether the node's own cells determine those of the dimension."""
        place = self.places.get(dimension.expression)
        return place is not None and self.parent.node.dimensions[place].covers(dimension)

    def groups(self, trees: tuple[Expression, ...]) -> Groups:
        """Found once per group of the node."""
        own = self.own_groups
        if own.table.columns.keys() == set(trees):
            return own
        if trees not in self.known_groups:
            coarse = number_groups({tree: encode(self.values(tree)) for tree in trees}, own.table.size)
            self.known_groups[trees] = Groups(coarse.table, coarse.codes[own.codes])
        return self.known_groups[trees]

    def values(self, tree: Expression) -> pa.Array:
        """Of each group of the node."""
        return self.evaluation.evaluate(derive_tree(tree, self.own_groups.table.columns)).values

    def addends(self, partial: Partial) -> Addends | None:
        states = self.parent.states
        return states.addends(partial) if isinstance(states, Totals) else None

    def columns(self, partial: Partial) -> Columns:
        return self.parent.states[partial]

    def fold(
        self, partial: Partial, slots: Integers, count: int, columns: Columns, is_compressed: bool = False
    ) -> Columns:
        return state_of(partial).combine(slots, count, columns)


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
        self.scratch = source.scratch
        self.times_us = np.take(source.times_us, rows)
        self.dimensions = dimensions
        self.own_cells = np.zeros(len(rows), dtype=np.int64) if cells is None else cells
        self.known_columns: dict[Partial, Columns] = {}
        self.known_addends: dict[Partial, Addends | None] = {}

    @cached_property
    def span_us(self) -> tuple[int, int]:
        return span_of(self.times_us)

    def codes(self, dimension: Dimension) -> Codes:
        return self.source.codes(dimension)[self.rows]

    def cells(self, dimensions: tuple[Dimension, ...]) -> Integers:
        if dimensions == self.dimensions:
            return self.own_cells
        own = {each.expression: each for each in self.dimensions}
        if all(each.expression in own and own[each.expression].covers(each) for each in dimensions):
            return np.take(cell_map(self.dimensions, dimensions), self.own_cells)
        return self.source.cells(dimensions)[self.rows]

    def groups(self, trees: tuple[Expression, ...]) -> Groups:
        whole = self.source.groups(trees)
        return whole if self.source.rows is None else whole.at(self.source.rows)

    def addends(self, partial: Partial) -> Addends | None:
        if partial not in self.known_addends:
            whole = self.source.addends(partial)
            self.known_addends[partial] = None if whole is None else whole.at(self.rows)
        return self.known_addends[partial]

    def columns(self, partial: Partial) -> Columns:
        if partial not in self.known_columns:
            self.known_columns[partial] = take_columns(self.source.columns(partial), self.rows)
        return self.known_columns[partial]

    def fold(
        self, partial: Partial, slots: Integers, count: int, columns: Columns, is_compressed: bool = False
    ) -> Columns:
        return self.source.fold(partial, slots, count, columns, is_compressed)


def span_of(times_us: Integers) -> tuple[int, int]:
    return int(times_us.min()), int(times_us.max())


def take_columns(columns: Columns, rows: Rows) -> Columns:
    places = build_column(rows, pa.int64())
    return tuple(pc.take(column, places, boundscheck=False) for column in columns)


@cached
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


def derive_tree(tree: Expression, known: Mapping[Expression, pa.Array]) -> Expression:
    """The tree in terms of what is known: a short prefix of an address is a prefix of a longer one."""
    if tree in known or not isinstance(tree, Call):
        return tree
    if tree.function == "ip_prefix":
        for longer in known:
            if is_longer_prefix(longer, tree):
                return Call("ip_prefix", (longer, tree.arguments[1]), tree.type)
    return with_children(tree, tuple(derive_tree(child, known) for child in children(tree)))
