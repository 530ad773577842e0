"""One rule of conversion for every way in: by type and value the same rows are read, rejected or refused.

Ways: a file that `headrace eval` reads (for both of its engines), a file that a run reads, rows of a DataFrame, Arrow
that an edge receives, and the columns of a frame of `headrace.aggregate` that have such a type.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from datetime import UTC, date
from decimal import Decimal
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import headrace
from headrace.cli.files import read_relation
from headrace.edge.socket_rows import rows_in
from headrace.engine.dataframes import columns_of
from headrace.inputs import Source, one_file, read_file
from headrace.inputs.conversion import check_schema, convert_table
from headrace.model.arrow import plain_values
from headrace.model.errors import DataError
from headrace.model.schema import Column, Stream
from headrace.model.types import ADDRESS, BIGINT, BINARY, BOOLEAN, DOUBLE, STRING, TIMESTAMP, DataType, decimal
from tests.inputs.samples import read_file as read_units_of

REFUSED: None = None
NEW_YORK = ZoneInfo("America/New_York")
US = pa.timestamp("us", tz="UTC")
YEAR_1_US, YEAR_10000_US = -62_135_596_800_000_000, 253_402_300_800_000_000
MAPPED = 0xFFFF << 32

CASES: list[tuple[pa.Array, DataType, list[Any] | None]] = [
    # fits by its type, whatever the values
    (pa.array([True, None]), BOOLEAN, [True, None]),
    (pa.array([-128, None], pa.int8()), BIGINT, [-128, None]),
    (pa.array([2**32 - 1], pa.uint32()), BIGINT, [2**32 - 1]),
    (pa.array([-(2**63), 2**63 - 1]), BIGINT, [-(2**63), 2**63 - 1]),
    (pa.array([Decimal(10**17)], pa.decimal128(18, 0)), BIGINT, [10**17]),
    (pa.array([1.5], pa.float16()), DOUBLE, [1.5]),
    (pa.array([1.5, None], pa.float32()), DOUBLE, [1.5, None]),
    (pa.array([float("inf"), -0.0]), DOUBLE, [float("inf"), -0.0]),
    (pa.array([-(2**31)], pa.int32()), DOUBLE, [-(2.0**31)]),
    (pa.array([7], pa.int16()), decimal(12, 3), [Decimal("7.000")]),
    (pa.array([2**63 - 1]), decimal(22, 3), [Decimal("9223372036854775807.000")]),
    (pa.array([Decimal("1.5")], pa.decimal128(3, 1)), decimal(12, 3), [Decimal("1.500")]),
    (pa.array(["é", None, ""]).dictionary_encode(), STRING, ["é", None, ""]),
    (pa.array(["é"], pa.large_string()), STRING, ["é"]),
    (pa.array(["é"], pa.string_view()), STRING, ["é"]),
    (pa.array([b"\xff", None]), BINARY, [b"\xff", None]),
    (pa.array([None], pa.null()), decimal(5, 2), [None]),
    # value by value: what does not fit is a rejected row
    (pa.array([1, 2**63 - 1, 2**63], pa.uint64()), BIGINT, [1, 2**63 - 1]),
    (pa.array([2.0, 2.5, None, float("nan"), float("inf"), 1e19, -0.0]), BIGINT, [2, None, 0]),
    (pa.array([2.0, 2.5], pa.float16()), BIGINT, [2]),
    (pa.array([Decimal("1.0"), Decimal("1.5")], pa.decimal128(19, 1)), BIGINT, [1]),
    (pa.array([Decimal(1), Decimal(2**63)], pa.decimal128(19, 0)), BIGINT, [1]),
    (pa.array([7, 2**53, 2**60 + 1, -(2**53) - 1]), DOUBLE, [7.0, 2.0**53]),
    (pa.array([7, 2**64 - 1], pa.uint64()), DOUBLE, [7.0]),
    (pa.array([999, 1000, None]), decimal(5, 2), [Decimal("999.00"), None]),
    (pa.array([Decimal("1.20"), Decimal("1.234")], pa.decimal128(6, 3)), decimal(5, 2), [Decimal("1.20")]),
    (pa.array([Decimal("1.2"), Decimal(10**50)], pa.decimal256(60, 1)), decimal(5, 2), [Decimal("1.20")]),
    (
        pa.array([YEAR_1_US - 1, YEAR_1_US, YEAR_10000_US - 1, YEAR_10000_US], US),
        TIMESTAMP,
        [YEAR_1_US, YEAR_10000_US - 1],
    ),
    (pa.array([-(2**63), 2**62, 2**63 - 1, 5, None], US), TIMESTAMP, [5, None]),
    (pa.array([2**50, 3], pa.timestamp("s", tz="UTC")), TIMESTAMP, [3_000_000]),
    (pa.array([2**62, 3], pa.timestamp("ms", tz="Asia/Tokyo")), TIMESTAMP, [3_000]),
    (pa.array([-1, 1_999, None], pa.timestamp("ns", tz="UTC")), TIMESTAMP, [-1, 1, None]),
    (pa.array([date(1970, 1, 2), None]), TIMESTAMP, [86_400_000_000, None]),
    (pa.array([2**31 - 1, 1], pa.int32()).cast(pa.date32()), TIMESTAMP, [86_400_000_000]),
    (pa.array(["1970-01-01 00:00:01", "yesterday", "0000-01-01", None]), TIMESTAMP, [1_000_000, None]),
    (pa.array(["10.0.0.1", "10.0.0.300", "::1"]), ADDRESS, [MAPPED | 10 << 24 | 1, 1]),
    (pa.array([b"\n\0\0\1", b"abc"]), ADDRESS, [MAPPED | 10 << 24 | 1]),
    (pa.array([b"\n\0\0\1"], pa.binary(4)), ADDRESS, [MAPPED | 10 << 24 | 1]),
    (pa.array([bytes(15) + b"\1"], pa.binary(16)), ADDRESS, [1]),
    (pa.array([10 << 24 | 1, -1, 2**32]), ADDRESS, [MAPPED | 10 << 24 | 1]),
    # refused by its type
    (pa.array([1]), BOOLEAN, REFUSED),
    (pa.array(["1"]), BIGINT, REFUSED),
    (pa.array([True]), BIGINT, REFUSED),
    (pa.array([Decimal("1.5")]), DOUBLE, REFUSED),
    (pa.array(["1.5"]), DOUBLE, REFUSED),
    (pa.array([1.5]), decimal(5, 2), REFUSED),
    (pa.array([1]), STRING, REFUSED),
    (pa.array([b"a"]), STRING, REFUSED),
    (pa.array(["a"]), BINARY, REFUSED),
    (pa.array([1]), TIMESTAMP, REFUSED),
    (pa.array([1], pa.time64("us")), TIMESTAMP, REFUSED),
    (pa.array([1.5]), ADDRESS, REFUSED),
    (pa.array([[1]], pa.list_(pa.field("element", pa.int64()))), BIGINT, REFUSED),
    (pa.array([{"a": 1}]), STRING, REFUSED),
]

Outcome = tuple[list[Any], int] | None
"""The values that were read, and how many rows were rejected; None if the column is refused."""


def stream_of(data_type: DataType, zone: Any = UTC) -> Stream:
    return Stream("s", (Column("at", TIMESTAMP), Column("v", data_type)), "at", zone=zone)


def table_of(array: pa.Array) -> pa.Table:
    return pa.table({"at": pa.array([0] * len(array), US), "V": array})


def outcome(rows: Any, data_type: DataType) -> Outcome:
    return plain_values(rows.table["v"], data_type), rows.rejected.num_rows


def by_eval(folder: Path, array: pa.Array, stream: Stream) -> Outcome:
    (folder / "s").mkdir()
    pq.write_table(table_of(array), folder / "s" / "part.parquet")
    return outcome(read_relation(folder, stream), stream.columns[1].type)


def by_run(folder: Path, array: pa.Array, stream: Stream) -> Outcome:
    pq.write_table(table_of(array), folder / "part.parquet")
    return outcome(read_units_of(Source(str(folder)), folder / "part.parquet", stream), stream.columns[1].type)


def by_dataframe(_folder: Path, array: pa.Array, stream: Stream) -> Outcome:
    check_schema(table_of(array).schema, stream)
    return outcome(convert_table(table_of(array), stream.columns, stream.zone), stream.columns[1].type)


def by_edge(_folder: Path, array: pa.Array, stream: Stream) -> Outcome:
    """A refused batch is rejected with all its rows: there is no file to leave out."""
    found = rows_in(table_of(array).to_batches(), stream, ["at", "v"])
    if any(" and can't be read as " in each.reason for each in found.refused):
        assert found.bad == len(array)
        return None
    return plain_values(found.table["v"], stream.columns[1].type), found.bad


WAYS: list[Callable[[Path, pa.Array, Stream], Outcome]] = [by_eval, by_run, by_dataframe, by_edge]


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize(("array", "data_type", "values"), CASES)
def test_every_way_in_reads_the_same(
    tmp_path: Path,
    way: Callable[[Path, pa.Array, Stream], Outcome],
    array: pa.Array,
    data_type: DataType,
    values: list[Any] | None,
) -> None:
    stream = stream_of(data_type)
    if values is not None:
        assert repr(way(tmp_path, array, stream)) == repr((values, len(array) - len(values)))
    elif way == by_edge:
        assert by_edge(tmp_path, array, stream) is None
    else:
        with pytest.raises(DataError) as caught:
            way(tmp_path, array, stream)
        assert f"column v is {array.type} and can't be read as {data_type}" in caught.value.message


@pytest.mark.parametrize(("array", "data_type", "values"), [case for case in CASES if case[2] is not None])
def test_a_frame_reads_what_a_file_reads(array: pa.Array, data_type: DataType, values: list[Any]) -> None:
    """Where the type of a frame's column is the declared one."""
    table = table_of(array)
    declared = {column.name: column.type for column in columns_of(table)}
    if declared.get("V") != data_type:
        return
    query = "SELECT count(*) AS n, count(V) AS v FROM stream [RANGE '1 s']"
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", headrace.RowErrorWarning)
        found = headrace.aggregate(table, {"q": query}, event_time="at")["q"]
    assert sum(found["n"].to_pylist()) == len(values)
    assert sum(found["v"].to_pylist()) == sum(value is not None for value in values)
    bad = len(array) - len(values)
    expected = [f"stream: {bad:,} rows have a value that could not be read and were left out"] if bad else []
    assert [str(each.message) for each in caught] == expected


