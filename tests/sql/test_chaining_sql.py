"""Queries that read the results of queries declared before them, and join them."""

from __future__ import annotations

import pytest

from headrace.model.derived_streams import derived_stream, place_of, rounds, upstreams, with_upstreams
from headrace.model.errors import QueryError
from headrace.model.expressions import ColumnRef
from headrace.model.query import JoinKey, Query
from headrace.model.schema import Catalog, Column
from headrace.model.types import BIGINT, BINARY, DOUBLE, STRING, TIMESTAMP
from headrace.model.windows import SlicedWindow, Window
from headrace.sql import NamedQuery, ScriptReader, format_query, parse_next, parse_query, parse_script
from tests.sql.catalog import CATALOG

SECOND_US = 1_000_000
VOLUMES = "SELECT symbol, sum(vol) AS volume, max(price) AS top FROM Trades [RANGE '60 s'] GROUP BY symbol"
COUNTS = "SELECT count(*) AS n FROM Trades [RANGE '60 s']"
LENGTHS = "SELECT sum(len) AS bytes FROM UDP [RANGE '60 s']"
SLIDING = "SELECT count(*) AS n FROM Trades [RANGE '12 s' SLIDE '5 s' OFFSET '2 s']"
SHORT = "SELECT symbol, count(*) AS n FROM Trades [RANGE '30 s'] GROUP BY symbol"
BOTH = "SELECT symbol, vol, count(*) AS n FROM Trades [RANGE '60 s'] GROUP BY symbol, vol"


def known() -> dict[str, Query]:
    texts = {
        "volumes": VOLUMES,
        "counts": COUNTS,
        "lengths": LENGTHS,
        "sliding": SLIDING,
        "short": SHORT,
        "both": BOTH,
    }
    return {name: parse_query(text, CATALOG) for name, text in texts.items()}


def over(text: str) -> Query:
    """A query that may read the results of all of these."""
    return parse_next(text, CATALOG, known())[1]


# The stream that results are


def test_results_are_a_stream_with_an_event_time() -> None:
    catalog, query = parse_next("SELECT sum(volume) FROM volumes [RANGE '5 min']", CATALOG, known())
    (stream,) = catalog.derived
    assert stream.columns == (
        Column("window_start", TIMESTAMP),
        Column("window_end", TIMESTAMP),
        Column("symbol", STRING),
        Column("volume", BIGINT),
        Column("top", DOUBLE),
        Column("window_time", TIMESTAMP),
    )
    assert (stream.event_time, stream.lateness_us) == ("window_time", 0)
    assert (query.stream, query.window) == ("volumes", Window(300 * SECOND_US, 300 * SECOND_US))


def test_the_stream_knows_the_window_and_the_groups_by_their_names() -> None:
    text = """SELECT window_end AS until, upper(symbol) AS name, window_start AS since, count(*) AS n
              FROM Trades [RANGE '60 s'] GROUP BY upper(symbol)"""
    derived = derived_stream("q", parse_query(text, CATALOG)).derived
    assert derived is not None
    assert (derived.source, derived.start, derived.end, derived.groups) == ("Trades", "since", "until", ("name",))


def test_a_sketch_is_a_column_and_a_list_is_not() -> None:
    text = "SELECT quantile_sketch(price) AS s, quantiles(price, 4) AS parts FROM Trades [RANGE '60 s']"
    columns = derived_stream("q", parse_query(text, CATALOG)).columns
    assert Column("s", BINARY) in columns
    assert "parts" not in {column.name for column in columns}


def test_results_have_the_time_zone_of_their_stream() -> None:
    late = {"late": parse_query("SELECT max(x) AS x FROM Late [RANGE '60 s']", CATALOG)}
    catalog, _ = parse_next("SELECT max(x) FROM late_2 [RANGE '60 s']", CATALOG, {"late_2": late["late"]})
    assert str(catalog.derived[0].zone) == "America/New_York"


@pytest.mark.parametrize("name", ["counts", "COUNTS", "`Counts`"])
def test_the_name_in_any_case(name: str) -> None:
    assert over(f"SELECT max(N) AS n FROM {name}") == over("SELECT max(n) AS n FROM counts")


def test_only_what_is_read_is_in_the_catalog() -> None:
    catalog, _ = parse_next("SELECT sum(n) FROM counts", CATALOG, known())
    assert [stream.name for stream in catalog.derived] == ["counts"]
    catalog, _ = parse_next("SELECT sum(vol) FROM Trades [RANGE '60 s']", CATALOG, known())
    assert not catalog.derived


def test_a_declared_stream_has_its_name_before_a_query() -> None:
    """A query of the name of a stream can't be read."""
    query = parse_next("SELECT sum(vol) FROM Trades [RANGE '60 s']", CATALOG, {"trades": known()["counts"]})[1]
    assert query == parse_query("SELECT sum(vol) FROM Trades [RANGE '60 s']", CATALOG)


