"""Which reducer owns a group: a hash of its values gives its key group, the same in every process, plan and version.

A state is laid out by key groups, so the hash must never change. The number of reducers may.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from headrace.expressions.columns import raw
from headrace.kernel.combine import NodePartials, ordered_groups
from headrace.kernel.groups import encode, encode_columns
from headrace.kernel.states.columns import string_buffers
from headrace.kernel.string_loops import number_strings
from headrace.model.arrays import Integers
from headrace.model.key_groups import KEY_GROUPS, Partitioning

Words = npt.NDArray[np.uint64]

MIXING = np.uint64(0x9E3779B97F4A7C15)
SHIFT, UPPER = np.uint64(29), np.uint64(32)
WIDE_BYTES = 16


def split(part: NodePartials, partitioning: Partitioning) -> Iterator[tuple[int, NodePartials]]:
    """Yield the rows of each reducer that has some. Rows without groups go to several."""
    if not part.groups:
        for reducer in range(partitioning.copies):
            yield reducer, part
        return
    if partitioning.reducers == 1:
        yield 0, part
        return
    owners = key_groups_of(part) * partitioning.reducers // KEY_GROUPS
    for reducer in np.unique(owners).tolist():
        yield reducer, part.at(np.flatnonzero(owners == reducer))


def key_groups_of(part: NodePartials) -> Integers:
    """Return the key group of each row."""
    groups = encode_columns(part.groups, part.rows)
    words = np.zeros(groups.table.size, dtype=np.uint64)
    for tree in ordered_groups(part.node):
        encoded = encode(groups.table.columns[tree])
        known = np.append(numbers_of(encoded.dictionary), np.uint64(0))
        words = mix_words(words, known[encoded.codes])
    key_groups: Integers = ((words >> UPPER) % np.uint64(KEY_GROUPS)).astype(np.int64)
    return key_groups[groups.codes]


def mix_words(words: Words, more: Words) -> Words:
    words = (words ^ more) * MIXING
    return words ^ words >> SHIFT


def numbers_of(values: pa.Array) -> Words:
    """One number for each value, none of which is NULL."""
    if pa.types.is_string(values.type):
        numbers = np.empty(len(values), dtype=np.uint64)
        number_strings(*string_buffers(values), numbers)
        return mix_words(numbers, np.uint64(1))  # type: ignore[arg-type]
    if pa.types.is_boolean(values.type):
        return np.asarray(values).astype(np.uint64) + np.uint64(1)
    if values.type.byte_width == WIDE_BYTES:
        halves = raw(values, np.uint64, words=2).reshape(-1, 2)
        return mix_words(mix_words(np.zeros(len(halves), dtype=np.uint64), halves[:, 0]), halves[:, 1])
    return mix_words(np.ones(len(values), dtype=np.uint64), raw(values, np.uint64))
