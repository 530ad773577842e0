"""Plan, kernel and combine against the reference: any queries together, any batches, any plan."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import pyarrow as pa
from hypothesis import HealthCheck, event, given, settings
from hypothesis import strategies as st

from headrace.engine.answers import Answers, answer
from headrace.expressions.static_tables import Data
from headrace.kernel.close.windows import Closed
from headrace.model.arrow import arrow_type, plain_values
from headrace.model.expressions import Aggregate, Call, Expression
from headrace.model.query import Output, Query
from headrace.model.types import DOUBLE
from headrace.planner.construction import make_plan
from headrace.planner.cost import Constants, Cost
from headrace.planner.demand import demand
from headrace.planner.plan_changes import add_query
from headrace.planner.statistics import draw
from headrace.reference import Interpreter
from headrace.sql import parse_query, parse_script
from tests.oracle.plans import plans
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


def from_kernel(closed: Closed, query: Query) -> list[tuple[Any, ...]]:
    table = closed.table
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
        check(query, from_kernel(answers.closed[name], query), theirs)
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


def test_more_cells_than_can_be_numbered() -> None:
    columns = [f"c{place}" for place in range(16)]
    catalog = parse_script(
        f"CREATE STREAM r (t TIMESTAMP, {', '.join(f'{name} BIGINT' for name in columns)}) EVENT TIME t"
    ).catalog
    asked = {
        f"q{number}": parse_query(
            f"SELECT count(*) AS n FROM r [RANGE '5 s'] WHERE {' AND '.join(f'{name} > {number}' for name in columns)}",
            catalog,
        )
        for number in range(40)
    }
    rows = pa.table(
        {"t": pa.array(range(60), pa.int64()).cast(arrow_type(catalog.streams[0].columns[0].type))}
        | {name: pa.array(range(60), pa.int64()) for name in columns}
    )
    data = Data(catalog, catalog.streams[0], rows, {})
    first, *others = asked
    cost = Cost(draw(data, asked.values()), Constants())
    grown = make_plan({first: demand(asked[first])}, cost)
    for name in others:
        grown = add_query(grown, name, demand(asked[name]), cost)
    for plan in (None, grown):
        found = answer(data, asked, plan)
        assert [found.closed[name].table["n"].to_pylist() for name in asked] == [[59 - number] for number in range(40)]
