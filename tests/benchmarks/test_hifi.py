"""The six plans executed give the results of the reference; and the benchmark of HIFI at a tiny size."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, event, given, settings
from hypothesis import strategies as st

from benchmarks.data import generate_data
from benchmarks.hifi.benchmark import (
    FULL,
    PANED,
    PARTIAL,
    RAW,
    SCHEMES,
    SIZES,
    UNSHARED_FULL,
    UNSHARED_PARTIAL,
    UNSHARED_RAW,
    Measured,
    check_results,
    deal,
    measure_sets,
    query_set,
)
from benchmarks.hifi.plans import Edge, execute, sliced_plan
from headrace.engine.answers import answer, plan_for
from headrace.expressions.static_tables import Data
from headrace.model.arrow import plain_values
from headrace.model.errors import DataError
from headrace.model.query import Query
from headrace.planner.placement.push_down import WAYS, Way
from headrace.sql import parse_query
from tests.cli.command_line import CommandLine
from tests.oracle.plans import plans
from tests.oracle.tables import Row
from tests.oracle.test_kernel import MAX_EMPTY, cases, check, data_of, from_reference

# The six plans


def rows_of(table: pa.Table, query: Query) -> list[tuple[Any, ...]]:
    columns = [plain_values(table.column(column.name), column.type) for column in query.result_columns()]
    return list(zip(*columns, strict=True))


def part_of(data: Data, owners: list[int], edge: int) -> Data:
    """The rows that one of the edges reads."""
    return replace(data, rows=data.rows.filter(pa.array([owner == edge for owner in owners], pa.bool_())))


@settings(max_examples=25, suppress_health_check=[HealthCheck.too_slow], deadline=None)
@given(cases(), st.integers(1, 3), st.data())
def test_all_six_plans_give_what_the_reference_gives(
    case: tuple[dict[str, Query], list[Row]], count: int, data: st.DataObject
) -> None:
    asked, table = case
    whole = data_of(table)
    owners = data.draw(
        st.lists(st.integers(0, count - 1), min_size=len(table), max_size=len(table)), "edge of each row"
    )
    edges = [Edge(part_of(whole, owners, edge), asked) for edge in range(count)]
    shared = data.draw(st.one_of(st.just(sliced_plan(asked)), plans(whole, asked)), "plan")
    truth = {name: from_reference(query, table)[0] for name, query in asked.items()}
    event("with results" if any(truth.values()) else "without results")
    for way in WAYS:
        executed = execute(way, edges, asked, shared, MAX_EMPTY)
        for name, query in asked.items():
            check(query, rows_of(executed.results[name], query), truth[name])


@pytest.mark.parametrize("way", WAYS, ids=lambda way: way.name)
def test_joins_slices_and_an_edge_without_rows(way: Way) -> None:
    trades = generate_data("trades", 2_000, 5)
    texts = [
        "SELECT T.Symbol, sum(T.Vol) AS v FROM Trades T [RANGE '3 s' SLIDE '2 s'] JOIN Index X ON T.Symbol = X.Symbol "
        "WHERE X.R1000 GROUP BY T.Symbol ORDER BY v DESC, Symbol LIMIT 3",
        "SELECT count(*) AS n, max(Vol) AS v FROM Trades [SLICES '1 s', '700 ms'] WHERE Vol > 300",
        "SELECT count(*) AS n FROM Trades [RANGE '500 ms' SLIDE '2 s'] WHERE Vol > 100",
    ]
    asked = {f"q{place}": parse_query(text, trades.catalog) for place, text in enumerate(texts)}
    truth = answer(trades, asked).closed
    owners = [place % 2 for place in range(trades.rows.num_rows)]
    edges = [Edge(part_of(trades, owners, edge), asked) for edge in range(3)]
    executed = execute(way, edges, asked, plan_for(trades, asked))
    for name in asked:
        assert truth[name].table.num_rows > 1
        assert executed.results[name].to_pylist() == truth[name].table.to_pylist()


# The benchmark


@pytest.fixture(scope="module")
def packets() -> Data:
    """As many a second as in the paper's day, for two hours and a half."""
    return generate_data("syn", 54_000, 3, rate=6.06)


@pytest.fixture(scope="module")
def measured(packets: Data) -> Measured:
    return measure_sets(packets, 2, 1, lambda done, total: None, (2, 8))


def test_the_command(bench: CommandLine, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    files = "--json", tmp_path / "hifi.json", "--plot", tmp_path / "hifi.svg"
    outcome = bench("hifi", "--rows", 2_000, "--sets", 1, *files)
    assert outcome.status == 0, outcome.err
    found = json.loads((tmp_path / "hifi.json").read_text())
    assert (found["rows"], found["sets"], found["checked_sets"]) == (2_000, 1, 10)
    assert [(case["is_grouped"], case["queries"]) for case in found["cases"]] == [
        (is_grouped, size) for is_grouped in (False, True) for size in SIZES
    ]
    for case in found["cases"]:
        assert set(case["plans"]) == set(case["seconds"]) == set(SCHEMES)
        raw, queries = case["plans"][RAW], case["queries"]
        assert raw["tuples"] == 2_000
        assert case["plans"][UNSHARED_RAW]["bytes"] == queries * raw["bytes"]
    assert found["cases"][-1]["paper_tuples"][PARTIAL] == 183_910
    assert found["growth_partial_grouped"] > 1
    assert "tuples sent, grouped" in outcome.out
    assert "183,910" in outcome.out
    assert (tmp_path / "hifi.svg").read_text().count("<svg") == 1


def test_partial_push_down_wins_for_groups_and_grows_slowly(measured: Measured) -> None:
    assert measured.checked_sets == 4
    assert measured.wins(PARTIAL, True, lambda counts: counts.tuples)
    assert measured.wins(PARTIAL, True, lambda counts: counts.bytes)
    assert not measured.wins(FULL, True, lambda counts: counts.tuples)
    assert measured.growth(PARTIAL, True) < 2
    assert measured.growth(FULL, True) > 3


def test_counts_agree_with_the_papers_tables(measured: Measured) -> None:
    """Table 4 for one slide: a pair of slices per query, less where they meet; tables 2 and 3 for operations."""
    for case in measured.cases:
        counts = case.counts
        assert counts[UNSHARED_FULL].tuples == counts[FULL].tuples
        assert counts[PARTIAL].tuples <= counts[UNSHARED_PARTIAL].tuples <= 2 * counts[UNSHARED_FULL].tuples
        assert counts[PARTIAL].tuples < counts[PANED].tuples
        assert counts[PARTIAL].operations < counts[PANED].operations
        assert counts[PARTIAL].operations < counts[UNSHARED_PARTIAL].operations
        assert counts[UNSHARED_PARTIAL].operations > case.queries * measured.rows


def test_placement_predicts_what_is_sent(measured: Measured) -> None:
    assert measured.worst_prediction < 1.25


def test_a_wrong_result_is_an_error(packets: Data) -> None:
    """An edge is there twice."""
    queries = query_set(True, 2, 0)
    edges = deal(packets, queries)
    with pytest.raises(DataError, match="the results of hifi_grouped_001 differ"):
        check_results(packets, queries, [*edges, edges[0]])
