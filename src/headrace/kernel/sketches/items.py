"""Items of any type as bytes in a common order, and as the 64-bit codes that loops count by.

To compare the bytes of two items from the first on is to compare the items: whole numbers lie with the most
significant byte first and the sign flipped, so do DOUBLEs by their ranks, and equal DOUBLEs are equal bytes. An item of
8 bytes is its own code; of others the code is the rank among those at hand.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from headrace.expressions.columns import canonical, raw
from headrace.kernel.sketches.packed_bytes import Bytes, Offsets, open_states
from headrace.kernel.states.columns import rank_values, readable
from headrace.model.arrays import Integers
from headrace.model.arrow import ADDRESS_BYTES, arrow_type
from headrace.model.errors import UnsupportedError
from headrace.model.types import MAX_BIGINT, MAX_DECIMAL_DIGITS, TIMESTAMP

BIGINT_TAG, DOUBLE_TAG, BOOLEAN_TAG, STRING_TAG, TIMESTAMP_TAG, DECIMAL_TAG, ADDRESS_TAG = range(1, 8)
WORD, WIDE = 8, 16
SIGN = np.uint64(1 << 63)
WIDTHS = {STRING_TAG: 0, DECIMAL_TAG: WIDE, ADDRESS_TAG: ADDRESS_BYTES}
"""Bytes of an item where they are not a word; 0 where each has its own length."""
TAGS = {
    pa.int64(): BIGINT_TAG,
    pa.float64(): DOUBLE_TAG,
    pa.bool_(): BOOLEAN_TAG,
    pa.string(): STRING_TAG,
    arrow_type(TIMESTAMP): TIMESTAMP_TAG,
    pa.binary(ADDRESS_BYTES): ADDRESS_TAG,
}
ARROW_TYPES = {tag: arrow for arrow, tag in TAGS.items()}


@dataclass(frozen=True, slots=True)
class ItemKind:
    """The type of items as three bytes of a state."""

    tag: int
    precision: int = 0
    scale: int = 0

    @property
    def width(self) -> int:
        return WIDTHS.get(self.tag, WORD)

    @property
    def label(self) -> int:
        return self.tag | self.precision << 8 | self.scale << 16

    @property
    def arrow(self) -> pa.DataType:
        return pa.decimal128(self.precision, self.scale) if self.tag == DECIMAL_TAG else ARROW_TYPES[self.tag]


def kind_of(arrow: pa.DataType) -> ItemKind:
    if pa.types.is_decimal128(arrow):
        return ItemKind(DECIMAL_TAG, arrow.precision, arrow.scale)
    if arrow not in TAGS:
        raise UnsupportedError("unsupported", f"items of type {arrow} can't be counted")
    return ItemKind(TAGS[arrow])


def kind_labelled(label: int) -> ItemKind:
    """Return the kind of a state's three bytes."""
    return ItemKind(label & 255, label >> 8 & 255, label >> 16 & 255)


def is_label(label: int) -> bool:
    """Return whether there is such a kind."""
    kind = kind_labelled(label)
    if kind.tag == DECIMAL_TAG:
        return 1 <= kind.precision <= MAX_DECIMAL_DIGITS and kind.scale <= kind.precision
    return kind.tag in ARROW_TYPES and not kind.precision and not kind.scale


@dataclass(frozen=True, slots=True, eq=False)
class ItemCodes:
    """Codes in the order of their items. Without a dictionary a code is the item itself."""

    codes: Integers
    dictionary: pa.Array | None = None

    def items(self, codes: Integers) -> tuple[Bytes, Offsets]:
        """Their bytes one after the other, and where each begins and the last one ends."""
        if self.dictionary is None:
            words = (codes.view(np.uint64) ^ SIGN).astype(">u8")
            return readable(words.view(np.uint8)), evenly(len(codes), WORD)
        taken = self.dictionary.take(pa.array(codes))
        if pa.types.is_fixed_size_binary(taken.type):
            return readable(raw(taken, np.uint8, WIDE).reshape(-1)), evenly(len(codes), WIDE)
        return open_states(taken)


def evenly(count: int, width: int) -> Offsets:
    return readable(np.arange(count + 1, dtype=np.int64) * width)


# From columns


def encode_items(values: pa.Array) -> ItemCodes:
    """The code of each row; under a NULL it means nothing. A dictionary must be in order."""
    if pa.types.is_dictionary(values.type):
        codes = readable(values.indices.fill_null(0).to_numpy().astype(np.int64))
        return ItemCodes(codes, comparable(values.dictionary, kind_of(values.type.value_type)))
    kind = kind_of(values.type)
    if kind.width == WORD:
        return ItemCodes(readable(words_of(values, kind)))
    return by_rank(comparable(values, kind))


