"""CREATE STREAM and CREATE TABLE: from text to declarations and back."""

from __future__ import annotations

from datetime import UTC
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.model.errors import QueryError
from headrace.model.schema import Catalog, Column, Stream, Table
from headrace.model.types import ADDRESS, BIGINT, BOOLEAN, DOUBLE, STRING, TIMESTAMP, DataType, decimal
from headrace.sql import format_stream, format_table, parse_script
from tests.sql.catalog import CATALOG


def stream(text: str) -> Stream:
    (found,) = parse_script(text).catalog.streams
    return found


def refusal(text: str) -> tuple[str, str, str]:
    """(code, message, the text under the caret)"""
    with pytest.raises(QueryError) as caught:
        parse_script(text)
    span = caught.value.span
    assert span is not None
    return caught.value.code, caught.value.message, text[span.start : span.end]


def test_a_stream_with_all_its_options() -> None:
    declared = stream(
        "CREATE STREAM Trades (t TIMESTAMP, p STRING) EVENT TIME T LATENESS '5 s' SKEW 10 IDLE 2 MINUTES "
        "PARTITION P TIME ZONE 'America/New_York';"
    )
    assert declared == Stream(
        "Trades",
        (Column("t", TIMESTAMP), Column("p", STRING)),
        event_time="t",
        lateness_us=5_000_000,
        skew_us=10_000_000,
        idle_us=120_000_000,
        partition="p",
        zone=ZoneInfo("America/New_York"),
    )


def test_options_come_in_any_order_and_case_and_have_defaults() -> None:
    plain = stream("create stream S (t timestamp) event time t")
    assert (plain.lateness_us, plain.skew_us, plain.idle_us, plain.partition, plain.zone) == (
        0,
        60_000_000,
        60_000_000,
        None,
        UTC,
    )
    first = stream("CREATE STREAM S (t TIMESTAMP) IDLE 5 EVENT TIME t LATENESS 1")
    assert first == stream("CREATE STREAM S (t TIMESTAMP) LATENESS 1 EVENT TIME t IDLE 5")


TYPES = [
    ("BOOLEAN", BOOLEAN),
    ("bool", BOOLEAN),
    ("BIGINT", BIGINT),
    ("int", BIGINT),
    ("INTEGER", BIGINT),
    ("SMALLINT", BIGINT),
    ("TINYINT", BIGINT),
    ("LONG", BIGINT),
    ("DOUBLE", DOUBLE),
    ("DOUBLE PRECISION", DOUBLE),
    ("double /* 64 bits */ precision", DOUBLE),
    ("FLOAT", DOUBLE),
    ("REAL", DOUBLE),
    ("DECIMAL", decimal(10, 0)),
    ("DECIMAL(5)", decimal(5, 0)),
    ("NUMERIC(38, 38)", decimal(38, 38)),
    ("dec(12, 2)", decimal(12, 2)),
    ("STRING", STRING),
    ("TEXT", STRING),
    ("VARCHAR", STRING),
    ("VARCHAR(20)", STRING),
    ("TIMESTAMP", TIMESTAMP),
    ("ADDRESS", ADDRESS),
    ("INET", ADDRESS),
]


@pytest.mark.parametrize(("text", "data_type"), TYPES)
def test_types(text: str, data_type: DataType) -> None:
    (table,) = parse_script(f"CREATE TABLE T (x {text}, y STRING)").catalog.tables
    assert table.columns[0].type == data_type


def test_comments_may_stand_anywhere() -> None:
    text = "-- first\nCREATE /* a ; b */ TABLE -- it's\n T (x /* '*/ BIGINT); -- last"
    assert parse_script(text).catalog.tables == (Table("T", (Column("x", BIGINT),)),)