def test_rejected_rows_do_not_depend_on_the_queries(tmp_path: Path) -> None:
    """A column that is read value by value is read whichever are asked for."""
    stream = stream_of(DOUBLE)
    pq.write_table(table_of(pa.array([1, 2**60 + 1])), tmp_path / "part.parquet")
    found = read_units_of(Source(str(tmp_path)), tmp_path / "part.parquet", stream, columns=["at"])
    assert (found.table.column_names, found.table.num_rows) == (["at"], 1)
    assert found.rejected.to_pylist() == [{"raw": str(2**60 + 1), "reason": "column v can't be read as DOUBLE"}]


def test_many_values_that_do_not_fit(tmp_path: Path) -> None:
    numbers = pa.array([number / 2 for number in range(20_001)])
    found = convert_table(table_of(numbers), stream_of(BIGINT).columns)
    assert found.table["v"].to_pylist() == list(range(10_001))
    assert [row["raw"] for row in found.rejected.to_pylist()[:2]] == ["0.5", "1.5"]


def test_local_times_that_leave_the_years_in_utc(tmp_path: Path) -> None:
    naive = pa.array([YEAR_10000_US - 1, YEAR_1_US, 0, None], pa.timestamp("us"))
    pq.write_table(table_of(naive), tmp_path / "part.parquet")
    stream = stream_of(TIMESTAMP, NEW_YORK)
    (rows,) = read_file(Source(str(tmp_path)), one_file(str(tmp_path / "part.parquet")), stream)
    times = plain_values(rows.table["v"], TIMESTAMP)
    assert times[1:] == [5 * 3_600_000_000, None]
    assert rows.rejected.num_rows == 1, "the last hours of 9999 in New York are in the year 10000"


def test_columns_of_one_name_are_refused(tmp_path: Path) -> None:
    table = table_of(pa.array([1])).append_column("v2", pa.array([2])).rename_columns(["at", "V", "v"])
    stream = Stream("s", (Column("at", TIMESTAMP), Column("VV", BIGINT)), "at")
    assert convert_table(table, stream_of(BIGINT).columns).table["v"].to_pylist() == [2], "the same spelling first"
    with pytest.raises(DataError, match="has 2 columns 'VV'"):
        convert_table(table.rename_columns(["at", "vv", "Vv"]), stream.columns)
