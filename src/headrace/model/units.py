"""Units of input: what was listed, and what one task reads of it."""

from __future__ import annotations

from headrace.model.record import Record


class InputFile(Record, frozen=True):
    """A file as it was when it was listed; the path is absolute."""

    path: str
    size: int
    modified_ns: int


FRAME, RESULTS = "frame", "results"
"""Kinds of units beside files: a frame of an edge, and a section of an object of results."""


class Unit(Record, frozen=True):
    """What one task reads of a file: row groups [begin, end) of Parquet, or the lines that start in bytes [begin, end).
    Of results it is the bytes [begin, end) of an object, with their digest.

    A compressed text can't be entered in the middle: it is one unit. `size` is in bytes of the file, and `rows` is the
    number of rows by the footer of the file, or in a frame, where that is known before they are read.
    """

    path: str
    begin: int
    end: int
    size: int
    rows: int | None = None
    kind: str = "file"
    digest: str = ""
