"""`headrace.aggregate` over frames of three libraries."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import headrace
from headrace.model.errors import HeadraceError, UsageError

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


class Lowest(headrace.UserAggregate):
    name, arguments, returns, state = "lowest", ("BIGINT",), "BIGINT", {"low": "BIGINT"}

    def initialize(self) -> dict[str, Any]:
        return {"low": None}

    def update(self, state: dict[str, Any], value: int) -> dict[str, Any]:
        if value == 13:
            raise ValueError("13 is unlucky")
        return {"low": value if state["low"] is None else min(state["low"], value)}

    def merge(self, left: dict[str, Any], right: dict[str, Any]) -> dict[str, Any]:
        known = [state["low"] for state in (left, right) if state["low"] is not None]
        return {"low": min(known, default=None)}

    def output(self, state: dict[str, Any]) -> int | None:
        low: int | None = state["low"]
        return low


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
        (arrow(), {"q": "SELECT sum(tags) FROM stream [RANGE 1]"}, "it is of type list<.*>, which queries can't read"),
        (arrow(), {"q": "SELECT sum(`TAGS`) FROM stream [RANGE 1]"}, "it is of type list<.*>"),
        (arrow(), {"q": 5}, "a query is a text, not int"),
        (arrow(), {"q": None}, "a query is a text, not NoneType"),
        (arrow().append_column("HOST", arrow()["host"]), QUERIES, "two columns named 'HOST'"),
    ],
)
def test_mistakes_are_told(frame: Any, queries: dict[str, str], expected: str) -> None:
    with pytest.raises(HeadraceError, match=expected):
        headrace.aggregate(frame, queries)


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"event_time": "nope"}, "must be a TIMESTAMP column of it, not 'nope'"),
        ({"event_time": "bytes"}, "not 'bytes'"),
        ({"tables": {"Stream": arrow()}}, "'Stream' is declared already"),
        ({"tables": {"t": pa.table({"tags": [[1]]})}}, "t has no columns"),
        ({"functions": [Lowest]}, r"'Lowest' is not .*\nhint: hand in headrace.user_aggregate\(Lowest\)"),
        ({"functions": [Lowest()]}, r"headrace.user_aggregate\(Lowest\)"),
        ({"functions": [len]}, r"headrace.user_function\(len\)"),
        ({"functions": [5]}, "'int' is not a function"),
    ],
)
def test_arguments_that_do_not_fit_are_told(options: dict[str, Any], expected: str) -> None:
    with pytest.raises(UsageError) as caught:
        headrace.aggregate(arrow(), QUERIES, **options)
    assert re.search(expected, str(caught.value))


def test_what_could_not_be_computed_is_warned_of() -> None:
    lowest = headrace.user_aggregate(Lowest)
    asked = {
        "fine": QUERIES["all"],
        "low": "SELECT host, lowest(bytes) AS low FROM stream [RANGE '20 s'] GROUP BY host",
        "large": f"SELECT sum(bytes * {2**62}) AS large FROM stream [RANGE '20 s']",
        "of_low": "SELECT sum(1 DIV (low - low)) AS none FROM low",
    }
    rows = arrow().set_column(2, "bytes", pa.array([1, 20, 13, 40, 50]))
    with pytest.warns(headrace.RowErrorWarning) as told:
        results = headrace.aggregate(rows, asked, functions=[lowest])
    assert [str(each.message) for each in told] == [
        "low: 1 values could not be computed and are NULL; the first: lowest: update: ValueError: 13 is unlucky",
        "large: 4 values could not be computed and are NULL",
        "of_low: 2 values could not be computed and are NULL",
    ]
    assert {each.filename for each in told} == {__file__}, "it points at the call"
    assert results["low"]["low"].to_pylist() == [50, None, 20]


def test_rows_without_an_event_time_are_warned_of() -> None:
    times = pa.array([None, *arrow()["at"].to_pylist()[1:]], pa.timestamp("us", "UTC"))
    rows = arrow().set_column(0, "at", times)
    with pytest.warns(headrace.RowErrorWarning, match="stream: 1 rows had no event time and were left out"):
        results = headrace.aggregate(rows, QUERIES)
    assert results["all"]["n"].to_pylist() == [1, 3]


def test_all_names_are_listed() -> None:
    assert set(headrace.__all__) <= set(dir(headrace))


def test_importing_headrace_is_light() -> None:
    code = "import sys, headrace; assert not {'numba', 'pyspark', 'sqlglot', 'pyarrow'} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_the_first_compilation_is_announced_once(tmp_path: Path) -> None:
    """In fresh processes, with a fresh cache that outlives the first of them."""
    program = (
        "import headrace, pyarrow as pa\n"
        "rows = pa.table({'t': pa.array([0, 1], pa.timestamp('us', 'UTC')), 'x': [1.0, 2.0]})\n"
        "for _ in range(2):\n"
        "    headrace.aggregate(rows, {'q': 'SELECT sum(x) AS s FROM stream [RANGE 60]'})\n"
    )
    environment = os.environ | {"NUMBA_CACHE_DIR": str(tmp_path / "cache")}
    command = [sys.executable, "-c", program]
    runs = [subprocess.run(command, env=environment, capture_output=True, text=True, check=True) for _ in range(2)]
    assert [run.stderr.count("compiling loops") for run in runs] == [1, 0]
