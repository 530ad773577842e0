"""A configuration laid out as arrays of numbers, so that one compiled loop runs any of them.

The codes of a row are bit fields at fixed places in as few 64-bit words as hold them, mostly one. A group by fewer
attributes is then the same words under a mask, whatever the code spaces are. A table keeps only the words it has
attributes in. Tables are laid out depth first: all that a table feeds follows it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum

import numpy as np

from headrace.edge.tables import loops as at
from headrace.model.arrays import Integers
from headrace.planner.phantoms.configuration import Configuration

WORD_BITS = 64
MAX_ENTRIES = 2**32 - 1
"""Places are drawn from half a hash."""


class FoldRule(Enum):
    """What is done with two states of a group; in this order they stand in an entry, so that each kind is one loop."""

    ADD_INTEGERS = 0
    ADD_DOUBLES = 1
    KEEP_LEAST = 2
    KEEP_GREATEST = 3


class StateKind(Enum):
    """An aggregate. Whole numbers wrap at 64 bits, so a sum is right whenever it fits, whatever came before."""

    COUNT = ("count", FoldRule.ADD_INTEGERS, None)
    SUM = ("sum", FoldRule.ADD_INTEGERS, np.int64)
    DOUBLE_SUM = ("sum of doubles", FoldRule.ADD_DOUBLES, np.float64)
    LEAST = ("least", FoldRule.KEEP_LEAST, np.int64)
    LEAST_DOUBLE = ("least double", FoldRule.KEEP_LEAST, np.float64)
    GREATEST = ("greatest", FoldRule.KEEP_GREATEST, np.int64)
    GREATEST_DOUBLE = ("greatest double", FoldRule.KEEP_GREATEST, np.float64)

    def __init__(self, label: str, fold: FoldRule, dtype: type[np.generic] | None) -> None:
        self.label = label
        self.fold = fold
        self.dtype = dtype

    @property
    def is_ordered_double(self) -> bool:
        """Doubles to be compared are kept as whole numbers in the same order, NaN the greatest."""
        return self.dtype is np.float64 and self.fold is not FoldRule.ADD_DOUBLES


@dataclass(frozen=True, slots=True)
class StateColumn:
    """One aggregate of all tables, and which of the value columns it is of; a count is of none.

    There is no null: give what changes nothing instead, and count the others by the sum of a column of 0 and 1.
    """

    kind: StateKind
    value: int | None = None

    def __post_init__(self) -> None:
        if (self.value is None) != (self.kind is StateKind.COUNT):
            raise ValueError(f"a {self.kind.label} of the value column {self.value}")
        if self.value is not None and self.value < 0:
            raise ValueError("value columns are numbered from 0")


@dataclass(frozen=True, slots=True)
class BitField:
    """Where an attribute's code is in the key words of a row."""

    word: int
    shift: int
    bits: int

    @property
    def mask(self) -> int:
        """As a word with a sign."""
        mask = ((1 << self.bits) - 1) << self.shift
        return mask - (1 << WORD_BITS) if mask >> (WORD_BITS - 1) else mask


def bit_fields(sizes: Mapping[str, int | None]) -> dict[str, BitField]:
    """Each attribute into the first word that has room. A code space of unknown size takes a whole word."""
    used: list[int] = []
    fields = {}
    for attribute, size in sizes.items():
        if size is not None and not 1 <= size <= 2**63:
            raise ValueError(f"a code space of {size} codes")
        bits = WORD_BITS if size is None else max(1, (size - 1).bit_length())
        word = next((number for number, taken in enumerate(used) if taken + bits <= WORD_BITS), len(used))
        if word == len(used):
            used.append(0)
        fields[attribute] = BitField(word, used[word], bits)
        used[word] += bits
    return fields


def depth_first(configuration: Configuration, parent: int | None = None) -> Iterator[int]:
    for number in configuration.children(parent):
        yield number
        yield from depth_first(configuration, number)


