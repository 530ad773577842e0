"""Level 1 at the edge says what the kernel says, in memory so short that everything is evicted."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Any

import pyarrow as pa
from hypothesis import HealthCheck, event, given, settings
from hypothesis import strategies as st

from headrace.edge.tables.level1 import LevelOne
from headrace.edge.tables.tables import Flush, Replacement
from headrace.engine.answers import Answers, close_all
from headrace.expressions.static_tables import Data
from headrace.kernel.interchange import unpack
from headrace.kernel.level1.reader import ReadResult
from headrace.model.query import Query
from headrace.model.schema import Catalog
from headrace.planner.cost import Cost
from headrace.planner.demand import demand, leaves_of
from headrace.planner.draft import Draft, price_plan
from headrace.planner.plan import STREAM, Plan
from headrace.planner.statistics import draw as draw_sample
from headrace.sql import parse_query
from headrace.wire.orders import Orders
from tests.oracle.plans import plans
from tests.oracle.tables import Row, tables
from tests.oracle.test_kernel import CATALOG, MAX_EMPTY, cases, compare, data_of


def level_one(orders: Orders, catalog: Catalog = CATALOG, **options: Any) -> LevelOne:
    """Slices may have a single row: else the kernel would do the work in tests with few."""
    return LevelOne(orders, catalog, {}, **{"span_rows": 1} | options)


def through_the_edge(
    data: Data, asked: Mapping[str, Query], plan: Plan, frames: Sequence[Sequence[pa.Table]], **options: Any
) -> Answers:
    """The rows of each frame in batches, and windows closed from what the frames held."""
    edge = level_one(Orders(data.stream.name, plan, asked), data.catalog, **options)
    run = ReadResult()
    nodes = {plan.nodes[place].node: place for place in plan.shipped}
    for batches in frames:
        for rows in batches:
            edge.feed(rows)
            run.rows += rows.num_rows
        for name, failed in edge.errors.items():
            run.errors[name] = run.errors.get(name, 0) + failed
        found = unpack(data.stream.name, edge.cut(), nodes)
        run.retained.add(plan, {nodes[part.node]: part for part in found})
        assert not edge.errors
    return Answers(close_all(run, data, asked, MAX_EMPTY), run.rows, 0)


@st.composite
def split(draw: st.DrawFn, rows: pa.Table) -> list[list[pa.Table]]:
    """Into batches, and these into frames."""
    cuts = sorted(draw(st.lists(st.integers(0, rows.num_rows), max_size=4)))
    batches = [rows.slice(begin, end - begin) for begin, end in zip([0, *cuts], [*cuts, rows.num_rows], strict=True)]
    frame = draw(st.integers(0, len(batches)))
    return [batches[:frame], batches[frame:]]


@settings(max_examples=150, suppress_health_check=[HealthCheck.too_slow], deadline=None)
@given(
    cases(),
    st.data(),
    st.sampled_from([1, 4_000, 1 << 20]),
    st.sampled_from(Replacement),
    st.sampled_from(Flush),
    st.sampled_from([1, 3, 1_000]),
)
def test_the_edge_says_what_the_reference_says(
    case: tuple[dict[str, Query], list[Row]],
    choices: st.DataObject,
    memory_bytes: int,
    replacement: Replacement,
    flush: Flush,
    span_rows: int,
) -> None:
    asked, table = case
    data = data_of(table)
    plan = choices.draw(plans(data, asked))
    frames = choices.draw(split(data.rows))
    options = {"memory_bytes": memory_bytes, "replacement": replacement, "flush": flush, "span_rows": span_rows}
    event("tables" if level_one(Orders("r", plan, asked)).table_sets else "kernel alone")
    compare(asked, table, through_the_edge(data, asked, plan, frames, **options))


AGGREGATES = [
    "count(*)",
    *(f"count({name})" for name in "isxb"),
    *(f"sum({name})" for name in ("i", "j", "x", "y", "d", "-i", "i * 3", "d * 1000000000000")),
    *(f"{function}({name})" for function in ("min", "max") for name in "ijxyt"),
    "avg(i)",
]
GROUPS = ["i", "j", "x", "y", "s", "u", "b", "d", "t", "i % 3", "length(u)", "coalesce(s, 'none')"]
CONDITIONS = ["i > 0", "i <= 1", "j > 0 AND x > 0.5", "s = 'a' OR b", "u LIKE 'a%'", "d < 1", "x IS NULL", "NOT b"]


@st.composite
def for_tables(draw: st.DrawFn) -> dict[str, Query]:
    """Queries that share windows or predicates now and then, with nothing but what tables can do."""
    lengths = st.sampled_from(["4 s", "6 s", "10 s", "30 us"])
    conditions = st.sampled_from([*CONDITIONS, ""])
    found = {}
    for place in range(draw(st.integers(1, 5))):
        groups = draw(st.lists(st.sampled_from(GROUPS), min_size=1, max_size=3, unique=True))
        aggregates = draw(st.lists(st.sampled_from(AGGREGATES), min_size=1, max_size=3, unique=True))
        filters = [draw(st.sampled_from(["", "", " FILTER (WHERE i > 0)"])) for _ in aggregates]
        items = [f"{text} AS g{number}" for number, text in enumerate(groups)]
        items += [f"{text}{filters[number]} AS a{number}" for number, text in enumerate(aggregates)]
        where = draw(conditions)
        text = f"SELECT {', '.join(items)} FROM r [RANGE '{draw(lengths)}'] {where and 'WHERE ' + where} "
        found[f"q{place}"] = parse_query(f"{text} GROUP BY {', '.join(groups)}", CATALOG)
    return found


@settings(max_examples=150, suppress_health_check=[HealthCheck.too_slow], deadline=None)
@given(
    for_tables(),
    st.sampled_from(["us", "s"]).flatmap(tables),
    st.data(),
    st.sampled_from([1, 4_000, 1 << 20]),
    st.sampled_from(Replacement),
    st.sampled_from(Flush),
    st.sampled_from([1, 3, 1_000]),
)
def test_tables_say_what_the_reference_says(
    asked: dict[str, Query],
    table: list[Row],
    choices: st.DataObject,
    memory_bytes: int,
    replacement: Replacement,
    flush: Flush,
    span_rows: int,
) -> None:
    data = data_of(table)
    plan = choices.draw(plans(data, asked))
    frames = choices.draw(split(data.rows))
    options = {"memory_bytes": memory_bytes, "replacement": replacement, "flush": flush, "span_rows": span_rows}
    compare(asked, table, through_the_edge(data, asked, plan, frames, **options))


def test_filters_of_nodes_below_others_are_known_too() -> None:
    """An edge computes every node from the stream, whatever the plan computes it from."""
    texts = {
        "all": "SELECT i, x, count(*) AS n FROM r [RANGE '4 s'] GROUP BY i, x",
        "below": "SELECT i, count(*) AS n FROM r [RANGE '4 s'] WHERE x > 0.5 GROUP BY i",
        "beside": "SELECT i, count(*) AS n FROM r [RANGE '4 s'] WHERE x IS NULL GROUP BY i",
    }
    asked = {name: parse_query(text, CATALOG) for name, text in texts.items()}
    row: Row = {"t": 0, "i": 0, "j": 0, "y": 0.0, "s": "", "u": "", "b": True, "d": Decimal(0)}
    table = [{**row, "x": x} for x in (0.0, 0.25, 1.0, None)]
    data, demands = data_of(table), {name: demand(query) for name, query in asked.items()}
    leaves = [leaf for name in asked for leaf in leaves_of({name: demands[name]})]
    answers = tuple((leaf, place) for place, leaf in enumerate(leaves))
    outline = Draft(tuple(leaf.node for leaf in leaves), (STREAM, 0, STREAM), answers)
    plan = price_plan(outline, demands, Cost(draw_sample(data, asked.values())))
    found = through_the_edge(data, asked, plan, [[data.rows]]).closed
    assert {name: found[name].table["n"].to_pylist() for name in asked} == {
        "all": [1, 1, 1, 1],
        "below": [1],
        "beside": [1],
    }
