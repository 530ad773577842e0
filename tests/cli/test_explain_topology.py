"""`headrace explain --topology`."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pyarrow as pa
import pytest

from benchmarks.hifi.plans import Edge
from headrace.cli.commands.explain_topology import widths_of
from headrace.expressions.static_tables import Data
from headrace.kernel.interchange import pack
from headrace.planner.construction import make_plan
from headrace.planner.cost import Constants, Cost
from headrace.planner.demand import demand
from headrace.planner.statistics import draw
from headrace.sql import parse_script
from tests.cli.command_line import CommandLine

QUERIES = """
CREATE QUERY volumes AS SELECT Symbol, sum(Vol) AS volume FROM Trades [RANGE '2 s' SLIDE '1 s'] GROUP BY Symbol;
CREATE QUERY large AS
  SELECT Symbol, count(*) AS n FROM Trades [RANGE '3 s' SLIDE '1 s'] WHERE Vol > 500 GROUP BY Symbol;
"""
TOPOLOGY = """
root = "exchange"
[relays.floor]
[edges.north]
above = "floor"
rows_per_s = 20000
[edges.south]
above = "floor"
rows_per_s = 20000
"""
NAMES = [f"{sharing} {push}" for sharing in ("unshared", "shared") for push in ("none", "partial", "full")]


@pytest.fixture
def queries(tmp_path: Path) -> Path:
    path = tmp_path / "queries.sql"
    path.write_text(QUERIES)
    return path


@pytest.fixture
def topology(tmp_path: Path) -> Path:
    path = tmp_path / "topology.toml"
    path.write_text(TOPOLOGY)
    return path


def test_a_line_for_each_plan(headrace: CommandLine, trades: Path, queries: Path, topology: Path) -> None:
    outcome = headrace("explain", queries, "--data", trades, "--topology", topology)
    assert outcome.status == 0, outcome.err
    assert outcome.out.startswith("Trades: 2 queries, 2 nodes, 2 of them shipped"), "the plan that edges would have"
    _, title, shown = outcome.out.partition("Trades at 2 edges, sent per hour")
    assert title
    assert re.search(
        r"^ +tuples +bytes +tuples +bytes +bytes *\n +plan +to exchange +to exchange +level 2 ", shown, re.M
    )
    assert re.findall(r"^ ((?:un)?shared \w+)", shown, re.M) == NAMES
    assert shown.count("(chosen)") == 1
    assert re.search(r"^ shared none .* 144,000,000 ", shown, re.M), "40,000 rows a second"
    assert re.search(r"^ unshared none .* 288,000,000 ", shown, re.M), "for each of two queries"


def test_json_has_every_link(headrace: CommandLine, trades: Path, queries: Path, topology: Path) -> None:
    outcome = headrace("explain", queries, "--data", trades, "--topology", topology, "--json")
    placement = json.loads(outcome.out)["placement"]
    assert (placement["stream"], placement["root"]) == ("Trades", "exchange")
    plans = {plan["plan"]: plan for plan in placement["plans"]}
    assert list(plans) == NAMES
    assert placement["chosen"] == min(reversed(NAMES), key=lambda name: plans[name]["bytes_per_hour"])
    for plan in plans.values():
        assert [(link["from"], link["to"], link["level"]) for link in plan["links"]] == [
            ("floor", "exchange", 1),
            ("north", "floor", 2),
            ("south", "floor", 2),
        ]
        for key in ("rows_per_hour", "bytes_per_hour"):
            by_level = [sum(link[key] for link in plan["links"] if link["level"] == level) for level in (1, 2)]
            assert [level[key] for level in plan["levels"]] == pytest.approx(by_level)
            assert plan[key] == pytest.approx(sum(by_level))
    first, second = (level["rows_per_hour"] for level in plans["shared partial"]["levels"])
    assert first < second, "the relay combines"


def test_without_a_topology_nothing_is_placed(headrace: CommandLine, trades: Path, queries: Path) -> None:
    assert set(json.loads(headrace("explain", queries, "--data", trades, "--json").out)) == {"streams"}


@pytest.mark.parametrize(
    ("added", "expected"),
    [
        ("stream = 'trade'", "no query reads 'trade', the stream of the topology"),
        ("speed = 1", "there is no key 'speed'"),
        ("stream = 1", "'stream' is 1, not a text"),
    ],
)
def test_topologies_that_do_not_fit(
    headrace: CommandLine, trades: Path, queries: Path, topology: Path, added: str, expected: str
) -> None:
    topology.write_text(f"{added}\n{TOPOLOGY}")
    outcome = headrace("explain", queries, "--data", trades, "--topology", topology)
    assert outcome.status == 1
    assert "error[topology]" in outcome.err
    assert expected in outcome.err


def test_of_several_streams_one_is_named(headrace: CommandLine, trades: Path, topology: Path, tmp_path: Path) -> None:
    script, data = tmp_path / "two.sql", tmp_path / "data"
    data.mkdir()
    for name in ("Trades", "Orders"):
        (data / name).symlink_to(trades / "Trades")
    script.write_text(
        (trades / "schema.sql").read_text()
        + "CREATE STREAM Orders (Time TIMESTAMP, Vol BIGINT) EVENT TIME Time;\n"
        + "CREATE QUERY a AS SELECT sum(Vol) FROM Trades [RANGE 2];\n"
        + "CREATE QUERY b AS SELECT sum(Vol) FROM Orders [RANGE 2];\n"
    )
    outcome = headrace("explain", script, "--data", data, "--topology", topology)
    assert outcome.status == 1
    assert "the queries read 2 streams" in outcome.err
    topology.write_text(f"stream = 'orders'\n{TOPOLOGY}")
    outcome = headrace("explain", script, "--data", data, "--topology", topology)
    assert "Orders at 2 edges" in outcome.out


def test_rows_are_as_wide_as_they_are_sent() -> None:
    """Numbers, and texts of several lengths."""
    script = parse_script(
        "CREATE STREAM S (t TIMESTAMP, a BIGINT, s STRING, x DOUBLE) EVENT TIME t;"
        "CREATE QUERY q AS SELECT s, sum(a), avg(x), max(a) FROM S [RANGE '1 s'] GROUP BY s;"
    )
    (named,) = script.queries
    count = 20_000
    texts = [f"{'x' * (place % 41)}{place % 1_000}" for place in range(count)]
    rows = pa.table(
        {
            "t": pa.array([place * 1_000 for place in range(count)]).cast(pa.timestamp("us", tz="UTC")),
            "a": pa.array(range(count)),
            "s": pa.array(texts),
            "x": pa.array([float(place) for place in range(count)]),
        }
    )
    data = Data(script.catalog, script.catalog.streams[0], rows, {})
    cost = Cost(draw(data, [named.query]), Constants())
    plan = make_plan({"q": demand(named.query)}, cost)
    widths = widths_of(rows, cost)
    (table,) = pack("S", Edge(data, {"q": named.query}).partials(plan).values())
    (node,) = [each.node for each in plan.nodes]
    assert widths.partial(node) == pytest.approx(table.nbytes / table.num_rows, rel=0.05)
    assert widths.row * count == rows.nbytes