def state_places(columns: Sequence[StateColumn]) -> tuple[int, ...]:
    by_fold = sorted(range(len(columns)), key=lambda number: columns[number].kind.fold.value)
    return tuple(by_fold.index(number) for number in range(len(columns)))


@dataclass(frozen=True, slots=True, eq=False)
class MemoryLayout:
    """`order` has the tables' numbers in the configuration, depth first; all else is by place in that order.

    `tables` is what the loops know of each. The stream's rows are the first words, `width` for each. `states` says
    which place each column's state has.
    """

    order: tuple[int, ...]
    trees: tuple[int, ...]
    fields: dict[str, BitField]
    key_words: tuple[tuple[int, ...], ...]
    states: tuple[int, ...]
    width: int
    tables: Integers
    words: int


def lay_out(
    configuration: Configuration,
    columns: Sequence[StateColumn],
    sizes: Mapping[str, int | None],
    *,
    chunk: int,
    buffered: int,
    sides: int,
    is_second_chance: bool,
) -> MemoryLayout:
    """First `chunk` rows of the stream, then a row for what each table evicted last, then entries, then the output.

    Each query has `buffered` rows on each of the output's sides.
    """
    fields = bit_fields(sizes)
    order = tuple(depth_first(configuration))
    stream_words = tuple(range(1 + max(field.word for field in fields.values())))
    key_words = tuple(words_of(fields, configuration.tables[number].attributes) for number in order)
    width = len(stream_words) + len(columns)
    tables = np.zeros((len(order), at.KEY + 2 * len(stream_words)), dtype=np.int64)
    tables[:, at.KEYS] = [len(words) for words in key_words]
    tables[:, at.STRIDE] = 1 + tables[:, at.KEYS] + len(columns)
    tables[:, at.ENTRIES] = [configuration.tables[number].entries for number in order]
    tables[:, at.IS_QUERY] = [configuration.tables[number].is_query for number in order]
    tables[:, at.BUFFERED] = buffered
    tables[:, at.OLDER] = sides - 1
    tables[:, at.SECOND_CHANCE] = is_second_chance
    for fold in FoldRule:
        tables[:, at.INTEGERS_END + fold.value] = sum(column.kind.fold.value <= fold.value for column in columns)
    end = place_regions(tables, at.EVICTED, tables[:, at.STRIDE], chunk * width)
    end = place_regions(tables, at.BASE, tables[:, at.STRIDE] * tables[:, at.ENTRIES], end)
    outputs = tables[:, at.IS_QUERY] * buffered * (tables[:, at.STRIDE] - 1)
    tables[:, at.SIDE_WORDS] = outputs.sum()
    end = place_regions(tables, at.OUTPUT, outputs, end) + (sides - 1) * int(outputs.sum())
    for place, number in enumerate(order):
        parent = configuration.tables[number].parent
        above = stream_words if parent is None else key_words[order.index(parent)]
        if parent is not None:
            tables[place, at.SOURCE] = tables[order.index(parent), at.EVICTED] + 1
        tables[place, at.SOURCE_KEYS] = len(above)
        tables[place, at.AFTER] = place + 1 + sum(1 for _ in depth_first(configuration, number))
        for key, word in enumerate(key_words[place]):
            kept = configuration.tables[number].attributes
            mask = sum(field.mask for name, field in fields.items() if name in kept and field.word == word)
            tables[place, at.KEY + 2 * key : at.KEY + 2 * key + 2] = above.index(word), mask
    return MemoryLayout(
        order=order,
        trees=tuple(order.index(number) for number in configuration.children(None)),
        fields=fields,
        key_words=key_words,
        states=state_places(columns),
        width=width,
        tables=tables,
        words=end,
    )


def words_of(fields: Mapping[str, BitField], attributes: frozenset[str]) -> tuple[int, ...]:
    return tuple(sorted({fields[name].word for name in attributes}))


def place_regions(tables: Integers, column: int, sizes: Integers, begin: int) -> int:
    """One region of words for each table, side by side; where they end."""
    ends = begin + np.cumsum(sizes)
    tables[:, column] = ends - sizes
    return int(ends[-1])