@pytest.mark.parametrize(
    "text",
    [
        "SELECT max(n) AS n FROM sliding",
        "SELECT symbol, max(volume) AS v FROM volumes v [RANGE '5 min' SLIDE '1 min'] WHERE v.top > 3 GROUP BY symbol",
        "SELECT symbol, max(volume / n) AS v FROM volumes JOIN counts GROUP BY symbol",
        "SELECT a.symbol AS s, max(b.n) AS n FROM both a LEFT JOIN both b ON a.symbol = b.symbol AND a.vol = b.vol "
        "GROUP BY a.symbol",
    ],
)
def test_the_canonical_text_is_the_same_query(text: str) -> None:
    assert over(format_query(over(text))) == over(text)


# Windows

OWN = {
    "counts": Window(60 * SECOND_US, 60 * SECOND_US),
    "sliding": Window(5 * SECOND_US, 5 * SECOND_US, 2 * SECOND_US),
}


@pytest.mark.parametrize("name", OWN)
def test_without_a_window_each_window_of_the_query_is_one(name: str) -> None:
    """The results of a window, and no others, lie in the window that ends with it."""
    window = over(f"SELECT max(n) FROM {name}").window
    assert window == OWN[name]
    for interval in known()[name].window.ending_between(0, 100 * SECOND_US):
        assert [each.end_us for each in window.containing(interval.end_us - 1)] == [interval.end_us]


def test_without_a_window_each_slice_is_one() -> None:
    """Slices lie side by side, so the window of the query holds one result of each."""
    sliced = {"q": parse_query("SELECT count(*) AS n FROM Trades [SLICES '3 s', '5 s']", CATALOG)}
    assert parse_next("SELECT max(n) FROM q", CATALOG, sliced)[1].window == SlicedWindow((3 * SECOND_US, 5 * SECOND_US))


def test_windows_run_over_the_end_of_windows() -> None:
    by_call = over("SELECT max(n) FROM counts GROUP BY window(window_time, '5 minutes')")
    assert by_call == over("SELECT max(n) FROM counts [RANGE '5 min']")
    with pytest.raises(QueryError, match="the event time 'window_time'"):
        over("SELECT max(n) FROM counts GROUP BY window(window_end, '5 minutes')")


def test_the_bounds_of_the_window_are_the_querys_own() -> None:
    """Beside them the results have bounds, which are columns."""
    for read in ("counts", "counts JOIN lengths"):
        written = over(f"SELECT window_start, window_end, max(n) AS n FROM {read}")
        assert written == over(f"SELECT max(n) AS n FROM {read}")


# Joins


def keys_of(text: str) -> tuple[JoinKey, ...]:
    (join,) = over(text).joins
    return join.keys


def test_the_windows_are_keys_that_nobody_writes() -> None:
    start, end = (ColumnRef("volumes", name, TIMESTAMP) for name in ("window_start", "window_end"))
    expected = (JoinKey(end, "window_end"), JoinKey(start, "window_start"))
    assert keys_of("SELECT max(n) FROM volumes JOIN counts") == expected
    assert keys_of("SELECT max(n) FROM volumes, counts") == expected
    written = "ON volumes.window_end = counts.window_end AND volumes.window_start = counts.window_start"
    assert keys_of(f"SELECT max(n) FROM volumes JOIN counts {written}") == expected


def test_all_groups_of_what_is_joined_are_keys() -> None:
    keys = keys_of("SELECT max(b.n) FROM volumes v JOIN both b ON v.symbol = b.symbol AND v.volume = b.vol")
    assert [key.column for key in keys] == ["symbol", "vol", "window_end", "window_start"]


def test_groups_by_on_and_by_using_are_one_query() -> None:
    read = "SELECT max(v.volume) FROM volumes v JOIN volumes w"
    assert over(f"{read} ON v.symbol = w.symbol") == over(f"{read} USING (symbol)")


def test_a_join_across_streams() -> None:
    assert over("SELECT max(n), max(bytes) FROM counts JOIN lengths").joins[0].table == "lengths"


def test_results_and_a_static_table_at_once() -> None:
    query = over("SELECT max(top), max(cp) FROM volumes v JOIN counts JOIN Close c ON v.symbol = c.symbol")
    assert [join.table for join in query.joins] == ["Close", "counts"]


def test_a_condition_beside_the_groups_belongs_to_where() -> None:
    joined = over("SELECT max(n) FROM volumes JOIN counts ON volumes.volume > counts.n")
    assert joined == over("SELECT max(n) FROM volumes JOIN counts WHERE volumes.volume > counts.n")


# What is refused

