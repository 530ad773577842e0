"""The characters of a column of texts, found in its UTF-8 bytes all at once."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from headrace.expressions.columns import Values, validity_bitmap
from headrace.model.arrays import Integers


class Characters:
    """`places` are the bytes at which characters begin, then the end; `first` and `counts` select those of a text."""

    def __init__(self, texts: pa.Array) -> None:
        self.offsets = text_offsets(texts)
        self.bytes = text_bytes(texts)
        begins = (self.bytes[self.offsets[0] : self.offsets[-1]] & 0xC0) != 0x80
        self.places = np.append(np.flatnonzero(begins), len(begins)) + self.offsets[0]
        self.before = np.append(0, np.cumsum(begins))
        edges = self.before[self.offsets - self.offsets[0]]
        self.first: Integers = edges[:-1]
        self.counts: Integers = np.diff(edges)

    def slice(self, begin: Integers, end: Integers, *operands: Values) -> pa.Array:
        """The characters from `begin` up to `end` of each text, as far as there are any."""
        begin = np.clip(begin, 0, self.counts)
        end = np.clip(end, begin, self.counts)
        starts = self.places[self.first + begin]
        lengths = self.places[self.first + end] - starts
        offsets = np.append(0, np.cumsum(lengths))
        taken = np.repeat(starts - offsets[:-1], lengths) + np.arange(offsets[-1])
        return texts_of(self.bytes[taken], offsets, *operands)

    def count_before(self, byte: NDArray[Any]) -> Integers:
        """How many characters of each text lie before a byte of it."""
        counts: Integers = self.before[self.offsets[:-1] - self.offsets[0] + byte] - self.first
        return counts


def text_offsets(texts: pa.Array) -> Integers:
    if len(texts) == 0:
        return np.zeros(1, np.int64)
    return np.frombuffer(texts.buffers()[1], np.int32, len(texts) + 1, texts.offset * 4).astype(np.int64)


def text_bytes(texts: pa.Array) -> NDArray[np.uint8]:
    data = texts.buffers()[2]
    return np.zeros(0, np.uint8) if data is None or data.size == 0 else np.frombuffer(data, np.uint8)


def texts_of(data: NDArray[np.uint8], offsets: Integers, *operands: Values) -> pa.Array:
    buffers = [validity_bitmap(*operands), pa.py_buffer(offsets.astype(np.int32)), pa.py_buffer(data)]
    return pa.Array.from_buffers(pa.string(), len(offsets) - 1, buffers)
