"""The one rule by which columns become declared types, whatever way they come in: files, frames, static tables, edges.

A column is judged by its type, before a value is read: it fits whatever its values are, or it is read value by value,
or it is refused. A value that does not fit makes a rejected row, and stops no other row.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, tzinfo

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headrace.expressions.casts import from_text
from headrace.expressions.columns import (
    Evaluated,
    RowError,
    build_column,
    by_distinct,
    holds,
    set_failed_null,
    unite_masks,
)
from headrace.kernel.states.columns import readable, string_buffers
from headrace.kernel.string_loops import OCTETS, read_octets
from headrace.model.address import IPV4_BITS, MAPPED
from headrace.model.arrow import ADDRESS_BYTES, arrow_type, conform, is_bytes, is_text, one_array, raw_bytes
from headrace.model.errors import DataError
from headrace.model.schema import Column, Stream
from headrace.model.time import MAX_TIMESTAMP_US, MIN_TIMESTAMP_US, OUT_OF_RANGE, UNITS_US, to_microseconds
from headrace.model.types import STRING, TIMESTAMP, DataType

PLAIN_TIME = r"\A[12][0-9]{3}-[0-9]{2}-[0-9]{2}[ T][0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]{1,6})?"
INTEGER_DIGITS = {8: 3, 16: 5, 32: 10, 64: 20}
SAFE_INTEGER_BITS, SAFE_BIGINT_DIGITS = 32, 18
REJECTED = pa.schema([("raw", pa.string()), ("reason", pa.string())])


@dataclass(frozen=True, eq=False)
class Converted:
    """Rows in declared types; and of each other row the first value that does not fit, with the reason."""

    table: pa.Table
    rejected: pa.Table


def convert_table(table: pa.Table, columns: Sequence[Column], zone: tzinfo = UTC) -> Converted:
    """Return the declared columns of a table; DataError if the type of one is refused. A missing column is NULL."""
    positions = match_columns(table.column_names, columns)
    check_types({name: table.schema.types[position] for name, position in positions.items()}, columns)
    arrays = {name: one_array(table.column(position)) for name, position in positions.items()}
    return convert_rows(arrays, columns, zone, table.num_rows)


def convert_whole(name: str, table: pa.Table, columns: Sequence[Column]) -> pa.Table:
    """Return all rows of a static table; DataError if one does not fit."""
    converted = convert_table(table, columns)
    if converted.rejected.num_rows:
        first = converted.rejected.slice(0, 1).to_pylist()[0]
        raise DataError("bad-row", f"{name} has a row that can't be read: {first['reason']}", detail=first["raw"])
    return converted.table


def null_column(column: Column, length: int) -> pa.Array:
    return pa.nulls(length, arrow_type(column.type))


def convert_rows(
    arrays: Mapping[str, pa.Array],
    columns: Sequence[Column],
    zone: tzinfo,
    length: int,
    missing: Callable[[Column, int], pa.Array] = null_column,
) -> Converted:
    """Convert columns, by declared name, whose types are not refused."""
    converted = {
        column.name: convert_column(arrays[column.name], column, zone)
        if column.name in arrays
        else Evaluated(missing(column, length))
        for column in columns
    }
    failures = first_failures(columns, converted)
    rejected = [
        (show_value(arrays[column.name][row]), reason_of(column, value_type(arrays[column.name].type)))
        for row, column in failures
    ]
    table = pa.table({name: column.values for name, column in converted.items()})
    return Converted(without(table, [row for row, _ in failures]), rejected_table(rejected))


def as_stream(results: pa.Table, stream: Stream) -> pa.Table:
    """Return results of a query as rows of the stream that they are: the event time is the window's last instant."""
    assert stream.derived is not None
    ends = results[stream.derived.end].cast(pa.int64())
    times = pc.subtract(ends, 1).cast(arrow_type(TIMESTAMP))
    return typed_results(results.append_column(stream.event_time, times), stream.columns)


def typed_results(results: pa.Table, columns: Iterable[Column]) -> pa.Table:
    """Return results that were written for people in the types they had."""
    for column in columns:
        position = results.schema.get_field_index(column.name)
        if position >= 0 and results.schema.types[position] != arrow_type(column.type):
            array = one_array(results.column(position))
            is_time = column.type == TIMESTAMP  # of a window's end in the year 10000, too
            typed = array.cast(pa.int64()) if is_time else convert_column(array, column, UTC).values
            results = results.set_column(position, column.name, typed.cast(arrow_type(column.type)))
    return conform(results, columns)


# Names


def match_columns(names: Sequence[str], columns: Iterable[Column]) -> dict[str, int]:
    """Return the positions of declared columns among names: the same spelling first, then in any case."""
    positions = {}
    for column in columns:
        exact = [position for position, name in enumerate(names) if name == column.name]
        alike = exact or [position for position, name in enumerate(names) if name.lower() == column.name.lower()]
        if len(alike) > 1:
            raise DataError("column-name", f"has {len(alike)} columns '{column.name}'")
        if alike:
            positions[column.name] = alike[0]
    return positions


