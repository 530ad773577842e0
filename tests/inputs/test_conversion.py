"""Names, naive times and addresses at the border; types and values are in tests/faults/test_ways_in.py."""

from __future__ import annotations

from datetime import UTC, datetime, tzinfo
from typing import Any
from zoneinfo import ZoneInfo

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from headrace.inputs.conversion import convert_table
from headrace.model.address import format_address, parse_address
from headrace.model.arrow import to_rows
from headrace.model.schema import Column
from headrace.model.time import to_microseconds
from headrace.model.types import ADDRESS, BIGINT, STRING, TIMESTAMP, DataType

NEW_YORK = ZoneInfo("America/New_York")


def read(array: pa.Array, data_type: DataType, zone: tzinfo = UTC) -> list[Any]:
    columns = [Column("x", data_type)]
    return [row["x"] for row in to_rows(convert_table(pa.table({"X": array}), columns, zone).table, columns)]


def test_a_missing_column_is_null_and_others_are_left_out() -> None:
    columns = [Column("a", BIGINT), Column("b", STRING)]
    table = convert_table(pa.table({"B": ["x"], "c": [1]}), columns).table
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
