"""Plans travel to other processes, where texts have other hashes."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys

from headrace.planner.construction import make_plan
from tests.planner.data import cost_of, demands_of, script_of, stream_data

THERE = """
import pickle, sys
plan = pickle.loads(sys.stdin.buffer.read())
for each in plan.nodes:
    again = pickle.loads(pickle.dumps(each.node))
    assert {each.node: 1}[again] == 1
    assert all(predicate in each.node.keep for predicate in again.keep)
assert len(plan.routes) == 2
assert all(demand in plan.routes for demand in plan.demands.values())
"""


def test_a_plan_is_the_same_in_another_process() -> None:
    script = script_of(
        "SELECT b, sum(c) FROM S [RANGE 20 SLIDE 10] WHERE a IN (1, 2) GROUP BY b",
        "SELECT count(*) FROM S [RANGE 10] WHERE b < 50",
    )
    demands = demands_of(script)
    plan = make_plan(demands, cost_of(script, stream_data(script, 300)))
    assert len(plan.routes) == len({hash(each.node) for each in plan.nodes}) == 2
    for seed in ("1", "2"):
        environment = {**os.environ, "PYTHONHASHSEED": seed}
        done = subprocess.run(
            [sys.executable, "-c", THERE], input=pickle.dumps(plan), env=environment, capture_output=True, check=False
        )
        assert done.returncode == 0, done.stderr.decode()
