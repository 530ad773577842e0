"""Queries over the results of queries, in this process: each link of a chain is the reference's answer over the
reference's answers.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner
from datasketches import kll_doubles_sketch
from hypothesis import HealthCheck, event, given, settings
from hypothesis import strategies as st

import headrace
from headrace.cli.main import cli
from headrace.model.arrow import plain_values
from headrace.model.query import Query
from headrace.model.schema import Catalog, Stream
from headrace.model.types import Value
from headrace.reference import Interpreter
from headrace.sql import parse_next, parse_script

Row = dict[str, Any]
Rows = list[tuple[Value, ...]]

CATALOG = parse_script("CREATE STREAM r (t TIMESTAMP, k STRING, v BIGINT) EVENT TIME t;").catalog
SCHEMA = pa.schema([("t", pa.timestamp("us", "UTC")), ("k", pa.string()), ("v", pa.int64())])
SETTINGS = settings(max_examples=120, suppress_health_check=[HealthCheck.too_slow], deadline=None)


# The oracle


def parsed_chain(asked: Mapping[str, str], catalog: Catalog) -> tuple[Catalog, dict[str, Query]]:
    known: dict[str, Query] = {}
    for name, text in asked.items():
        catalog, known[name] = parse_next(text, catalog, known)
    return catalog, known


def by_reference(
    asked: Mapping[str, str], catalog: Catalog, batches: Mapping[str, Sequence[Sequence[Row]]]
) -> dict[str, Rows]:
    """All rows of each query: an interpreter for each, over the batches of its stream or the results of another."""
    catalog, queries = parsed_chain(asked, catalog)
    found: dict[str, Rows] = {}

    def results(name: str) -> list[Row]:
        stream = catalog.stream(name)
        assert stream is not None
        assert stream.derived is not None
        names = [column.name for column in queries[stream.name].result_columns()]
        rows: list[Row] = [dict(zip(names, row, strict=True)) for row in found[stream.name]]
        return [{**row, "window_time": row[stream.derived.end] - 1} for row in rows]

    for name, query in queries.items():
        stream = catalog.stream(query.stream)
        assert stream is not None
        tables = {join.table: results(join.table) for join in query.joins}
        interpreter = Interpreter(stream, tables, catalog.functions)
        interpreter.register(name, query)
        steps = [interpreter.batch(rows) for rows in batches_of(stream, batches, results)]
        found[name] = [row for step in [*steps, interpreter.end()] for each in step.results for row in each.rows]
    return found


def batches_of(stream: Stream, batches: Mapping[str, Sequence[Sequence[Row]]], results: Any) -> Sequence[Sequence[Row]]:
    return batches[stream.name] if stream.derived is None else [results(stream.name)]


def plain_rows(table: pa.Table, query: Query) -> Rows:
    columns = [plain_values(table.column(column.name), column.type) for column in query.result_columns()]
    return list(zip(*columns, strict=True))


def in_any_order(rows: Rows) -> list[str]:
    return sorted(map(repr, rows))


# Random chains

WINDOWS = (
    "[RANGE '4 s']",
    "[RANGE '6 s' SLIDE '2 s']",
    "[RANGE '3 s' SLIDE '4 s']",
    "[RANGE '5 s' SLIDE '2 s' OFFSET '1 s']",
)
FUNCTIONS = ("sum({})", "min({})", "max({})", "median({})", "count({})")


@dataclass(frozen=True)
class Asked:
    """A query of a chain. Its results are numbers called c0, c1, ..., and k if it has groups."""

    name: str
    text: str
    window: str
    is_grouped: bool
    columns: int
    is_first: bool


@st.composite
def selected(draw: st.DrawFn, values: Sequence[str], is_grouped: bool, source: str, rest: str) -> tuple[str, int]:
    """SELECT of some aggregates of the values, FROM the source; and how many there are."""
    picked = st.tuples(st.sampled_from(FUNCTIONS), st.sampled_from(values))
    aggregates = [function.format(value) for function, value in draw(st.lists(picked, max_size=2, unique=True))]
    outputs = [f"{text} AS c{place}" for place, text in enumerate(["count(*)", *aggregates])]
    grouped = (["k, "], " GROUP BY k") if is_grouped else ([""], "")
    having = draw(st.sampled_from(["", "", " HAVING count(*) > 1"]))
    limit = draw(st.sampled_from(["", "", " ORDER BY c0 DESC LIMIT 1"]))
    return f"SELECT {grouped[0][0]}{', '.join(outputs)} FROM {source}{rest}{grouped[1]}{having}{limit}", len(outputs)


@st.composite
def first_query(draw: st.DrawFn, name: str) -> Asked:
    window, is_grouped = draw(st.sampled_from(WINDOWS)), draw(st.booleans())
    where = draw(st.sampled_from(["", " WHERE v > 3"]))
    text, columns = draw(selected(["v"], is_grouped, f"r {window}", where))
    return Asked(name, text, window, is_grouped, columns, True)


@st.composite
def chained_query(draw: st.DrawFn, name: str, before: Sequence[Asked]) -> Asked:
    """Over the results of one that came before, at times joined with those of another."""
    read = draw(st.sampled_from(before))
    window = draw(st.sampled_from(["", *WINDOWS]))
    is_grouped = read.is_grouped and draw(st.booleans())
    values = [f"{read.name}.c{place}" for place in range(read.columns)]
    where = draw(st.sampled_from(["", f" WHERE {read.name}.c0 > 1"]))
    partners = [
        each
        for each in before
        if each is not read
        and each.is_first
        and read.is_first
        and each.window == read.window
        and (read.is_grouped or not each.is_grouped)
    ]
    join = ""
    is_joined: bool = draw(st.booleans())
    if partners and is_joined:
        partner = draw(st.sampled_from(partners))
        using = " USING (k)" if partner.is_grouped else ""
        join = f" {draw(st.sampled_from(['JOIN', 'LEFT JOIN']))} {partner.name}{using}"
        values += [f"{partner.name}.c{place}" for place in range(partner.columns)]
    text, columns = draw(selected(values, is_grouped, f"{read.name} {window}{join}", where))
    return Asked(name, text, window or f"of {read.window}", is_grouped, columns, False)


@st.composite
def chains(draw: st.DrawFn) -> dict[str, str]:
    made: list[Asked] = []
    for place in range(draw(st.integers(1, 3))):
        made.append(draw(first_query(f"f{place}")))
    for place in range(draw(st.integers(1, 3))):
        made.append(draw(chained_query(f"d{place}", made)))
    return {each.name: each.text for each in made}


ROWS = st.lists(
    st.fixed_dictionaries(
        {
            "t": st.integers(0, 50).map(lambda half: half * 500_000),
            "k": st.sampled_from(["a", "b", None]),
            "v": st.none() | st.integers(0, 9),
        }
    ),
    max_size=25,
)


@SETTINGS
@given(chains(), ROWS)
def test_a_chain_says_what_the_reference_says(asked: dict[str, str], rows: list[Row]) -> None:
    ours = headrace.aggregate(pa.Table.from_pylist(rows, schema=SCHEMA), asked, name="r")
    theirs = by_reference(asked, CATALOG, {"r": [rows]})
    _, queries = parsed_chain(asked, CATALOG)
    assert list(ours) == list(asked)
    for name, query in queries.items():
        event(f"{'joined' if query.joins else 'alone'}, {'some' if theirs[name] else 'no'} rows")
        assert in_any_order(plain_rows(ours[name], query)) == in_any_order(theirs[name]), asked[name]


# Small examples


def table_of(*rows: tuple[int, str, int]) -> pa.Table:
    return pa.Table.from_pylist([{"t": t * 1_000_000, "k": k, "v": v} for t, k, v in rows], schema=SCHEMA)


SOME = table_of((1, "a", 1), (2, "b", 2), (3, "a", 3), (11, "a", 4), (12, "b", 5), (31, "c", 6))
BY_KEY = "SELECT k, count(*) AS n, sum(v) AS v FROM r [RANGE '10 s'] GROUP BY k"
"""
0         10        20        30        40
|a b a----|a b------|---------|c--------|
 a: 2, 4   a: 1, 4             c: 1, 6
 b: 1, 2   b: 1, 5
