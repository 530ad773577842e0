"""Results as tables on the terminal."""

from __future__ import annotations

from datetime import datetime

import pyarrow as pa
from rich.console import Console as Terminal
from rich.table import Table
from rich.text import Text

from headrace.model.errors import printable


class Console:
    """Prints the newest rows of each query."""

    def __init__(self, rows: int) -> None:
        self.rows = rows
        self.terminal = Terminal(highlight=False)

    def __call__(self, query: str, step: int, rows: pa.Table) -> None:
        self.terminal.print(Text(f"{printable(query)}, step {step}: {rows.num_rows:,} rows", "bold"))
        shown = Table()
        for name, kind in zip(rows.column_names, rows.schema.types, strict=True):
            shown.add_column(Text(printable(name)), no_wrap=bool(pa.types.is_timestamp(kind)))
        for row in rows.slice(max(0, rows.num_rows - self.rows)).to_pylist():
            shown.add_row(*(Text(text_of(value)) for value in row.values()))
        self.terminal.print(shown)


def text_of(value: object) -> str:
    if isinstance(value, datetime):
        return value.isoformat().replace("+00:00", "Z")
    return "NULL" if value is None else printable(str(value))
