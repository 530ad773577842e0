"""How rows become words: what they are grouped by and what is folded, as columns of numbers for the tables."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import NamedTuple

from headrace.aggregates.partials import Partial
from headrace.edge.tables.coders import CellCoder, Coder, GroupCoder, coder_of
from headrace.edge.tables.memory_layout import StateColumn, StateKind, bit_fields, words_of
from headrace.edge.tables.operands import Operand, TableColumn, table_columns_of
from headrace.edge.tables.tables import Values
from headrace.kernel.level1.fold import keep_rows
from headrace.kernel.level1.rows import NodeSource, StreamRows
from headrace.model.arrays import Integers
from headrace.model.expressions import Expression
from headrace.model.stable_names import stable_text
from headrace.planner.explain.labels import NodePrinter
from headrace.planner.lattice import Node
from headrace.planner.phantoms.configuration import Configuration
from headrace.planner.phantoms.relations import Relation
from headrace.predicates import Dimension, Predicate

WORD_BYTES = 8
VALUE_BYTES = 32
"""Expected of a value that does not fit a word."""
MIN_VALUES = 4


class RowPiece:
    """Rows of the stream, each filter, coder and operand asked once for all nodes."""

    def __init__(self, source: StreamRows) -> None:
        self.source = source
        self.known_codes: dict[Coder, tuple[Integers, ...]] = {}
        self.known_values: dict[TableColumn, Values] = {}
        self.known_rows: dict[frozenset[Predicate], NodeSource] = {}

    def keep_rows(self, keep: frozenset[Predicate]) -> NodeSource:
        if keep not in self.known_rows:
            self.known_rows[keep] = keep_rows(self.source, keep)
        return self.known_rows[keep]

    def codes(self, coder: Coder) -> tuple[Integers, ...]:
        if coder not in self.known_codes:
            self.known_codes[coder] = coder.codes(self.source)
        return self.known_codes[coder]

    def values(self, column: TableColumn) -> Values:
        if column not in self.known_values:
            self.known_values[column] = column.make(column.operand.values(self.source))
        return self.known_values[column]


@dataclass(frozen=True)
class Attributes:
    """All that rows are grouped by, with names, and what partials are of. All sets of tables share them."""

    names: Mapping[Dimension | Expression, str]
    coders: Mapping[str, Coder]
    groups: Mapping[Expression, GroupCoder]
    operands: Mapping[Partial, Operand | None]

    def relation(self, node: Node) -> Relation:
        return frozenset(self.names[attribute] for attribute in (*node.dimensions, *node.groups))


class Form(NamedTuple):
    """How rows become words: the fields of the attributes with their code spaces, and the columns to fold."""

    sizes: tuple[tuple[str, int | None], ...]
    table_columns: tuple[TableColumn, ...]

    @property
    def columns(self) -> list[StateColumn]:
        """First the number of rows."""
        return [
            StateColumn(StateKind.COUNT),
            *(StateColumn(column.kind, place) for place, column in enumerate(self.table_columns)),
        ]

    def in_fields(self, configuration: Configuration) -> Configuration:
        """With tables by the fields of their attributes."""
        tables = [replace(table, attributes=self.names(table.attributes)) for table in configuration.tables]
        return Configuration(tuple(tables))

    def names(self, attributes: Relation) -> frozenset[str]:
        return frozenset(self.sizes[place][0] for place in self.places(attributes))

    def places(self, attributes: Relation) -> list[int]:
        return [place for place, (name, _) in enumerate(self.sizes) if attribute_of(name) in attributes]

    def entry_bytes(self, attributes: Relation) -> int:
        """A tag, keys, the number of rows and other states."""
        keys = words_of(bit_fields(dict(self.sizes)), self.names(attributes))
        return WORD_BYTES * (1 + len(keys) + 1 + len(self.table_columns))


def form_of(coders: Mapping[str, Coder], partials: Iterable[Partial], attributes: Attributes) -> Form:
    """As it is now: it may have grown since it was asked for last."""
    sizes = [
        (field_name(name, place), size) for name, coder in coders.items() for place, size in enumerate(coder.sizes)
    ]
    wanted = (column for partial in partials for column in table_columns_of(partial, attributes.operands[partial]))
    return Form(tuple(sizes), tuple(dict.fromkeys(column for column in wanted if column is not None)))


def field_name(attribute: str, place: int) -> str:
    return f"{attribute}\n{place}"


def attribute_of(name: str) -> str:
    return name.rpartition("\n")[0]


def attributes_of(nodes: Iterable[Node], printer: NodePrinter, values_bytes: int) -> Attributes:
    every = list(nodes)
    trees = dict.fromkeys(tree for node in every for tree in sorted(node.groups, key=stable_text))
    dimensions = dict.fromkeys(dimension for node in every for dimension in node.dimensions)
    names: dict[Dimension | Expression, str] = {}
    for attribute in (*trees, *dimensions):
        if isinstance(attribute, Dimension):
            text = f"cells of {printer.text(attribute.expression)}"
        else:
            text = printer.text(attribute)
        names[attribute] = text if text not in names.values() else f"{text} ({len(names)})"
    own_bytes = max(MIN_VALUES * VALUE_BYTES, values_bytes // max(1, len(trees)))
    groups: dict[Expression, GroupCoder] = {tree: coder_of(tree, own_bytes // VALUE_BYTES, own_bytes) for tree in trees}
    coders: dict[str, Coder] = {names[tree]: coder for tree, coder in groups.items()}
    coders |= {names[dimension]: CellCoder(dimension) for dimension in dimensions}
    return Attributes(names, coders, groups, operands_of(every))


def operands_of(nodes: Iterable[Node]) -> dict[Partial, Operand | None]:
    """Those of the same values have one; that of count(*) is none."""
    known: dict[object, Operand] = {}
    operands: dict[Partial, Operand | None] = {}
    for partial in dict.fromkeys(partial for node in nodes for partial in sorted(node.partials, key=stable_text)):
        if not partial.arguments and partial.filter is None:
            operands[partial] = None
            continue
        operand = operands[partial] = known.setdefault((partial.arguments, partial.filter), Operand(partial))
        operand.is_summed = operand.is_summed or partial.kind == "sum"
    return operands