REFUSED = [
    ("CREATE VIEW v AS SELECT 1", "syntax", "VIEW"),
    ("CREATE STREAM", "syntax", ""),
    ("CREATE STREAM S", "syntax", ""),
    ("CREATE STREAM S (t TIMESTAMP", "syntax", ""),
    ("CREATE STREAM S ()", "syntax", ")"),
    ("CREATE STREAM S (t TIMESTAMP)", "syntax", ""),
    ("CREATE STREAM S (t TIMESTAMP) EVENT TIME t WITH (x = 1)", "syntax", "WITH"),
    ("CREATE STREAM S (t TIMESTAMP) EVENT TIME t EVENT TIME t", "syntax", "t"),
    ("CREATE STREAM S (t TIMESTAMP) EVENT TIME u", "declaration", "S"),
    ("CREATE STREAM S (t BIGINT) EVENT TIME t", "declaration", "S"),
    ("CREATE STREAM S (t TIMESTAMP) EVENT TIME t PARTITION u", "declaration", "S"),
    ("CREATE STREAM S (t TIMESTAMP, T BIGINT) EVENT TIME t", "declaration", "S"),
    ("CREATE STREAM S (t TIMESTAMP) EVENT TIME t LATENESS '5 apples'", "duration", "'5 apples'"),
    ("CREATE STREAM S (t TIMESTAMP) EVENT TIME t LATENESS -5", "syntax", "-"),
    ("CREATE STREAM S (t TIMESTAMP) EVENT TIME t LATENESS 1 MONTH", "duration", "1 MONTH"),
    ("CREATE STREAM S (t TIMESTAMP) EVENT TIME t TIME ZONE UTC", "syntax", "UTC"),
    ("CREATE STREAM S (t TIMESTAMP) EVENT TIME t TIME ZONE 'Mars/Olympus'", "declaration", "'Mars/Olympus'"),
    ("CREATE STREAM S (t TIMESTAMP) EVENT TIME t TIME ZONE '../../etc/passwd'", "declaration", "'../../etc/passwd'"),
    ("CREATE TABLE T (x DATE)", "type", "DATE"),
    ("CREATE TABLE T (x STRNG)", "type", "STRNG"),
    ("CREATE TABLE T (x DECIMAL(39, 0))", "type", "DECIMAL"),
    ("CREATE TABLE T (x DECIMAL(5, 6))", "type", "DECIMAL"),
    ("CREATE TABLE T (x DECIMAL(x))", "syntax", "x"),
    ("CREATE TABLE T (x BIGINT NOT NULL)", "syntax", "NOT"),
    ("CREATE TABLE T (x BIGINT PRIMARY KEY)", "syntax", "PRIMARY KEY"),
    ("CREATE TABLE T (x BIGINT) WITH (y = 1)", "syntax", "WITH"),
    ("CREATE TABLE T (x BIGINT, x STRING)", "declaration", "T"),
    ("CREATE TABLE `` (x BIGINT)", "syntax", "``"),
    ("CREATE TABLE T (`` BIGINT)", "syntax", "``"),
    ("CREATE TABLE T (x BIGINT); CREATE STREAM t (x TIMESTAMP) EVENT TIME x", "declaration", "CREATE STREAM t"),
    ("CREATE QUERY", "syntax", ""),
    ("CREATE QUERY q", "syntax", ""),
    ("CREATE QUERY q AS", "syntax", ""),
    ("CREATE QUERY `a b` AS SELECT 1", "query-name", "`a b`"),
]


@pytest.mark.parametrize(("text", "code", "spot"), REFUSED)
def test_refusals_point_at_the_spot(text: str, code: str, spot: str) -> None:
    found_code, _, found_spot = refusal(text)
    assert (found_code, found_spot) == (code, spot)


@pytest.mark.parametrize("constraint", ["NOT NULL", "PRIMARY KEY"])
def test_columns_have_no_constraints(constraint: str) -> None:
    assert refusal(f"CREATE TABLE T (x BIGINT {constraint})")[1] == "columns have no constraints"


def test_a_type_that_is_nearly_right_has_a_hint() -> None:
    with pytest.raises(QueryError) as caught:
        parse_script("CREATE TABLE T (x STRNG)")
    assert caught.value.hint == "did you mean 'STRING'?"


# And back to text

zones = st.sampled_from([UTC, ZoneInfo("America/New_York"), ZoneInfo("Asia/Kolkata"), ZoneInfo("Etc/GMT+5")])
names = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=8) | st.sampled_from(
    ["end", "`", "a b", "Time"]
)
precise = st.integers(1, 38).flatmap(lambda digits: st.integers(0, digits).map(lambda scale: decimal(digits, scale)))
types = st.sampled_from([BOOLEAN, BIGINT, DOUBLE, STRING, TIMESTAMP, ADDRESS]) | precise
columns = st.lists(
    st.builds(Column, names, types), min_size=1, max_size=5, unique_by=lambda column: column.name.lower()
)
durations = st.integers(0, 10**15)


@given(names, columns)
def test_a_printed_table_reads_back(name: str, declared: list[Column]) -> None:
    table = Table(name, tuple(declared))
    assert parse_script(format_table(table)).catalog.tables == (table,)


@given(names, columns, durations, durations, durations, zones, st.booleans())
def test_a_printed_stream_reads_back(
    name: str, declared: list[Column], lateness: int, skew: int, idle: int, zone: ZoneInfo, parted: bool
) -> None:
    taken = {column.name.lower() for column in declared}
    event_time = next(f"t{number}" for number in range(9) if f"t{number}" not in taken)
    all_columns = (*declared, Column(event_time, TIMESTAMP))
    partition = declared[0].name if parted else None
    written = Stream(name, all_columns, event_time, lateness, skew, idle, partition, zone)
    assert stream(format_stream(written)) == written


def test_the_tests_own_catalog_reads_back() -> None:
    texts = [*map(format_stream, CATALOG.streams), *map(format_table, CATALOG.tables)]
    again = parse_script("\n".join(texts)).catalog
    assert again == Catalog(CATALOG.streams, CATALOG.tables)
