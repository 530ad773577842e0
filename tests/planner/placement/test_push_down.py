"""Topologies, and what six plans would send over their links: against formulas, and against plans that ran."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.hifi.plans import Edge, execute, sliced_plan
from headrace.model.errors import UsageError
from headrace.planner.construction import make_plan
from headrace.planner.placement.push_down import WAYS, Estimate, PushDown, Spread, Way, Widths, cheapest, estimates
from headrace.planner.placement.topology import Link, Topology, parse_topology
from headrace.planner.statistics import draw
from tests.planner.data import cost_of, demands_of, script_of, stream_data

TREE = """
root = "centre"
[relays.north]
[relays.harbour]
above = "north"
[edges.gate]
above = "harbour"
rows_per_s = 10
[edges.crane]
above = "harbour"
rows_per_s = 5.5
[edges.door]
above = "north"
rows_per_s = 4
[edges.roof]
rows_per_s = 1
"""
WINDOWS = ("RANGE '3 s' SLIDE '2 s'", "RANGE '5 s' SLIDE '4 s'", "RANGE '6 s' SLIDE '3 s'")
WIDTHS = Widths(10.0, lambda node: 100.0)
PULL_UP, PARTIAL, FULL = (Way(True, push_down) for push_down in PushDown)
UNSHARED_PULL_UP, UNSHARED_PARTIAL, UNSHARED_FULL = (Way(False, push_down) for push_down in PushDown)

# Topologies


def test_links_carry_what_the_edges_below_them_read() -> None:
    """
    centre <- north <- harbour <- gate 10, crane 5.5
              north <- door 4
    centre <- roof 1
    """
    topology = parse_topology(TREE, "t.toml")
    assert set(topology.links) == {
        Link("north", "centre", 1, 19.5),
        Link("roof", "centre", 1, 1),
        Link("harbour", "north", 2, 15.5),
        Link("door", "north", 2, 4),
        Link("gate", "harbour", 3, 10),
        Link("crane", "harbour", 3, 5.5),
    }
    assert topology.levels == 3


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("root = ", "is not TOML"),
        ("", "there is no edge"),
        ("[edges.a]", "t.toml, edge a: 'rows_per_s' is missing"),
        ("[edges.a]\nrows_per_s = 0", "'rows_per_s' is 0, not a number above 0"),
        ("[edges.a]\nrows_per_s = true", "'rows_per_s' is True"),
        ("[edges.a]\nrows_per_s = nan", "'rows_per_s' is nan"),
        ("[edges.a]\nrow_per_s = 1", "there is no key 'row_per_s'"),
        ("[edges.a]\nrows_per_s = 1\nabove = 7", "'above' is 7, not a text"),
        ("[edges.a]\nrows_per_s = 1\nabove = 'b'", "'a' lies below 'b', which is not there"),
        ("[edges.a]\nrows_per_s = 1\n[edges.b]\nrows_per_s = 1\nabove = 'a'", "below 'a', which is an edge"),
        ("[relays.r]\nabove = 's'\n[relays.s]\nabove = 'r'\n[edges.a]\nrows_per_s = 1\nabove = 'r'", "above itself"),
        ("[relays.a]\n[edges.a]\nrows_per_s = 1", "'a' is a relay and an edge"),
        ("[edges.root]\nrows_per_s = 1", "'root' is the root"),
        ("edges = 3", "'edges' is not made of sections"),
        ("[machines.a]", "there is no key 'machines'"),
    ],
)
def test_mistakes_in_a_topology(text: str, expected: str) -> None:
    with pytest.raises(UsageError) as raised:
        parse_topology(text, "t.toml")
    assert raised.value.code == "topology"
    assert expected in str(raised.value)


# Estimates


def estimated(queries: tuple[str, ...], topology: Topology, rows: int = 4_000) -> dict[Way, Estimate]:
    script = script_of(*queries)
    cost = cost_of(script, stream_data(script, rows))
    found = estimates(topology, sliced_plan({named.name: named.query for named in script.queries}), cost.sample, WIDTHS)
    assert [each.way for each in found] == list(WAYS)
    return {each.way: each for each in found}


def test_without_groups_the_rates_are_those_of_the_papers_table_4() -> None:
    queries = tuple(f"SELECT count(*) FROM S [{window}]" for window in WINDOWS)
    found = estimated(queries, Topology("root", {"a": "root"}, {"a": 1_000.0}))
    per_second = {way: each.total.rows_per_hour / 3_600 for way, each in found.items()}
    assert per_second[UNSHARED_PULL_UP] == 3_000
    assert per_second[UNSHARED_PARTIAL] == pytest.approx(2 / 2 + 2 / 4 + 1 / 3, rel=1e-3)
    assert per_second[UNSHARED_FULL] == pytest.approx(1 / 2 + 1 / 4 + 1 / 3, rel=1e-3)
    assert per_second[PULL_UP] == 1_000
    # boundaries of 12 seconds: the even ones, odd multiples of 1 as 3 mod 2 = 1 and 5 mod 4 = 1
    assert per_second[PARTIAL] == pytest.approx(1.0, rel=1e-3)
    assert per_second[FULL] == per_second[UNSHARED_FULL]
    for way, each in found.items():
        width = 10.0 if way.push_down is PushDown.NONE else 100.0
        assert each.total.bytes_per_hour == pytest.approx(each.total.rows_per_hour * width)


def test_sharing_is_chosen_where_it_sends_no_less() -> None:
    found = estimated(("SELECT count(*) FROM S [RANGE '2 s']",), Topology("root", {"a": "root"}, {"a": 1_000.0}))
    assert found[FULL].total == found[UNSHARED_FULL].total
    assert cheapest(list(found.values())).way.is_shared


def test_few_rows_are_best_sent_as_they_are() -> None:
    query = "SELECT b, c, count(*) FROM S [RANGE '3 s' SLIDE '2 s'] GROUP BY b, c"
    found = estimated((query,), Topology("root", {"a": "root"}, {"a": 1.0}))
    assert cheapest(list(found.values())).way == PULL_UP
    assert found[PARTIAL].total.rows_per_hour == pytest.approx(3_600, rel=0.01), "hardly two rows of a group meet"


def test_a_relay_combines_across_space() -> None:
    topology = parse_topology(TREE.replace("rows_per_s = ", "rows_per_s = 10"), "t.toml")
    found = estimated(("SELECT a, count(*) FROM S [RANGE '10 s'] GROUP BY a",), topology)
    at = {(way, link.lower): flow.rows_per_hour for way, each in found.items() for link, flow in each.flows.items()}
    assert at[PARTIAL, "harbour"] == pytest.approx(360 * 10, rel=1e-6), "ten groups in each of 360 slices"
    assert at[PARTIAL, "harbour"] < at[PARTIAL, "gate"] + at[PARTIAL, "crane"]
    assert at[PULL_UP, "harbour"] == at[PULL_UP, "gate"] + at[PULL_UP, "crane"]
    levels = [found[PARTIAL].at_level(level).rows_per_hour for level in (1, 2, 3)]
    assert sum(levels) == pytest.approx(found[PARTIAL].total.rows_per_hour)


@pytest.mark.parametrize("way", WAYS, ids=lambda way: way.name)
@pytest.mark.parametrize("sample_rows", [None, 1_000])
def test_what_was_predicted_is_sent(way: Way, sample_rows: int | None) -> None:
    """Over 60 seconds of 6,000 rows, two thirds of them at one edge."""
    script = script_of(
        "SELECT b, count(*), sum(c) FROM S [RANGE '9 s' SLIDE '6 s'] GROUP BY b",
        "SELECT b, count(*) FROM S [RANGE '5 s' SLIDE '4 s'] WHERE a > 3 GROUP BY b",
        "SELECT max(d) FROM S [RANGE '2 s' SLIDE '4 s'] WHERE a > 5",
    )
    queries = {named.name: named.query for named in script.queries}
    data = stream_data(script, 6_000)
    cost = cost_of(script, data)
    sample = draw(data, queries.values(), sample_rows=sample_rows)
    plan = make_plan(demands_of(script), cost)
    topology = Topology("root", {"a": "root", "b": "root"}, {"a": 4_000 / 60, "b": 2_000 / 60})
    predicted = next(each for each in estimates(topology, plan, sample, WIDTHS) if each.way == way)
    is_first = np.random.default_rng(2).random(6_000) < 2 / 3
    edges = [Edge(replace(data, rows=data.rows.filter(pa.array(mine))), queries) for mine in (is_first, ~is_first)]
    sent = execute(way, edges, queries, plan)
    assert predicted.total.rows_per_hour / 60 == pytest.approx(sent.rows, rel=0.15)


@given(st.lists(st.integers(1, 30), min_size=1, max_size=40), st.floats(0, 1e5), st.floats(0, 1e5))
def test_more_rows_never_have_fewer_groups(counts: list[int], few: float, many: float) -> None:
    spread = Spread(np.array(counts), 1.0)
    few, many = sorted((few, many))
    assert spread.distinct(few) <= spread.distinct(many) * (1 + 1e-9)
    assert spread.distinct(few) <= few * (1 + 1e-9) + 1e-9
    assert spread.distinct(sum(counts)) == pytest.approx(len(counts))
