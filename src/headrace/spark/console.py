"""Results on the terminal as they come."""

from __future__ import annotations

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
        self.terminal.print(f"{query}, step {step}: {rows.num_rows:,} rows", style="bold", markup=False)
        shown = Table()
        for name in rows.column_names:
            shown.add_column(name)
        for row in rows.slice(max(0, rows.num_rows - self.rows)).to_pylist():
            shown.add_row(*(Text("NULL" if value is None else printable(str(value))) for value in row.values()))
        self.terminal.print(shown)
