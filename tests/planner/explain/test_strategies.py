"""How rows are folded is chosen by the skew of the sample, kept in the plan, told, and changes no answer."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from functools import cached_property

import numpy as np
import pyarrow as pa
import pytest

from headrace.aggregates.partials import Partial
from headrace.engine.answers import answer
from headrace.expressions.evaluation import Evaluation
from headrace.expressions.static_tables import Data
from headrace.kernel.level1.fold import fold_chunk
from headrace.kernel.level1.rows import StreamRows
from headrace.kernel.states.columns import Columns, Slots
from headrace.planner.codec import decode, encode
from headrace.planner.construction import make_plan
from headrace.planner.demand import leaves_of
from headrace.planner.draft import Draft, price_plan
from headrace.planner.explain.description import explain
from headrace.planner.explain.text import text
from headrace.planner.lattice import union
from headrace.planner.plan import STREAM, Plan
from headrace.sql import Script
from tests.planner.data import cost_of, demands_of, script_of

ROWS, DISTINCT = 20_000, 1_000_000
HITTERS = "SELECT {}heavy_hitters(b, 0.01) AS h FROM S [RANGE 60]{}"
ALONE, GROUPED = HITTERS.format("", ""), HITTERS.format("a, ", " GROUP BY a")


def data_of(script: Script, is_skewed: bool) -> Data:
    """A million items that come equally often, or most of the time a few of them."""
    rng = np.random.default_rng(4)
    places = np.floor(DISTINCT ** rng.random(ROWS) ** 2) if is_skewed else rng.integers(0, DISTINCT, ROWS)
    columns = {
        "t": pa.array(np.sort(rng.integers(0, 60_000_000, ROWS))).cast(pa.timestamp("us", tz="UTC")),
        "a": pa.array(rng.integers(0, 4, ROWS)),
        "b": pa.array(places.astype(np.int64)),
        "c": pa.array(rng.integers(0, 1 << 20, ROWS)),
        "d": pa.array(rng.random(ROWS)),
    }
    return Data(script.catalog, script.catalog.streams[0], pa.table(columns), {})


def plan_of(script: Script, is_skewed: bool) -> Plan:
    return make_plan(demands_of(script), cost_of(script, data_of(script, is_skewed)))


@pytest.mark.parametrize("query", [ALONE, GROUPED])
def test_skewed_items_are_compressed_and_others_are_not(query: str) -> None:
    script = script_of(query)
    skewed, uniform = (plan_of(script, is_skewed) for is_skewed in (True, False))
    assert [each.compressed == each.node.partials for each in skewed.nodes] == [True]
    assert [each.compressed for each in uniform.nodes] == [frozenset()]
    assert skewed.cost_ns < uniform.cost_ns


def test_explain_tells_which_and_why() -> None:
    script = script_of(GROUPED)
    queries = {named.name: named.query for named in script.queries}
    told = {}
    for is_skewed in (True, False):
        cost = cost_of(script, data_of(script, is_skewed))
        description = explain(make_plan(demands_of(script), cost), queries, cost)
        (told[is_skewed],) = description["nodes"][0]["states"]
        assert "states    counters(b): " + told[is_skewed].split()[1] in text(description)
    assert re.fullmatch(
        r"counters\(b\): compress as [5-9]\d\.\d% of the rows repeat, sketch, about 256 items", told[True]
    )
    assert re.fullmatch(r"counters\(b\): buffer as [0-9]\.\d% of the rows repeat, sketch, about 256 items", told[False])


def test_only_rows_of_the_stream_are_compressed() -> None:
    script = script_of(*(HITTERS.format("", f" WHERE a < {limit}") for limit in (1, 2, 3)))
    leaves = leaves_of(demands_of(script))
    nodes = (union([leaf.node for leaf in leaves]), *(leaf.node for leaf in leaves))
    outline = Draft(nodes, (STREAM, 0, 0, 0), tuple((leaf, place) for place, leaf in enumerate(leaves, start=1)))
    cost = cost_of(script, data_of(script, is_skewed=True))
    plan = price_plan(outline, demands_of(script), cost)
    assert [bool(each.compressed) for each in plan.nodes] == [True, False, False, False]
    told = explain(plan, {named.name: named.query for named in script.queries}, cost)
    assert ["compress" in state for node in told["nodes"] for state in node["states"]] == [True, False, False, False]


@pytest.mark.parametrize("is_skewed", [True, False])
@pytest.mark.parametrize("query", [ALONE, GROUPED])
def test_either_way_the_answers_are_the_same(query: str, is_skewed: bool) -> None:
    """A state is cut after all rows of a piece are counted, so that even those beyond the exact list are the same."""
    script = script_of(query)
    data, queries = data_of(script, is_skewed), {named.name: named.query for named in script.queries}
    plan = plan_of(script, is_skewed)
    for rows in (ROWS, 3_000):
        first, second = (
            answer(data, queries, with_compressed(plan, is_compressed), rows, threads=1)
            for is_compressed in (True, False)
        )
        assert all(first.closed[name].table.equals(second.closed[name].table) for name in queries)


def with_compressed(plan: Plan, is_compressed: bool) -> Plan:
    """All partials, or none."""
    nodes = [replace(each, compressed=each.node.partials if is_compressed else frozenset()) for each in plan.nodes]
    return replace(plan, nodes=tuple(nodes))


class Noting(StreamRows):
    """Rows that note which partials were folded from them in which way."""

    @cached_property
    def noted(self) -> dict[Partial, bool]:
        return {}

    def fold(
        self, partial: Partial, slots: Slots, count: int, columns: Columns, is_compressed: bool = False
    ) -> Columns:
        self.noted[partial] = is_compressed
        return super().fold(partial, slots, count, columns, is_compressed)


@pytest.mark.parametrize("is_compressed", [True, False])
@pytest.mark.parametrize("where", ["", " WHERE d < 0.5"])
def test_rows_are_folded_as_the_plan_says(where: str, is_compressed: bool) -> None:
    script = script_of(HITTERS.format("", where))
    rows = data_of(script, is_skewed=True).rows
    columns = {("S", name): rows[name].combine_chunks() for name in rows.column_names}
    source = Noting(Evaluation(columns, ROWS), np.asarray(columns["S", "t"].cast(pa.int64())), {})
    fold_chunk(with_compressed(plan_of(script, is_skewed=True), is_compressed), source)
    assert list(source.noted.values()) == [is_compressed]


def test_plans_keep_it_and_old_ones_have_none() -> None:
    plan = plan_of(script_of(ALONE), is_skewed=True)
    assert decode(encode(plan)) == plan
    plain = with_compressed(plan, is_compressed=False)
    document = json.loads(encode(plain))
    old = [values[:-1] if values[0] == "PlannedNode" else values for values in document["objects"]]
    assert old != document["objects"]
    assert decode(json.dumps(document | {"version": 2, "objects": old})) == plain
