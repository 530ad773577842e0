"""Plans and queries as text: what comes back is what was written, in every process the same."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.model.errors import DataError
from headrace.model.query import Query
from headrace.planner.codec import decode, digest_of, encode
from tests.oracle.plans import plans
from tests.oracle.tables import Row
from tests.oracle.test_kernel import cases, data_of


@settings(max_examples=60, deadline=None)
@given(cases(), st.data())
def test_plans_and_queries_come_back(case: tuple[dict[str, Query], list[Row]], choices: st.DataObject) -> None:
    asked, table = case
    assert decode(encode(asked)) == asked
    plan = choices.draw(plans(data_of(table), asked))
    text = encode(plan)
    again = decode(text)
    assert again == plan
    assert encode(again) == text
    for first, second in zip(again.nodes, decode(text).nodes, strict=True):
        assert all(one is other for one, other in zip(first.node.dimensions, second.node.dimensions, strict=True))


CODE = """
from headrace.planner.codec import digest_of, encode
from headrace.planner.construction import make_plan
from tests.planner.data import cost_of, demands_of, script_of, stream_data
script = script_of(
    "SELECT b, sum(c) FROM S [RANGE 20 SLIDE 10] WHERE a IN (1, 2, 3) GROUP BY b",
    "SELECT count(*) FROM S [RANGE 10] WHERE b < 50 AND a > 1",
)
print(digest_of(encode(make_plan(demands_of(script), cost_of(script, stream_data(script, 300))))))
"""


def test_the_text_is_the_same_in_every_process() -> None:
    found = {
        subprocess.run(
            [sys.executable, "-c", CODE],
            capture_output=True,
            text=True,
            check=True,
            env={**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": "."},
        ).stdout
        for seed in ("1", "2")
    }
    assert len(found) == 1


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"version": 99}', '{"version": 1, "objects": [["os"]], "value": 1}'])
def test_other_text_is_refused(text: str) -> None:
    with pytest.raises(DataError):
        decode(text)


def test_what_is_no_part_of_a_plan_is_refused() -> None:
    with pytest.raises(TypeError, match="can't be encoded"):
        encode(object())
    assert digest_of("a") != digest_of("b")


@pytest.mark.parametrize(
    "made",
    [
        ["Boundaries", 5, [0.5]],
        ["Boundaries", True, [0]],
        ["Window", 5, 5, None],
        ["DataType", "STRING", 0, 0, [["x"]]],
        ["Node", [7], [], {"set": []}, {"set": []}, {"set": []}],
        ["Node", [], [], {"set": [1]}, {"set": []}, {"set": []}],
        ["Plan", [], [], {"map": [["q", 1]]}, 0.5, {"map": []}],
    ],
)
def test_fields_hold_what_they_are_declared_to_hold(made: list[object]) -> None:
    text = json.dumps({"version": 3, "objects": [made], "value": {"is": 0}})
    with pytest.raises(DataError):
        decode(text)
