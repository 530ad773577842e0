"""Which reducer owns a group: a hash of its values, the same in every process, plan and version.

A state directory is laid out by it, so it must never change.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from zlib import crc32

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from headrace.aggregates.partials import Partial
from headrace.expressions.columns import raw
from headrace.kernel.combine import NodePartials, ordered_groups
from headrace.kernel.groups import encode, encode_columns
from headrace.kernel.states.columns import Columns
from headrace.kernel.states.totals import Totals
from headrace.kernel.string_loops import number_strings
from headrace.kernel.strings import buffers
from headrace.model.arrays import Integers

Words = npt.NDArray[np.uint64]

MIXING = np.uint64(0x9E3779B97F4A7C15)
SHIFT, UPPER = np.uint64(29), np.uint64(32)
WIDE_BYTES = 16
COPIES = 4
"""Reducers that have rows without groups: these are few, and to close hundreds of queries over them is the work."""


def owner_without_groups(query: str, reducers: int) -> int:
    """Which of them answers a query, by its name."""
    return crc32(query.encode()) % min(reducers, COPIES)


def split(part: NodePartials, reducers: int) -> Iterator[tuple[int, NodePartials]]:
    """The rows of each reducer that has some. Rows without groups go to several, which share the queries over them."""
    if reducers == 1 or not part.groups:
        for reducer in range(min(reducers, COPIES)):
            yield reducer, part
        return
    owners = owner_of(part, reducers)
    for reducer in np.unique(owners).tolist():
        yield reducer, take_rows(part, np.flatnonzero(owners == reducer))


def owner_of(part: NodePartials, reducers: int) -> Integers:
    groups = encode_columns(part.groups, part.rows)
    words = np.zeros(groups.table.size, dtype=np.uint64)
    for tree in ordered_groups(part.node):
        encoded = encode(groups.table.columns[tree])
        known = np.append(numbers_of(encoded.dictionary), np.uint64(0))
        words = mix_words(words, known[encoded.codes])
    owners: Integers = ((words >> UPPER) % np.uint64(reducers)).astype(np.int64)
    return owners[groups.codes]


def mix_words(words: Words, more: Words) -> Words:
    words = (words ^ more) * MIXING
    return words ^ words >> SHIFT


def numbers_of(values: pa.Array) -> Words:
    """One number for each value, none of which is NULL."""
    if pa.types.is_string(values.type):
        numbers = np.empty(len(values), dtype=np.uint64)
        number_strings(*buffers(values), numbers)
        return mix_words(numbers, np.uint64(1))  # type: ignore[arg-type]
    if pa.types.is_boolean(values.type):
        return np.asarray(values).astype(np.uint64) + np.uint64(1)
    if values.type.byte_width == WIDE_BYTES:
        halves = raw(values, np.uint64, words=2).reshape(-1, 2)
        return mix_words(mix_words(np.zeros(len(halves), dtype=np.uint64), halves[:, 0]), halves[:, 1])
    return mix_words(np.ones(len(values), dtype=np.uint64), raw(values, np.uint64))


def take_rows(part: NodePartials, rows: Integers) -> NodePartials:
    return replace(
        part,
        starts_us=part.starts_us[rows],
        ends_us=part.ends_us[rows],
        cells=part.cells[rows],
        groups=encode_columns(part.groups, part.rows).at(rows),
        states=states_at(part.states, rows),
    )


def states_at(states: Mapping[Partial, Columns], rows: Integers) -> Mapping[Partial, Columns]:
    if isinstance(states, Totals):
        return Totals({partial: own[rows] for partial, own in states.numbers.items()}, states.bound)
    chosen = pa.array(rows)
    return {partial: tuple(column.take(chosen) for column in state) for partial, state in states.items()}
