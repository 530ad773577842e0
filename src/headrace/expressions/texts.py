"""Texts, measured in characters. Arrow where the other arguments are constants, as they mostly are."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import reduce
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from headrace.expressions.columns import (
    ColumnFunction,
    Evaluated,
    RowError,
    Values,
    build_column,
    check_held,
    one_row,
    patch_by_distinct,
    raw,
    repeat_value,
    row_by_row,
    row_count,
    set_failed_null,
    validity_bitmap,
)
from headrace.expressions.functions import pattern_parts
from headrace.model.arrays import Integers
from headrace.model.expressions import Call, Literal
from headrace.model.types import MAX_TEXT_BYTES, STRING

FAR = 2**40
"""Beyond the end of every text."""
Lengths = NDArray[np.int64]


def with_constants(vectorised: Callable[..., pa.Array], one: Callable[..., Any]) -> ColumnFunction:
    """`vectorised` where all arguments but the first are constants; else `one` row after the other."""

    def compute(call: Call, values: list[Values]) -> Evaluated:
        text, *others = values
        if isinstance(text, pa.Array) and all(isinstance(other, pa.Scalar) for other in others):
            return Evaluated(vectorised(text, *(other.as_py() for other in others)))
        return row_by_row(one, values, [STRING] * len(values), call.type)

    return compute


# Texts that may be longer than what they are made of: their lengths are known before memory is taken for them


def concat(call: Call, values: list[Values]) -> Evaluated:
    lengths = reduce(np.add, map(byte_lengths, values))

    def join(first: pa.Array) -> pa.Array:
        return pc.binary_join_element_wise(first, *values[1:], "", null_handling="emit_null")

    return within_limit(repeat_value(values[0], row_count(values)), lengths, join, *values[1:])


def byte_lengths(texts: Values) -> Lengths:
    """The length of each text; 0 for a NULL."""
    return raw(pc.fill_null(pc.binary_length(one_row(texts)), 0), np.int32).astype(np.int64)


def within_limit(text: pa.Array, lengths: Lengths, make: Callable[[pa.Array], pa.Array], *others: Values) -> Evaluated:
    """What `make` makes of texts, where it has these lengths; a text that would be too long fails its row."""
    too_long = np.broadcast_to(lengths > MAX_TEXT_BYTES, (len(text),))
    check_held(int(np.broadcast_to(lengths, (len(text),)).sum(where=~too_long)))
    if not too_long.any():
        return Evaluated(make(text))
    short = pc.if_else(pa.array(too_long), pa.scalar(None, text.type), text)
    return set_failed_null(make(short), too_long, text, *others)


def replace(call: Call, values: list[Values]) -> Evaluated:
    text, old, new = values
    if isinstance(text, pa.Array) and isinstance(old, pa.Scalar) and isinstance(new, pa.Scalar):
        part, other = old.as_py(), new.as_py()
        if not part:
            return within_limit(text, byte_lengths(text), lambda texts: texts)
        counts = raw(pc.fill_null(pc.count_substring(text, part), 0), np.int32).astype(np.int64)
        lengths = byte_lengths(text) + counts * (len(other.encode()) - len(part.encode()))
        return within_limit(text, lengths, lambda texts: pc.replace_substring(texts, part, other))
    return replace_by_row(values)


def replace_by_row(values: list[Values]) -> Evaluated:
    total = 0

    def compute(text: str, old: str, new: str) -> str:
        nonlocal total
        growth = len(new.encode()) - len(old.encode())
        length = len(text.encode()) + (text.count(old) * growth if old else 0)
        if length > MAX_TEXT_BYTES:
            raise RowError("the text is too long")
        total += length
        check_held(total)
        return text.replace(old, new) if old else text

    return row_by_row(compute, values, [STRING] * 3, STRING)


def length(call: Call, values: list[Values]) -> Evaluated:
    return Evaluated(pc.utf8_length(values[0]).cast(pa.int64()))


# Case: one character for one character, so the German sharp s keeps its form


def change_case(ascii_form: Callable[[pa.Array], pa.Array], change: Callable[[str], str]) -> ColumnFunction:
    """Each distinct text that is not ASCII goes through Python, so the Unicode tables are those of the reference."""

    def compute(call: Call, values: list[Values]) -> Evaluated:
        changed = ascii_form(values[0])
        other = ~pc.fill_null(pc.string_is_ascii(values[0]), True).to_numpy(zero_copy_only=False)
        if not other.any():
            return Evaluated(changed)
        return patch_by_distinct(changed, other, change, values[0], STRING, STRING)

    return compute


def simple_upper(text: str) -> str:
    changed = text.upper()
    return changed if len(changed) == len(text) else "".join(one_for_one(char, char.upper()) for char in text)


def simple_lower(text: str) -> str:
    """Python writes a sigma at the end of a word in its own way."""
    changed = text.replace("\u03a3", "\u03c3").lower()
    return changed if len(changed) == len(text) else "".join(one_for_one(char, char.lower()) for char in text)


def one_for_one(char: str, changed: str) -> str:
    return changed if len(changed) == 1 else char


# Parts of texts


def substring(call: Call, values: list[Values]) -> Evaluated:
    """Positions count from 1, negative ones from the end; 0 is as 1."""
    text, position, *rest = values
    if all(isinstance(one, pa.Scalar) for one in values[1:]):
        return Evaluated(constant_slice(text, position.as_py(), rest[0].as_py() if rest else None))
    characters = Characters(repeat_value(text, row_count(values)))
    start, count = raw(position), raw(rest[0]) if rest else np.array([FAR])
    # a negative position plus a length can't overflow; the others may be cut down, since no text is that long
    ahead, behind = np.clip(start, 1, FAR) - 1, np.maximum(start, -FAR)
    reached = np.clip(np.minimum(start, 0) + np.maximum(count, 0), -FAR, FAR)
    begin = np.where(start < 0, characters.counts + behind, ahead)
    end = np.where(start < 0, characters.counts + reached, ahead + np.minimum(count, FAR))
    end = np.where(count > 0, end, begin) if rest else characters.counts
    return Evaluated(characters.slice(begin, end, *values))


def constant_slice(text: pa.Array, position: int, count: int | None) -> pa.Array:
    if count is not None and count <= 0:
        return pc.utf8_slice_codeunits(text, 0, 0)
    start = max(position, -FAR) if position < 0 else min(max(position, 1), FAR) - 1
    if position < 0:
        # counted from the end as well, which -0 could not say
        stop = None if count is None or position + count >= 0 else max(position + count, -FAR)
    else:
        stop = None if count is None else start + min(count, FAR)
    return pc.utf8_slice_codeunits(text, start, stop)


def take_left(call: Call, values: list[Values]) -> Evaluated:
    text, count = values
    if isinstance(count, pa.Scalar):
        return Evaluated(constant_slice(text, 1, count.as_py()))
    return Evaluated(Characters(repeat_value(text, len(count))).slice(np.zeros(1, np.int64), raw(count), *values))


def right(call: Call, values: list[Values]) -> Evaluated:
    text, count = values
    if isinstance(count, pa.Scalar):
        number = count.as_py()
        return Evaluated(constant_slice(text, -number, None) if number > 0 else constant_slice(text, 1, 0))
    characters = Characters(repeat_value(text, len(count)))
    begin = characters.counts - np.clip(raw(count), 0, FAR)
    return Evaluated(characters.slice(begin, characters.counts, *values))


# Looking for texts


def find(text: pa.Array, part: str) -> pa.Array:
    """Arrow counts bytes; where characters have more than one, they are counted."""
    byte = pc.find_substring(text, part)
    if pc.all(pc.string_is_ascii(text)).as_py() is not False:
        return pc.add(byte.cast(pa.int64()), 1)
    bytes_before = raw(byte, np.int32)
    positions = np.where(bytes_before < 0, 0, Characters(text).count_before(np.maximum(bytes_before, 0)) + 1)
    return build_column(positions, pa.int64(), text)


def like(call: Call, values: list[Values]) -> Evaluated:
    pattern = call.arguments[1]
    if not isinstance(pattern, Literal) or not isinstance(pattern.value, str):
        raise TypeError("the pattern is a constant")
    parts = pattern_parts(pattern.value)
    literal = "".join(part[-1] for part in parts if part not in WILDCARDS)
    shape = "".join(part if part in WILDCARDS else "x" for part in parts)
    simple = SIMPLE_PATTERNS.get(re.sub("x+", "x", re.sub("%+", "%", shape)))
    if simple is not None:
        return Evaluated(simple(values[0], literal))
    expression = "".join(WILDCARDS.get(part) or escape_char(part[-1]) for part in parts)
    return Evaluated(pc.match_substring_regex(values[0], rf"(?s)\A{expression}\z"))


def escape_char(char: str) -> str:
    return char if char.isalnum() else f"\\x{{{ord(char):x}}}"


WILDCARDS = {"%": ".*", "_": "."}
SIMPLE_PATTERNS: dict[str, Callable[[pa.Array, str], pa.Array]] = {
    "": pc.equal,
    "x": pc.equal,
    "%": pc.starts_with,
    "x%": pc.starts_with,
    "%x": pc.ends_with,
    "%x%": pc.match_substring,
}

# Characters, found in the UTF-8 bytes of a column all at once


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


STRICT: dict[str, ColumnFunction] = {
    "like": like,
    "concat": concat,
    "lower": change_case(pc.ascii_lower, simple_lower),
    "upper": change_case(pc.ascii_upper, simple_upper),
    "length": length,
    "trim": lambda call, values: Evaluated(pc.ascii_trim(values[0], " ")),
    "ltrim": lambda call, values: Evaluated(pc.ascii_ltrim(values[0], " ")),
    "rtrim": lambda call, values: Evaluated(pc.ascii_rtrim(values[0], " ")),
    "substring": substring,
    "left": take_left,
    "right": right,
    "replace": replace,
    "instr": with_constants(find, lambda text, part: text.find(part) + 1),
    "starts_with": with_constants(pc.starts_with, str.startswith),
    "ends_with": with_constants(pc.ends_with, str.endswith),
    "contains": with_constants(pc.match_substring, lambda text, part: part in text),
}
