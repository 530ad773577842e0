"""Queries come and go: the plan stays right, and no dearer than the queries run apart."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.planner.construction import make_plan
from headrace.planner.plan import route
from headrace.planner.plan_changes import add_query, drop_query
from tests.planner.data import cost_of, demands_of, script_of, stream_data
from tests.planner.test_plan import answered, check_tree, direct, query_sets

WAYS = (("", ""), ("a,", "GROUP BY a"), ("b,", "GROUP BY b"))


@settings(max_examples=80, deadline=None)
@given(query_sets, st.data())
def test_any_sequence_of_changes_leaves_a_right_plan(texts: list[str], data: st.DataObject) -> None:
    script = script_of(*texts)
    demands, cost = demands_of(script), cost_of(script, stream_data(script, 300))
    present = set(data.draw(st.sets(st.sampled_from(sorted(demands)), min_size=1)))
    plan = make_plan({name: demands[name] for name in demands if name in present}, cost)
    for name in data.draw(st.lists(st.sampled_from(sorted(demands)), max_size=8)):
        if name in present:
            plan = drop_query(plan, name, cost)
        else:
            plan = add_query(plan, name, demands[name], cost)
        present ^= {name}
        assert set(plan.demands) == present
        check_tree(plan)
        assert plan.cost_ns <= sum(plan.alone_ns.values()) * (1 + 1e-9)
    assert answered(plan, script, 300, present) == direct(script, 300, present)


def test_what_a_query_costs_alone_does_not_depend_on_its_company() -> None:
    script = script_of(*(f"SELECT {groups} count(*) FROM S [RANGE 60] WHERE c = 1 {by}" for groups, by in WAYS))
    demands, cost = demands_of(script), cost_of(script)
    together = make_plan(demands, cost).alone_ns
    assert together == {name: make_plan({name: asked}, cost).alone_ns[name] for name, asked in demands.items()}


def test_a_query_of_a_known_kind_changes_no_tree() -> None:
    texts = [f"SELECT count(*) FROM S [RANGE 60 SLIDE 20] WHERE b < {b} AND a = {b % 5}" for b in range(4, 100, 4)]
    script = script_of(*texts, "SELECT count(*) FROM S [RANGE 60 SLIDE 30] WHERE b < 31 AND a = 2")
    demands, cost = demands_of(script), cost_of(script)
    *old, new = demands
    plan = make_plan({name: demands[name] for name in old}, cost)
    wider = add_query(plan, new, demands[new], cost)
    assert [each.parent for each in wider.nodes[: len(plan.nodes)]] == [each.parent for each in plan.nodes]
    assert len(wider.nodes) <= len(plan.nodes) + 1
    assert drop_query(wider, new, cost).cost_ns == pytest.approx(plan.cost_ns, rel=0.02)


def test_names_are_checked() -> None:
    script = script_of("SELECT count(*) FROM S [RANGE 60]")
    demands, cost = demands_of(script), cost_of(script)
    plan = make_plan(demands, cost)
    with pytest.raises(ValueError, match="already"):
        add_query(plan, "q1", demands["q1"], cost)
    with pytest.raises(ValueError, match="no query 'q2'"):
        drop_query(plan, "q2", cost)
    empty = drop_query(plan, "q1", cost)
    assert (empty.nodes, empty.answers, empty.cost_ns) == ((), (), 0)
    assert route(empty, demands["q1"]) is None
    assert add_query(empty, "q1", demands["q1"], cost) == plan
