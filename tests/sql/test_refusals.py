"""What is refused, with which code, with a reason and a hint, and with the caret under the very spot."""

from __future__ import annotations

import pytest

from headrace.model.errors import QueryError
from tests.sql.catalog import parse


def refused(text: str) -> QueryError:
    with pytest.raises(QueryError) as caught:
        parse(text)
    return caught.value


def spot(error: QueryError, text: str) -> str:
    assert error.span is not None
    return text[error.span.start : error.span.end]


W = "SELECT count(*) FROM Trades [RANGE 60] "

# Not replayable, and windows, subqueries and clauses that do not exist here: always with a hint.
WITH_HINT = [
    (W + "WHERE ts > now()", "not-replayable", "now()"),
    (W + "WHERE ts > NOW() AND ok", "not-replayable", "NOW()"),
    (W + "WHERE rand() < 0.1", "not-replayable", "rand()"),
    (W + "WHERE random(5) < 0.1", "not-replayable", "random(5)"),
    (W + "WHERE uuid() = symbol", "not-replayable", "uuid()"),
    (W + "WHERE ts > current_timestamp", "not-replayable", "current_timestamp"),
    (W + "WHERE ts > current_timestamp()", "not-replayable", "current_timestamp()"),
    (W + "WHERE ts > current_date", "not-replayable", "current_date"),
    (
        "SELECT monotonically_increasing_id(), count(*) FROM Trades [RANGE 60]",
        "not-replayable",
        "monotonically_increasing_id()",
    ),
    ("SELECT count(*) FROM Trades GROUP BY session_window(ts, '5 min')", "unsupported", "session_window(ts, '5 min')"),
    (
        "SELECT count(*) FROM TABLE(SESSION(TABLE Trades, DESCRIPTOR(ts), INTERVAL '5' MINUTE))",
        "unsupported",
        "SESSION",
    ),
    ("SELECT count(*) FROM CUMULATE(TABLE Trades, DESCRIPTOR(ts), '1 min', '1 h')", "unsupported", "CUMULATE"),
    ("SELECT count(*) FROM Trades [ROWS 100]", "unsupported", "ROWS"),
    ("SELECT count(*) FROM Trades GROUP BY count_window(100)", "unsupported", "count_window(100)"),
    ("SELECT count(*) FROM Trades [RANGE '1 month']", "duration", "'1 month'"),
    ("SELECT count(*) FROM Trades [RANGE 1 YEAR]", "duration", "1 YEAR"),
    ("SELECT count(*) FROM Trades GROUP BY window(ts, '1 quarter')", "duration", "'1 quarter'"),
    ("SELECT count(*) FROM TUMBLE(TABLE Trades, DESCRIPTOR(ts), INTERVAL '1' MONTH)", "duration", "INTERVAL '1' MONTH"),
    ("SELECT count(*) FROM (SELECT * FROM Trades)", "unsupported", "SELECT"),
    (W + "WHERE symbol IN (SELECT symbol FROM Close)", "unsupported", "SELECT"),
    (W + "WHERE EXISTS (SELECT 1)", "unsupported", "EXISTS"),
    (W + "UNION ALL SELECT count(*) FROM Trades [RANGE 1]", "unsupported", "UNION"),
    ("SELECT sum(vol) OVER (ORDER BY ts) FROM Trades [RANGE 60]", "unsupported", "OVER"),
    (W + "WHERE symbol RLIKE 'a.*'", "unsupported", "RLIKE"),
    (W + "WHERE symbol ILIKE 'a'", "unsupported", "ILIKE"),
    (W + "FULL JOIN Close ON Trades.symbol = Close.symbol", "unsupported", "FULL"),
    (W + "RIGHT JOIN Close ON Trades.symbol = Close.symbol", "unsupported", "RIGHT"),
    (W + "NATURAL JOIN Close", "unsupported", "NATURAL"),
    (W + "LIMIT 5 OFFSET 3", "unsupported", "OFFSET"),
    (W + "FETCH FIRST 5 ROWS ONLY", "unsupported", "FETCH"),
    (W + "WHERE ts > seen - INTERVAL '5' MINUTE", "unsupported", "INTERVAL"),
    (W + "GROUP BY symbol WITH ROLLUP", "unsupported", "WITH"),
    ("SELECT DISTINCT symbol FROM Trades [RANGE 60] GROUP BY symbol", "unsupported", "DISTINCT"),
    ("SELECT * FROM Trades [RANGE 60]", "unsupported", "*"),
    ("SELECT symbol, * FROM Trades [RANGE 60]", "unsupported", "*"),
    ("SELECT T.* FROM Trades T [RANGE 60]", "unsupported", "T"),
    (W + "WHERE (vol, vol) = (1, 2)", "unsupported", "vol, vol"),
    (W + "WHERE vol IS DISTINCT FROM 5", "unsupported", "vol IS DISTINCT FROM 5"),
    (W + "WHERE vol <=> 5", "syntax", "<=>"),
    (W + "WHERE vol::STRING = 'a'", "syntax", "::"),
    (W + "WHERE a.b.c = 1", "unsupported", "a.b.c"),
    (W + "WHERE vol[0] = 1", "syntax", "["),
]

