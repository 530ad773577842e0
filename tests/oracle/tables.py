"""Random rows of the stream `r`, over which the random queries of `windowed` are asked."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

from hypothesis import strategies as st

from tests.oracle.pairs import DECIMALS, TAME, TEXTS, WHOLE, WILD
from tests.oracle.windowed import LAST, UNITS

COLUMNS = "t TIMESTAMP, i BIGINT, j BIGINT, x DOUBLE, y DOUBLE, s STRING, u STRING, b BOOLEAN, d DECIMAL(10, 2)"
STREAM = f"CREATE STREAM r ({COLUMNS}) EVENT TIME t"

Row = dict[str, Any]


def or_null(values: list[Any]) -> st.SearchStrategy[Any]:
    return st.sampled_from([*values, None])


SMALL = st.integers(-3, 3)
VALUES = {
    "i": st.one_of(SMALL, or_null(WHOLE)),
    "j": st.one_of(SMALL, or_null(WHOLE)),
    "x": or_null(TAME),
    "y": or_null(WILD),
    "s": or_null(TEXTS[:4]),
    "u": or_null(TEXTS),
    "b": or_null([True, False]),
    "d": or_null([Decimal(value) for value in DECIMALS]),
}


def tables(unit: str) -> st.SearchStrategy[list[Row]]:
    """Small values many times, so that groups have members; extreme ones now and then."""
    times = st.integers(-LAST, LAST).map(lambda count: count * UNITS[unit])
    row = st.fixed_dictionaries({"t": times, **VALUES})
    return st.sampled_from([2, 5, 10, 20]).flatmap(lambda size: st.lists(row, min_size=size, max_size=size))
