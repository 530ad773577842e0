"""Random batches of every type: corners that meet, NULLs that hide a value, columns that begin in the middle."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from random import Random
from typing import Any

import pyarrow as pa
from hypothesis import strategies as st

from headrace.model.address import MAPPED, parse_address
from headrace.model.arrow import address_bytes, arrow_type
from headrace.model.expressions import ColumnRef, Expression, columns_in
from headrace.model.types import (
    ADDRESS,
    BIGINT,
    BOOLEAN,
    DOUBLE,
    MAX_BIGINT,
    MIN_BIGINT,
    STRING,
    TIMESTAMP,
    DataType,
    Value,
    decimal,
)

NUMERIC = ("BIGINT", "DOUBLE", "DECIMAL")
KINDS = ("BOOLEAN", *NUMERIC, "STRING", "TIMESTAMP", "ADDRESS")
DECIMALS = (
    decimal(10, 2),
    decimal(2, 2),
    decimal(19, 0),
    decimal(20, 7),
    decimal(38, 0),
    decimal(38, 10),
    decimal(38, 38),
)
TYPES: dict[str, tuple[DataType, ...]] = {
    "BOOLEAN": (BOOLEAN,),
    "BIGINT": (BIGINT,),
    "DOUBLE": (DOUBLE,),
    "DECIMAL": DECIMALS,
    "STRING": (STRING,),
    "TIMESTAMP": (TIMESTAMP,),
    "ADDRESS": (ADDRESS,),
}
RELATION = "s"
COLUMNS = [
    ColumnRef(RELATION, f"{data_type}{copy}", data_type)
    for kind in KINDS
    for data_type in TYPES[kind]
    for copy in range(1 if kind == "DECIMAL" else 2)
]

WHOLE = [0, 1, -1, 2, 3, -3, 7, 10, -10, 2**31, 2**53 + 1, MAX_BIGINT, MAX_BIGINT - 1, MIN_BIGINT, MIN_BIGINT + 1]
REAL = [0.0, -0.0, 0.5, -0.5, 1.5, 2.5, -2.5, 1.005, 2.675, 0.1, 1 / 3, 1e-7, 1e15 + 0.5, 4503599627370497.5]
REAL += [
    math.nan,
    math.inf,
    -math.inf,
    5e-324,
    1e22,
    1e38,
    -1e300,
    1.7976931348623157e308,
    2.0**63,
    -(2.0**63),
    2.0**53,
]
TEXTS = ["", "a", "A", " ab ", "ab", "a%b", "a_b", "\\", "%", "a\nb", "\t", "x" * 40, "aaa", "true", " False\n", "TRUE"]
TEXTS += [
    "0",
    "-0",
    " 12 ",
    "+7",
    "-3",
    "1.5",
    ".5",
    "5.",
    "1e3",
    "1e400",
    "-inf",
    "NaN",
    "9223372036854775808",
    "0x1f",
]
TEXTS += ["0.005", "12345678.995", "99999999.99", "99999999.995", "9" * 38, "1e-40", "1_000", "١٢", "\u00a012"]
TEXTS += ["2026-01-31", "2026-03-29 02:30:00", "2026-10-25T02:30:00.1234567", "0001-01-01", "9999-12-31 23:59:59Z"]
TEXTS += ["2026-02-30", "10.0.0.1", " ::ffff:10.0.0.1", "2001:db8::1", "fe80::1%eth0", "256.1.1.1"]
TEXTS += [
    "ß",
    "İ",
    "ΑΣ",
    "ὈΔΥΣΣΕΎΣ",
    "ﬃ",
    "ŉ",
    "ǅ",
    "é",
    "e\u0301",
    "日本",
    "😀a😀",
    "\x00",
    "a\x00b",
    "\uff21",
    "\u017f",
    "\u212a",
]
TIMES = [0, 1, -1, -1_000_000, 999_999, -999_999, 1_769_860_800_000_000, -(2**62), MAX_BIGINT, MIN_BIGINT]
IPS = [
    "0.0.0.0",
    "10.0.0.1",
    "10.255.255.255",
    "192.168.1.7",
    "255.255.255.255",
    "::",
    "::1",
    "::fffe:ffff:ffff",
    "::1:0:0:0",
]
IPS += ["2001:db8::1", "2001:db8:0:0:8000::", "fe80::1", "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff"]


def specials(data_type: DataType) -> list[Any]:
    """The corners of a type."""
    if data_type.name != "DECIMAL":
        return SPECIALS[data_type.name]
    largest = 10**data_type.precision - 1
    digits = [0, 1, -1, 5, -5, 15, 25, 49, 50, 10**data_type.scale, 5 * 10**data_type.scale, 2**63, 2**53 + 1]
    near = [largest, -largest, largest - 1, largest // 2]
    return [Decimal(f"{number}E-{data_type.scale}") for number in digits + near if abs(number) <= largest]


SPECIALS: dict[str, list[Any]] = {
    "BOOLEAN": [True, False],
    "BIGINT": WHOLE,
    "DOUBLE": REAL,
    "STRING": TEXTS,
    "TIMESTAMP": TIMES,
    "ADDRESS": [parse_address(ip) for ip in IPS],
}


def values(data_type: DataType) -> st.SearchStrategy[Any]:
    special = st.sampled_from(specials(data_type))
    return special | (decimals(data_type) if data_type.name == "DECIMAL" else ANY[data_type.name])


def decimals(data_type: DataType) -> st.SearchStrategy[Decimal]:
    largest = 10**data_type.precision - 1
    small = min(largest, 10**4)
    digits = st.integers(-largest, largest) | st.integers(-small, small)
    return digits.map(lambda number: Decimal(f"{number}E-{data_type.scale}"))


ANY: dict[str, st.SearchStrategy[Any]] = {
    "BOOLEAN": st.booleans(),
    "BIGINT": st.integers(-100, 100) | st.integers(MIN_BIGINT, MAX_BIGINT),
    "DOUBLE": st.integers(-(10**6), 10**6).map(lambda number: number / 1000) | st.floats(),
    "STRING": st.text("ab %_\\ßé", max_size=6) | st.text(max_size=8),
    "TIMESTAMP": st.integers(-(10**7), 10**7) | st.integers(MIN_BIGINT, MAX_BIGINT),
    "ADDRESS": st.integers(0, 2**32 - 1).map(lambda number: MAPPED | number) | st.integers(0, 2**128 - 1),
}

Draw = Callable[[st.SearchStrategy[Any]], Any]


@dataclass(frozen=True)
class Batch:
    """The same rows twice: as columns, and row by row."""

    columns: dict[tuple[str, str], pa.Array]
    rows: list[dict[str, dict[str, Value]]]


def batch_for(draw: Draw, trees: list[Expression]) -> Batch:
    """Rows of the columns that the trees look at: drawn ones, and corners that meet at random."""
    drawn, corners, skipped = draw(st.integers(0, 6)), draw(st.sampled_from([0, 30])), draw(st.sampled_from([0, 0, 3]))
    at_random = Random(draw(st.integers(0, 2**32)))
    columns, lists = {}, {}
    for column in dict.fromkeys(column for tree in trees for column in columns_in(tree)):
        listed = draw(st.lists(values(column.type), min_size=drawn + skipped, max_size=drawn + skipped))
        listed += at_random.choices(specials(column.type), k=corners)
        hidden = [at_random.random() < 0.2 for _ in listed]
        columns[RELATION, column.name] = with_hidden(listed, hidden, column.type)[skipped:]
        lists[column.name] = [None if gone else value for value, gone in zip(listed, hidden, strict=True)][skipped:]
    rows = [{RELATION: {name: listed[row] for name, listed in lists.items()}} for row in range(drawn + corners)]
    return Batch(columns, rows)


def to_arrow(listed: list[Any], data_type: DataType) -> pa.Array:
    if data_type == TIMESTAMP:
        return pa.array(listed, pa.int64()).cast(arrow_type(data_type))
    if data_type == ADDRESS:
        return pa.array([None if value is None else address_bytes(value) for value in listed], arrow_type(data_type))
    return pa.array(listed, arrow_type(data_type))


def to_plain(array: pa.Array, data_type: DataType) -> list[Any]:
    listed: list[Any] = array.cast(pa.int64()).to_pylist() if data_type == TIMESTAMP else array.to_pylist()
    return [int.from_bytes(value, "big") if isinstance(value, bytes) else value for value in listed]


def with_hidden(listed: list[Any], hidden: list[bool], data_type: DataType) -> pa.Array:
    """NULL where `hidden`, with the value still in memory."""
    array = to_arrow(listed, data_type)
    visible = pa.array([not gone for gone in hidden], pa.bool_())
    bitmap = visible.buffers()[1] if any(hidden) else None
    return pa.Array.from_buffers(array.type, len(array), [bitmap, *array.buffers()[1:]])