# Names, with the nearest known one.
NAMES = [
    (W + "WHERE symbl = 'a'", "unknown-name", "symbl", "did you mean 'symbol'?"),
    (W + "WHERE Trades.prize > 1", "unknown-name", "prize", "did you mean 'price'?"),
    (W + "WHERE Trade.price > 1", "unknown-name", "Trade", "did you mean 'Trades'?"),
    (W + "WHERE lowr(symbol) = 'a'", "unknown-name", "lowr(symbol)", "did you mean 'lower'?"),
    (W + "WHERE midcp(symbol)", "unknown-name", "midcp(symbol)", "did you mean 'midcap'?"),
    ("SELECT cout(*) FROM Trades [RANGE 60]", "unknown-name", "cout(*)", "did you mean 'count'?"),
    ("SELECT count(*) FROM Tradse [RANGE 60]", "unknown-name", "Tradse", "did you mean 'Trades'?"),
    ("SELECT count(*) FROM Trades T [RANGE 60] WHERE Trades.ok", "unknown-name", "Trades", None),
    (W + "JOIN Close USING (symbl)", "unknown-name", "symbl", "did you mean 'symbol'?"),
    (W + "JOIN Clothes USING (symbol)", "unknown-name", "Clothes", "did you mean 'Close'?"),
    (
        "SELECT symbol, count(*) AS total FROM Trades [RANGE 60] GROUP BY symbol ORDER BY totl",
        "unknown-name",
        "totl",
        "did you mean 'total'?",
    ),
    (W + "WHERE zzz = 1", "unknown-name", "zzz", "known columns: ts, symbol, price, vol, amount, ok, addr, seen, fee"),
    (W + "WHERE zzz()", "unknown-name", "zzz()", "a Python function can be registered under this name"),
    (
        "SELECT symbol FROM Trades [RANGE 60], Close C WHERE Trades.symbol = C.symbol GROUP BY symbol",
        "ambiguous-name",
        "symbol",
        "put the relation's name before it",
    ),
    (
        W + "WHERE window_start > '2020-01-01'",
        "unknown-name",
        "window_start",
        "the window's bounds are known in SELECT, HAVING and ORDER BY, outside of aggregates",
    ),
    (
        "SELECT max(window_end) FROM Trades [RANGE 60]",
        "unknown-name",
        "window_end",
        "the window's bounds are known in SELECT, HAVING and ORDER BY, outside of aggregates",
    ),
    (W + "GROUP BY 2", "unknown-name", "2", "positions are 1 to 1; a constant stands in parentheses"),
    (W + "ORDER BY 0", "unknown-name", "0", "positions are 1 to 1; a constant stands in parentheses"),
    (W + "ORDER BY 1.5", "unknown-name", "1.5", "positions are 1 to 1; a constant stands in parentheses"),
    (
        "SELECT vol AS a, price AS a FROM Trades [RANGE 60] GROUP BY vol, price",
        "ambiguous-name",
        "price",
        "give it another name with AS",
    ),
    (
        "SELECT count(*) AS window_start FROM Trades [RANGE 60]",
        "ambiguous-name",
        "count(*)",
        "give it another name with AS",
    ),
    (
        "SELECT count(*) FROM Trades [RANGE 60], Close C, Names C WHERE 1 = 1",
        "ambiguous-name",
        "Names C",
        "give one an alias",
    ),
]

