"""Input as values: a directory of files, the files in it, the units that tasks read, and the rows that they find."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, tzinfo
from typing import NamedTuple

import pyarrow as pa

from headrace.inputs.conversion import REJECTED
from headrace.model.errors import DataError, UsageError, nearest
from headrace.model.schema import Column, Stream, Table

MAX_ROWS = 1_000_000
"""No piece of rows that a reader yields is larger."""

REPAIR = (
    "every file of the directory is read, unless its name begins with . or _: repair it, rename it or move it away; "
    'on_bad_file = "quarantine" leaves such files out and counts them'
)
REPAIR_TABLE = "repair the file or move it away"
"""A static table has no file too many."""


class BadFile(DataError):
    """A file that can't be read as its stream is declared, or can't be read at all."""

    def __init__(self, path: str, problem: str, detail: str | None = None, hint: str | None = REPAIR) -> None:
        super().__init__("bad-file", f"{path}: {problem}", detail=detail, hint=hint)
        self.path = path
        self.problem = problem

    @property
    def reason(self) -> str:
        return f"{self.problem}: {self.detail}" if self.detail else self.problem

    def __reduce__(self) -> tuple[type[BadFile], tuple[str, str, str | None, str | None]]:
        return BadFile, (self.path, self.problem, self.detail, self.hint)


def one_symbol(name: str, value: str) -> None:
    """Letters, digits and line ends could stand in a field, or be a whole one."""
    if len(value) != 1 or not value.isascii() or value.isalnum() or value in "\r\n\0":
        raise UsageError("option", f"option '{name}' is one character that is no letter or digit, not {value!r}")


def optional_symbol(name: str, value: str) -> None:
    if value:
        one_symbol(name, value)


def true_or_false(name: str, value: str) -> None:
    if value.lower() not in ("true", "false"):
        raise UsageError("option", f"option '{name}' is 'true' or 'false', not {value!r}")


def any_text(_name: str, _value: str) -> None:
    """Accept any text."""


OPTIONS: dict[str, dict[str, Callable[[str, str], None]]] = {
    "parquet": {},
    "json": {},
    "csv": {"delimiter": one_symbol, "header": true_or_false, "quote": optional_symbol, "null_value": any_text},
}
"""The options of each format, with the check of their values."""


@dataclass(frozen=True, slots=True)
class Source:
    """A directory of files of one format: `parquet`, `json` (one object per line) or `csv`.

    Options of `csv`: `delimiter` (default a comma), `quote` (default '"'; '' for none), `header` (default 'true'),
    and `null_value`, a text that is NULL where it stands without quotes, as the empty text always is.
    """

    path: str
    format: str = "parquet"
    options: Mapping[str, str] = field(default_factory=dict, hash=False)

    def __post_init__(self) -> None:
        checks = OPTIONS.get(self.format)
        if checks is None:
            hint = nearest(self.format, OPTIONS) or f"the formats are {', '.join(OPTIONS)}"
            raise UsageError("format", f"'{self.format}' is not a format of files", hint=hint)
        for name, value in self.options.items():
            if name not in checks:
                known = f"the options are {', '.join(checks)}" if checks else "it has no options"
                message = f"files of format {self.format} have no option '{name}'"
                raise UsageError("option", message, hint=nearest(name, checks) or known)
            checks[name](name, value)
        if self.format == "csv" and self.option("quote", '"') == self.option("delimiter", ","):
            raise UsageError("option", "options 'quote' and 'delimiter' are the same character")
        object.__setattr__(self, "options", dict(self.options))

    def option(self, name: str, default: str) -> str:
        return self.options.get(name, default)


@dataclass(frozen=True, eq=False)
class InputRows:
    """A piece of the rows of a unit: the asked columns in declared types, and the rows that could not be read.

    Rows that an edge sent say nothing about the partitions of the source: the watermark of the edge does.
    """

    table: pa.Table
    rejected: pa.Table = field(default_factory=REJECTED.empty_table)
    path: str | None = None
    is_from_edge: bool = False


class RowGroup(NamedTuple):
    """The bytes and rows of a row group, by the footer of its file."""

    size: int
    rows: int


Footer = tuple[RowGroup, ...] | None
"""The parts of a file that are read whole: row groups; None for text, which can be cut anywhere."""


@dataclass(frozen=True, slots=True)
class Declaration:
    """What readers need to know of a stream or a static table. The event time must be in every file."""

    columns: tuple[Column, ...]
    zone: tzinfo = UTC
    event_time: str | None = None

    @classmethod
    def of(cls, relation: Stream | Table) -> Declaration:
        if isinstance(relation, Stream):
            return cls(relation.columns, relation.zone, relation.event_time)
        return cls(relation.columns)

    def select_columns(self, names: Collection[str]) -> list[Column]:
        """Return the columns of these names, in declared order."""
        lowered = {name.lower() for name in names}
        return [column for column in self.columns if column.name.lower() in lowered]


@contextmanager
def reading(path: str) -> Iterator[None]:
    """Raise errors of the system, of Arrow and of conversion as BadFile. An error of the device is no fault of the
    file, and passes.
    """
    try:
        yield
    except BadFile:
        raise
    except DataError as problem:
        raise BadFile(path, problem.message, problem.detail, problem.hint or REPAIR) from None
    except (FileNotFoundError, PermissionError, IsADirectoryError, NotADirectoryError) as problem:
        raise BadFile(path, "can't be opened", problem.strerror) from None
    except OSError as problem:
        if problem.errno is not None:
            raise
        raise BadFile(path, "is damaged", first_line(problem)) from None
    except MemoryError:
        raise
    except (pa.ArrowException, EOFError, UnicodeError, zlib.error) as problem:
        raise BadFile(path, "is damaged", first_line(problem)) from None


def first_line(problem: Exception) -> str:
    return (str(problem).splitlines() or [type(problem).__name__])[0]
