"""What a file has, made into what is declared: names, types and values; what does not fit is refused with a reason.

Whether a column fits is decided by its type, before a row is read: the cast must lose nothing, whatever the values.
Only times as texts and addresses as texts, bytes or numbers are read value by value.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from datetime import tzinfo

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headrace.expressions.columns import Evaluated, Mask, RowError, built, by_distinct
from headrace.expressions.kernels_casts import from_text
from headrace.kernel.address_loops import OCTETS, read_octets
from headrace.kernel.states_columns import readable
from headrace.kernel.strings import buffers
from headrace.model.address import IPV4_BITS, MAPPED
from headrace.model.arrow import ADDRESS_BYTES, arrow_type, convert, is_bytes, is_text, localized, raw_bytes
from headrace.model.errors import DataError
from headrace.model.schema import Column
from headrace.model.types import STRING, DataType
from headrace.spark.inputs.listing import folder_values
from headrace.spark.inputs.units import REJECTED, BadFile, Declaration, Source

PLAIN_TIME = r"\A[12][0-9]{3}-[0-9]{2}-[0-9]{2}[ T][0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]{1,6})?"
INTEGER_DIGITS = {8: 3, 16: 5, 32: 10, 64: 20}
SAFE_INTEGER_BITS, SAFE_BIGINT_DIGITS = 32, 18


# Names


def asked_columns(declaration: Declaration, names: Collection[str]) -> list[Column]:
    """In declared order."""
    asked = {name.lower() for name in names}
    return [column for column in declaration.columns if column.name.lower() in asked]


def matched(path: str, names: Sequence[str], columns: Iterable[Column]) -> dict[str, int]:
    """The positions of declared columns among the names of a file: the same spelling first, then in any case."""
    found = {}
    for column in columns:
        exact = [position for position, name in enumerate(names) if name == column.name]
        alike = exact or [position for position, name in enumerate(names) if name.lower() == column.name.lower()]
        if len(alike) > 1:
            raise BadFile(path, f"has {len(alike)} columns '{column.name}'")
        if alike:
            found[column.name] = alike[0]
    return found


@dataclass(frozen=True, eq=False)
class Folders:
    """The values that the folders of a file give to declared columns which the file lacks."""

    values: dict[str, pa.Scalar]

    @classmethod
    def of(
        cls, source: Source, path: str, declaration: Declaration, held: Collection[str], found: str | None = None
    ) -> Folders:
        """`found` tells what there is instead of the event time."""
        texts = folder_values(source, path)
        lacking = [each for each in declaration.columns if each.name not in held]
        if declaration.event_time in {each.name for each in lacking if each.name.lower() not in texts}:
            raise BadFile(path, f"has no column '{declaration.event_time}', the event time", found)
        present = [each for each in lacking if each.name.lower() in texts]
        return cls(
            {each.name: folder_value(path, texts[each.name.lower()], each, declaration.zone) for each in present}
        )

    def column(self, column: Column, length: int) -> pa.Array:
        value = self.values.get(column.name)
        return pa.nulls(length, arrow_type(column.type)) if value is None else pa.repeat(value, length)

    def fill(self, column: Column, array: pa.Array) -> pa.Array:
        value = self.values.get(column.name)
        return array if value is None or not array.null_count else pc.coalesce(array, value)


def folder_value(path: str, text: str | None, column: Column, zone: tzinfo) -> pa.Scalar:
    found = read_texts(pa.array([text], pa.string()), column.type, zone)
    if found.failed is not None:
        raise BadFile(path, f"the value of its folder '{column.name}={text}' can't be read as {column.type}")
    return found.values[0]


# Types


def is_lossless(found: pa.DataType, wanted: DataType) -> bool:
    """Whether every value of the type has its like in the wanted one, or is read value by value."""
    if pa.types.is_dictionary(found):
        found = found.value_type
    return bool(pa.types.is_null(found) or LOSSLESS[wanted.name](found, wanted) or is_read_by_value(found, wanted))


def is_read_by_value(found: pa.DataType, wanted: DataType) -> bool:
    return wanted.name in BY_VALUE and BY_VALUE[wanted.name](found) and found != arrow_type(wanted)


def to_bigint(found: pa.DataType, _wanted: DataType) -> bool:
    if pa.types.is_decimal(found):
        return bool(found.scale == 0 and found.precision <= SAFE_BIGINT_DIGITS)
    return bool(pa.types.is_integer(found) and found != pa.uint64())


def to_double(found: pa.DataType, _wanted: DataType) -> bool:
    if pa.types.is_integer(found):
        return bool(found.bit_width <= SAFE_INTEGER_BITS)
    return bool(pa.types.is_floating(found))


def to_decimal(found: pa.DataType, wanted: DataType) -> bool:
    whole_digits = wanted.precision - wanted.scale
    if pa.types.is_decimal(found):
        return bool(found.scale <= wanted.scale and found.precision - found.scale <= whole_digits)
    if found == pa.int64():
        return whole_digits >= INTEGER_DIGITS[64] - 1
    return bool(pa.types.is_integer(found)) and INTEGER_DIGITS[found.bit_width] <= whole_digits


def to_timestamp(found: pa.DataType, _wanted: DataType) -> bool:
    return bool(pa.types.is_timestamp(found) or pa.types.is_date(found))


def is_address_like(found: pa.DataType) -> bool:
    is_raw = is_bytes(found) or pa.types.is_fixed_size_binary(found)
    return bool(is_text(found) or is_raw or pa.types.is_integer(found))


LOSSLESS: dict[str, Callable[[pa.DataType, DataType], bool]] = {
    "BOOLEAN": lambda found, wanted: bool(pa.types.is_boolean(found)),
    "BIGINT": to_bigint,
    "DOUBLE": to_double,
    "DECIMAL": to_decimal,
    "STRING": lambda found, wanted: is_text(found),
    "TIMESTAMP": to_timestamp,
    "ADDRESS": lambda found, wanted: bool(found == arrow_type(wanted)),
    "BINARY": lambda found, wanted: is_bytes(found),
}
BY_VALUE: dict[str, Callable[[pa.DataType], bool]] = {"TIMESTAMP": is_text, "ADDRESS": is_address_like}


# Values


def read_values(array: pa.Array, column: Column, zone: tzinfo, path: str) -> Evaluated:
    """A column of a file whose type fits; the rows failed whose value does not."""
    if pa.types.is_dictionary(array.type):
        array = array.dictionary_decode()
    if not is_read_by_value(array.type, column.type):
        try:
            return Evaluated(convert(pa.chunked_array([array]), column, zone))
        except DataError as problem:
            raise BadFile(path, problem.message, problem.detail) from None
    if is_text(array.type):
        return read_texts(array.cast(pa.string()), column.type, zone)
    read = ipv4_number if pa.types.is_integer(array.type) else bytes_number
    return by_distinct(read, array, STRING, column.type)


def ipv4_number(number: int) -> int:
    if not 0 <= number < 2**IPV4_BITS:
        raise RowError("not the number of an IPv4 address")
    return MAPPED | number


def bytes_number(raw: bytes) -> int:
    try:
        return int.from_bytes(raw_bytes(raw), "big")
    except ValueError as problem:
        raise RowError("not the bytes of an address") from problem


def read_texts(texts: pa.Array, data_type: DataType, zone: tzinfo) -> Evaluated:
    """As CAST reads them; rows failed that it can't read."""
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
    """Arrow reads times of the usual forms, if all are of the same one."""
    for form, unit in ((r"Z\z", pa.timestamp("us", tz="UTC")), (r"\z", pa.timestamp("us"))):
        if all_match(texts, PLAIN_TIME + form):
            try:
                times = texts.cast(unit)
            except pa.ArrowInvalid:
                return None
            instants = times.cast(pa.int64())
            return (instants if unit.tz else localized(instants, zone)).cast(pa.timestamp("us", tz="UTC"))
    return None


