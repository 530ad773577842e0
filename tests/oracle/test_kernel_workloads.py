"""The kernel on the papers' workloads, with their joins, against the reference."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest

from headrace.cli.files import read_relation
from headrace.datasets import generate, workload
from headrace.engine.answers import answer
from headrace.expressions.static_tables import Data
from headrace.model.arrow import plain_values, to_rows
from headrace.reference import Interpreter
from headrace.sql import Script, parse_script
from tests.oracle.values import canonical

KINDS = {"otf": "trades", "hifi": "syn", "nfc": "netflow", "grouped": "netflow", "gs": "packets"}
OUTER = """
CREATE QUERY outer_join AS SELECT C.CP IS NULL AS unknown, count(*) AS n, max(C.CP) AS cp
  FROM Trades T [RANGE '2 s' SLIDE '1 s'] LEFT JOIN Close C ON substring(T.Symbol, 1, 3) = C.Symbol
  GROUP BY C.CP IS NULL;
"""
WORKLOADS = (
    *("otf-windows", "otf-predicates", "otf-regular", "otf-low", "hifi-grouped", "hifi-ungrouped"),
    *("nfc-flowcollector", "nfc-random", "gs-single", "gs-pairs", "grouped"),
)


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("kinds")
    for kind in set(KINDS.values()):
        generate(kind, 1_500, 3, root / kind)
    return root


def data_of(script: Script, folder: Path) -> Data:
    catalog = script.catalog
    tables = {table.name: read_relation(folder, table).table for table in catalog.tables}
    return Data(catalog, catalog.streams[0], read_relation(folder, catalog.streams[0]).table, tables)


def from_reference(script: Script, data: Data) -> dict[str, list[tuple[Any, ...]]]:
    columns = {table.name: table.columns for table in data.catalog.tables}
    interpreter = Interpreter(data.stream, {name: to_rows(rows, columns[name]) for name, rows in data.tables.items()})
    for named in script.queries:
        interpreter.register(named.name, named.query)
    steps = [interpreter.batch(to_rows(data.rows, data.stream.columns)), interpreter.end()]
    found: dict[str, list[tuple[Any, ...]]] = {named.name: [] for named in script.queries}
    for step in steps:
        for result in step.results:
            found[result.query] += result.rows
    return found


def same(ours: Any, theirs: Any) -> bool:
    if isinstance(ours, float) and isinstance(theirs, float) and math.isfinite(theirs):
        return math.isclose(ours, theirs, rel_tol=1e-9)  # all values are positive: nothing cancels out
    return canonical(ours) == canonical(theirs)


@pytest.mark.parametrize("name", WORKLOADS)
def test_workloads(name: str, folders: Path) -> None:
    script = parse_script(workload(name, 16 if name.startswith("otf") else None, 5))
    if len(script.queries) > 24:
        script = parse_script(workload(name, 24, 5))
    compare(script, data_of(script, folders / KINDS[name.partition("-")[0]]))


def test_rows_without_a_partner_reach_queries_that_keep_them(folders: Path) -> None:
    script = parse_script(workload("otf-low", 3, 5) + OUTER)
    compare(script, data_of(script, folders / "trades"))


def compare(script: Script, data: Data) -> None:
    expected = from_reference(script, data)
    found = answer(data, {named.name: named.query for named in script.queries}, batch_rows=600)
    assert any(expected.values())
    for named in script.queries:
        columns = named.query.result_columns()
        table = found.closed[named.name].table
        ours = list(zip(*(plain_values(table.column(each.name), each.type) for each in columns), strict=True))
        theirs = expected[named.name]
        assert len(ours) == len(theirs), named.name
        for our_row, their_row in zip(ours, theirs, strict=True):
            assert all(map(same, our_row, their_row)), (named.name, our_row, their_row)
