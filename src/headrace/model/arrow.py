"""The border: columns as files and callers bring them, made into the declared types, or refused with a reason."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import UTC, tzinfo
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headrace.model.address import IPV4_BITS, MAPPED, format_address, parse_address
from headrace.model.errors import DataError
from headrace.model.schema import Column, Stream
from headrace.model.time import parse_timestamp, to_microseconds
from headrace.model.types import TIMESTAMP, DataType, Value

ADDRESS_BYTES = 16
MAX_INTEGER_DIGITS = 20
SIMPLE_TYPES = {
    "BOOLEAN": pa.bool_(),
    "BIGINT": pa.int64(),
    "DOUBLE": pa.float64(),
    "STRING": pa.string(),
    "TIMESTAMP": pa.timestamp("us", tz="UTC"),
    "ADDRESS": pa.binary(ADDRESS_BYTES),
    "BINARY": pa.large_binary(),
}


def arrow_type(data_type: DataType) -> pa.DataType:
    """The Arrow type that holds our type; an ADDRESS is its 16 bytes, IPv4 in the mapped form."""
    if data_type.name == "DECIMAL":
        return pa.decimal128(data_type.precision, data_type.scale)
    if data_type.name == "ARRAY":
        return pa.list_(arrow_type(data_type.fields[0][1]))
    if data_type.name == "STRUCT":
        return pa.struct([(name, arrow_type(field)) for name, field in data_type.fields])
    return SIMPLE_TYPES[data_type.name]


def conform(table: pa.Table, columns: Iterable[Column], zone: tzinfo = UTC) -> pa.Table:
    """The declared columns, in declared order and type. A missing column is NULL, others are left out.

    Only casts that lose nothing are made; a nanosecond time is cut to the microsecond it lies in, which moves no row
    over a window's end. Naive times are read in `zone`.
    """
    by_name = {name.lower(): position for position, name in enumerate(table.column_names)}
    arrays = []
    for column in columns:
        position = by_name.get(column.name.lower())
        if position is None:
            arrays.append(pa.nulls(table.num_rows, arrow_type(column.type)))
        else:
            arrays.append(convert(table.column(position), column, zone))
    return pa.table(arrays, names=[column.name for column in columns])


def one_array(column: pa.ChunkedArray) -> pa.Array:
    """The column in one piece; without a copy if it is in one piece already."""
    if column.num_chunks == 1:
        return column.chunk(0)
    return pa.concat_arrays(column.chunks) if column.num_chunks else pa.array([], column.type)


def convert(array: pa.ChunkedArray, column: Column, zone: tzinfo) -> pa.Array:
    flat = one_array(array)
    if pa.types.is_dictionary(flat.type):
        flat = flat.dictionary_decode()
    if pa.types.is_null(flat.type):
        return pa.nulls(len(flat), arrow_type(column.type))
    try:
        return CONVERTERS[column.type.name](flat, column.type, zone)
    except (ValueError, OverflowError, pa.ArrowInvalid, pa.ArrowNotImplementedError) as problem:
        message = f"column {column.name} is {flat.type} and can't be read as {column.type}"
        raise DataError("column-type", message, detail=str(problem).splitlines()[0]) from None


def number(array: pa.Array, data_type: DataType, _zone: tzinfo) -> pa.Array:
    """A safe cast refuses what would change: 2.5 as BIGINT, 2^60 + 1 as DOUBLE, 2^63 from an unsigned column."""
    is_number = pa.types.is_integer(array.type) or pa.types.is_floating(array.type) or pa.types.is_decimal(array.type)
    if not is_number or (data_type.name == "DECIMAL" and pa.types.is_floating(array.type)):
        raise ValueError(f"{array.type} is not an exact number" if is_number else f"{array.type} is not a number")
    if data_type.name == "DECIMAL" and pa.types.is_integer(array.type):
        array = array.cast(
            pa.decimal128(MAX_INTEGER_DIGITS, 0)
        )  # wide enough for any; the next cast looks at the values
    return array.cast(arrow_type(data_type))


def same_kind(is_kind: Callable[[pa.DataType], bool]) -> Callable[[pa.Array, DataType, tzinfo], pa.Array]:
    def check(array: pa.Array, data_type: DataType, _zone: tzinfo) -> pa.Array:
        if not is_kind(array.type):
            raise ValueError(f"{array.type} is another kind of value")
        return array.cast(arrow_type(data_type))

    return check


def is_text(data_type: pa.DataType) -> bool:
    return bool(
        pa.types.is_string(data_type) or pa.types.is_large_string(data_type) or pa.types.is_string_view(data_type)
    )


def is_bytes(data_type: pa.DataType) -> bool:
    return bool(pa.types.is_binary(data_type) or pa.types.is_large_binary(data_type))


def timestamp(array: pa.Array, data_type: DataType, zone: tzinfo) -> pa.Array:
    if is_text(array.type):
        return mapped(array, lambda text: parse_timestamp(text, zone), pa.int64()).cast(arrow_type(data_type))
    if pa.types.is_date(array.type):
        array = array.cast(pa.timestamp("us"))
    if not pa.types.is_timestamp(array.type):
        raise ValueError("a number has no unit of time; store timestamps")
    micros = to_micros(array)
    return (micros if array.type.tz is not None else localized(micros, zone)).cast(arrow_type(data_type))


def to_micros(array: pa.Array) -> pa.Array:
    """Nanoseconds are floored; coarser units are multiplied, and refused where that would overflow."""
    if array.type.unit != "ns":
        return array.cast(pa.timestamp("us", tz=array.type.tz)).cast(pa.int64())
    nanos = array.cast(pa.int64())
    floored = np.floor_divide(nanos.fill_null(0).to_numpy(zero_copy_only=False), 1_000)
    return pa.array(floored, mask=np.asarray(nanos.is_null()))


def localized(micros: pa.Array, zone: tzinfo) -> pa.Array:
    """Wall-clock microseconds of `zone` as UTC; a time that the clocks skip is read with the old offset."""
    if zone == UTC:
        return micros
    naive = micros.cast(pa.timestamp("us"))
    try:
        aware = pc.assume_timezone(naive, str(zone), ambiguous="earliest", nonexistent="raise")
    except (pa.ArrowInvalid, ValueError):
        return mapped(naive, lambda moment: to_microseconds(moment, zone), pa.int64())
    return aware.cast(pa.int64())


def address(array: pa.Array, data_type: DataType, _zone: tzinfo) -> pa.Array:
    """Texts, raw bytes (4 or 16), or the number of an IPv4 address."""
    if is_text(array.type):
        return mapped(array, lambda text: address_bytes(parse_address(text)), arrow_type(data_type))
    if pa.types.is_integer(array.type):
        return mapped(array, ipv4_bytes, arrow_type(data_type))
    if pa.types.is_binary(array.type) or pa.types.is_fixed_size_binary(array.type):
        return mapped(array, raw_bytes, arrow_type(data_type))
    raise ValueError(f"{array.type} is no form of an address")


def address_bytes(value: int) -> bytes:
    return value.to_bytes(ADDRESS_BYTES, "big")


def ipv4_bytes(number: int) -> bytes:
    if not 0 <= number < 2**IPV4_BITS:
        raise ValueError(f"{number} is not the number of an IPv4 address")
    return address_bytes(MAPPED | number)


def raw_bytes(raw: bytes) -> bytes:
    if len(raw) == ADDRESS_BYTES:
        return raw
    if len(raw) == IPV4_BITS // 8:
        return address_bytes(MAPPED | int.from_bytes(raw, "big"))
    raise ValueError(f"an address has 4 or 16 bytes, not {len(raw)}")


def mapped(array: pa.Array, convert_one: Callable[[Any], Any], result: pa.DataType) -> pa.Array:
    """Convert each distinct value once."""
    encoded = array.dictionary_encode()
    converted = pa.array([convert_one(value) for value in encoded.dictionary.to_pylist()], result)
    return converted.take(encoded.indices)


CONVERTERS: dict[str, Callable[[pa.Array, DataType, tzinfo], pa.Array]] = {
    "BOOLEAN": same_kind(pa.types.is_boolean),
    "BIGINT": number,
    "DOUBLE": number,
    "DECIMAL": number,
    "STRING": same_kind(is_text),
    "TIMESTAMP": timestamp,
    "ADDRESS": address,
    "BINARY": same_kind(is_bytes),
}


def as_stream(results: pa.Table, stream: Stream) -> pa.Table:
    """Results of a query as rows of the stream that they are: the event time is the last instant of the window."""
    assert stream.derived is not None
    ends = results[stream.derived.end].cast(pa.int64())
    times = pc.subtract(ends, 1).cast(arrow_type(TIMESTAMP))
    return conform(results.append_column(stream.event_time, times), stream.columns, stream.zone)


def to_rows(table: pa.Table, columns: Iterable[Column]) -> list[dict[str, Value]]:
    """The rows of a conformed table as plain values: times as microseconds, addresses as numbers."""
    names = [column.name for column in columns]
    values = [plain_values(table.column(column.name), column.type) for column in columns]
    return [dict(zip(names, row, strict=True)) for row in zip(*values, strict=True)]


def to_array(values: Iterable[Value], data_type: DataType) -> pa.Array:
    """Plain values as a column; the reverse of `plain_values`."""
    return pa.array([to_arrow_value(value, data_type) for value in values], arrow_type(data_type))


def to_arrow_value(value: Any, data_type: DataType) -> Any:
    if value is None:
        return None
    if data_type.name == "ADDRESS":
        return address_bytes(int(value))
    if data_type.name == "ARRAY":
        return [to_arrow_value(each, data_type.fields[0][1]) for each in value]
    if data_type.name == "STRUCT":
        return {name: to_arrow_value(each, field) for (name, field), each in zip(data_type.fields, value, strict=True)}
    return value


def plain_values(array: pa.ChunkedArray | pa.Array, data_type: DataType) -> list[Any]:
    if data_type.name == "TIMESTAMP":
        return array.cast(pa.int64()).to_pylist()  # type: ignore[no-any-return]
    if data_type.name in ("ARRAY", "STRUCT"):
        return compound_values(array.combine_chunks() if isinstance(array, pa.ChunkedArray) else array, data_type)
    listed: list[Any] = array.to_pylist()
    if data_type.name == "ADDRESS":
        return [None if raw is None else int.from_bytes(raw, "big") for raw in listed]
    return listed


def compound_values(array: pa.Array, data_type: DataType) -> list[Any]:
    """Lists and structs as tuples."""
    if data_type.name == "STRUCT":
        fields = [plain_values(array.field(place), field) for place, (_, field) in enumerate(data_type.fields)]
        rows: list[Any] = list(zip(*fields, strict=True))
    else:
        items = plain_values(array.values, data_type.fields[0][1])
        bounds = array.offsets.to_pylist()
        rows = [tuple(items[begin:end]) for begin, end in pairwise(bounds)]
    return [row if there else None for row, there in zip(rows, array.is_valid().to_pylist(), strict=True)]


def for_people(table: pa.Table, columns: Iterable[Column]) -> pa.Table:
    """The same table to be opened with the tools people have: addresses as text."""
    for position, column in enumerate(columns):
        if has_addresses(column.type):
            shown = readable_addresses(one_array(table.column(position)), column.type)
            table = table.set_column(position, column.name, shown)
    return table


def has_addresses(data_type: DataType) -> bool:
    return data_type.name == "ADDRESS" or any(has_addresses(field) for _, field in data_type.fields)


def readable_addresses(array: pa.Array, data_type: DataType) -> pa.Array:
    if data_type.name == "ADDRESS":
        encoded = array.dictionary_encode()
        texts = [format_address(address) for address in plain_values(encoded.dictionary, data_type)]
        return pa.array(texts, pa.string()).take(encoded.indices)
    if data_type.name == "ARRAY":
        items = readable_addresses(array.values, data_type.fields[0][1])
        return pa.ListArray.from_arrays(array.offsets, items, mask=array.is_null())
    if data_type.name == "STRUCT":
        fields = [readable_addresses(array.field(place), each) for place, (_, each) in enumerate(data_type.fields)]
        return pa.StructArray.from_arrays(fields, [name for name, _ in data_type.fields], mask=array.is_null())
    return array


def from_rows(rows: Iterable[tuple[Value, ...]], columns: Iterable[Column]) -> pa.Table:
    """A table of plain values, for people to open."""
    listed, declared = list(rows), list(columns)
    arrays = [to_array([row[position] for row in listed], each.type) for position, each in enumerate(declared)]
    return for_people(pa.table(arrays, names=[column.name for column in declared]), declared)
