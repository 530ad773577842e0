"""The description of a plan, and its text: complete, adding up, and readable."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import fields

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.planner.construction import make_plan
from headrace.planner.cost import Constants
from headrace.planner.demand import demand
from headrace.planner.explain.description import PlanDescription, explain, explain_addition
from headrace.planner.explain.labels import duration, figure, fold_names, percent, times_cheaper
from headrace.planner.explain.similar_nodes import NodeFold, folds
from headrace.planner.explain.text import text
from headrace.planner.plan_changes import add_query
from headrace.sql import Script
from tests.planner.data import cost_of, demands_of, script_of, stream_data
from tests.planner.test_plan import CHEAP_TO_COMPUTE, CHEAP_TO_SHIP, query_sets

LOW_SHARING = [f"SELECT sum(c) FROM S [RANGE {9 + n} SLIDE 7] WHERE b < {n}" for n in range(1, 21)]


def described(script: Script, constants: Constants | None = None, rows: int = 2_000) -> PlanDescription:
    cost = cost_of(script, stream_data(script, rows), constants)
    return explain(make_plan(demands_of(script), cost), {named.name: named.query for named in script.queries}, cost)


@settings(max_examples=40, deadline=None)
@given(query_sets, st.sampled_from([Constants(), CHEAP_TO_COMPUTE, CHEAP_TO_SHIP]))
def test_costs_add_up(texts: list[str], constants: Constants) -> None:
    """Coding and nodes are the plan's cost; so are the fair shares of all queries."""
    description = described(script_of(*texts), constants, 300)
    plan, nodes, queries = description["plan"], description["nodes"], description["queries"]
    assert plan["coding_ns"] + sum(node["cost_ns"] for node in nodes) == pytest.approx(plan["total_ns"])
    assert plan["coding_ns"] / plan["total_ns"] + sum(node["share"] for node in nodes) == pytest.approx(1.0)
    assert sum(query["share_ns"] for query in queries) == pytest.approx(plan["total_ns"])
    assert sum(query["alone_ns"] for query in queries) == pytest.approx(description["alone"]["total_ns"])
    assert description["ratio"] >= 1 - 1e-9


@settings(max_examples=40, deadline=None)
@given(query_sets, st.sampled_from([Constants(), CHEAP_TO_COMPUTE, CHEAP_TO_SHIP]))
def test_every_query_has_a_way_from_the_stream(texts: list[str], constants: Constants) -> None:
    script = script_of(*texts)
    description = described(script, constants, 300)
    nodes = {node["id"]: node for node in description["nodes"]}
    assert [query["name"] for query in description["queries"]] == [named.name for named in script.queries]
    for query in description["queries"]:
        path = {step["node"]: step["other_queries"] for step in query["path"]}
        assert {route["node"] for route in query["routes"]} <= set(path)
        for node_id, others in path.items():
            node = nodes[node_id]
            assert node["parent"] is None or node["parent"] in path
            assert query["name"] in node["queries"]
            assert others == len(node["queries"]) - 1
        assert all(nodes[route["node"]]["shipped"] for route in query["routes"])


@settings(max_examples=20, deadline=None)
@given(query_sets)
def test_the_description_is_json_and_the_text_can_be_told_from_it(texts: list[str]) -> None:
    description = described(script_of(*texts), rows=300)
    again = json.loads(json.dumps(description, allow_nan=False))
    assert again == description
    assert text(again) == text(description)


def test_equal_queries_are_told_alike() -> None:
    assert text(described(script_of(*LOW_SHARING))) == text(described(script_of(*LOW_SHARING)))


def test_a_node_tells_what_it_holds() -> None:
    texts = [
        "SELECT b, sum(c) FROM S [RANGE 18 SLIDE 15] WHERE a < 5 GROUP BY b",
        "SELECT b, sum(c) FILTER (WHERE d > 1) FROM S [RANGE 12 SLIDE 9] WHERE a < 7 GROUP BY b",
    ]
    cheap = Constants(node_ns=1e9)
    (node,) = described(script_of(*texts), cheap)["nodes"]
    assert (node["id"], node["parent"], node["shipped"]) == ("n1", None, True)
    assert node["groups"] == ["b"]
    assert node["dimensions"] == [{"expression": "a", "kind": "interval", "cells": 4}]
    assert node["partials"] == ["sum(c)", "sum(c) FILTER (WHERE d > 1.0)"]
    assert (node["predicates"], node["filter"]) == (2, None)
    assert node["passes"] == pytest.approx(0.7, abs=0.05)
    assert node["slices_per_hour"] == pytest.approx(960)