"""


def found(asked: dict[str, str], *columns: str, rows: pa.Table = SOME, **options: Any) -> list[tuple[Any, ...]]:
    """Of the last query: where the windows end, in seconds, and these columns."""
    table = headrace.aggregate(rows, asked, name="r", **options)[list(asked)[-1]]
    ends = pc.divide(table["window_end"].cast(pa.int64()), 1_000_000).to_pylist()
    return list(zip(ends, *(table[column].to_pylist() for column in columns), strict=True))


def test_results_lie_at_the_last_instant_of_their_window() -> None:
    asked = {"q": BY_KEY, "d": "SELECT sum(n) AS n, max(window_time) AS at FROM q [RANGE '20 s']"}
    last = headrace.aggregate(SOME, asked, name="r")["d"]
    assert last["n"].to_pylist() == [5, 1]
    assert last["at"].cast(pa.int64()).to_pylist() == [20_000_000 - 1, 40_000_000 - 1]


def test_without_a_window_there_is_one_for_each_of_the_query() -> None:
    asked = {"q": BY_KEY, "d": "SELECT count(*) AS groups, sum(n) AS n FROM q"}
    assert found(asked, "groups", "n") == [(10, 2, 3), (20, 2, 2), (30, 0, None), (40, 1, 1)]


def test_each_result_of_overlapping_windows_is_in_one_window() -> None:
    sliding = "SELECT count(*) AS n FROM r [RANGE '20 s' SLIDE '10 s']"
    asked = {"q": sliding, "d": "SELECT count(*) AS rows, max(n) AS n FROM q"}
    assert found(asked, "rows", "n") == [(10, 1, 3), (20, 1, 5), (30, 1, 2), (40, 1, 1), (50, 1, 1)]


def test_empty_windows_are_rows_too() -> None:
    asked = {"q": "SELECT count(*) AS n FROM r [RANGE '10 s']", "d": "SELECT min(n) AS n FROM q [RANGE '40 s']"}
    assert found(asked, "n") == [(40, 0)]


def test_windows_of_the_event_time_of_results_in_other_words() -> None:
    asked = {"q": BY_KEY, "d": "SELECT sum(v) AS v FROM q GROUP BY window(window_time, '20 seconds')"}
    assert found(asked, "v") == [(20, 15), (40, 6)]


def test_results_are_joined_window_by_window() -> None:
    asked = {
        "few": "SELECT k, count(*) AS n FROM r [RANGE '10 s'] WHERE v > 2 GROUP BY k",
        "every": "SELECT count(*) AS n FROM r [RANGE '10 s']",
        "d": "SELECT k, max(few.n) AS few, max(every.n) AS every FROM few JOIN every GROUP BY k",
    }
    assert found(asked, "k", "few", "every") == [(10, "a", 1, 3), (20, "a", 1, 2), (20, "b", 1, 2), (40, "c", 1, 1)]


def test_a_left_join_keeps_results_without_a_partner() -> None:
    few = "SELECT k, count(*) AS n FROM r [RANGE '10 s'] WHERE v > 3 GROUP BY k"
    asked = {
        "q": BY_KEY,
        "few": few,
        "d": "SELECT q.k AS k, max(few.n) AS few FROM q LEFT JOIN few ON few.k = q.k GROUP BY q.k",
    }
    assert found(asked, "k", "few") == [(10, "a", None), (10, "b", None), (20, "a", 1), (20, "b", 1), (40, "c", 1)]


def test_a_query_may_be_joined_with_itself() -> None:
    asked = {"q": BY_KEY, "d": "SELECT sum(x.n * y.v) AS s FROM q x JOIN q y ON x.k = y.k"}
    assert found(asked, "s") == [(10, 2 * 4 + 1 * 2), (20, 4 + 5), (30, None), (40, 6)]


def test_static_tables_are_joined_to_results() -> None:
    owners = pa.table({"k": ["a", "b"], "owner": ["ann", "bob"]})
    asked = {
        "q": BY_KEY,
        "d": "SELECT o.owner AS owner, sum(q.v) AS v FROM q [RANGE '40 s'] JOIN Owners o ON q.k = o.k GROUP BY o.owner",
    }
    assert found(asked, "owner", "v", tables={"Owners": owners}) == [(40, "ann", 8), (40, "bob", 7)]


@pytest.mark.parametrize("kind", [pd.DataFrame, pl.DataFrame])
def test_frames_of_other_libraries(kind: Any) -> None:
    frame = pl.from_arrow(SOME) if kind is pl.DataFrame else SOME.to_pandas()
    results = headrace.aggregate(frame, {"q": BY_KEY, "d": "SELECT sum(n) AS n FROM q"}, name="r", event_time="t")
    assert isinstance(results["d"], kind)
    assert pa.table(results["d"])["n"].to_pylist() == [3, 2, None, 1]


# Queries that join what was made of the results that they read


def test_results_are_joined_with_their_own_totals() -> None:
    """`total` reads q, and `share` reads q beside it."""
    asked = {
        "q": BY_KEY,
        "total": "SELECT sum(n) AS n FROM q",
        "share": "SELECT k, max(100 * q.n / total.n) AS share FROM q JOIN total GROUP BY k",
    }
    assert [row[:2] for row in found(asked, "k")] == [(10, "a"), (10, "b"), (20, "a"), (20, "b"), (40, "c")]


LONG_WAY = {
    "q": BY_KEY,
    "early": "SELECT count(*) AS n FROM q",
    "other": "SELECT k, max(v) AS v FROM r [RANGE '10 s'] GROUP BY k",
    "again": "SELECT k, max(v) AS v FROM other GROUP BY k",
    "d": "SELECT k, max(n) AS n, max(again.v) AS v FROM q JOIN again USING (k) GROUP BY k",
}
"""d reads q, which another reads first, and what comes to it in two steps."""
LONG_WAY_FOUND = [(10, "a", 2, 3), (10, "b", 1, 2), (20, "a", 1, 4), (20, "b", 1, 5), (40, "c", 1, 6)]


def test_what_is_joined_may_have_come_a_longer_way() -> None:
    assert found(LONG_WAY, "k", "n", "v") == LONG_WAY_FOUND


# headrace eval


def evaluated(root: Path, asked: dict[str, str], engine: str) -> list[dict[str, Any]]:
    (root / "data" / "r").mkdir(parents=True)
    pq.write_table(SOME, root / "data" / "r" / "part.parquet")
    declared = "CREATE STREAM r (t TIMESTAMP, k STRING, v BIGINT) EVENT TIME t;\n"
    script = declared + "\n".join(f"CREATE QUERY {name} AS {text};" for name, text in asked.items())
    (root / "queries.sql").write_text(script)
    last = list(asked)[-1]
    words = [str(root / "queries.sql"), "--data", str(root / "data"), "--engine", engine, "--query", last]
    run = CliRunner().invoke(cli, ["eval", *words, "--out", str(root / "out")])
    assert run.exit_code == 0, run.output
    assert [path.name for path in (root / "out").iterdir()] == [f"{last}.parquet"], (
        "what was not asked for is not shown"
    )
    table = pq.read_table(root / "out" / f"{last}.parquet")
    rows: list[dict[str, Any]] = table.drop_columns(["window_start", "window_end"]).to_pylist()
    return rows


@pytest.mark.parametrize("engine", ["kernel", "reference"])
def test_eval_answers_what_the_query_needs(engine: str, tmp_path: Path) -> None:
    asked = {"q": BY_KEY, "sums": "SELECT sum(v) AS v FROM q", "d": "SELECT max(v) AS v FROM sums [RANGE '40 s']"}
    assert evaluated(tmp_path, asked, engine) == [{"v": 9}]


@pytest.mark.parametrize("engine", ["kernel", "reference"])
def test_eval_of_what_came_a_longer_way(engine: str, tmp_path: Path) -> None:
    expected = [{"k": k, "n": n, "v": v} for _, k, n, v in LONG_WAY_FOUND]
    assert evaluated(tmp_path, LONG_WAY, engine) == expected


# Sketches between queries: of few values they hold all of them


@headrace.user_function(parameters=["BINARY", "BINARY"], returns="DOUBLE", vectorized=True)
def furthest(first: pa.Array, second: pa.Array) -> pa.Array:
    """How far two distributions are apart at most: the statistic of Kolmogorov and Smirnov."""
    return pa.array([distance(one, other) for one, other in zip(first.to_pylist(), second.to_pylist(), strict=True)])


def distance(first: bytes, second: bytes) -> float:
    sketches = [kll_doubles_sketch.deserialize(data) for data in (first, second)]
    values = sorted({value for sketch in sketches for value, _ in sketch})
    ranks = [sketch.get_cdf(values) for sketch in sketches]
    return float(max(abs(one - other) for one, other in zip(*ranks, strict=True)))


def test_sketches_of_two_queries_are_compared() -> None:
    """
    0         10        20
    |a a b b--|a a b b--|   first as many below each value on both sides, then all of b above all of a
    """
    rows = table_of(
        *((1, "a", 1), (2, "a", 2), (3, "b", 1), (4, "b", 2)),
        *((11, "a", 1), (12, "a", 2), (13, "b", 7), (14, "b", 9)),
    )
    asked = {
        "left": "SELECT quantile_sketch(v) AS s FROM r [RANGE '10 s'] WHERE k = 'a'",
        "right": "SELECT quantile_sketch(v) AS s FROM r [RANGE '10 s'] WHERE k = 'b'",
        "d": "SELECT max(furthest(`left`.s, `right`.s)) AS apart FROM `left` JOIN `right`",
    }
    assert found(asked, "apart", rows=rows, functions=[furthest]) == [(10, 0.0), (20, 1.0)]


@SETTINGS
@given(ROWS)
def test_sketches_of_results_are_put_together(rows: list[Row]) -> None:
    """A percentile of the sketches of short windows is that of the values of the long one."""
    asked = {
        "q": "SELECT k, quantile_sketch(v) AS s, min(v) AS low FROM r [RANGE '2 s'] GROUP BY k",
        "put": "SELECT percentile(s, 0.3) AS p, min(low) AS low FROM q [RANGE '8 s']",
        "whole": "SELECT percentile_approx(v, 0.3) AS p, min(v) AS low FROM r [RANGE '8 s']",
    }
    answers = headrace.aggregate(pa.Table.from_pylist(rows, schema=SCHEMA), asked, name="r")
    assert answers["put"].equals(answers["whole"])


def test_a_list_has_no_place_in_a_stream_of_results() -> None:
    asked = {"q": "SELECT quantiles(v, 4) AS parts, count(*) AS n FROM r [RANGE '10 s']", "d": "SELECT sum(n) FROM q"}
    catalog, _ = parsed_chain(asked, CATALOG)
    assert [column.name for column in catalog.derived[0].columns] == ["window_start", "window_end", "n", "window_time"]
