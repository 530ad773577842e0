from __future__ import annotations

from collections.abc import Callable

import duckdb
import pytest

Load = Callable[..., duckdb.DuckDBPyConnection]

START_S = 1_114_920_000
DAY_S = 86_400


@pytest.mark.parametrize("alignment", [0.0, 0.37])
@pytest.mark.parametrize(("interval_s", "sources"), [(1, 5.3), (45, 96), (500, 490), (2_050, 1_080)])
def test_distinct_sources_per_interval(load: Load, interval_s: int, sources: float, alignment: float) -> None:
    """Figures from HIFI 6.2; only intervals that lie within the day are counted."""
    first_s = START_S + alignment * interval_s
    intervals = int((START_S + DAY_S - first_s) // interval_s)
    number = f"floor((epoch_us(Time) / 1e6 - {first_s}) / {interval_s})"
    pairs = f"SELECT DISTINCT {number} AS i, SrcIP FROM Snort WHERE {number} BETWEEN 0 AND {intervals - 1}"
    (found,) = load("syn").execute(f"SELECT count(*) FROM ({pairs})").fetchone() or (0,)
    assert found / intervals == pytest.approx(sources, rel=0.10)


def test_one_day_from_four_in_the_morning(load: Load) -> None:
    columns = "epoch(min(Time)), epoch(max(Time)), count(*)"
    first, last, rows = load("syn").execute(f"SELECT {columns} FROM Snort").fetchone() or (0, 0, 0)
    assert rows == 523_761
    assert START_S <= first < START_S + 1
    assert START_S + DAY_S - 1 <= last < START_S + DAY_S
