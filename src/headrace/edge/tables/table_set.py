"""Shipped nodes that keep the same rows and have the same boundaries, over one set of fixed-memory tables."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from headrace.edge.tables.adaptation import Sample, Seen, candidates, configuration_for, has_drifted, is_about
from headrace.edge.tables.drain import Drained, partials_of
from headrace.edge.tables.row_layout import WORD_BYTES, Attributes, Form, Piece, attribute_of, form_of
from headrace.edge.tables.spans import Span, code_matrix, spans_of, take_rows
from headrace.edge.tables.tables import CHUNK, Evicted, Flush, Replacement, Tables
from headrace.kernel.combine import NodePartials
from headrace.kernel.level1.fold import fold_all
from headrace.kernel.level1.rows import KeptRows, NodeSource
from headrace.model.arrays import Integers
from headrace.model.stable_names import stable_text
from headrace.planner.lattice import Node
from headrace.planner.phantoms.configuration import Configuration
from headrace.planner.phantoms.relations import Relation

Part = tuple[int, NodePartials]
"""Rows of the node at a place of the plan."""

MOST_BUFFERED = 1_024
LEAST_BUFFERED = 256
MOST_SAMPLED = 8_192
LEAST_SAMPLED = 512
OUTPUT_SHARE = SAMPLE_SHARE = 8
"""The part of the output, and that of the sample, of the tables' memory is one over this."""


@dataclass
class Running:
    """Tables in use, for as long as the form is the same."""

    form: Form
    configuration: Configuration
    tables: Tables
    sample: Sample
    evicted: dict[int, list[Evicted]] = field(default_factory=dict)
    nbytes: int = 0
    """Of what was evicted."""


class Shared:
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
        found = {attributes.operands[partial] for partial in self.partials}
        self.operands = [operand for operand in found if operand is not None]
        self.seen: Seen | None = None
        self.running: Running | None = None
        self.ends_us: dict[int, int] = {}

    @property
    def nbytes(self) -> int:
        running = self.running
        return 0 if running is None else running.tables.nbytes + running.sample.codes.nbytes + running.nbytes

    # Rows in

    def feed(self, piece: Piece) -> Iterator[Part]:
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

    def worth_a_turn(self, spans: Sequence[Span]) -> Collection[Span]:
        """Those that tables take: of slices that many rows are of, the slice they have already, and the newest.

        When tables turn to another slice, all their entries leave. Some late rows are not worth that.
        """
        current = None if self.running is None else self.running.tables.slice
        newest = spans[-1].start_us if current is None else max(current, spans[-1].start_us)
        return {span for span in spans if span.rows >= self.span_rows or span.start_us in (current, newest)}

    def feed_spans(self, piece: Piece, positions: Integers | None, spans: Collection[Span]) -> None:
        form = form_of(self.coders, self.partials, self.attributes)
        codes = code_matrix([each for coder in self.coders.values() for each in piece.codes(coder)], positions)
        values = [take_rows(piece.values(given), positions) for given in form.givens]
        ordered = sorted(spans)
        if self.running is None or self.running.form != form:
            self.running = self.start_tables(form, codes, ordered)
        for span in ordered:
            own = codes[:, span.begin : span.end]
            self.ends_us[span.start_us] = span.end_us
            self.running.sample.add(own, span.start_us)
            given = [each[span.begin : span.end] for each in values]
            self.keep_evicted(self.running, self.running.tables.feed(own, given, span.start_us))

    def keep_evicted(self, running: Running, evicted: Iterator[Evicted]) -> None:
        for part in evicted:
            running.evicted.setdefault(part.query, []).append(part)
            running.nbytes += part.codes.nbytes + sum(each.nbytes for each in part.values)

    def fold(self, rows: NodeSource) -> Iterator[Part]:
        for place, node in self.nodes.items():
            yield place, fold_all(node, rows)

    # Tables

    def start_tables(self, form: Form, codes: Integers, spans: Sequence[Span]) -> Running:
        """Empty tables. The first time sizes are those of the rows at hand."""
        rows = self.memory_bytes // SAMPLE_SHARE // (WORD_BYTES * (1 + len(form.sizes)))
        sample = Sample(len(form.sizes), max(LEAST_SAMPLED, min(MOST_SAMPLED, rows)))
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
        return Running(form, configuration, tables, sample)

    def sizes_in(self, sample: Sample, form: Form) -> Seen:
        return sample.measure({relation: form.places(relation) for relation in candidates(self.places)})

    def choose_configuration(self, form: Form, seen: Seen, sample: Sample) -> Configuration:
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
        return max(LEAST_BUFFERED, min(MOST_BUFFERED, rows))

    @property
    def weight(self) -> float:
        """What memory saves here: collisions are as many as rows times groups by the space for them [GS 5]."""
        if self.running is None or self.seen is None:
            return 0.0
        form, groups = self.running.form, self.seen.groups
        needed = sum(groups[relation] * form.entry_bytes(relation) for relation in self.places)
        return math.sqrt(self.running.sample.fed * needed)

    def adapt(self, memory_bytes: int) -> None:
        """Other tables, if sizes or the memory have changed. All are empty, and nothing waits to be drained."""
        running = self.running
        if running is None or self.seen is None or not running.sample.rows:
            return
        seen = self.sizes_in(running.sample, running.form)
        if has_drifted(self.seen, seen) or not is_about(memory_bytes, self.memory_bytes):
            self.seen, self.memory_bytes, self.running = seen, memory_bytes, None
        running.sample.clear()

    # Partials out

    def settle(self) -> Iterator[Part]:
        """All there is: then the tables are empty."""
        if self.running is not None:
            self.keep_evicted(self.running, self.running.tables.flush())
            yield from self.drain()
        self.ends_us.clear()

    def drain(self) -> Iterator[Part]:
        """What was evicted."""
        running = self.running
        if running is None:
            return
        for parts in running.evicted.values():
            drained = Drained(parts, self.ends_us)
            relation = frozenset(map(attribute_of, parts[0].attributes))
            for place in self.places[relation]:
                yield place, partials_of(self.nodes[place], drained, self.attributes, running.form)
        running.evicted.clear()
        running.nbytes = 0