# Everything else that has no meaning.
MEANINGLESS = [
    ("SELECT symbol, count(*) FROM Trades [RANGE 60]", "aggregate", "symbol"),
    ("SELECT lower(symbol) || 'x', count(*) FROM Trades [RANGE 60] GROUP BY vol", "aggregate", "symbol"),
    (W + "GROUP BY symbol HAVING vol > 3", "aggregate", "vol"),
    (W + "GROUP BY symbol ORDER BY vol", "aggregate", "vol"),
    ("SELECT 1 FROM Trades [RANGE 60]", "aggregate", "1"),
    (W + "WHERE sum(vol) > 3", "aggregate", "sum(vol) > 3"),
    (W + "GROUP BY sum(vol)", "aggregate", "sum(vol)"),
    (W + "GROUP BY unix_seconds(window_start)", "aggregate", "unix_seconds(window_start)"),
    ("SELECT max(tb) FROM UDP GROUP BY time/60 AS tb", "aggregate", "tb"),
    ("SELECT max(a) AS b, max(vol) AS a FROM Trades [RANGE 60]", "unknown-name", "a"),
    ("SELECT NULL, count(*) FROM Trades [RANGE 60]", "type", "NULL"),
    (W + "WHERE vol", "type", "vol"),
    (W + "HAVING count(*)", "type", "count(*)"),
    ("SELECT count(*) FROM Trades", "window", "Trades"),
    ("SELECT count(*) FROM Trades [RANGE 60] GROUP BY window(ts, '1 min')", "window", "window(ts, '1 min')"),
    (
        "SELECT count(*) FROM Trades T [RANGE 60], Close [RANGE 60] WHERE T.symbol = Close.symbol",
        "window",
        "[RANGE 60]",
    ),
    ("SELECT window(ts, '1 min'), count(*) FROM Trades [RANGE 60]", "window", "window(ts, '1 min')"),
    ("SELECT count(*) FROM Trades GROUP BY window(seen, '1 min')", "window", "seen"),
    ("SELECT count(*) FROM Trades GROUP BY window()", "window", "window()"),
    ("SELECT count(*) FROM Trades GROUP BY window(ts)", "window", "window(ts)"),
    ("SELECT count(*) FROM Trades GROUP BY window(ts, vol)", "window", "vol"),
    ("SELECT count(*) FROM Trades GROUP BY window(ts, 1, 1, 1, 1)", "window", "window(ts, 1, 1, 1, 1)"),
    ("SELECT count(*) FROM TUMBLE(TABLE Trades, DESCRIPTOR(seen), '1 min')", "window", "seen"),
    ("SELECT count(*) FROM TUMBLE(TABLE Trades, DESCRIPTOR(ts))", "syntax", ")"),
    ("SELECT count(*) FROM HOP(TABLE Trades, DESCRIPTOR(ts), 1)", "window", "HOP(TABLE Trades, DESCRIPTOR(ts), 1)"),
    ("SELECT count(*) FROM HOP(Trades, ts, 1, 2)", "syntax", "Trades"),
    ("SELECT count(*) FROM UDP GROUP BY time/0", "window", "0"),
    ("SELECT count(*) FROM UDP GROUP BY time/1.5", "window", "1.5"),
    ("SELECT count(*) FROM UDP GROUP BY time/len", "window", "len"),
    ("SELECT time/60, count(*) FROM UDP GROUP BY time/60", "type", "time/60"),
    ("SELECT count(*) FROM Trades [RANGE 0]", "window", "[RANGE 0]"),
    ("SELECT count(*) FROM Trades [RANGE 60 SLIDE 0]", "window", "[RANGE 60 SLIDE 0]"),
    ("SELECT count(*) FROM Trades [RANGE '1 day' SLIDE '1 us']", "window", "[RANGE '1 day' SLIDE '1 us']"),
    ("SELECT count(*) FROM Trades [RANGE '101 weeks 100000 days']", "duration", "'101 weeks 100000 days'"),
    ("SELECT count(*) FROM Trades [RANGE '1 2']", "duration", "'1 2'"),
    ("SELECT count(*) FROM Trades [RANGE '0.0000001 s']", "duration", "'0.0000001 s'"),
    ("SELECT count(*) FROM Trades [RANGE -5]", "syntax", "-"),
    ("SELECT count(*) FROM Trades [RANGE 60 EVERY 5]", "syntax", "EVERY"),
    ("SELECT count(*) FROM Trades [SLICES 0]", "window", "[SLICES 0]"),
    ("SELECT count(*) FROM Close", "stream", "Close"),
    ("SELECT count(*) FROM Trades T [RANGE 60], UDP U WHERE T.addr = U.sourceIP", "stream", "UDP U"),
    ("SELECT count(*) FROM Trades [RANGE 60], Close", "join", "Close"),
    (
        W + "LEFT JOIN Close ON Trades.symbol = Close.symbol AND cp > 1",
        "join",
        "Trades.symbol = Close.symbol AND cp > 1",
    ),
    (W + "LEFT JOIN Close ON TRUE", "join", "TRUE"),
    ("SELECT count(*) FROM Close JOIN Trades [RANGE 60] ON Trades.symbol = Close.symbol", "join", "Trades"),
    (W + "JOIN Hosts ON Hosts.host = Hosts.host", "join", "Hosts"),
    (W + "JOIN Names USING (vol, symbol) JOIN Hosts USING (ok)", "unknown-name", "ok"),
    (W + "JOIN Close ON Trades.symbol = Close.n", "type", "Trades.symbol = Close.n"),
    (W + "LIMIT 0", "limit", "0"),
    (W + "LIMIT -1", "limit", "1"),
    (W + "LIMIT 1000001", "limit", "1000001"),
    (W + "LIMIT 1.5", "limit", "1.5"),
    (W + "LIMIT TRUE", "limit", "TRUE"),
]

