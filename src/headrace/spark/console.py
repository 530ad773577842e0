"""Results on the terminal as they come."""

from __future__ import annotations

import pyarrow as pa
from rich.console import Console as Terminal
from rich.table import Table


class Console:
    """Prints the newest rows of each query."""

    def __init__(self, rows: int) -> None:
        self.rows = rows
        self.terminal = Terminal(highlight=False)

    def __call__(self, query: str, step: int, rows: pa.Table) -> None:
        shown = Table(title=f"{query}, step {step}: {rows.num_rows:,} rows", title_justify="left")
        for name in rows.column_names:
            shown.add_column(name)
        for row in rows.slice(max(0, rows.num_rows - self.rows)).to_pylist():
            shown.add_row(*("NULL" if value is None else str(value) for value in row.values()))
        self.terminal.print(shown)