def words_of(values: pa.Array, kind: ItemKind) -> Integers:
    if kind.tag == DOUBLE_TAG:
        return ranks_of_bits(raw(canonical(values)))
    return raw(values.cast(pa.int64()) if kind.tag == BOOLEAN_TAG else values)


def ranks_of_bits(bits: Integers) -> Integers:
    """Of DOUBLEs as they lie in memory: negative ones turned round. It is its own reverse."""
    return bits ^ ((bits >> 63) & MAX_BIGINT)


def comparable(values: pa.Array, kind: ItemKind) -> pa.Array:
    if kind.tag == STRING_TAG:
        return values.cast(pa.large_binary())
    if kind.tag == ADDRESS_TAG:
        return values
    words = raw(values, np.uint64, 2)
    turned = np.stack([words[:, 1] ^ SIGN, words[:, 0]], axis=1).astype(">u8")
    bitmap = pa.array(np.asarray(values.is_valid())).buffers()[1] if values.null_count else None
    return pa.Array.from_buffers(pa.binary(WIDE), len(values), [bitmap, pa.py_buffer(turned)])


def by_rank(items: pa.Array) -> ItemCodes:
    ranks, ordered = rank_values(items)
    return ItemCodes(readable(ranks), ordered)


# From bytes


def encode_stored(kind: ItemKind, data: Bytes, offsets: Offsets) -> ItemCodes:
    """Codes of items that states hold."""
    if kind.width == WORD:
        return ItemCodes(readable(words_in(data)))
    if kind.width == WIDE:
        return by_rank(pa.Array.from_buffers(pa.binary(WIDE), len(offsets) - 1, [None, pa.py_buffer(data)]))
    return by_rank(texts(data, offsets, pa.large_binary()))


def words_in(data: Bytes) -> Integers:
    return (data.view(">u8").astype(np.uint64) ^ SIGN).view(np.int64)


def texts(data: Bytes, offsets: Offsets, arrow: pa.DataType) -> pa.Array:
    return pa.Array.from_buffers(arrow, len(offsets) - 1, [None, pa.py_buffer(offsets), pa.py_buffer(data)])


def decode_items(kind: ItemKind, data: Bytes, offsets: Offsets) -> pa.Array:
    """The column that the items were; texts are large ones."""
    if kind.tag == STRING_TAG:
        return texts(data, offsets, pa.large_string())
    if kind.tag == BOOLEAN_TAG:
        return pa.array(words_in(data) != 0)
    memory = data
    if kind.tag == DECIMAL_TAG:
        memory = np.stack(wide_words(data)[::-1], axis=1).view(np.uint8).reshape(-1)
    elif kind.width == WORD:
        words = words_in(data)
        memory = (ranks_of_bits(words) if kind.tag == DOUBLE_TAG else words).view(np.uint8)
    return pa.Array.from_buffers(kind.arrow, len(offsets) - 1, [None, pa.py_buffer(np.ascontiguousarray(memory))])


def wide_words(data: Bytes) -> tuple[NDArray[np.uint64], NDArray[np.uint64]]:
    """The upper and the lower halves of whole numbers."""
    words = data.view(">u8").astype(np.uint64).reshape(-1, 2)
    return words[:, 0] ^ SIGN, words[:, 1]


def first_misfit(kind: ItemKind, data: Bytes, offsets: Offsets) -> int | None:
    """The first item that no value of the type has as its bytes."""
    if kind.tag == STRING_TAG:
        return first_invalid(texts(data, offsets, pa.large_string()))
    if kind.tag == BOOLEAN_TAG:
        misfits = words_in(data) >> 1 != 0
    elif kind.tag == DOUBLE_TAG:
        misfits = raw(canonical(decode_items(kind, data, offsets))) != raw(decode_items(kind, data, offsets))
    elif kind.tag == DECIMAL_TAG:
        high, low = wide_words(data)
        limit = 10**kind.precision
        misfits = at_least(high, low, limit) | ~at_least(high, low, 1 - limit)
    else:
        return None
    return int(np.argmax(misfits)) if misfits.any() else None


def at_least(high: NDArray[np.uint64], low: NDArray[np.uint64], limit: int) -> NDArray[np.bool_]:
    upper, lower = limit >> 64, np.uint64(limit & (1 << 64) - 1)
    signed = high.view(np.int64)
    reached: NDArray[np.bool_] = (signed > upper) | ((signed == upper) & (low >= lower))
    return reached


def first_invalid(strings: pa.Array) -> int | None:
    """The first that is not UTF-8, by halves."""
    if is_text(strings):
        return None
    begin, end = 0, len(strings)
    while end - begin > 1:
        middle = (begin + end) // 2
        begin, end = (middle, end) if is_text(strings[begin:middle]) else (begin, middle)
    return begin


def is_text(strings: pa.Array) -> bool:
    try:
        strings.validate(full=True)
    except pa.ArrowInvalid:
        return False
    return True