def check_schema(schema: pa.Schema, stream: Stream) -> None:
    """Raise DataError if rows of these columns can never be rows of the stream."""
    positions = match_columns(schema.names, stream.columns)
    if stream.event_time not in positions:
        detail = f"its columns are {', '.join(schema.names)}"
        raise DataError("column-name", f"has no column '{stream.event_time}', the event time", detail=detail)
    check_types({name: schema.types[position] for name, position in positions.items()}, stream.columns)


# Types


def check_types(types: Mapping[str, pa.DataType], columns: Iterable[Column]) -> None:
    """Raise DataError if a type, by declared name, is refused."""
    problems, hints = [], []
    for column in columns:
        arrow = types.get(column.name)
        if arrow is not None and not (is_lossless(arrow, column.type) or is_read_by_value(arrow, column.type)):
            problems.append(f"column {column.name} is {arrow} and can't be read as {column.type}")
            hints.append(better_type(arrow, column.type))
    if problems:
        raise DataError("column-type", "; ".join(problems), hint=next(filter(None, hints), None))


def better_type(arrow: pa.DataType, wanted: DataType) -> str | None:
    if pa.types.is_floating(arrow) and wanted.name == "DECIMAL":
        return "declare it DOUBLE"
    if pa.types.is_decimal(arrow) and wanted.name == "DOUBLE":
        return f"declare it DECIMAL({arrow.precision}, {arrow.scale})"
    if pa.types.is_integer(arrow) and wanted == TIMESTAMP:
        return "a number has no unit of time: store timestamps"
    return None


def is_lossless(arrow: pa.DataType, wanted: DataType) -> bool:
    """Return whether every value of a type fits the declared one."""
    arrow = value_type(arrow)
    return bool(pa.types.is_null(arrow) or LOSSLESS[wanted.name](arrow, wanted))


def is_read_by_value(arrow: pa.DataType, wanted: DataType) -> bool:
    """Return whether some values of a type fit the declared one, and others may not."""
    return not is_lossless(arrow, wanted) and wanted.name in BY_VALUE and BY_VALUE[wanted.name](value_type(arrow))


def value_type(arrow: pa.DataType) -> pa.DataType:
    return arrow.value_type if pa.types.is_dictionary(arrow) else arrow


def to_bigint(arrow: pa.DataType, _wanted: DataType) -> bool:
    if pa.types.is_decimal(arrow):
        return bool(arrow.scale == 0 and arrow.precision <= SAFE_BIGINT_DIGITS)
    return bool(pa.types.is_integer(arrow) and arrow != pa.uint64())


def to_double(arrow: pa.DataType, _wanted: DataType) -> bool:
    if pa.types.is_integer(arrow):
        return bool(arrow.bit_width <= SAFE_INTEGER_BITS)
    return bool(pa.types.is_floating(arrow))


def to_decimal(arrow: pa.DataType, wanted: DataType) -> bool:
    whole_digits = wanted.precision - wanted.scale
    if pa.types.is_decimal(arrow):
        return bool(arrow.scale <= wanted.scale and arrow.precision - arrow.scale <= whole_digits)
    if arrow == pa.int64():
        return whole_digits >= INTEGER_DIGITS[64] - 1
    return bool(pa.types.is_integer(arrow)) and INTEGER_DIGITS[arrow.bit_width] <= whole_digits


def is_exact(arrow: pa.DataType) -> bool:
    return bool(pa.types.is_integer(arrow) or pa.types.is_decimal(arrow))


def is_time(arrow: pa.DataType) -> bool:
    return bool(is_text(arrow) or pa.types.is_timestamp(arrow) or pa.types.is_date(arrow))


def is_address(arrow: pa.DataType) -> bool:
    is_raw = is_bytes(arrow) or pa.types.is_fixed_size_binary(arrow)
    return bool(is_text(arrow) or is_raw or pa.types.is_integer(arrow))


LOSSLESS: dict[str, Callable[[pa.DataType, DataType], bool]] = {
    "BOOLEAN": lambda arrow, _: bool(pa.types.is_boolean(arrow)),
    "BIGINT": to_bigint,
    "DOUBLE": to_double,
    "DECIMAL": to_decimal,
    "STRING": lambda arrow, _: is_text(arrow),
    "TIMESTAMP": lambda _found, _wanted: False,
    "ADDRESS": lambda arrow, wanted: bool(arrow == arrow_type(wanted)),
    "BINARY": lambda arrow, _: is_bytes(arrow),
}
BY_VALUE: dict[str, Callable[[pa.DataType], bool]] = {
    "BIGINT": lambda arrow: is_exact(arrow) or bool(pa.types.is_floating(arrow)),
    "DOUBLE": lambda arrow: bool(pa.types.is_integer(arrow)),
    "DECIMAL": is_exact,
    "TIMESTAMP": is_time,
    "ADDRESS": is_address,
}


