"""Shipped nodes that keep the same rows and have the same boundaries, over one set of fixed-memory tables."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from headrace.edge.tables.adaptation import (
    MEMORY_DRIFT,
    CodeSample,
    SizeEstimates,
    candidates,
    configuration_for,
    has_drifted,
)
from headrace.edge.tables.operands import state_from, table_columns_of
from headrace.edge.tables.row_layout import WORD_BYTES, Attributes, Form, RowPiece, attribute_of, form_of
from headrace.edge.tables.spans import SliceSpan, code_matrix, spans_of, take_rows
from headrace.edge.tables.tables import CHUNK, Evicted, Flush, Replacement, Tables
from headrace.kernel.combine import NodePartials, ordered_groups, ordered_partials
from headrace.kernel.level1.fold import fold_all
from headrace.kernel.level1.rows import KeptRows, NodeSource
from headrace.model.arrays import Integers
from headrace.model.stable_names import stable_text
from headrace.planner.lattice import Node
from headrace.planner.phantoms.configuration import Configuration
from headrace.planner.phantoms.relations import Relation

Part = tuple[int, NodePartials]
"""Rows of the node at a place of the plan."""

MAX_BUFFERED = 1_024
MIN_BUFFERED = 256
MAX_SAMPLED = 8_192
MIN_SAMPLED = 512
OUTPUT_SHARE = SAMPLE_SHARE = 8
"""The part of the output, and that of the sample, of the tables' memory is one over this."""


@dataclass
class LiveTables:
    """Tables in use, for as long as the form is the same."""

    form: Form
    configuration: Configuration
    tables: Tables
    sample: CodeSample
    evicted: dict[int, list[Evicted]] = field(default_factory=dict)
    nbytes: int = 0
    """Of what was evicted."""


