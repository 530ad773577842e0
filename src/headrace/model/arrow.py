"""The border: columns as files and callers bring them, made into the declared types, or refused with a reason."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise
from typing import Any

import pyarrow as pa

from headrace.model.address import IPV4_BITS, MAPPED, format_address
from headrace.model.schema import Column
from headrace.model.types import DataType, Value

ADDRESS_BYTES = 16
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
    """Return the Arrow type that holds our type; an ADDRESS is its 16 bytes, IPv4 in the mapped form."""
    if data_type.name == "DECIMAL":
        return pa.decimal128(data_type.precision, data_type.scale)
    if data_type.name == "ARRAY":
        return pa.list_(arrow_type(data_type.fields[0][1]))
    if data_type.name == "STRUCT":
        return pa.struct([(name, arrow_type(field)) for name, field in data_type.fields])
    return SIMPLE_TYPES[data_type.name]


def conform(table: pa.Table, columns: Iterable[Column]) -> pa.Table:
    """Return columns that are in declared types in declared order. A missing one is NULL, others are left out."""
    by_name = {name.lower(): position for position, name in enumerate(table.column_names)}
    arrays = [
        table.column(by_name[column.name.lower()])
        if column.name.lower() in by_name
        else pa.nulls(table.num_rows, arrow_type(column.type))
        for column in columns
    ]
    return pa.table(arrays, names=[column.name for column in columns])


def one_array(column: pa.ChunkedArray) -> pa.Array:
    """Return the column in one piece; without a copy if it is in one piece already."""
    if column.num_chunks == 1:
        return column.chunk(0)
    return pa.concat_arrays(column.chunks) if column.num_chunks else pa.array([], column.type)


def is_text(data_type: pa.DataType) -> bool:
    return bool(
        pa.types.is_string(data_type) or pa.types.is_large_string(data_type) or pa.types.is_string_view(data_type)
    )


def is_bytes(data_type: pa.DataType) -> bool:
    return bool(pa.types.is_binary(data_type) or pa.types.is_large_binary(data_type))


def address_bytes(value: int) -> bytes:
    return value.to_bytes(ADDRESS_BYTES, "big")


def raw_bytes(raw: bytes) -> bytes:
    if len(raw) == ADDRESS_BYTES:
        return raw
    if len(raw) == IPV4_BITS // 8:
        return address_bytes(MAPPED | int.from_bytes(raw, "big"))
    raise ValueError(f"an address has 4 or 16 bytes, not {len(raw)}")


def to_rows(table: pa.Table, columns: Iterable[Column]) -> list[dict[str, Value]]:
    """Return the rows of a conformed table as plain values: times as microseconds, addresses as numbers."""
    names = [column.name for column in columns]
    values = [plain_values(table.column(column.name), column.type) for column in columns]
    return [dict(zip(names, row, strict=True)) for row in zip(*values, strict=True)]


def to_array(values: Iterable[Value], data_type: DataType) -> pa.Array:
    """Convert plain values to a column: the reverse of `plain_values`."""
    return pa.array([to_arrow_value(value, data_type) for value in values], arrow_type(data_type))


def to_arrow_value(value: Any, data_type: DataType) -> Any:
    if value is None:
        return None
    if data_type.name == "ADDRESS":
        return address_bytes(int(value))
    if data_type.name == "ARRAY":
        return [to_arrow_value(item, data_type.fields[0][1]) for item in value]
    if data_type.name == "STRUCT":
        return {name: to_arrow_value(item, field) for (name, field), item in zip(data_type.fields, value, strict=True)}
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
    """Return lists and structs as tuples."""
    if data_type.name == "STRUCT":
        fields = [plain_values(array.field(place), field) for place, (_, field) in enumerate(data_type.fields)]
        rows: list[Any] = list(zip(*fields, strict=True))
    else:
        items = plain_values(array.values, data_type.fields[0][1])
        bounds = array.offsets.to_pylist()
        rows = [tuple(items[begin:end]) for begin, end in pairwise(bounds)]
    return [row if there else None for row, there in zip(rows, array.is_valid().to_pylist(), strict=True)]


def for_people(table: pa.Table, columns: Iterable[Column]) -> pa.Table:
    """Return a table to open with the tools people have: addresses as text, local times without a zone."""
    for position, column in enumerate(columns):
        if column.is_local:
            table = table.set_column(position, column.name, table.column(position).cast(pa.timestamp("us")))
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
        fields = [readable_addresses(array.field(place), field) for place, (_, field) in enumerate(data_type.fields)]
        return pa.StructArray.from_arrays(fields, [name for name, _ in data_type.fields], mask=array.is_null())
    return array


def from_rows(rows: Iterable[tuple[Value, ...]], columns: Iterable[Column]) -> pa.Table:
    """Build a table from plain values, for people to open."""
    listed, declared = list(rows), list(columns)
    arrays = [to_array([row[position] for row in listed], column.type) for position, column in enumerate(declared)]
    return for_people(pa.table(arrays, names=[column.name for column in declared]), declared)