# Values


def convert_column(array: pa.Array, column: Column, zone: tzinfo) -> Evaluated:
    """Convert a column whose type is not refused; the rows failed whose value does not fit. A local time is kept as if
    the clock on the wall showed UTC.
    """
    zone = UTC if column.is_local else zone
    if pa.types.is_dictionary(array.type):
        array = array.dictionary_decode()
    if pa.types.is_null(array.type):
        return Evaluated(null_column(column, len(array)))
    if column.type == TIMESTAMP and not is_text(array.type):
        return convert_times(array, zone)
    if column.type.name == "ADDRESS" and array.type != arrow_type(column.type):
        return convert_addresses(array, column.type)
    if is_text(array.type):
        check_utf8(array, column)
        return read_texts(array.cast(pa.string()), column.type, zone)
    return cast_values(array, column.type)


def check_utf8(array: pa.Array, column: Column) -> None:
    """Raise DataError if texts are not UTF-8, which Arrow does not check."""
    try:
        array.validate(full=True)
    except pa.ArrowInvalid as problem:
        detail = str(problem).splitlines()[0]
        raise DataError("column-damaged", f"column {column.name} is damaged", detail=detail) from None


def cast_values(array: pa.Array, wanted: DataType) -> Evaluated:
    """Cast a column; where that loses something, half by half, so that only the values fail that do not fit."""
    try:
        return Evaluated(cast_exactly(array, wanted))
    except pa.ArrowInvalid:
        if len(array) == 1:
            return Evaluated(pa.nulls(1, arrow_type(wanted)), np.ones(1, np.bool_))
    middle = len(array) // 2
    halves = [cast_values(array[:middle], wanted), cast_values(array[middle:], wanted)]
    masks = [np.zeros(len(half.values), np.bool_) if half.failed is None else half.failed for half in halves]
    return Evaluated(pa.concat_arrays([half.values for half in halves]), np.concatenate(masks))


def cast_exactly(array: pa.Array, wanted: DataType) -> pa.Array:
    """Cast, and refuse what would change: 2.5 as BIGINT, 2^60 + 1 as DOUBLE, 2^63 from an unsigned column."""
    if pa.types.is_float16(array.type):
        array = array.cast(pa.float32())
    if wanted.name == "DECIMAL" and pa.types.is_integer(array.type):
        array = array.cast(pa.decimal128(INTEGER_DIGITS[64], 0))  # wide enough for any
    return array.cast(arrow_type(wanted))


