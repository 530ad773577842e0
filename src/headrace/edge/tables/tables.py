"""Fixed-memory tables at the edge: rows in, partial aggregates out when there is no room for them [GS 2, UDAF 6]."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum

import numpy as np
import numpy.typing as npt

from headrace.edge.tables import loops as at
from headrace.edge.tables.loops import LARGEST, copy_ordered, copy_values, feed_rows, pack_codes, sweep
from headrace.edge.tables.memory_layout import MAX_ENTRIES, WORD_BITS, StateColumn, StateKind, lay_out
from headrace.model.arrays import Integers
from headrace.planner.phantoms.configuration import Configuration

Values = Integers | npt.NDArray[np.float64]

CHUNK = 4096
"""Rows put together at a time: they stay in the cache, and the calls for them cost little."""

FIRST_GENERATION = 3


class Replacement(Enum):
    """Where a group may be: at one place, or at two, of which one seen again gets a second chance [UDAF 6]."""

    DIRECT_MAPPED = "direct mapped"
    SECOND_CHANCE = "second chance"


class Flush(Enum):
    """When a slice ends, its entries leave at once, or some with each row of the next slice [UDAF 6]."""

    EAGER = "eager"
    LAZY = "lazy"


@dataclass(frozen=True, slots=True)
class TableCounts:
    """Of one table. A collision finds other groups of its slice in all its places; each eviction is a row passed on."""

    probes: int
    hits: int
    collisions: int
    evictions: int

    @property
    def collision_rate(self) -> float:
        return self.collisions / self.probes if self.probes else 0.0


@dataclass(frozen=True, slots=True, eq=False)
class Evicted:
    """Partials of one query in one slice. A group may come several times, also in one of these.

    `query` is the table's number in the configuration; `codes` has a row for each of `attributes`, `values` an array
    for each column.
    """

    query: int
    slice: int
    attributes: tuple[str, ...]
    codes: Integers
    values: tuple[Values, ...]

    def __len__(self) -> int:
        return int(self.codes.shape[1])


class Tables:
    """A configuration that runs. Its memory is taken here and never grows.

    `sizes` names the attributes in the order of the codes, with the sizes of their code spaces where they are known.
    `buffered` is how many rows each query may have waiting in the output, `swept` how many entries a lazy flush looks
    at with each row: the old slice is out after (entries / swept) rows.

    All rows of a call are of one slice, so the loop does not look at slices: spans are found once, by the caller,
    which knows the boundaries. Slices leave in the order in which they came. While an old slice leaves lazily, rows of
    the new one wait in a second output; should that be full, the rest of the old slice leaves at once.
    """

    def __init__(
        self,
        configuration: Configuration,
        columns: Sequence[StateColumn],
        sizes: Mapping[str, int | None],
        *,
        replacement: Replacement = Replacement.SECOND_CHANCE,
        flush: Flush = Flush.LAZY,
        buffered: int = 1024,
        swept: int = 4,
    ) -> None:
        if buffered < 1 or swept < 1:
            raise ValueError("at least one row is buffered, and one entry swept")
        if not configuration.tables:
            raise ValueError("a configuration without tables")
        if any(table.entries > MAX_ENTRIES for table in configuration.tables):
            raise ValueError(f"a table of more than {MAX_ENTRIES} entries")
        used = frozenset[str]().union(*(table.attributes for table in configuration.tables))
        if missing := used - sizes.keys():
            raise ValueError(f"no codes are given for {', '.join(sorted(missing))}")
        self.configuration = configuration
        self.columns = tuple(columns)
        self.is_lazy = flush is Flush.LAZY
        self.swept = swept
        self.layout = lay_out(
            configuration,
            columns,
            {name: size for name, size in sizes.items() if name in used},
            chunk=CHUNK,
            buffered=buffered,
            sides=2 if self.is_lazy else 1,
            is_second_chance=replacement is Replacement.SECOND_CHANCE,
        )
        self.first_state = self.layout.width - len(columns)
        self.tables = self.layout.tables
        self.tables[:, at.SWEPT_TABLE] = self.tables[:, at.AFTER]
        self.words = np.zeros(self.layout.words, dtype=np.int64)
        self.full = np.zeros(2, dtype=np.int64)
        self.attributes = tuple(sizes)
        self.fields = np.array(
            [
                (self.attributes.index(name), field.word, field.shift, field.bits)
                for name, field in self.layout.fields.items()
            ],
            dtype=np.int64,
        )
        for column, place in zip(columns, self.layout.states, strict=True):
            if column.kind is StateKind.COUNT:
                self.words[self.first_state + place : CHUNK * self.layout.width : self.layout.width] = 1
        self.generation = FIRST_GENERATION
        self.slice: int | None = None
        self.older_slice: int | None = None
        self.is_busy = False

    @property
    def nbytes(self) -> int:
        """All memory of the tables, the output and the rows in work."""
        return self.words.nbytes + self.tables.nbytes + self.full.nbytes + self.fields.nbytes

    @property
    def counts(self) -> tuple[TableCounts, ...]:
        """For each table of the configuration."""
        counted = (self.tables[self.layout.order.index(number)] for number in range(len(self.layout.order)))
        return tuple(
            TableCounts(
                probes=int(table[at.PROBES]),
                hits=int(table[at.PROBES] - table[at.MISSES]),
                collisions=int(table[at.COLLISIONS]),
                evictions=int(table[at.EVICTIONS]),
            )
            for table in counted
        )

    def feed(self, codes: Integers, values: Sequence[Values], slice_: int) -> Iterator[Evicted]:
        """Rows of one slice. They go in as the iterator is read, which must be to its end before the next call.

        `codes` has a row for each attribute. A slice other than the last call's ends that one.
        """
        if codes.dtype != np.int64 or codes.ndim != 2 or len(codes) != len(self.attributes):
            raise ValueError(f"codes are 64-bit integers, {len(self.attributes)} for each row")
        for column in self.columns:
            if column.value is None:
                continue
            numbers = values[column.value]
            if numbers.dtype != column.kind.dtype or numbers.shape != codes.shape[1:]:
                raise ValueError(f"a {column.kind.label} is of one {np.dtype(column.kind.dtype)} for each row")
        return self._alone(self._feed(codes, values, slice_))

    def flush(self) -> Iterator[Evicted]:
        """All that is left, as when a frame is cut."""
        return self._alone(self._turn(None))

    def _alone(self, evicted: Iterator[Evicted]) -> Iterator[Evicted]:
        if self.is_busy:
            raise RuntimeError("the last call failed, or its rows were not read to their end")
        self.is_busy = True
        yield from evicted
        self.is_busy = False

    def _feed(self, codes: Integers, values: Sequence[Values], slice_: int) -> Iterator[Evicted]:
        if slice_ != self.slice:
            yield from self._turn(slice_)
        for first in range(0, codes.shape[1], CHUNK):
            count = min(CHUNK, codes.shape[1] - first)
            self._load(codes, values, first, count)
            for tree in self.layout.trees:
                yield from self._feed_tree(tree, count)

    def _feed_tree(self, tree: int, count: int) -> Iterator[Evicted]:
        row, width = 0, self.layout.width
        while row < count or self.tables[tree, at.OWED]:
            row = feed_rows(self.words, self.tables, self.full, tree, row, count, width, self.swept, self.generation)
            if self.full[0]:
                yield from self._older_out()
                yield from self._take(0, self.slice)
            elif self.full[1]:
                yield from self._take(1, self.older_slice)

    def _load(self, codes: Integers, values: Sequence[Values], first: int, count: int) -> None:
        """Some rows of the stream, from columns to rows of words."""
        words, width = self.words, self.layout.width
        wrong = pack_codes(codes, first, count, words, width, self.fields)
        if wrong >= 0:
            raise ValueError(f"{self.attributes[wrong]} has a code out of its code space")
        for column, place in zip(self.columns, self.layout.states, strict=True):
            if column.value is None:
                continue
            numbers = values[column.value]
            if column.kind.is_ordered_double:
                copy_ordered(numbers.view(np.float64), first, count, words, width, self.first_state + place)
            else:
                copy_values(numbers.view(np.int64), first, count, words, width, self.first_state + place)

    def _turn(self, slice_: int | None) -> Iterator[Evicted]:
        """The slice ends: from now on its entries are old."""
        if self.slice is not None:
            yield from self._older_out()
            yield from self._take(0, self.slice)
            self.older_slice = self.slice
            self.generation += 2
            for tree in self.layout.trees:
                self.tables[tree, at.SWEPT_TABLE], self.tables[tree, at.SWEPT_ENTRY] = tree, 0
        self.slice = slice_
        if slice_ is None or not self.is_lazy:
            yield from self._older_out()

    def _older_out(self) -> Iterator[Evicted]:
        """All that is left of the slice before."""
        if self.older_slice is None:
            return
        side = int(self.is_lazy)
        for tree in self.layout.trees:
            while sweep(self.words, self.tables, self.full, tree, LARGEST, self.generation):
                yield from self._take(side, self.older_slice)
            self.tables[tree, at.OWED] = 0
        yield from self._take(side, self.older_slice)
        self.older_slice = None

    def _take(self, side: int, slice_: int | None) -> Iterator[Evicted]:
        """What one side of the output has, one query after the other."""
        assert slice_ is not None
        for place in range(len(self.tables)):
            if fill := int(self.tables[place, at.FILL + side]):
                evicted = self._read(place, side, fill, slice_)
                self.tables[place, at.FILL + side] = 0
                yield evicted
        self.full[side] = 0

    def _read(self, place: int, side: int, fill: int, slice_: int) -> Evicted:
        number, key_words, table = self.layout.order[place], self.layout.key_words[place], self.tables[place]
        width = int(table[at.STRIDE]) - 1
        start = int(table[at.OUTPUT]) + side * int(table[at.SIDE_WORDS])
        rows = self.words[start : start + fill * width].reshape(fill, width)
        kept = self.configuration.tables[number].attributes
        fields = {name: field for name, field in self.layout.fields.items() if name in kept}
        codes = np.empty((len(fields), fill), dtype=np.int64)
        for code, field in zip(codes, fields.values(), strict=True):
            np.right_shift(rows[:, key_words.index(field.word)], field.shift, out=code)
            if field.bits < WORD_BITS:
                code &= (1 << field.bits) - 1
        values = tuple(
            lower_states(rows[:, len(key_words) + state].copy(), column.kind)
            for column, state in zip(self.columns, self.layout.states, strict=True)
        )
        return Evicted(number, slice_, tuple(fields), codes, values)


def lower_states(words: Integers, kind: StateKind) -> Values:
    """States as they are given out."""
    if kind.is_ordered_double:
        words ^= (words >> 63) & LARGEST
    return words.view(np.float64) if kind.dtype is np.float64 else words
