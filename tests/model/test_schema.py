"""The catalog: names without regard to case, and declarations that can't be."""

from __future__ import annotations

import pytest

from headrace.model.schema import Catalog, Column, Stream, Table, UserFunction, find_column
from headrace.model.types import BIGINT, STRING, TIMESTAMP

COLUMNS = (Column("Time", TIMESTAMP), Column("Symbol", STRING), Column("end", TIMESTAMP))
STREAM = Stream("Trades", COLUMNS, "time", partition="SYMBOL")
TABLE = Table("Close", (Column("Symbol", STRING), Column("price", BIGINT)))


def test_names_keep_the_case_of_their_declaration() -> None:
    assert (STREAM.event_time, STREAM.partition) == ("Time", "Symbol")
    assert find_column(COLUMNS, "SYMBOL") == Column("Symbol", STRING)
    assert find_column(COLUMNS, "symbols") is None


def test_a_catalog_is_extended_by_value() -> None:
    empty = Catalog()
    catalog = empty.with_relation(STREAM).with_relation(TABLE)
    assert empty == Catalog()
    assert (catalog.stream("TRADES"), catalog.table("close")) == (STREAM, TABLE)
    assert (catalog.stream("Close"), catalog.table("Trades")) == (None, None)
    assert catalog.relation_names() == ["Trades", "Close"]


@pytest.mark.parametrize("name", ["trades", "CLOSE"])
def test_a_name_is_declared_once(name: str) -> None:
    catalog = Catalog((STREAM,), (TABLE,))
    with pytest.raises(ValueError, match="is declared already"):
        catalog.with_relation(Table(name, TABLE.columns))


def test_functions_are_found_by_name() -> None:
    function = UserFunction("Mid", (STRING,), BIGINT, len)
    assert Catalog(functions=(function,)).function("mid") == function
    assert Catalog().function("mid") is None
    assert function == UserFunction("Mid", (STRING,), BIGINT, max)


@pytest.mark.parametrize(
    ("columns", "event_time", "partition", "reason"),
    [
        ((), "Time", None, "has no columns"),
        ((Column("Time", TIMESTAMP), Column("TIME", STRING)), "Time", None, "two columns"),
        (COLUMNS, "missing", None, "event time"),
        (COLUMNS, "Symbol", None, "event time"),
        (COLUMNS, "Time", "missing", "no column 'missing'"),
    ],
)
def test_streams_that_can_not_be(
    columns: tuple[Column, ...], event_time: str, partition: str | None, reason: str
) -> None:
    with pytest.raises(ValueError, match=reason):
        Stream("S", columns, event_time, partition=partition)


def test_tables_that_can_not_be() -> None:
    with pytest.raises(ValueError, match="has no columns"):
        Table("T", ())
    with pytest.raises(ValueError, match="two columns named 'a'"):
        Table("T", (Column("A", STRING), Column("a", STRING)))
