"""CSV: one line is one row, so quotes can't hold a newline. Arrow splits a block; where it can't, each line is split.

A line with another number of fields than the header (without one: than the declaration), with an open quote, with
bytes that are not UTF-8 or with a value that CAST would not read is a rejected row. An empty field is NULL, and in
quotes it is the empty text. All declared columns are read, whichever are asked for: a row is rejected or not whatever
the queries.
"""

from __future__ import annotations

import codecs
import io
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.csv as pa_csv

from headrace.inputs.conversion import match_columns
from headrace.inputs.folders import NO_FOLDERS, Folders
from headrace.inputs.lines import LineBlock, ParsedLines, decode_text, first_line, parse_slowly
from headrace.inputs.source import BadFile, Declaration, Source, reading
from headrace.model.arrow import one_array


@dataclass(frozen=True, eq=False)
class CsvFormat:
    """How the lines of one file are split: at which positions the declared columns are, of how many fields."""

    delimiter: str
    quote: str
    nulls: tuple[str, ...]
    fields: int
    positions: dict[str, int]
    first: int
    """The byte at which the first row begins."""
    folders: Folders = NO_FOLDERS

    @classmethod
    def of(cls, source: Source, path: str, declaration: Declaration) -> CsvFormat:
        delimiter, quote = source.option("delimiter", ","), source.option("quote", '"')
        line, start, after = first_line(path)
        if source.option("header", "true").lower() == "true":
            names = header_names(path, line, delimiter, quote)
        else:
            names, after = [column.name for column in declaration.columns], start
        with reading(path):
            positions = match_columns(names, declaration.columns)
        shown = line.decode(errors="replace")
        detail = f"its first line is '{shown}'; the options delimiter and header say how it is read"
        folders = Folders.of(source, path, declaration, positions, detail)
        nulls = ("", source.option("null_value", ""))
        return cls(delimiter, quote, nulls, len(names), positions, after, folders)

    def fast(self, lines: LineBlock) -> ParsedLines | None:
        """Parse all lines by Arrow, or return None if one of them is bad or is not surely read as `slow` reads it."""
        data = lines.data
        if data.startswith(codecs.BOM_UTF8) or data.count(b"\r") != data.count(b"\r\n") or decode_text(data) is None:
            return None
        # A last row of our own: an open quote before it would swallow it, as one in the midst swallows the next line.
        guarded = data + f"\n0{self.delimiter * (self.fields - 1)}\n".encode()
        names = [str(position) for position in range(self.fields)]
        wanted = [str(position) for position in self.positions.values()]
        try:
            table = pa_csv.read_csv(
                io.BytesIO(guarded),
                read_options=pa_csv.ReadOptions(use_threads=False, block_size=len(guarded) + 1, column_names=names),
                parse_options=pa_csv.ParseOptions(delimiter=self.delimiter, quote_char=self.quote or False),
                convert_options=pa_csv.ConvertOptions(
                    column_types=dict.fromkeys(wanted, pa.string()),
                    include_columns=wanted or ["0"],
                    null_values=list(self.nulls),
                    strings_can_be_null=True,
                    quoted_strings_can_be_null=False,
                ),
            )
        except pa.ArrowInvalid:
            return None
        if table.num_rows != len(lines) + 1:
            return None
        columns = {
            name: one_array(table.column(str(position)).slice(0, len(lines)))
            for name, position in self.positions.items()
        }
        return ParsedLines(columns, np.arange(len(lines)), [])

    def slow(self, lines: LineBlock) -> ParsedLines:
        return parse_slowly(lines, dict.fromkeys(self.positions, pa.string()), self.read_row)

    def read_row(self, line: str) -> dict[str, str | None]:
        fields = split_line(line, self.delimiter, self.quote, self.nulls)
        if len(fields) != self.fields:
            raise ValueError(f"{len(fields)} fields instead of {self.fields}")
        return {name: fields[position] for name, position in self.positions.items()}


def header_names(path: str, line: bytes, delimiter: str, quote: str) -> list[str]:
    if b"\r" in line:
        detail = "each line must end with a newline"
        raise BadFile(path, "its header has a carriage return without a newline", detail)
    try:
        return [name or "" for name in split_line(line.decode(), delimiter, quote, ())]
    except UnicodeDecodeError:
        raise BadFile(path, "its header is not valid UTF-8") from None
    except ValueError as problem:
        raise BadFile(path, f"its header has {problem}") from None


def split_line(line: str, delimiter: str, quote: str, nulls: Sequence[str]) -> list[str | None]:
    """Return the fields of a line. A field that begins with a quote ends at the next single one; two stand for one."""
    if not quote or quote not in line:
        return [None if text in nulls else text for text in line.split(delimiter)]
    fields: list[str | None] = []
    position = 0
    while position <= len(line):
        quoted = ""
        is_quoted = line.startswith(quote, position)
        if is_quoted:
            quoted, position = quoted_text(line, position + 1, quote)
        end = line.find(delimiter, position)
        end = len(line) if end < 0 else end
        text = quoted + line[position:end]
        fields.append(None if not is_quoted and text in nulls else text)
        position = end + 1
    return fields


def quoted_text(line: str, position: int, quote: str) -> tuple[str, int]:
    """Return the text up to the closing quote, and the position after that."""
    parts = []
    while (end := line.find(quote, position)) >= 0:
        parts.append(line[position:end])
        if not line.startswith(quote, end + 1):
            return "".join(parts), end + 1
        parts.append(quote)
        position = end + 2
    raise ValueError("a quote that is not closed")
