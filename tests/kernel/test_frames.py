"""`headrace.aggregate` over frames of three libraries."""

from __future__ import annotations

import subprocess
import sys
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import headrace
from headrace.model.errors import HeadraceError

START = datetime(2026, 1, 1, tzinfo=UTC)
ROWS = {
    "at": [START + timedelta(seconds=second) for second in (1, 2, 11, 12, 13)],
    "host": ["a", "b", "a", "a", None],
    "bytes": [10, 20, 30, 40, 50],
    "cost": [Decimal("0.10"), Decimal("0.20"), None, Decimal("0.40"), Decimal("0.50")],
    "tags": [["x"], [], [], [], []],
}
QUERIES = {
    "all": "SELECT count(*) AS n, sum(bytes) AS bytes FROM stream [RANGE '10 s']",
    "hosts": "SELECT host, max(cost) AS cost FROM stream [RANGE '20 s'] GROUP BY host ORDER BY host NULLS LAST",
}


def arrow() -> pa.Table:
    return pa.table(ROWS)


@pytest.mark.parametrize(
    ("frame", "kind"), [(arrow(), pa.Table), (pd.DataFrame(ROWS), pd.DataFrame), (pl.DataFrame(ROWS), pl.DataFrame)]
)
def test_results_are_frames_of_the_same_kind(frame: Any, kind: type) -> None:
    results = headrace.aggregate(frame, QUERIES)
    assert list(results) == ["all", "hosts"]
    assert all(isinstance(result, kind) for result in results.values())
    totals = results["all"] if kind is pa.Table else pa.table(results["all"])
    assert totals.select(["n", "bytes"]).to_pylist() == [{"n": 2, "bytes": 30}, {"n": 3, "bytes": 120}]


def test_groups_order_and_decimals() -> None:
    rows = headrace.aggregate(arrow(), QUERIES)["hosts"].select(["host", "cost"]).to_pylist()
    assert rows == [
        {"host": "a", "cost": Decimal("0.40")},
        {"host": "b", "cost": Decimal("0.20")},
        {"host": None, "cost": Decimal("0.50")},
    ]


def test_tables_are_joined_and_functions_called() -> None:
    @headrace.user_function
    def doubled(value: int) -> int:
        return 2 * value

    owners = pd.DataFrame({"host": ["a", "b"], "owner": ["ann", "bob"]})
    text = """SELECT o.owner AS owner, sum(doubled(s.bytes)) AS bytes FROM Flows s [RANGE '20 s'], Owners o
              WHERE s.host = o.host GROUP BY o.owner"""
    found = headrace.aggregate(
        arrow(), {"q": text}, name="Flows", event_time="at", tables={"Owners": owners}, functions=[doubled]
    )
    assert found["q"].select(["owner", "bytes"]).to_pylist() == [
        {"owner": "ann", "bytes": 160},
        {"owner": "bob", "bytes": 40},
    ]


@pytest.mark.parametrize(
    ("frame", "queries", "expected"),
    [
        ([1, 2], QUERIES, "not a table of Arrow, pandas or Polars"),
        (pa.table({"a": [1]}), QUERIES, "no TIMESTAMP columns"),
        (arrow(), {"q": "SELECT sum(tags) FROM stream [RANGE 1]"}, "tags"),
    ],
)
def test_mistakes_are_told(frame: Any, queries: dict[str, str], expected: str) -> None:
    with pytest.raises(HeadraceError, match=expected):
        headrace.aggregate(frame, queries)


def test_importing_headrace_is_light() -> None:
    code = "import sys, headrace; assert not {'numba', 'pyspark', 'sqlglot', 'pyarrow'} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)
