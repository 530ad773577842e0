"""`headrace explain`."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ET
from dataclasses import asdict, replace
from pathlib import Path

import pytest

from headrace.planner.cost import Constants
from tests.cli.command_line import CommandLine

QUERIES = """
CREATE QUERY totals AS SELECT count(*) AS n, sum(Vol) AS volume FROM Trades [RANGE '2 s'];
CREATE QUERY large AS SELECT sum(Vol) AS volume FROM Trades [RANGE '3 s' SLIDE '2 s'] WHERE Vol > 500;
CREATE QUERY indexed AS
  SELECT T.Symbol, avg(T.Price) AS p FROM Trades T [RANGE '2 s'] JOIN Index X ON T.Symbol = X.Symbol
  WHERE X.R1000 GROUP BY T.Symbol;
"""


@pytest.fixture
def queries(tmp_path: Path) -> Path:
    path = tmp_path / "queries.sql"
    path.write_text(QUERIES)
    return path


def test_the_tree_the_costs_and_who_answers_whom(headrace: CommandLine, trades: Path, queries: Path) -> None:
    outcome = headrace("explain", queries, "--data", trades)
    assert outcome.status == 0, outcome.err
    assert outcome.out.startswith("Trades: 3 queries, ")
    assert "matched(Index) AND Index.R1000" in outcome.out
    assert "coding of rows" in outcome.out
    assert "answered by" in outcome.out
    assert max(len(line) for line in outcome.out.splitlines()) <= 80
    assert "\x1b" not in outcome.out
    assert outcome.err == ""


def test_a_seed_makes_it_repeatable(headrace: CommandLine, trades: Path, queries: Path) -> None:
    first, second = (headrace("explain", queries, "--data", trades, "--seed", 5).out for _ in range(2))
    assert first == second


def test_chosen_queries_show_their_way(headrace: CommandLine, trades: Path, queries: Path) -> None:
    outcome = headrace("explain", queries, "--data", trades, "--query", "LARGE", "--query", "totals")
    assert "WITH large_slices AS (" in outcome.out
    assert "WITH totals_slices AS (" in outcome.out
    assert "FROM Trades [SLICES '1 s']" in outcome.out
    assert "indexed_slices" not in outcome.out
    assert "answered by" not in outcome.out


def test_json_is_all_there_is_on_standard_output(headrace: CommandLine, trades: Path, queries: Path) -> None:
    added = "SELECT sum(Vol) FROM Trades [RANGE '4 s']"
    outcome = headrace("explain", queries, "--data", trades, "--json", "--add", added)
    (description,) = json.loads(outcome.out)["streams"]
    assert [query["name"] for query in description["queries"]] == ["totals", "large", "indexed"]
    assert description["batch_rows"] == 2_000
    assert description["added"]["query"]["name"] == "added"
    assert description["added"]["added_ns"] < description["added"]["query"]["alone_ns"]


def test_batches_are_as_large_as_asked(headrace: CommandLine, trades: Path, queries: Path) -> None:
    outcome = headrace("explain", queries, "--data", trades, "--batch-rows", 500)
    assert "stream  500 rows per task and batch" in outcome.out


def test_a_query_that_is_not_there_yet(headrace: CommandLine, trades: Path, queries: Path) -> None:
    added = "SELECT sum(Vol) FROM Trades [RANGE '3 s' SLIDE '2 s'] WHERE Vol > 700"
    outcome = headrace("explain", queries, "--data", trades, "--add", added)
    assert outcome.status == 0, outcome.err
    end = outcome.out[outcome.out.index("the query to be added") :]
    assert "more for this plan" in end
    assert "as before" in end


def test_the_drawing_is_written(headrace: CommandLine, trades: Path, queries: Path, tmp_path: Path) -> None:
    outcome = headrace("explain", queries, "--data", trades, "--svg", tmp_path / "plan.svg")
    assert "is drawn in" in outcome.err
    assert ET.parse(tmp_path / "plan.svg").getroot().tag.endswith("svg")


def test_one_section_for_each_stream(headrace: CommandLine, trades: Path, tmp_path: Path) -> None:
    declarations = (trades / "schema.sql").read_text()
    script, data = tmp_path / "two.sql", tmp_path / "data"
    data.mkdir()
    for name in ("Trades", "Orders"):
        (data / name).symlink_to(trades / "Trades")
    script.write_text(
        declarations
        + "CREATE STREAM Orders (Time TIMESTAMP, Vol BIGINT) EVENT TIME Time;\n"
        + "CREATE STREAM Unused (Time TIMESTAMP) EVENT TIME Time;\n"
        + "CREATE QUERY a AS SELECT sum(Vol) FROM Trades [RANGE 2];\n"
        + "CREATE QUERY b AS SELECT sum(Vol) FROM Orders [RANGE 2];\n"
    )
    outcome = headrace("explain", script, "--data", data, "--svg", tmp_path / "plan.svg")
    assert outcome.status == 0, outcome.err
    assert "Trades: 1 query, 1 node" in outcome.out
    assert "\nOrders: 1 query, 1 node" in outcome.out
    assert "Unused" not in outcome.out
    assert sorted(path.name for path in tmp_path.glob("*.svg")) == ["plan-1.svg", "plan-2.svg"]
    only = headrace("explain", script, "--data", data, "--query", "b").out
    assert "Trades" not in only
    unused = headrace("explain", script, "--data", data, "--add", "SELECT count(*) FROM Unused [RANGE 2]")
    assert unused.status == 1
    assert "no query of the script reads Unused" in unused.err


def test_constants_change_what_things_cost(headrace: CommandLine, trades: Path, queries: Path, tmp_path: Path) -> None:
    path = tmp_path / "constants.json"
    path.write_text(json.dumps(asdict(Constants())))
    plain = headrace("explain", queries, "--data", trades).out
    assert headrace("explain", queries, "--data", trades, "--constants", path).out == plain
    path.write_text(json.dumps(asdict(replace(Constants(), code_ns=2_000))))
    assert headrace("explain", queries, "--data", trades, "--constants", path).out != plain


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({"nodes_ns": 1.0}, "unknown key 'nodes_ns'"),
        ({"node_ns": "fast"}, "'node_ns' is 'fast', not a number"),
        ({"node_ns": -1}, "'node_ns' is -1, not a number"),
        ({"node_ns": True}, "'node_ns' is True, not a number"),
        ({"node_ns": None}, "lacks node_ns"),
    ],
)
def test_constants_that_do_not_fit(
    headrace: CommandLine, trades: Path, queries: Path, tmp_path: Path, change: dict[str, object], expected: str
) -> None:
    written = asdict(Constants()) | change
    path = tmp_path / "constants.json"
    path.write_text(json.dumps({key: value for key, value in written.items() if value is not None}))
    outcome = headrace("explain", queries, "--data", trades, "--constants", path)
    assert outcome.status == 1
    assert "error[constants]" in outcome.err
    assert expected in outcome.err


@pytest.mark.parametrize("content", ["[1]", "{", '"text"'])
def test_constants_that_are_no_object(
    headrace: CommandLine, trades: Path, queries: Path, tmp_path: Path, content: str
) -> None:
    path = tmp_path / "constants.json"
    path.write_text(content)
    outcome = headrace("explain", queries, "--data", trades, "--constants", path)
    assert outcome.status == 1
    assert "is not" in outcome.err


def test_mistakes_are_told_without_a_stack_trace(
    headrace: CommandLine, trades: Path, queries: Path, tmp_path: Path
) -> None:
    cases: dict[tuple[object, ...], str] = {
        (queries, "--data", trades, "--query", "other"): "no query 'other'",
        (queries, "--data", trades, "--add", "SELECT sum(Nothing) FROM Trades [RANGE 2]"): "Nothing",
        (queries, "--data", trades, "--add", ""): "expected one query",
        (queries, "--data", tmp_path / "nowhere"): f"there is no file or folder {tmp_path / 'nowhere'}",
        (queries, "--data", tmp_path): f"{tmp_path} has no files of 'Trades'",
        (queries, "--data", trades, "--svg", tmp_path / "no" / "plan.svg"): "can't write",
        (queries, "--data", trades, "--constants", tmp_path / "none.json"): "can't read",
    }
    for arguments, expected in cases.items():
        outcome = headrace("explain", *arguments)
        assert outcome.status == 1, arguments
        assert expected in outcome.err, arguments
        assert outcome.out == ""
        assert "Traceback" not in outcome.err


def test_the_help_teaches(headrace: CommandLine) -> None:
    shown = headrace("explain", "--help").out
    assert "Try it:" in shown
    assert "headrace explain /tmp/queries.sql --data /tmp/trades --query otf_low_002" in shown
