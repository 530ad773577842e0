"""All the ways to write a query have one canonical text, which reads back as the same query."""

from __future__ import annotations

import pytest

from headrace.sql import digest, format_query
from tests.sql import golden
from tests.sql.catalog import parse

BLOCKS = golden.read()


@pytest.mark.parametrize("block", BLOCKS, ids=lambda block: block.statements[0][:60])
def test_canonical_text(block: golden.Golden) -> None:
    for statement in block.statements:
        assert format_query(parse(statement)) == block.canonical


@pytest.mark.parametrize("block", BLOCKS, ids=lambda block: block.statements[0][:60])
def test_canonical_text_reads_back(block: golden.Golden) -> None:
    query = parse(block.canonical)
    for statement in block.statements:
        assert parse(statement) == query
        assert digest(parse(statement)) == digest(query)


def test_different_queries_have_different_digests() -> None:
    assert len({digest(parse(block.canonical)) for block in BLOCKS}) == len(BLOCKS)


DIFFERENT = [
    ("SELECT count(*) FROM Trades [RANGE 60]", "SELECT count(*) AS n FROM Trades [RANGE 60]"),
    ("SELECT count(*) FROM Trades [RANGE 60]", "SELECT count(vol) FROM Trades [RANGE 60]"),
    ("SELECT count(*) FROM Trades [RANGE 60]", "SELECT count(*) FROM Trades [RANGE 60 OFFSET 1]"),
    ("SELECT sum(vol - 1) FROM Trades [RANGE 60]", "SELECT sum(1 - vol) FROM Trades [RANGE 60]"),
    ("SELECT sum(vol) FROM Trades [RANGE 60]", "SELECT sum(DISTINCT vol) FROM Trades [RANGE 60]"),
    ("SELECT sum(vol) FROM Trades [RANGE 60]", "SELECT sum(vol) FILTER (WHERE ok) FROM Trades [RANGE 60]"),
    ("SELECT sum(vol + 1) FROM Trades [RANGE 60]", "SELECT sum(vol + 1.0) FROM Trades [RANGE 60]"),
    ("SELECT min(vol) FROM Trades [RANGE 60] WHERE ok", "SELECT min(vol) FROM Trades [RANGE 60] HAVING max(ok)"),
    ("SELECT count(*) FROM Trades [RANGE '1 min']", "SELECT count(*) FROM UDP [RANGE '1 min']"),
    (
        "SELECT count(*) FROM Trades [RANGE '12 min' SLIDE '5 min']",
        "SELECT count(*) FROM Trades GROUP BY window(ts, '12 min', '5 min')",
    ),
    (
        "SELECT count(*) FROM Trades [RANGE 60] JOIN Close USING (symbol)",
        "SELECT count(*) FROM Trades [RANGE 60] LEFT JOIN Close USING (symbol)",
    ),
    (
        "SELECT symbol, count(*) FROM Trades [RANGE 60] GROUP BY symbol ORDER BY 1",
        "SELECT symbol, count(*) FROM Trades [RANGE 60] GROUP BY symbol ORDER BY 1 DESC",
    ),
    (
        "SELECT symbol, count(*) FROM Trades [RANGE 60] GROUP BY symbol ORDER BY 1",
        "SELECT symbol, count(*) FROM Trades [RANGE 60] GROUP BY symbol ORDER BY 1 NULLS LAST",
    ),
]


@pytest.mark.parametrize(("first", "second"), DIFFERENT)
def test_what_means_something_else_is_another_query(first: str, second: str) -> None:
    assert parse(first) != parse(second)
    assert digest(parse(first)) != digest(parse(second))


def test_the_digest_is_stable_over_runs_and_machines() -> None:
    query = parse("SELECT symbol, sum(vol) FROM Trades [RANGE '12 min' SLIDE '5 min'] WHERE vol > 3 GROUP BY symbol")
    assert digest(query) == "4fc59eb74ea73df4efea6eefc330f801"
