"""Text to value and back: printing and parsing again gives an equal value, and equal queries one digest."""

from __future__ import annotations

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from headrace.model.query import Query
from headrace.sql import digest, format_query
from tests.sql.catalog import parse
from tests.sql.queries import normal, queries, rewritten


@given(queries())
@settings(max_examples=80, suppress_health_check=[HealthCheck.too_slow])
def test_a_printed_query_is_read_as_its_normal_form(query: Query) -> None:
    read = parse(format_query(query))
    assert read == normal(query)
    assert parse(format_query(read)) == read
    assert digest(parse(format_query(read))) == digest(read)


@given(st.data())
@settings(max_examples=40, suppress_health_check=[HealthCheck.too_slow])
def test_other_words_for_a_query_give_its_digest(data: st.DataObject) -> None:
    query = data.draw(queries())
    other = data.draw(rewritten(query))
    assert digest(parse(format_query(other))) == digest(parse(format_query(query)))
