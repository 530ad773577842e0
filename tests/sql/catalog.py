"""The streams, tables and user functions that the tests of the query language name."""

from __future__ import annotations

from dataclasses import replace

from headrace.model.query import Query
from headrace.model.schema import UserFunction
from headrace.model.types import ADDRESS, BIGINT, BOOLEAN, DOUBLE, STRING
from headrace.sql import parse_query, parse_script

DECLARATIONS = """
CREATE STREAM Trades (ts TIMESTAMP, symbol STRING, price DOUBLE, vol BIGINT, amount DECIMAL(12, 2), ok BOOLEAN,
                      addr ADDRESS, seen TIMESTAMP, fee DECIMAL(38, 4)) EVENT TIME ts LATENESS '5 s';
CREATE STREAM UDP (time TIMESTAMP, sourceIP ADDRESS, destIP ADDRESS, len BIGINT, port BIGINT) EVENT TIME time;
CREATE STREAM Late (ts TIMESTAMP, x BIGINT) EVENT TIME ts TIME ZONE 'America/New_York';
CREATE STREAM Odd (`Time` TIMESTAMP, `select` BIGINT, `end` BIGINT, `Index` BIGINT, `range` BIGINT, `window` BIGINT,
                   `offset` BIGINT, `a b` BIGINT, `tick``s` BIGINT, `café` BIGINT, `null` BIGINT, `true` BOOLEAN,
                   window_start TIMESTAMP, `Group` STRING, `interval` BIGINT, `2fast` BIGINT, `nulls` BIGINT,
                   `table` BIGINT, `timestamp` STRING, `by` BIGINT) EVENT TIME `Time`;
CREATE TABLE Close (symbol STRING, cp DOUBLE, n BIGINT, flag BOOLEAN);
CREATE TABLE Names (symbol STRING, vol BIGINT, `full name` STRING);
CREATE TABLE Hosts (host ADDRESS, owner STRING);
"""


def midcap(symbol: str) -> bool:
    return symbol < "M"


FUNCTIONS = (
    UserFunction("midcap", (STRING,), BOOLEAN, midcap),
    UserFunction("Score", (BIGINT, DOUBLE), DOUBLE, lambda volume, price: volume * price),
    UserFunction("port_of", (ADDRESS,), BIGINT, lambda address: address % 65_536),
    UserFunction("values", (), BIGINT, lambda: 1),
)
CATALOG = replace(parse_script(DECLARATIONS).catalog, functions=FUNCTIONS)


def parse(text: str) -> Query:
    return parse_query(text, CATALOG)


def where(condition: str) -> Query:
    return parse(f"SELECT count(*) FROM Trades [RANGE '1 min'] WHERE {condition}")
