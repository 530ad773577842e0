"""A few random rows of the stream and the table that fuzzed queries are asked of: small values that meet in groups,
extreme ones, and NULLs.
"""

from __future__ import annotations

import math
import random
from decimal import Decimal
from typing import Any

import pyarrow as pa

from headrace.expressions.static_tables import Data
from headrace.model.arrow import to_array
from headrace.model.schema import Column
from tests.faults.sql_grammar import CATALOG
from tests.oracle.pairs import DECIMALS, TAME, TEXTS, WHOLE, WILD

Row = dict[str, Any]

STREAM = CATALOG.streams[0]
PARTNERS: list[Row] = [{"s": "a", "n": 1, "w": 0.5}, {"s": "b", "n": None, "w": -1.0}, {"s": "", "n": 7, "w": None}]
SMALL = [-2, -1, 0, 1, 2, 3]
VALUES: dict[str, list[Any]] = {
    "i": [*SMALL, *SMALL, *WHOLE],
    "j": [*SMALL, *SMALL, *WHOLE],
    "x": TAME,
    "y": WILD,
    "s": ["a", "b", ""],
    "u": TEXTS,
    "b": [True, False],
    "d": [Decimal(value) for value in DECIMALS],
    "a": [(0xFFFF << 32) + 0x0A000001, (0xFFFF << 32) + 0x0A000002, 1],
    "odd name": SMALL,
}
DYADIC = [0.0, -0.0, 0.5, 1.0, -1.5, 2.0, 3.0, 64.0, math.nan, math.inf]
LAST_US = 20_000_000


def random_rows(rng: random.Random, is_tame: bool = False) -> list[Row]:
    """Tame rows have DOUBLEs whose sums are exact, so that the order of additions changes nothing."""
    values = VALUES | {"x": DYADIC, "y": DYADIC} if is_tame else VALUES
    return [
        {
            "t": rng.randrange(-LAST_US, LAST_US, 500_000),
            **{name: rng.choice([*listed, None]) for name, listed in values.items()},
        }
        for _ in range(rng.choice([1, 4, 12]))
    ]


def data_of(rows: list[Row]) -> Data:
    return Data(CATALOG, STREAM, table_of(rows, STREAM.columns), {"k": table_of(PARTNERS, CATALOG.tables[0].columns)})


def table_of(rows: list[Row], columns: tuple[Column, ...]) -> pa.Table:
    return pa.table({each.name: to_array([row[each.name] for row in rows], each.type) for each in columns})