class TableSet:
    """Tables for nodes by their places in the plan."""

    def __init__(
        self,
        nodes: Mapping[int, Node],
        attributes: Attributes,
        memory_bytes: int,
        span_rows: int,
        replacement: Replacement,
        flush: Flush,
    ) -> None:
        self.nodes = nodes
        first = next(iter(nodes.values()))
        self.keep, self.boundaries = first.keep, first.boundaries
        self.attributes = attributes
        self.memory_bytes = memory_bytes
        self.span_rows = span_rows
        self.replacement, self.flush = replacement, flush
        self.places: dict[Relation, list[int]] = {}
        for place, node in nodes.items():
            self.places.setdefault(attributes.relation(node), []).append(place)
        used = frozenset[str]().union(*self.places)
        self.coders = {name: coder for name, coder in attributes.coders.items() if name in used}
        self.partials = sorted({partial for node in nodes.values() for partial in node.partials}, key=stable_text)
        operands = {attributes.operands[partial] for partial in self.partials}
        self.operands = [operand for operand in operands if operand is not None]
        self.seen: SizeEstimates | None = None
        self.live: LiveTables | None = None
        self.ends_us: dict[int, int] = {}

    @property
    def nbytes(self) -> int:
        live = self.live
        return 0 if live is None else live.tables.nbytes + live.sample.codes.nbytes + live.nbytes

    # Rows in

    def feed(self, piece: RowPiece) -> Iterator[Part]:
        """Rows whose codes fit. What the kernel folded is given at once, all else when it is drained."""
        rows = piece.keep_rows(self.keep)
        if not len(rows.times_us):
            return
        if not all(operand.is_plain(piece.source) for operand in self.operands):
            yield from self.fold(rows)
            return
        positions, spans = spans_of(rows, self.boundaries)
        long = self.worth_a_turn(spans)
        if len(long) < len(spans):
            short = np.concatenate([np.arange(*span[:2]) for span in spans if span not in long])
            chosen = np.sort(short if positions is None else positions[short])
            yield from self.fold(KeptRows(piece.source, chosen, self.keep))
        if long:
            self.feed_spans(piece, positions, long)

    def worth_a_turn(self, spans: Sequence[SliceSpan]) -> Collection[SliceSpan]:
        """Those that tables take: of slices that many rows are of, the slice they have already, and the newest.

        When tables turn to another slice, all their entries leave. Some late rows are not worth that.
        """
        current = None if self.live is None else self.live.tables.slice
        newest = spans[-1].start_us if current is None else max(current, spans[-1].start_us)
        return {span for span in spans if span.rows >= self.span_rows or span.start_us in (current, newest)}

    def feed_spans(self, piece: RowPiece, positions: Integers | None, spans: Collection[SliceSpan]) -> None:
        form = form_of(self.coders, self.partials, self.attributes)
        codes = code_matrix([codes for coder in self.coders.values() for codes in piece.codes(coder)], positions)
        values = [take_rows(piece.values(column), positions) for column in form.table_columns]
        ordered = sorted(spans)
        if self.live is None or self.live.form != form:
            self.live = self.start_tables(form, codes, ordered)
        for span in ordered:
            span_codes = codes[:, span.begin : span.end]
            self.ends_us[span.start_us] = span.end_us
            self.live.sample.add(span_codes, span.start_us)
            span_values = [column[span.begin : span.end] for column in values]
            self.keep_evicted(self.live, self.live.tables.feed(span_codes, span_values, span.start_us))

    def keep_evicted(self, live: LiveTables, evicted: Iterator[Evicted]) -> None:
        for part in evicted:
            live.evicted.setdefault(part.query, []).append(part)
            live.nbytes += part.codes.nbytes + sum(column.nbytes for column in part.values)

    def fold(self, rows: NodeSource) -> Iterator[Part]:
        for place, node in self.nodes.items():
            yield place, fold_all(node, rows)

    # Tables

    def start_tables(self, form: Form, codes: Integers, spans: Sequence[SliceSpan]) -> LiveTables:
        """Empty tables. The first time sizes are those of the rows at hand."""
        rows = self.memory_bytes // SAMPLE_SHARE // (WORD_BYTES * (1 + len(form.sizes)))
        sample = CodeSample(len(form.sizes), max(MIN_SAMPLED, min(MAX_SAMPLED, rows)))
        if self.seen is None:
            for span in spans:
                sample.add(codes[:, span.begin : span.end], span.start_us)
            self.seen = self.sizes_in(sample, form)
            sample.clear()
        configuration = self.choose_configuration(form, self.seen, sample)
        tables = Tables(
            form.in_fields(configuration),
            form.columns,
            dict(form.sizes),
            replacement=self.replacement,
            flush=self.flush,
            buffered=self.buffer_bytes(form),
        )
        return LiveTables(form, configuration, tables, sample)

    def sizes_in(self, sample: CodeSample, form: Form) -> SizeEstimates:
        return sample.measure({relation: form.places(relation) for relation in candidates(self.places)})

    def choose_configuration(self, form: Form, seen: SizeEstimates, sample: CodeSample) -> Configuration:
        """For what the rows in work, the sample and the output leave of the memory."""
        rows_in_work = CHUNK * form.entry_bytes(frozenset(self.coders))
        left = self.memory_bytes - rows_in_work - sample.codes.nbytes - self.buffer_bytes(form) * self.row_bytes(form)
        entry_bytes = {relation: form.entry_bytes(relation) for relation in seen.groups}
        return configuration_for(self.places, seen, max(left, self.memory_bytes // 2), entry_bytes)

    def row_bytes(self, form: Form) -> int:
        """Of a row of each query in the output, on both sides."""
        return 2 * sum(form.entry_bytes(relation) for relation in self.places)

    def buffer_bytes(self, form: Form) -> int:
        rows = self.memory_bytes // OUTPUT_SHARE // self.row_bytes(form)
        return max(MIN_BUFFERED, min(MAX_BUFFERED, rows))

    @property
    def weight(self) -> float:
        """What memory saves here: collisions are as many as rows times groups by the space for them [GS 5]."""
        if self.live is None or self.seen is None:
            return 0.0
        form, groups = self.live.form, self.seen.groups
        needed = sum(groups[relation] * form.entry_bytes(relation) for relation in self.places)
        return math.sqrt(self.live.sample.fed * needed)

    def adapt(self, memory_bytes: int) -> None:
        """Other tables, if sizes or the memory have changed. All are empty, and nothing waits to be drained."""
        live = self.live
        if live is None or self.seen is None or not live.sample.rows:
            return
        seen = self.sizes_in(live.sample, live.form)
        is_resized = abs(memory_bytes - self.memory_bytes) > self.memory_bytes * MEMORY_DRIFT
        if is_resized or has_drifted(self.seen, seen):
            self.seen, self.memory_bytes, self.live = seen, memory_bytes, None
        live.sample.clear()

    # Partials out

    def settle(self) -> Iterator[Part]:
        """All there is: then the tables are empty."""
        if self.live is not None:
            self.keep_evicted(self.live, self.live.tables.flush())
            yield from self.drain()
        self.ends_us.clear()

    def drain(self) -> Iterator[Part]:
        """What was evicted."""
        live = self.live
        if live is None:
            return
        for parts in live.evicted.values():
            evicted = EvictedRows(parts, self.ends_us)
            relation = frozenset(map(attribute_of, parts[0].attributes))
            for place in self.places[relation]:
                yield place, partials_of(self.nodes[place], evicted, self.attributes, live.form)
        live.evicted.clear()
        live.nbytes = 0


# From what tables evicted to partials


class EvictedRows:
    """Rows that one query evicted, put together."""

    def __init__(self, parts: Sequence[Evicted], ends_us: Mapping[int, int]) -> None:
        lengths = [len(part) for part in parts]
        self.starts_us = np.repeat(np.array([part.slice for part in parts], dtype=np.int64), lengths)
        self.ends_us = np.repeat(np.array([ends_us[part.slice] for part in parts], dtype=np.int64), lengths)
        self.values = [np.concatenate(columns) for columns in zip(*(part.values for part in parts), strict=True)]
        self.matrix = np.concatenate([part.codes for part in parts], axis=1)
        self.names = parts[0].attributes

    def codes(self, attribute: str) -> list[Integers]:
        """Of each of its fields."""
        return [row for name, row in zip(self.names, self.matrix, strict=True) if attribute_of(name) == attribute]


def partials_of(node: Node, evicted: EvictedRows, attributes: Attributes, form: Form) -> NodePartials:
    """A group may come several times."""
    cells = np.zeros(len(evicted.starts_us), dtype=np.int64)
    for dimension in node.dimensions:
        (codes,) = evicted.codes(attributes.names[dimension])
        cells = cells * dimension.size + codes
    groups = {
        tree: attributes.groups[tree].decode(evicted.codes(attributes.names[tree])) for tree in ordered_groups(node)
    }
    states = {}
    for partial in ordered_partials(node):
        wanted = table_columns_of(partial, attributes.operands[partial])
        places = [0 if column is None else 1 + form.table_columns.index(column) for column in wanted]
        states[partial] = state_from(partial, [evicted.values[place] for place in places])
    return NodePartials(node, evicted.starts_us, evicted.ends_us, cells, groups, states)
