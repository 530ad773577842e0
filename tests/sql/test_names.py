"""Names in text: any word may be one, and is quoted where it would be read as something else."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.model.expressions import WINDOW_END, WINDOW_START, ColumnRef
from headrace.model.schema import Catalog, Column, Stream
from headrace.model.types import BIGINT, TIMESTAMP
from headrace.sql import format_query, format_stream, parse_query, parse_script
from headrace.sql.names import INFIX, REFUSED, quote
from tests.sql.catalog import parse

ELSEWHERE = """all and any array as asc between both by case cast check close column constraint create cross cube
current current_date date default delete desc distinct div drop else end escape except exists
explain external false fetch filter first for foreign from full function grant group grouping having
if ilike in index inner insert intersect interval into is join key last lateral left like limit map
merge minus natural not null nulls offset on or order outer over partition pivot primary qualify
range regexp replace right rlike rollup row rows select session set sets show some start stream
struct table then time timestamp to trailing true tumble hop truncate union unique unnest update use
using values when where window window_start window_end with within year day hour minute second""".split()
"""Words that mean something in some engine's SQL, ours included."""

names = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=10) | st.sampled_from(ELSEWHERE)


def catalog_with(name: str) -> Catalog:
    columns = (Column("event_time", TIMESTAMP), Column(name, BIGINT))
    return Catalog(streams=(Stream("S", columns, "event_time"), Stream(f"{name} ", columns, "event_time")))


def check_column(name: str) -> None:
    """The name works in every clause, and the canonical text reads back."""
    catalog, quoted = catalog_with(name), quote(name)
    text = (
        f"SELECT {quoted}, max({quoted}) AS {quote(name + '_')}, S.{quoted} + 1 AS x FROM S [RANGE 60] "
        f"WHERE {quoted} > 1 AND NOT {quoted} IN (1, 2) GROUP BY {quoted} HAVING {quoted} > 1 ORDER BY {quoted} DESC"
    )
    query = parse_query(text, catalog)
    assert query.group_by == (ColumnRef("S", name, BIGINT),)
    assert parse_query(format_query(query), catalog) == query


@pytest.mark.parametrize("name", ELSEWHERE)
def test_words_that_other_engines_reserve(name: str) -> None:
    if name not in ("window_start", "window_end"):
        check_column(name)


@given(names.filter(lambda name: name.lower() not in ("event_time", "window_start", "window_end", "x")))
def test_any_text_can_be_a_name(name: str) -> None:
    check_column(name)


@given(names)
def test_streams_and_tables_can_be_called_anything(name: str) -> None:
    written = Stream(name, (Column("t", TIMESTAMP), Column(f"{name}t", BIGINT)), "t")
    catalog = parse_script(format_stream(written)).catalog
    assert catalog.streams == (written,)
    query = parse_query(f"SELECT max({quote(name)}.t) FROM {quote(name)} [RANGE 60]", catalog)
    assert query.stream == name
    assert parse_query(format_query(query), catalog) == query


BARE = ["Time", "Index", "range", "window", "symbol", "x1", "_", "rows", "stream", "key", "date", "slide"]
QUOTED = ["end", "select", "null", "a b", "2nd", "café", "x.y", "tick`", "", "WINDOW_START", "Offset", "interval"]


def test_a_name_is_quoted_only_where_it_must_be() -> None:
    assert [quote(name) for name in BARE] == BARE
    assert all(quote(name).startswith("`") for name in QUOTED)


@pytest.mark.parametrize("name", sorted(INFIX))
def test_words_that_we_refuse_are_names_where_a_value_stands(name: str) -> None:
    catalog = catalog_with(name)
    query = parse_query(f"SELECT max({name}), min(S.{name}) FROM S [RANGE 60] WHERE {name} > 1 AND 1 < {name}", catalog)
    assert parse_query(format_query(query), catalog) == query


def test_every_refused_word_says_what_to_do_instead() -> None:
    assert all(len(hint) > 10 for hint in REFUSED.values())


# A stream may have a column of the same name as the window's bound.


def test_a_bare_window_start_is_the_bound_where_the_bound_is_known() -> None:
    query = parse("SELECT window_start AS w, count(*) FROM Odd [RANGE 60] GROUP BY window_start ORDER BY window_start")
    assert query.group_by == ()
    assert [output.expression for output in query.outputs[:2]] == [WINDOW_END, WINDOW_START]
    assert parse(format_query(query)) == query


def test_in_where_and_inside_aggregates_it_is_the_column() -> None:
    query = parse("SELECT max(window_start) AS m FROM Odd [RANGE 60] WHERE window_start > '2020-01-01'")
    text = format_query(query)
    assert "max(`window_start`) AS m" in text
    assert "WHERE `window_start` >" in text
    assert parse(text) == query


def test_in_backticks_or_behind_its_relation_it_is_the_column() -> None:
    query = parse("SELECT `window_start` AS w, count(*) FROM Odd [RANGE 60] GROUP BY Odd.window_start")
    assert query.group_by == (ColumnRef("Odd", "window_start", TIMESTAMP),)
    assert parse(format_query(query)) == query