def test_one_predicate_is_written_out() -> None:
    (node,) = described(script_of("SELECT sum(c) FROM S [RANGE 10] WHERE a = 3 OR b > 7"))["nodes"]
    assert (node["predicates"], node["filter"]) == (1, "a = 3 OR b > 7")


def test_leaves_of_a_kind_are_told_as_one() -> None:
    description = described(script_of(*LOW_SHARING), Constants(node_ns=1e9, leaf_ns=1.0, ship_row_ns=1_000.0))
    shown = text(description)
    assert "q1 ... q20 (20 queries)" in shown
    assert len(shown.splitlines()) < 5 * len(description["nodes"])
    assert leaves(folds(description)) == {node["id"] for node in description["nodes"]}


def leaves(siblings: tuple[NodeFold, ...]) -> set[str]:
    """All nodes that the folds hold."""
    return {node["id"] for fold in siblings for node in fold.nodes}.union(*(leaves(fold.children) for fold in siblings))


@pytest.mark.parametrize("width", [80, 100])
def test_lines_fit(width: int) -> None:
    script = script_of(*LOW_SHARING, "SELECT a, b, c, avg(d) FROM S [RANGE 10] WHERE c < 9 AND b > 3 GROUP BY a, b, c")
    shown = text(described(script), [named.name for named in script.queries], width)
    assert max(len(line) for line in shown.splitlines()) <= width
    assert "\x1b" not in shown


def test_chosen_queries_are_told_with_their_rewrite() -> None:
    shown = text(described(script_of(*LOW_SHARING)), ["q3"])
    assert "WITH q3_slices AS (" in shown
    assert "where     b < 3" in shown
    assert "q4_slices" not in shown


def test_what_users_wrote_can_not_steer_the_terminal() -> None:
    script = script_of("SELECT count(*) FROM S [RANGE 10] WHERE CAST(a AS STRING) = 'x\x1b[31m'")
    assert "\x1b" not in text(described(script), ["q1"])


def test_an_addition_tells_what_changes() -> None:
    script = script_of("SELECT sum(c) FROM S [RANGE 10] WHERE b < 50", "SELECT sum(c) FROM S [RANGE 10] WHERE b < 60")
    queries = {named.name: named.query for named in script.queries}
    first = {"q1": queries["q1"]}
    cost = cost_of(script)
    before = make_plan({"q1": demand(queries["q1"])}, cost)
    after = add_query(before, "q2", demand(queries["q2"]), cost)
    added = explain_addition(before, after, "q2", queries, cost)
    assert added["added_ns"] == pytest.approx(after.cost_ns - before.cost_ns)
    assert added["added_ns"] <= added["query"]["alone_ns"]
    assert added["unchanged"] + len(added["changed"]) + len(added["new"]) == len(after.nodes)
    description = explain(before, first, cost)
    description["added"] = added
    assert "the query to be added" in text(description)


@pytest.mark.parametrize(
    ("function", "value", "shown"),
    [
        (figure, 0.0, "0"),
        (figure, 1.005, "1"),
        (figure, 12.345, "12.3"),
        (figure, 999.7, "1,000"),
        (figure, 12_345.0, "12,300"),
        (duration, 1.5, "1.5 ns"),
        (duration, 37_159_422.0, "37.2 ms"),
        (duration, -2_000.0, "-2 us"),
        (percent, 0.0, "0.0%"),
        (percent, 0.0001, "<0.1%"),
        (percent, 0.158, "15.8%"),
        (times_cheaper, 9.83, "9.83 times cheaper"),
        (times_cheaper, 0.5, "2 times more expensive"),
        (times_cheaper, 1.001, "no difference"),
    ],
)
def test_figures(function: Callable[[float], str], value: float, shown: str) -> None:
    assert function(value) == shown


def test_what_costs_nothing_can_be_told() -> None:
    free = Constants(**dict.fromkeys((field.name for field in fields(Constants)), 0.0))
    description = described(script_of(*LOW_SHARING), free)
    assert description["ratio"] == 1.0
    assert "no difference" in text(description, ["q1"])


def test_names_are_folded() -> None:
    assert fold_names(["a", "b", "c"]) == "a, b, c"
    assert fold_names(["a", "b", "c", "d"]) == "a ... d (4 queries)"