def plain_addresses(texts: pa.Array) -> pa.Array | None:
    """All at once, if all are IPv4."""
    offsets, data = buffers(pc.fill_null(texts, "") if texts.null_count else texts)
    octets = np.zeros((len(texts), OCTETS), np.uint8)
    empty = np.count_nonzero(offsets[1:] == offsets[:-1])
    if empty > texts.null_count or not read_octets(readable(data), readable(offsets), octets):
        return None
    mapped = np.zeros((len(texts), ADDRESS_BYTES), np.uint8)
    mapped[:, 10:12] = 0xFF
    mapped[:, 12:] = octets
    return built(mapped.reshape(-1, ADDRESS_BYTES), pa.binary(ADDRESS_BYTES), texts)


# Rows


def first_failures(columns: Iterable[Column], found: dict[str, Evaluated], length: int) -> list[tuple[int, Column]]:
    """Each row with a value that could not be read, and the first column in which it is so."""
    failed: list[tuple[int, Column]] = []
    seen: Mask = np.zeros(length, np.bool_)
    for column in columns:
        mask = found[column.name].failed if column.name in found else None
        if mask is not None:
            failed += [(int(row), column) for row in np.flatnonzero(mask & ~seen)]
            seen |= mask
    return sorted(failed, key=lambda each: each[0])


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
