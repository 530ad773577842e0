"""Results on a terminal."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Any, NamedTuple

from rich import box
from rich.console import Console
from rich.table import Table as RichTable
from rich.text import Text

from headrace.model.address import format_address
from headrace.model.errors import printable
from headrace.model.schema import Column
from headrace.model.time import format_timestamp
from headrace.model.types import DataType, Value

MAX_WIDTH = 1_000_000
MAX_FILE_WIDTH = 1_000
LEFT: Mapping[str, Any] = {"no_wrap": True}
RIGHT: Mapping[str, Any] = {"no_wrap": True, "justify": "right"}


class CellColumn(NamedTuple):
    """The cells of a column in a table on a terminal, and how they are laid out."""

    name: str
    cells: Sequence[str]
    layout: Mapping[str, Any] = LEFT


def build_table(columns: Sequence[CellColumn], title: str | None = None) -> RichTable:
    """Return a table of texts. Nothing in its cells is markup or steers the terminal."""
    heading = None if title is None else Text(title, style="bold")
    table = RichTable(title=heading, title_justify="left", box=box.SIMPLE_HEAD, pad_edge=False)
    for column in columns:
        table.add_column(Text(column.name), **column.layout)
    for row in zip(*(column.cells for column in columns), strict=True):
        table.add_row(*(Text(printable(cell)) for cell in row))
    return table


def print_wide(console: Console, table: RichTable) -> None:
    """Print a table, as wide as it is where no terminal would cut it."""
    if not console.is_terminal:
        unbounded = console.options.update(width=MAX_FILE_WIDTH)
        console.width = max(console.width, console.measure(table, options=unbounded).maximum)
    console.print(table)


def print_rows(title: str, columns: Sequence[Column], rows: Sequence[tuple[Value, ...]], most: int) -> None:
    """Print the first `most` rows as a table."""
    shown = [
        CellColumn(
            printable(column.name),
            [show_in(row[place], column) for row in rows[:most]],
            RIGHT if column.type.is_numeric else LEFT,
        )
        for place, column in enumerate(columns)
    ]
    table = build_table(shown, title)
    console = Console()
    # Numbers are never cut: lines that are too long for a terminal are wrapped by it.
    width = Console(width=MAX_WIDTH).measure(table).maximum
    if width > console.width:
        console = Console(width=width)
    console.print(table, soft_wrap=True)
    if len(rows) > most:
        console.print(Text(f"... and {len(rows) - most:,} more rows", style="dim"))


def show_in(value: Value, column: Column) -> str:
    text = show(value, column.type)
    return text.removesuffix("Z") if column.is_local else text


def show(value: Value, data_type: DataType) -> str:
    if value is None:
        return "NULL"
    if isinstance(value, tuple):
        return show_compound(value, data_type)
    if isinstance(value, bytes):
        return f"{len(value):,} bytes"
    if data_type.name == "TIMESTAMP" and isinstance(value, int):
        return format_timestamp(value)
    if data_type.name == "ADDRESS" and isinstance(value, int):
        return format_address(value)
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return f"{value:,.15g}"
    if isinstance(value, int):
        return f"{value:,}"
    return f"{value:f}" if isinstance(value, Decimal) else printable(value)


def show_compound(values: tuple[Value, ...], data_type: DataType) -> str:
    types = [field for _, field in data_type.fields]
    if data_type.name == "ARRAY":
        return f"[{', '.join(show(value, types[0]) for value in values)}]"
    return f"({', '.join(show(value, field) for value, field in zip(values, types, strict=True))})"
