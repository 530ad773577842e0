"""The predicates of `otf-predicates` over `trades` share about as much as OTF reports of its own [OTF 4.3.3, 6.3]."""

from __future__ import annotations

import re
from collections.abc import Callable

import duckdb
import numpy as np
import pytest

from headrace.datasets import workload

Load = Callable[..., duckdb.DuckDBPyConnection]
Columns = dict[str, np.ndarray]

JOINED = """
SELECT Price AS price, Vol AS vol, Vol * Price AS value, abs(Price - CP) / CP AS change, R3000, R2000, R1000
FROM Trades LEFT JOIN Close USING (Symbol) JOIN Index USING (Symbol)
WHERE time_bucket(INTERVAL '10 minutes', Time) = TIMESTAMPTZ '2004-12-01 17:20:00+00'
"""
QUANTITIES = {"T.Vol": "vol", "T.Vol * T.Price": "value", "abs(T.Price - C.CP) / C.CP": "change"}
PREDICATE = re.compile(r"X\.(\w+) = (TRUE|FALSE) AND (.*) ([<>]) ([\d.]+);")


@pytest.fixture
def window(load: Load) -> Columns:
    """Return the trades from 12:20 to 12:30, for which OTF gives 11,944 fragments; without a close, change is NaN."""
    columns = load("trades").execute(JOINED).fetchnumpy()
    return {name: np.ma.filled(column, np.nan) if name == "change" else column for name, column in columns.items()}


def truth(window: Columns, predicate: tuple[str, ...]) -> np.ndarray:
    index, member, quantity, comparison, constant = predicate
    column = window[QUANTITIES[quantity]]
    compared = column > float(constant) if comparison == ">" else column < float(constant)
    has_close = ~np.isnan(window["change"])
    holds: np.ndarray = compared & (window[index] == (member == "TRUE")) & has_close
    return holds


@pytest.mark.parametrize("seed", [1, 7, 42])
def test_predicates_satisfied_and_fragments(window: Columns, seed: int) -> None:
    predicates = PREDICATE.findall(workload("otf-predicates", 256, seed))
    assert len(predicates) == 256
    satisfied = np.zeros(len(window["vol"]), dtype=np.int64)
    signature = np.zeros(len(window["vol"]), dtype=np.uint64)
    marks = np.random.default_rng(0).integers(0, 1 << 63, 256, dtype=np.uint64)
    for predicate, mark in zip(predicates, marks, strict=True):
        holds = truth(window, predicate)
        satisfied += holds
        signature += holds * mark
    assert 76 <= satisfied.mean() <= 106
    assert 8_000 <= len(np.unique(signature)) <= 16_000