# Text that is no query at all.
SYNTAX = [
    ("SELEC count(*) FROM Trades [RANGE 60]", "SELEC"),
    ("SELECT FROM Trades [RANGE 60]", "SELECT"),
    ("SELECT", "SELECT"),
    ("SELECT count(*)", "count(*)"),
    ("SELECT count(*) FROM", "FROM"),
    (W + "WHERE", "WHERE"),
    (W + "WHERE vol >", ">"),
    (W + "WHERE (vol > 3", "3"),
    (W + "WHERE vol > 3)", ")"),
    (W + "WHERE vol > 3 ok", "ok"),
    (W + "WHERE vol > = 3", "="),
    (W + "WHERE GROUP BY symbol", "WHERE"),
    (W + "WHERE AND ok", "AND"),
    (W + "WHERE AND(ok, ok)", "AND"),
    (W + "WHERE ok AND", "AND"),
    (W + "WHERE LIKE(symbol, 'a')", "LIKE"),
    (W + "WHERE vol IN ()", "IN"),
    (W + "WHERE vol IN", "IN"),
    (W + "WHERE vol IN vol", "IN"),
    (W + "WHERE vol IN (1,, 2)", ","),
    (W + "WHERE coalesce(vol,) = 1", ","),
    ("SELECT count(*), FROM Trades [RANGE 60]", ","),
    ("SELECT , count(*) FROM Trades [RANGE 60]", ","),
    (W + "GROUP BY symbol,", ","),
    (W + "GROUP BY AS x", "AS"),
    (W + "GROUP BY symbol AS a AS b", "AS"),
    (W + "GROUP BY", "GROUP BY"),
    (W + "ORDER BY", "ORDER BY"),
    (W + "WHERE vol = CAST(vol)", ")"),
    (W + "WHERE vol = CAST(vol AS)", ")"),
    (W + "WHERE vol = CAST(vol AS BIGINT, 1)", ","),
    (W + "WHERE .vol = 1", "."),
    (W + "WHERE Trades..vol = 1", "."),
    (W + "WHERE vol. = 1", "."),
    (W + "WHERE vol = @x", "@"),
    (W + "WHERE vol = :x", ":"),
    (W + "WHERE vol = ?", "?"),
    (W + "WHERE vol & 1 = 1", "&"),
    (W + "WHERE vol ^ 1 = 1", "^"),
    (W + "WHERE ~vol = 1", "~"),
    (W + "WHERE symbol = r'raw'", "r'raw'"),
    (W + "WHERE vol = r'vol'", "r'vol'"),
    (W + "WHERE vol = N'vol'", "N'vol'"),
    (W + "WHERE CASE WHEN ok THEN 1", "1"),
    (W + "WHERE CASE END = 1", "1"),
    ("SELECT count(*) AS `` FROM Trades [RANGE 60]", "``"),
    ("SELECT count(*) FROM Trades [RANGE 60", ""),
    ("SELECT count(*) FROM Trades [RANGE]", "]"),
    ("SELECT count(*) FROM Trades []", "["),
]


