from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from zoneinfo import ZoneInfo

import duckdb
import numpy as np
import pytest

from headrace.datasets import KINDS

Load = Callable[..., duckdb.DuckDBPyConnection]


@pytest.fixture
def trades(load: Load) -> duckdb.DuckDBPyConnection:
    return load("trades")


def test_one_hour_from_noon_in_new_york(trades: duckdb.DuckDBPyConnection) -> None:
    noon = datetime(2004, 12, 1, 12, 0, tzinfo=ZoneInfo("America/New_York"))
    assert KINDS["trades"].default_rows == 1_138_636
    first, last = trades.execute("SELECT epoch_us(min(Time)), epoch_us(max(Time)) FROM Trades").fetchone() or (0, 0)
    assert 0 <= first - noon.timestamp() * 1e6 < 1e6
    assert 3_599e6 <= last - noon.timestamp() * 1e6 < 3_600e6


def test_half_of_the_volumes_are_100_and_15_make_nine_tenths(trades: duckdb.DuckDBPyConnection) -> None:
    counts = trades.execute("SELECT Vol, count(*) FROM Trades GROUP BY Vol ORDER BY 2 DESC, 1").fetchall()
    total = sum(count for _, count in counts)
    assert counts[0][0] == 100
    assert counts[0][1] / total == pytest.approx(0.50, abs=0.01)
    assert sum(count for _, count in counts[:15]) / total >= 0.90


def test_fewer_than_2000_volumes_in_ten_minutes(trades: duckdb.DuckDBPyConnection) -> None:
    windows = trades.execute(
        "SELECT count(DISTINCT Vol), min(Vol), max(Vol) FROM Trades GROUP BY time_bucket(INTERVAL '10 minutes', Time)"
    ).fetchall()
    assert len(windows) == 6
    for distinct, lowest, highest in windows:
        assert 1_000 < distinct < 2_000
        assert 10 <= lowest < 100
        assert 100_000 < highest <= 1_600_000


def test_symbols_are_skewed_tickers(trades: duckdb.DuckDBPyConnection) -> None:
    counts = trades.execute("SELECT Symbol, count(*) FROM Trades GROUP BY Symbol ORDER BY 2 DESC").fetchall()
    assert 7_900 <= len(counts) <= 8_100
    assert all(symbol.isalpha() and symbol.isupper() and len(symbol) <= 4 for symbol, _ in counts)
    assert sum(count for _, count in counts[:80]) > 0.2 * 1_138_636


def test_prices_are_whole_cents_near_the_close(trades: duckdb.DuckDBPyConnection) -> None:
    columns = trades.execute("SELECT Price, CP FROM Trades JOIN Close USING (Symbol)").fetchnumpy()
    price, close = columns["Price"], columns["CP"]
    assert np.array_equal(price, np.rint(price * 100) / 100)
    assert len(np.unique(price)) < 20_000
    assert price.min() > 0
    change = np.abs(price - close) / close
    assert np.median(change) < 0.01
    assert change.max() < 0.25


def test_indexes_and_closes(trades: duckdb.DuckDBPyConnection) -> None:
    members = trades.execute("SELECT count(*), count_if(R3000), count_if(R2000), count_if(R1000) FROM Index").fetchone()
    assert members == (8_000, 3_000, 2_000, 1_000)
    wrong = "(R1000 AND R2000) OR R3000 <> (R1000 OR R2000)"
    assert trades.execute(f"SELECT count(*) FROM Index WHERE {wrong}").fetchone() == (0,)
    assert trades.execute("SELECT count(*) - count(DISTINCT Symbol) FROM Index").fetchone() == (0,)
    without_close = trades.execute("SELECT count(*) FROM Index ANTI JOIN Close USING (Symbol)").fetchone()
    assert without_close == (40,)
