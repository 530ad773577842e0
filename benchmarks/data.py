"""What benchmarks run over: generated data in memory, and workloads of queries."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from headrace.cli.files import read_relation
from headrace.cli.progress import progress_bar
from headrace.datasets import generate, workload
from headrace.expressions.static_tables import Data
from headrace.model.query import Query
from headrace.sql import parse_script

Queries = Mapping[str, Query]


class Workload(NamedTuple):
    """Queries over a kind of generated data, with their default numbers."""

    name: str
    kind: str
    query_count: int
    row_count: int
    on_spark: bool = True


OTF_WORKLOADS = ("otf-windows", "otf-predicates", "otf-regular", "otf-low")
WORKLOADS: Mapping[str, Workload] = {
    **{name.removeprefix("otf-"): Workload(name, "trades", 256, 5_000_000) for name in OTF_WORKLOADS},
    "grouped": Workload("grouped", "netflow", 128, 1_000_000),
    "syn": Workload("hifi-grouped", "syn", 32, 523_761, on_spark=False),
}


def generate_data(kind: str, rows: int | None, seed: int = 1, rate: float | None = None) -> Data:
    """Return the stream and tables that `headrace data KIND` writes."""
    with tempfile.TemporaryDirectory() as temporary, progress_bar(f"generating {kind}") as report:
        folder = Path(temporary) / kind
        generate(kind, rows, seed, folder, rate=rate, progress=report)
        catalog = parse_script((folder / "schema.sql").read_text(encoding="utf-8")).catalog
        (stream,) = catalog.streams
        tables = {table.name: read_relation(folder, table).table for table in catalog.tables}
        return Data(catalog, stream, read_relation(folder, stream).table, tables)


def queries_of(name: str, count: int | None, seed: int = 7) -> Queries:
    return {named.name: named.query for named in parse_script(workload(name, count, seed)).queries}
