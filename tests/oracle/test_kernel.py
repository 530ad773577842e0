"""Plan, kernel and combine against the reference: any queries together, any batches, any plan."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import pyarrow as pa
from hypothesis import HealthCheck, event, given, settings
from hypothesis import strategies as st

from headrace.kernel.answering import Answers, answer
from headrace.model.arrow import arrow_type, plain_values
from headrace.model.expressions import Aggregate, Call, Expression
from headrace.model.query import Output, Query
from headrace.model.types import DOUBLE
from headrace.planner.changing import add_query
from headrace.planner.cost import Constants, Cost
from headrace.planner.leaves import demand
from headrace.planner.making import make_plan
from headrace.planner.plan import Plan
from headrace.planner.pricing import apart, priced
from headrace.planner.sampling import Data, draw
from headrace.reference import Interpreter
from headrace.sql import parse_query, parse_script
from tests.oracle.tables import STREAM, Row, tables
from tests.oracle.values import canonical
from tests.oracle.windowed import QueryPair, queries

CATALOG = parse_script(STREAM).catalog
SCHEMA = pa.schema([(column.name, arrow_type(column.type)) for column in CATALOG.streams[0].columns])
ROUNDING = 1e-9
MAX_EMPTY = 3


@st.composite
def cases(draw: st.DrawFn) -> tuple[dict[str, Query], list[Row]]:
    """One to four queries, and rows that suit the first."""
    asked: list[QueryPair] = [draw(queries()) for _ in range(draw(st.integers(1, 4)))]
    named = {f"q{place}": parse_query(each.ours(), CATALOG) for place, each in enumerate(asked)}
    return named, draw(tables(asked[0].window.unit))


def data_of(table: list[Row]) -> Data:
    return Data(CATALOG, CATALOG.streams[0], pa.Table.from_pylist(table, schema=SCHEMA), {})


@st.composite
def plans(draw: st.DrawFn, data: Data, asked: dict[str, Query]) -> Plan:
    """Plans for dear and cheap nodes, dear and cheap shipping; each query apart; one query after the other."""
    costs = st.sampled_from([0.0, 1.0, 1_000.0])
    constants = Constants(node_ns=draw(costs), leaf_ns=draw(costs), slice_ns=draw(costs), ship_row_ns=draw(costs))
    cost = Cost(draw_sample(data, asked), constants)
    demands = {name: demand(query) for name, query in asked.items()}
    how = draw(st.sampled_from(["made", "apart", "grown"]))
    if how == "apart":
        return priced(apart(demands), demands, cost)
    if how == "made":
        return make_plan(demands, cost)
    first, *others = demands
    plan = make_plan({first: demands[first]}, cost)
    for name in others:
        plan = add_query(plan, name, demands[name], cost)
    return plan


def draw_sample(data: Data, asked: dict[str, Query]) -> Any:
    return draw(data, asked.values())


def weights(query: Query) -> dict[int, Expression]:
    """For outputs that rounding may change, what the tolerance is measured by."""
    found: dict[int, Expression] = {}
    for place, output in enumerate(query.outputs):
        tree = output.expression
        if isinstance(tree, Aggregate) and tree.type == DOUBLE and tree.function not in ("min", "max"):
            value = Call("cast", (tree.arguments[0],), DOUBLE)
            size = Call("abs", (value,), DOUBLE)
            function = "sum" if tree.function == "sum" else "max"
            found[place] = Aggregate(function, (size,), DOUBLE, filter=tree.filter)
    return found


def from_reference(query: Query, table: list[Row]) -> tuple[list[tuple[Any, ...]], int, int]:
    """Rows with their weights behind them, errors, and windows left out."""
    interpreter = Interpreter(CATALOG.streams[0], max_empty=MAX_EMPTY)
    interpreter.register("plain", query)
    extra = tuple(Output(f"w{place}", tree) for place, tree in weights(query).items())
    interpreter.register("weighted", replace(query, outputs=(*query.outputs, *extra)))
    steps = [interpreter.batch(table), interpreter.end()]
    rows = [row for step in steps for result in step.results if result.query == "weighted" for row in result.rows]
    errors = sum(step.counts.errors.get("plain", 0) for step in steps)
    return rows, errors, sum(gap.count for step in steps for gap in step.gaps if gap.query == "plain")


def from_kernel(answers: Answers, name: str, query: Query) -> list[tuple[Any, ...]]:
    table = answers.closed[name].table
    columns = [plain_values(table.column(column.name), column.type) for column in query.result_columns()]
    return list(zip(*columns, strict=True))


def agree(function: str, ours: Any, theirs: Any, weight: float | None) -> bool:
    if weight is None or ours is None or theirs is None or not (math.isfinite(ours) and math.isfinite(theirs)):
        return canonical(ours) == canonical(theirs)
    if "dev" in function:
        ours, theirs = ours * ours, theirs * theirs
    if "dev" in function or "var" in function:
        return bool(abs(ours - theirs) <= ROUNDING * max(ours, theirs) + 1e-28 * weight * weight)
    return bool(abs(ours - theirs) <= ROUNDING * weight)


def check(query: Query, ours: list[tuple[Any, ...]], theirs: list[tuple[Any, ...]]) -> None:
    measured = {place: len(query.outputs) + number for number, place in enumerate(weights(query))}
    assert len(ours) == len(theirs)
    for our_row, their_row in zip(ours, theirs, strict=True):
        for place, output in enumerate(query.outputs):
            weight = their_row[measured[place]] if place in measured else None
            function = getattr(output.expression, "function", "")
            pair = our_row[place], their_row[place]
            assert agree(function, *pair, weight), (output, our_row, their_row)


def compare(asked: dict[str, Query], table: list[Row], answers: Answers) -> None:
    for name, query in asked.items():
        theirs, errors, left_out = from_reference(query, table)
        event("with results" if theirs else "without results")
        check(query, from_kernel(answers, name, query), theirs)
        assert answers.closed[name].errors == errors
        assert answers.closed[name].left_out == left_out


@settings(max_examples=150, suppress_health_check=[HealthCheck.too_slow], deadline=None)
@given(cases(), st.data())
def test_the_kernel_says_what_the_reference_says(
    case: tuple[dict[str, Query], list[Row]], choices: st.DataObject
) -> None:
    asked, table = case
    data = data_of(table)
    plan = choices.draw(plans(data, asked))
    batch_rows = choices.draw(st.sampled_from([1, 3, 100]))
    compare(asked, table, answer(data, asked, plan, batch_rows, MAX_EMPTY))


def test_without_rows_there_are_no_windows() -> None:
    query = parse_query("SELECT count(*) AS n, max(s) AS s FROM r [RANGE '5 s']", CATALOG)
    nothing = answer(data_of([]), {"q": query})
    assert nothing.closed["q"].table.num_rows == 0
    assert nothing.closed["q"].table.column_names == ["window_start", "window_end", "n", "s"]
    dropped = answer(data_of([{"t": None, "i": 1}]), {"q": query})
    assert (dropped.rows, dropped.dropped, dropped.closed["q"].windows) == (1, 1, 0)