def convert_times(array: pa.Array, zone: tzinfo) -> Evaluated:
    """Convert times of the years 1 to 9999. Nanoseconds are cut to their microsecond, so no row moves over an end."""
    if pa.types.is_date(array.type):
        array = array.cast(pa.timestamp("s") if pa.types.is_date32(array.type) else pa.timestamp("ms"))
    numbers = array.cast(pa.int64())
    unit_us = UNITS_US.get(array.type.unit)
    micros = floor_thousandths(numbers) if unit_us is None else numbers
    low, high = (limit // (unit_us or 1) for limit in (MIN_TIMESTAMP_US, MAX_TIMESTAMP_US))
    near = blank_outside(micros, low, high)
    scaled = near.values if unit_us is None else pc.multiply(near.values, unit_us)
    if array.type.tz is not None:
        return Evaluated(scaled.cast(arrow_type(TIMESTAMP)), near.failed)
    local = blank_outside(localize(scaled, zone), MIN_TIMESTAMP_US, MAX_TIMESTAMP_US)
    return Evaluated(local.values.cast(arrow_type(TIMESTAMP)), unite_masks([near.failed, local.failed]))


def blank_outside(numbers: pa.Array, low: int, high: int) -> Evaluated:
    lowest, highest = (bound.as_py() for bound in pc.min_max(numbers).values())
    if lowest is None or low <= lowest <= highest <= high:
        return Evaluated(numbers)
    return set_failed_null(numbers, holds(pc.or_(pc.less(numbers, low), pc.greater(numbers, high))))


def floor_thousandths(nanos: pa.Array) -> pa.Array:
    floored = np.floor_divide(nanos.fill_null(0).to_numpy(zero_copy_only=False), 1_000)
    return pa.array(floored, mask=np.asarray(nanos.is_null()))


def localize(micros: pa.Array, zone: tzinfo) -> pa.Array:
    """Return wall-clock microseconds of `zone` in UTC; a time that the clocks skip is read with the old offset."""
    if zone == UTC:
        return micros
    naive = micros.cast(pa.timestamp("us"))
    try:
        aware = pc.assume_timezone(naive, str(zone), ambiguous="earliest", nonexistent="raise")
    except (pa.ArrowInvalid, ValueError):
        encoded = naive.dictionary_encode()
        instants = [to_microseconds(moment, zone) for moment in encoded.dictionary.to_pylist()]
        return pa.array(instants, pa.int64()).take(encoded.indices)
    return aware.cast(pa.int64())


def convert_addresses(array: pa.Array, wanted: DataType) -> Evaluated:
    """Texts, raw bytes (4 or 16), or the number of an IPv4 address."""
    if is_text(array.type):
        return read_texts(array.cast(pa.string()), wanted, UTC)
    read = ipv4_number if pa.types.is_integer(array.type) else bytes_number
    return by_distinct(read, array, STRING, wanted)


def ipv4_number(number: int) -> int:
    if not 0 <= number < 2**IPV4_BITS:
        raise RowError("not the number of an IPv4 address")
    return MAPPED | number


def bytes_number(raw: bytes) -> int:
    try:
        return int.from_bytes(raw_bytes(raw), "big")
    except ValueError as problem:
        raise RowError("not the bytes of an address") from problem


# Texts


def read_texts(texts: pa.Array, data_type: DataType, zone: tzinfo) -> Evaluated:
    """Read texts as CAST does; the rows failed that it can't read."""
    if data_type == STRING:
        return Evaluated(texts)
    plain = None
    if data_type.name == "TIMESTAMP":
        plain = plain_times(texts, zone)
    elif data_type.name == "ADDRESS":
        plain = plain_addresses(texts)
    return from_text(texts, data_type, zone) if plain is None else Evaluated(plain)


def all_match(texts: pa.Array, pattern: str) -> bool:
    return bool(pc.all(pc.match_substring_regex(texts, pattern), min_count=0).as_py())


def plain_times(texts: pa.Array, zone: tzinfo) -> pa.Array | None:
    """Read times with Arrow if all are of the same usual form."""
    for form, unit in ((r"Z\z", pa.timestamp("us", tz="UTC")), (r"\z", pa.timestamp("us"))):
        if all_match(texts, PLAIN_TIME + form):
            try:
                times = texts.cast(unit)
            except pa.ArrowInvalid:
                return None
            instants = times.cast(pa.int64())
            return (instants if unit.tz else localize(instants, zone)).cast(pa.timestamp("us", tz="UTC"))
    return None


def plain_addresses(texts: pa.Array) -> pa.Array | None:
    """Read addresses all at once, if all are IPv4."""
    offsets, data = string_buffers(pc.fill_null(texts, "") if texts.null_count else texts)
    octets = np.zeros((len(texts), OCTETS), np.uint8)
    empty = np.count_nonzero(offsets[1:] == offsets[:-1])
    if empty > texts.null_count or not read_octets(readable(data), readable(offsets), octets):
        return None
    mapped = np.zeros((len(texts), ADDRESS_BYTES), np.uint8)
    mapped[:, 10:12] = 0xFF
    mapped[:, 12:] = octets
    return build_column(mapped.reshape(-1, ADDRESS_BYTES), pa.binary(ADDRESS_BYTES), texts)


# Rows


def first_failures(columns: Iterable[Column], converted: Mapping[str, Evaluated]) -> list[tuple[int, Column]]:
    """Return each row with a value that could not be read, and the first column in which it is so."""
    failures: dict[int, Column] = {}
    for column in columns:
        mask = converted[column.name].failed if column.name in converted else None
        for row in () if mask is None else np.flatnonzero(mask).tolist():
            failures.setdefault(row, column)
    return sorted(failures.items())


def without(table: pa.Table, rows: list[int]) -> pa.Table:
    if not rows:
        return table
    kept = np.ones(table.num_rows, np.bool_)
    kept[rows] = False
    return table.filter(pa.array(kept))


def rejected_table(rejected: Iterable[tuple[str, str]]) -> pa.Table:
    listed = list(rejected)
    raws, reasons = [raw for raw, _ in listed], [reason for _, reason in listed]
    return pa.table([pa.array(raws, pa.string()), pa.array(reasons, pa.string())], schema=REJECTED)


def unreadable(column: Column) -> str:
    return f"column {column.name} can't be read as {column.type}"


def reason_of(column: Column, arrow: pa.DataType) -> str:
    return OUT_OF_RANGE.format(column.name) if column.type == TIMESTAMP and not is_text(arrow) else unreadable(column)


def show_value(value: pa.Scalar) -> str:
    """Return the value as text; a time beyond what Python knows is a number of its unit."""
    try:
        plain = value.as_py()
    except (ValueError, OverflowError):
        plain = value.value
    return plain.hex() if isinstance(plain, bytes) else str(plain)
