"""JSON lines: one object per line. Arrow reads a block; where it can't, or might differ, each line is parsed.

A line that is no JSON object, or has a value of another type than declared, is a rejected row. Numbers are BIGINT
(whole ones), DOUBLE or DECIMAL; strings are STRING, TIMESTAMP, ADDRESS or DECIMAL. Of fields that differ only in case
the one spelled as declared counts. Declared columns are read whichever are asked for, as in CSV.
"""

from __future__ import annotations

import io
import json
import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.json as pa_json

from headrace.inputs.conversion import unreadable
from headrace.inputs.folders import NO_FOLDERS, Folders
from headrace.inputs.lines import LineBlock, ParsedLines, decode_text, first_line, parse_slowly
from headrace.inputs.source import Declaration, Source
from headrace.model.arrow import arrow_type, one_array
from headrace.model.schema import Column
from headrace.model.types import MAX_BIGINT, MIN_BIGINT

WHITESPACE = " \t\r\n"
OPENING, CLOSING = ord("{"), ord("}")
SIMPLE_NAME = re.compile(r"\w+", re.ASCII)
ESCAPED_NAME = re.compile(r"\\u(00([4-7]|3[0-9])|212a)", re.IGNORECASE)
"""Letters, digits and underscores that someone escaped; the Kelvin sign is a K."""
ODD_NUMBER = re.compile(r"[:\[,]\s*-?(NaN|Inf)")
"""Arrow reads other words for these than Python."""


class Whole(str):
    """A JSON number without fraction and exponent, as written."""

    __slots__ = ()


class Real(str):
    """Another JSON number, as written."""

    __slots__ = ()


class Fields(list[tuple[str, Any]]):
    """A JSON object: its fields in order, as written."""


DECODER = json.JSONDecoder(parse_int=Whole, parse_float=Real, parse_constant=Real, object_pairs_hook=Fields)


def boolean(value: object) -> bool:
    if not isinstance(value, bool):
        raise ValueError("neither true nor false")
    return value


def bigint(value: object) -> int:
    if not isinstance(value, Whole) or not MIN_BIGINT <= (number := int(value)) <= MAX_BIGINT:
        raise ValueError("not a whole number of 64 bits")
    return number


def double(value: object) -> float:
    if not isinstance(value, Whole | Real):
        raise ValueError("not a number")
    return float(value)


def text(value: object) -> str:
    if not isinstance(value, str) or isinstance(value, Whole | Real):
        raise ValueError("not a string")
    value.encode()
    return value


def number_or_text(value: object) -> str:
    return str(value) if isinstance(value, Whole | Real) else text(value)


KINDS: dict[str, tuple[pa.DataType, Callable[[object], Any]]] = {
    "BOOLEAN": (pa.bool_(), boolean),
    "BIGINT": (pa.int64(), bigint),
    "DOUBLE": (pa.float64(), double),
    "STRING": (pa.string(), text),
    "TIMESTAMP": (pa.string(), text),
    "ADDRESS": (pa.string(), text),
    "BINARY": (pa.string(), text),
    "DECIMAL": (pa.string(), number_or_text),
}
"""For each type what a line gives: a column of values or of texts yet to be read, and the check of a JSON value."""