REFUSED = {
    "SELECT sum(n) FROM nobody [RANGE '1 min']": ("unknown-name", "no stream or table 'nobody'"),
    "SELECT sum(m) FROM counts": ("unknown-name", "no column 'm' in counts"),
    "SELECT sum(n) FROM counts JOIN short ON counts.n = short.n": ("join", "counts and short have different windows"),
    "SELECT sum(n) FROM counts JOIN sliding": ("join", "counts and sliding have different windows"),
    "SELECT max(n) FROM counts JOIN volumes": ("join", "volumes has a row for each symbol: join by symbol too"),
    "SELECT max(n) FROM volumes JOIN both USING (symbol)": (
        "join",
        "both has a row for each symbol, vol: join by vol too",
    ),
    "SELECT max(n) FROM Trades [RANGE '60 s'] JOIN counts": ("stream", "a query reads exactly one stream, not 2"),
    "SELECT max(n) FROM counts JOIN Trades [RANGE '60 s']": ("stream", "a query reads exactly one stream, not 2"),
    "SELECT max(n) FROM counts RIGHT JOIN volumes USING (n)": ("unsupported", "RIGHT"),
    "SELECT max(counts.n) FROM counts JOIN counts": ("ambiguous-name", "two relations are called 'counts'"),
    "SELECT max(n) FROM counts JOIN lengths [RANGE '60 s']": ("window", "a window belongs behind the stream's name"),
    "SELECT max(n) FROM (SELECT count(*) AS n FROM Trades [RANGE 1]) [RANGE 1]": (
        "unsupported",
        "a SELECT inside a SELECT",
    ),
}


@pytest.mark.parametrize("text", REFUSED)
def test_what_is_refused(text: str) -> None:
    with pytest.raises(QueryError) as problem:
        over(text)
    code, message = REFUSED[text]
    assert problem.value.code == code
    assert message in problem.value.message


def test_a_result_by_the_name_of_the_event_time_can_not_be_read() -> None:
    taken = {"q": parse_query("SELECT count(*) AS Window_Time FROM Trades [RANGE 1]", CATALOG)}
    with pytest.raises(QueryError, match="its result window_time has the name of the event time of results"):
        parse_next("SELECT count(*) FROM q", CATALOG, taken)


# Scripts

CHAIN = """
CREATE STREAM S (t TIMESTAMP, k STRING, x BIGINT) EVENT TIME t;
CREATE QUERY a AS SELECT k, sum(x) AS x FROM S [RANGE 60] GROUP BY k;
CREATE QUERY b AS SELECT count(*) AS n FROM S [RANGE 60];
CREATE QUERY c AS SELECT max(x) AS x FROM a [RANGE '5 min'];
CREATE QUERY d AS SELECT k, max(x / n) AS share FROM a JOIN b GROUP BY k;
CREATE QUERY e AS SELECT count(*) AS n FROM d;
SELECT sum(n) FROM e [RANGE '1 h'];
"""


def chain() -> tuple[Catalog, dict[str, Query]]:
    script = parse_script(CHAIN)
    return script.catalog, {named.name: named.query for named in script.queries}


def test_a_script_reads_its_own_queries() -> None:
    catalog, queries = chain()
    assert [upstreams(query, catalog) for query in queries.values()] == [(), (), ("a",), ("a", "b"), ("d",), ("e",)]
    taken = [(stream.name, names) for stream, names in rounds(queries, catalog)]
    assert taken == [("S", ["a", "b"]), ("a", ["c", "d"]), ("d", ["e"]), ("e", ["q6"])]
    assert [place_of(query, catalog) for query in queries.values()] == ["S", "S", "a", "a+b", "d", "e"]


def test_what_a_query_needs() -> None:
    catalog, queries = chain()
    assert with_upstreams(["e"], queries, catalog) == {"a", "b", "d", "e"}
    assert with_upstreams(["c"], queries, catalog) == {"a", "c"}


@pytest.mark.parametrize(
    "text",
    [
        "CREATE QUERY a AS SELECT sum(n) AS n FROM a [RANGE 60];",
        "CREATE QUERY a AS SELECT sum(n) AS n FROM b [RANGE 60];"
        "CREATE QUERY b AS SELECT count(*) AS n FROM Trades [RANGE 60];",
        "CREATE QUERY a AS SELECT sum(n) AS n FROM b [RANGE 60];"
        "CREATE QUERY b AS SELECT sum(n) AS n FROM a [RANGE 60];",
    ],
    ids=["itself", "a later one", "in a circle"],
)
def test_what_is_not_declared_yet_can_not_be_read(text: str) -> None:
    with pytest.raises(QueryError, match=r"no stream or table '[ab]'") as problem:
        parse_script(text, CATALOG)
    assert problem.value.hint == "declare it before, with CREATE STREAM, TABLE or QUERY"


def test_a_reader_of_a_query_with_a_mistake_has_one_too() -> None:
    """The first says what is wrong, the second that there is no such query; the rest is read."""
    text = (
        f"CREATE QUERY a AS SELECT sum(y) AS n FROM UDP [RANGE 60]; SELECT sum(n) FROM a; CREATE QUERY c AS {COUNTS};"
    )
    outcomes = list(ScriptReader(text, CATALOG).statements())
    assert [type(outcome) for outcome in outcomes] == [QueryError, QueryError, NamedQuery]
