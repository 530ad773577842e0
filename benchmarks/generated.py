"""Generated data of the papers, in memory: what benchmarks run over."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path

from headrace.cli.files import read_relation
from headrace.datasets import generate
from headrace.expressions.static_tables import Data
from headrace.sql import parse_script

Report = Callable[[int, int], None]


def generated(kind: str, rows: int | None, seed: int, report: Report, rate: float | None = None) -> Data:
    """The stream and tables that `headrace data KIND` writes."""
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary) / kind
        generate(kind, rows, seed, folder, rate=rate, progress=report)
        catalog = parse_script((folder / "schema.sql").read_text(encoding="utf-8")).catalog
        (stream,) = catalog.streams
        tables = {table.name: read_relation(folder, table).table for table in catalog.tables}
        return Data(catalog, stream, read_relation(folder, stream).table, tables)