@dataclass(frozen=True, slots=True)
class JsonFormat:
    """How the lines of one file are read: the columns to look for, and the byte at which the first line begins.

    Lines have no header: a folder gives its value to the rows in which the field is missing or null.
    """

    columns: tuple[Column, ...]
    first: int = 0
    folders: Folders = NO_FOLDERS

    @classmethod
    def of(cls, source: Source, path: str, declaration: Declaration) -> JsonFormat:
        folders = Folders.of(source, path, replace(declaration, event_time=None), ())
        _, start, _ = first_line(path)
        return cls(declaration.columns, start, folders)

    # Arrow, a block at a time

    def fast(self, lines: LineBlock) -> ParsedLines | None:
        """Parse all lines by Arrow, or return None if one of them is bad or is not surely read as `slow` reads it."""
        whole = is_object_each(lines) and decode_text(lines.data)
        if not whole or "\0" in whole or has_odd_number(whole):
            return None
        spelling = self.spelling(lines)
        table = read_block(lines.data, [pa.field(spelling[column.name], fast_type(column)) for column in self.columns])
        if table is None or table.num_rows != len(lines):
            return None
        arrays = {column.name: one_array(table.column(spelling[column.name])) for column in self.columns}
        lowered = None
        for name, array in arrays.items():
            if array.null_count or spelling[name] != name:
                lowered = lowered or whole.lower()
                if not is_always_spelled(spelling[name], whole, lowered):
                    return None
        return ParsedLines(arrays, np.arange(len(lines)), [])

    def spelling(self, lines: LineBlock) -> dict[str, str]:
        """Return how the first line spells the declared names."""
        try:
            fields = DECODER.decode(lines.raw(0).decode())
        except (ValueError, RecursionError):
            fields = Fields()
        keys = {key.lower(): key for key, _ in reversed(fields)}
        exact = {key for key, _ in fields}
        names = [column.name for column in self.columns]
        return {name: name if name in exact else keys.get(name.lower(), name) for name in names}

    # Python, a line at a time

    def slow(self, lines: LineBlock) -> ParsedLines:
        declared = {column.name.lower(): column for column in self.columns}
        types = {column.name: KINDS[column.type.name][0] for column in self.columns}
        return parse_slowly(lines, types, lambda line: read_row(line, declared))


def read_row(line: str, declared: dict[str, Column]) -> dict[str, Any] | None:
    """Return the values of the declared columns, or None for an empty line; ValueError if the line is no row."""
    if not line.strip(WHITESPACE):
        return None
    try:
        fields = DECODER.decode(line)
    except (json.JSONDecodeError, RecursionError):
        fields = None
    if not isinstance(fields, Fields):
        raise ValueError("not a JSON object")
    written: dict[str, list[tuple[str, object]]] = {}
    for key, value in fields:
        column = declared.get(key.lower())
        if column is not None:
            written.setdefault(column.name, []).append((key, value))
    return {name: checked_value(declared[name.lower()], pairs) for name, pairs in written.items()}


def checked_value(column: Column, pairs: list[tuple[str, object]]) -> Any:
    exact = [value for key, value in pairs if key == column.name]
    candidates = exact or [value for _, value in pairs]
    if len(candidates) > 1:
        raise ValueError(f"column {column.name} is given twice")
    if candidates[0] is None:
        return None
    try:
        return KINDS[column.type.name][1](candidates[0])
    except ValueError:
        raise ValueError(unreadable(column)) from None


def fast_type(column: Column) -> pa.DataType:
    return arrow_type(column.type) if column.type.name == "DECIMAL" else KINDS[column.type.name][0]


def is_object_each(lines: LineBlock) -> bool:
    """Return whether each line begins and ends with braces.

    If so, a valid text has an object's end at each line's. Arrow reads objects across lines and several of a line, and
    crashes on a text that begins with null.
    """
    characters = np.frombuffer(lines.data, np.uint8)
    return bool((characters[lines.starts] == OPENING).all() and (characters[lines.ends - 1] == CLOSING).all())


def read_block(data: bytes, fields: list[pa.Field]) -> pa.Table | None:
    try:
        table = pa_json.read_json(
            io.BytesIO(data),
            read_options=pa_json.ReadOptions(use_threads=False, block_size=len(data) + 1),
            parse_options=pa_json.ParseOptions(
                explicit_schema=pa.schema(fields), newlines_in_values=False, unexpected_field_behavior="ignore"
            ),
        )
        table.validate(full=True)  # it reads decimals of too many digits
    except pa.ArrowInvalid:
        return None
    return table


def has_odd_number(whole: str) -> bool:
    return ("NaN" in whole or "Inf" in whole) and ODD_NUMBER.search(whole) is not None


def is_always_spelled(name: str, whole: str, lowered: str) -> bool:
    """Return whether no field can be this one in another spelling."""
    if SIMPLE_NAME.fullmatch(name) is None or ESCAPED_NAME.search(whole):
        return False
    if whole.count(f'"{name}"') == lowered.count(f'"{name.lower()}"'):
        return True
    return len(re.findall(rf'"{name}"\s*:', whole)) == len(re.findall(rf'"{name.lower()}"\s*:', lowered))
