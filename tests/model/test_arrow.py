"""The border: what is taken, what is refused, and how naive times are read."""

from __future__ import annotations

from datetime import UTC, date, datetime, tzinfo
from decimal import Decimal
from typing import Any
from zoneinfo import ZoneInfo

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.model.address import format_address, parse_address
from headrace.model.arrow import conform, from_rows, to_rows
from headrace.model.errors import DataError
from headrace.model.schema import Column
from headrace.model.time import to_microseconds
from headrace.model.types import ADDRESS, BIGINT, BOOLEAN, DOUBLE, STRING, TIMESTAMP, DataType, decimal

NEW_YORK = ZoneInfo("America/New_York")


def read(array: pa.Array, data_type: DataType, zone: tzinfo = UTC) -> list[Any]:
    columns = [Column("x", data_type)]
    return [row["x"] for row in to_rows(conform(pa.table({"X": array}), columns, zone), columns)]


@pytest.mark.parametrize(
    ("array", "data_type", "expected"),
    [
        (pa.array([255, None], pa.uint8()), BIGINT, [255, None]),
        (pa.array([2**32 - 1], pa.uint32()), BIGINT, [2**32 - 1]),
        (pa.array([2**63 - 1], pa.uint64()), BIGINT, [2**63 - 1]),
        (pa.array([2.0, None]), BIGINT, [2, None]),
        (pa.array([1.5], pa.float32()), DOUBLE, [1.5]),
        (pa.array([7]), DOUBLE, [7.0]),
        (pa.array([7]), decimal(20, 2), [Decimal("7.00")]),
        (pa.array([Decimal("1.50")]), decimal(20, 4), [Decimal("1.5000")]),
        (pa.array(["é", None]).dictionary_encode(), STRING, ["é", None]),
        (pa.array(["a"], pa.large_string()), STRING, ["a"]),
        (pa.array([True, None]), BOOLEAN, [True, None]),
        (pa.array([None, None]), BIGINT, [None, None]),
        (pa.array([date(1970, 1, 2)]), TIMESTAMP, [86_400_000_000]),
        (pa.array(["1970-01-01T00:00:01Z"]), TIMESTAMP, [1_000_000]),
        (pa.array([3], pa.timestamp("s", tz="UTC")), TIMESTAMP, [3_000_000]),
        # nanoseconds are floored, before the epoch too
        (pa.array([-1, 1_999, None], pa.timestamp("ns", tz="UTC")), TIMESTAMP, [-1, 1, None]),
    ],
)
def test_taken(array: pa.Array, data_type: DataType, expected: list[Any]) -> None:
    assert read(array, data_type) == expected


@pytest.mark.parametrize(
    ("array", "data_type"),
    [
        (pa.array([2**63], pa.uint64()), BIGINT),
        (pa.array([2.5]), BIGINT),
        (pa.array([2**60 + 1]), DOUBLE),
        (pa.array([0.1]), decimal(5, 2)),
        (pa.array([Decimal("1.234")]), decimal(5, 2)),
        (pa.array(["7"]), BIGINT),
        (pa.array([7]), STRING),
        (pa.array([1]), BOOLEAN),
        (pa.array([1_700_000_000]), TIMESTAMP),
        (pa.array(["yesterday"]), TIMESTAMP),
        (pa.array(["10.0.0.300"]), ADDRESS),
        (pa.array([b"123"]), ADDRESS),
        (pa.array([2**32]), ADDRESS),
        (pa.array([-1]), ADDRESS),
        (pa.array([[1]]), STRING),
    ],
)
def test_refused_by_name(array: pa.Array, data_type: DataType) -> None:
    with pytest.raises(DataError, match="column x"):
        read(array, data_type)


def test_a_missing_column_is_null_and_others_are_left_out() -> None:
    columns = [Column("a", BIGINT), Column("b", STRING)]
    table = conform(pa.table({"B": ["x"], "c": [1]}), columns)
    assert to_rows(table, columns) == [{"a": None, "b": "x"}]


def test_naive_times_are_read_in_the_declared_zone() -> None:
    noon = datetime.fromisoformat("2026-07-01T12:00:00")
    assert read(pa.array([noon]), TIMESTAMP, NEW_YORK) == [to_microseconds(datetime(2026, 7, 1, 16, tzinfo=UTC))]
    assert read(pa.array(["2026-07-01 12:00:00"]), TIMESTAMP, NEW_YORK) == read(pa.array([noon]), TIMESTAMP, NEW_YORK)
    assert read(pa.array([noon], pa.timestamp("us", tz="UTC")), TIMESTAMP, NEW_YORK) == [to_microseconds(noon)]


def test_a_time_that_the_clocks_show_twice_is_the_earlier_and_a_skipped_one_keeps_the_old_offset() -> None:
    twice, skipped = map(datetime.fromisoformat, ("2026-11-01T01:30:00", "2026-03-08T02:30:00"))
    assert read(pa.array([twice]), TIMESTAMP, NEW_YORK) == [to_microseconds(datetime(2026, 11, 1, 5, 30, tzinfo=UTC))]
    assert read(pa.array([skipped]), TIMESTAMP, NEW_YORK) == [to_microseconds(datetime(2026, 3, 8, 7, 30, tzinfo=UTC))]


@given(st.lists(st.datetimes(*map(datetime.fromisoformat, ("1971-01-01", "2037-01-01"))), max_size=5))
def test_columns_of_naive_times_agree_with_single_ones(moments: list[datetime]) -> None:
    assert read(pa.array(moments, pa.timestamp("us")), TIMESTAMP, NEW_YORK) == [
        to_microseconds(m, NEW_YORK) for m in moments
    ]


@given(st.ip_addresses())
def test_addresses_in_all_their_forms(address: Any) -> None:
    expected = [parse_address(str(address))]
    assert read(pa.array([str(address)]), ADDRESS) == expected
    assert read(pa.array([address.packed]), ADDRESS) == expected
    assert parse_address(format_address(expected[0])) == expected[0]
    if address.version == 4:
        assert read(pa.array([int(address)]), ADDRESS) == expected
        assert read(pa.array([f"::ffff:{address}"]), ADDRESS) == expected


def test_results_can_be_opened_by_people() -> None:
    columns = [Column("t", TIMESTAMP), Column("a", ADDRESS)]
    table = from_rows([(0, parse_address("10.0.0.1")), (None, None)], columns)
    assert table.to_pylist() == [{"t": datetime(1970, 1, 1, tzinfo=UTC), "a": "10.0.0.1"}, {"t": None, "a": None}]
