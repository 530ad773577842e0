"""Scripts: many statements in one text, each mistake reported with its spot, the rest still read."""

from __future__ import annotations

import pytest

from headrace.model.errors import QueryError
from headrace.model.query_names import QUERY_NAME_HINT
from headrace.model.schema import Catalog, Stream, Table
from headrace.sql import NamedQuery, ScriptReader, parse_query, parse_script
from tests.sql.catalog import CATALOG, DECLARATIONS

SCRIPT = """
CREATE STREAM S (t TIMESTAMP, x BIGINT) EVENT TIME t;
CREATE QUERY total AS SELECT sum(x) FROM S [RANGE 60];
SELECT count(*) FROM S [RANGE '1 min'];  -- a query without a name
CREATE TABLE T (x BIGINT, name STRING);
CREATE QUERY named AS
  SELECT name, count(*) FROM S [RANGE 60] JOIN T USING (x) GROUP BY name;
SELECT max(x) FROM S [RANGE 1]
"""


def test_a_script_holds_declarations_and_queries() -> None:
    script = parse_script(SCRIPT)
    assert [stream.name for stream in script.catalog.streams] == ["S"]
    assert [table.name for table in script.catalog.tables] == ["T"]
    assert [named.name for named in script.queries] == ["total", "q2", "named", "q4"]


def test_the_last_semicolon_and_empty_statements_do_not_matter() -> None:
    assert parse_script(SCRIPT) == parse_script(f";;{SCRIPT};;\n;")


def test_a_given_catalog_is_extended() -> None:
    script = parse_script("CREATE TABLE Extra (x BIGINT);", CATALOG)
    assert script.catalog.table("extra") is not None
    assert script.catalog.stream("Trades") == CATALOG.stream("Trades")


def test_a_made_up_name_gives_way_to_a_given_one() -> None:
    statement = "SELECT count(*) FROM Trades [RANGE 60]"
    script = parse_script(f"CREATE QUERY q2 AS {statement}; {statement}; {statement}", CATALOG)
    assert [named.name for named in script.queries] == ["q2", "q3", "q4"]


def test_every_mistake_is_reported_and_the_rest_is_read() -> None:
    text = """
    CREATE STREAM S (t TIMESTAMP, x BIGINT) EVENT TIME t;
    SELECT sum(y) FROM S [RANGE 60];
    CREATE TABLE T (x BIGNT);
    SELECT sum(x) FROM S [RANGE 60];
    DROP TABLE T;
    SELECT sum(x) FROM S [RANGE '1 month'];
    CREATE QUERY last AS SELECT max(x) FROM S [RANGE 60]
    """
    reader = ScriptReader(text, Catalog())
    outcomes = list(reader.statements())
    kinds = [type(outcome) for outcome in outcomes]
    assert kinds == [Stream, QueryError, QueryError, NamedQuery, QueryError, QueryError, NamedQuery]
    errors = [outcome for outcome in outcomes if isinstance(outcome, QueryError)]
    assert [error.code for error in errors] == ["unknown-name", "type", "syntax", "duration"]
    assert [text[error.span.start : error.span.end] for error in errors if error.span] == [
        "y",
        "BIGNT",
        "DROP",
        "'1 month'",
    ]
    assert [str(error).splitlines()[1][:4].strip() for error in errors] == ["3", "4", "6", "7"]
    assert [named.name for named in reader.script().queries] == ["q1", "last"]


def test_the_first_mistake_is_raised_by_parse_script() -> None:
    with pytest.raises(QueryError, match="no column 'y'"):
        parse_script("CREATE STREAM S (t TIMESTAMP) EVENT TIME t; SELECT sum(y) FROM S [RANGE 60]; nonsense")


def test_an_open_quote_is_one_mistake_of_the_whole_text() -> None:
    text = "CREATE TABLE T (x BIGINT); SELECT 'abc FROM T; SELECT 1"
    (error,) = ScriptReader(text, Catalog()).statements()
    assert isinstance(error, QueryError)
    assert error.span is not None
    assert (error.code, error.span.start) == ("syntax", text.index("'"))


def test_names_of_queries_differ() -> None:
    statement = "SELECT count(*) FROM Trades [RANGE 60]"
    with pytest.raises(QueryError) as caught:
        parse_script(f"CREATE QUERY a AS {statement}; CREATE QUERY A AS {statement}", CATALOG)
    assert (caught.value.code, caught.value.message) == ("declaration", "there are two queries named 'A'")


@pytest.mark.parametrize("text", ["", " ;\n", "-- nothing", "CREATE TABLE T (x BIGINT)"])
def test_parse_query_wants_a_query(text: str) -> None:
    with pytest.raises(QueryError, match="expected one query, found 0"):
        parse_query(text, CATALOG)


def test_parse_query_wants_one_query() -> None:
    with pytest.raises(QueryError, match="expected one query, found 2"):
        parse_query("SELECT count(*) FROM Trades [RANGE 60]; SELECT count(*) FROM Trades [RANGE 60]", CATALOG)


def test_a_query_may_bring_its_declarations() -> None:
    query = parse_query(f"{DECLARATIONS} SELECT count(*) FROM Trades [RANGE 60]", Catalog())
    assert query.stream == "Trades"


def test_half_a_character_is_refused() -> None:
    with pytest.raises(QueryError, match="half a character"):
        parse_script("SELECT '\ud800'")


def test_outcomes_are_values() -> None:
    stream, table = ScriptReader(
        "CREATE STREAM S (t TIMESTAMP) EVENT TIME t; CREATE TABLE T (x BIGINT)", Catalog()
    ).statements()
    assert isinstance(stream, Stream)
    assert isinstance(table, Table)


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ("CREATE QUERY a AS SELECT count(*) FROM s [RANGE '1 s']\nCREATE QUERY b AS SELECT 1;", "is a ';' missing"),
        ("CREATE STREAM y (t TIMESTAMP) EVENT TIME t\nCREATE QUERY b AS SELECT 1;", "is a ';' missing before CREATE?"),
        ("SELEC count(*) FROM s [RANGE '1 s'];", "did you mean SELECT instead of 'SELEC'?"),
        ("CREATE QUERY a AS SLECT count(*) FROM s [RANGE '1 s'];", "did you mean SELECT instead of 'SLECT'?"),
        ("SELECT count(*) FORM s [RANGE '1 s'];", "did you mean FROM instead of 'FORM'?"),
        ("SELECT date_trunc('hour', t), count(*) FROM s [RANGE '1 s'] GROUP BY 1;", "window(t, '1 hour')"),
        ("CREATE QUERY my-query AS SELECT count(*) FROM s [RANGE '1 s'];", QUERY_NAME_HINT),
        ("CREATE QUERY a.b AS SELECT count(*) FROM s [RANGE '1 s'];", QUERY_NAME_HINT),
    ],
)
def test_slips_get_a_hint(text: str, hint: str) -> None:
    catalog = parse_script("CREATE STREAM s (t TIMESTAMP, form STRING) EVENT TIME t;").catalog
    with pytest.raises(QueryError) as problem:
        parse_script(text, catalog)
    assert hint in (problem.value.hint or "")