@pytest.mark.parametrize(("text", "code", "under"), WITH_HINT)
def test_what_we_do_not_do_is_refused_with_a_hint(text: str, code: str, under: str) -> None:
    error = refused(text)
    assert (error.code, spot(error, text)) == (code, under)
    assert error.hint


@pytest.mark.parametrize(("text", "code", "under", "hint"), NAMES)
def test_unknown_and_ambiguous_names(text: str, code: str, under: str, hint: str | None) -> None:
    error = refused(text)
    assert (error.code, spot(error, text), error.hint) == (code, under, hint)


@pytest.mark.parametrize(("text", "code", "under"), MEANINGLESS)
def test_statements_without_a_meaning(text: str, code: str, under: str) -> None:
    error = refused(text)
    assert (error.code, spot(error, text)) == (code, under)


@pytest.mark.parametrize(("text", "under"), SYNTAX)
def test_syntax_errors(text: str, under: str) -> None:
    error = refused(text)
    assert (error.code, spot(error, text)) == ("syntax", under)


def test_no_message_speaks_of_tokens() -> None:
    texts = [text for text, *_ in WITH_HINT] + [text for text, *_ in MEANINGLESS] + [text for text, _ in SYNTAX]
    for text in texts:
        assert "token" not in str(refused(text)).lower()


@pytest.mark.parametrize(
    "before", ["\r\n", "\t", "'\N{GRINNING FACE}' = 'é' AND ", "/* \N{GRINNING FACE} */", "\u2028", "\ufeff "]
)
def test_the_spot_is_right_behind_odd_characters(before: str) -> None:
    text = W + f"WHERE {before} symbl = 'a'"
    assert spot(refused(text), text) == ("symbl" if "\ufeff" not in before else "\ufeff")


def test_the_whole_text_of_an_error() -> None:
    text = "SELECT count(*)\nFROM Trades [RANGE '12 min']\nWHERE symbl = 'a'"
    assert str(refused(text)).splitlines() == [
        "error[unknown-name]: no column 'symbl' in Trades",
        "   3 | WHERE symbl = 'a'",
        "     |       ^^^^^",
        "hint: did you mean 'symbol'?",
    ]
