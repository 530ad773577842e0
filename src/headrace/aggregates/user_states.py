"""States of user-defined aggregates as Arrow structs: columns of declared types, never pickles.

What a user's code raises, or what does not fit its field, is a failure in the place of a state.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields, is_dataclass
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from headrace.model.arrow import ADDRESS_BYTES, address_bytes

FAILURE = "failure"
"""The field of a stored state with the error of the user's code; NULL if there was none."""
MAX_MESSAGE_LENGTH = 200


@dataclass(frozen=True, slots=True)
class Failure:
    """The first error of the user's code, in the place of a state."""

    message: str


def describe_error(step: str, problem: BaseException) -> str:
    """Return one line for an error message. The exception is user code too, and its text may fail."""
    try:
        text = f"{step}: {type(problem).__name__}: {problem}"
    except Exception:  # noqa: BLE001 - __str__ of a user's exception may raise anything
        text = f"{step}: {type(problem).__name__}"
    return text.encode(errors="replace").decode()[:MAX_MESSAGE_LENGTH]


def run_isolated(step: str, work: Callable[..., Any], *arguments: Any) -> Any:
    """Run user code and return its result or a Failure: it may raise anything, and must not stop other queries."""
    try:
        return work(*arguments)
    except Exception as problem:  # noqa: BLE001 - see above
        return Failure(describe_error(step, problem))


@dataclass(frozen=True, slots=True)
class StateForm:
    """The fields of a state in Arrow and in Python. A state comes back from storage in the form that it had."""

    names: tuple[str, ...]
    types: tuple[pa.DataType, ...]
    kind: type = field(compare=False)
    arrays: Mapping[str, np.dtype[Any]] = field(compare=False)

    @property
    def arrow(self) -> pa.StructType:
        return pa.struct([*zip(self.names, self.types, strict=True), (FAILURE, pa.string())])

    def parts(self, state: Any) -> tuple[Any, ...]:
        """Return the values of the fields, in their order."""
        if isinstance(state, tuple):
            parts: tuple[Any, ...] = state
        elif isinstance(state, dict | Mapping):
            parts = tuple(state[name] for name in self.names if name in state)
        elif is_dataclass(state):
            parts = tuple(getattr(state, field.name) for field in fields(state))
        else:
            raise TypeError(f"{type(state).__name__} is not a state: return a dict, a tuple or a dataclass")
        if len(parts) != len(self.names) or (isinstance(state, Mapping) and len(state) != len(parts)):
            raise TypeError(f"a state has the fields {', '.join(self.names)}, and no others")
        return parts

    def build(self, parts: Sequence[Any]) -> Any:
        """Return the state with these values of its fields."""
        values = dict(zip(self.names, parts, strict=True))
        for name, dtype in self.arrays.items():
            values[name] = None if values[name] is None else np.array(values[name], dtype)
        if self.kind is dict:
            return values
        return tuple(values.values()) if self.kind is tuple else self.kind(**values)

    def to_arrow(self, states: Sequence[Any]) -> pa.StructArray:
        """Convert states to a column. None, a state without rows, is NULL; a value that does not fit is a failure."""
        rows = [self.row(state) for state in states]
        failures: list[str | None] = [row.message if isinstance(row, Failure) else None for row in rows]
        columns = []
        for place, (name, arrow) in enumerate(zip(self.names, self.types, strict=True)):
            values = [row[place] if isinstance(row, tuple) else None for row in rows]
            columns.append(encode_values(values, name, arrow, failures))
        failed = np.array([message is not None for message in failures], np.bool_)
        if failed.any():
            columns = [pc.if_else(pa.array(failed), pa.scalar(None, column.type), column) for column in columns]
        names = [*self.names, FAILURE]
        missing = pa.array([row is None for row in rows], pa.bool_())
        return pa.StructArray.from_arrays([*columns, pa.array(failures, pa.string())], names, mask=missing)

    def row(self, state: Any) -> tuple[Any, ...] | Failure | None:
        if state is None or isinstance(state, Failure):
            return state
        parts = run_isolated("state", self.parts, state)
        return parts if isinstance(parts, Failure) else tuple(parts)

    def from_arrow(self, states: pa.StructArray) -> list[Any]:
        """Convert a column to states: the reverse of `to_arrow`."""
        columns = [python_values(states.field(place), arrow) for place, arrow in enumerate(self.types)]
        valid, failures = states.is_valid().to_pylist(), states.field(len(self.names)).to_pylist()
        rows = zip(valid, failures, zip(*columns, strict=True), strict=True)
        return [self.read_row(*row) for row in rows]

    def read_row(self, is_valid: bool, message: str | None, parts: Sequence[Any]) -> Any:
        if not is_valid:
            return None
        return run_isolated("state", self.build, parts) if message is None else Failure(message)


# Conversion between Python's values and Arrow's


def encode_values(values: list[Any], name: str, arrow: pa.DataType, failures: list[str | None]) -> pa.Array:
    """Convert all at once where that works, else one by one, so that a value fails whatever its neighbours are."""
    try:
        return arrow_values(values, arrow)
    except Exception:  # noqa: BLE001 - values are a user's objects: converting them may raise anything
        pass
    for row, value in enumerate(values):
        try:
            arrow_values([value], arrow)
        except Exception as problem:  # noqa: BLE001 - as above
            failures[row] = failures[row] or describe_error(f"the field {name} of the state", problem)
            values[row] = None
    return arrow_values(values, arrow)


def arrow_values(values: list[Any], arrow: pa.DataType) -> pa.Array:
    encode = encoder(arrow)
    if encode is not None:
        values = [None if value is None else encode(value) for value in values]
    plain = plain_type(arrow)
    return pa.array(values, plain) if plain == arrow else pa.array(values, plain).cast(arrow)


def encoder(arrow: pa.DataType) -> Callable[[Any], Any] | None:
    """Return a conversion that is stricter than Arrow's, which cuts 1.5 to 1 and takes a set in any order."""
    if pa.types.is_list(arrow):
        return partial(encode_list, arrow.value_type)
    if pa.types.is_floating(arrow):
        return lambda value: float(value) if type(value) is int else value
    if holds_addresses(arrow):
        return lambda value: address_bytes(operator.index(value))
    return operator.index if pa.types.is_integer(plain_type(arrow)) else None


def encode_list(arrow: pa.DataType, value: Any) -> Any:
    if (
        isinstance(value, np.ndarray)
        and value.dtype.kind in "if"
        and value.dtype == plain_type(arrow).to_pandas_dtype()
    ):
        return value
    if not isinstance(value, list | tuple | np.ndarray):
        raise TypeError(f"{type(value).__name__} is not a list")
    encode = encoder(arrow)
    return list(value) if encode is None else [None if item is None else encode(item) for item in value]


def plain_type(arrow: pa.DataType) -> pa.DataType:
    """Return the type that users see: times are numbers."""
    if pa.types.is_list(arrow):
        return pa.list_(plain_type(arrow.value_type))
    return pa.int64() if pa.types.is_timestamp(arrow) else arrow


def python_values(column: pa.Array, arrow: pa.DataType, *, nullable: bool = True) -> list[Any]:
    values: list[Any] = column.cast(plain_type(arrow)).to_pylist()
    return [decode_addresses(value) for value in values] if holds_addresses(arrow) else values


def numpy_values(column: pa.Array, arrow: pa.DataType, *, nullable: bool) -> NDArray[Any]:
    """Return a read-only array: of numbers, times and booleans as they are, of objects for others and for NULLs."""
    plain = plain_type(arrow)
    if not nullable and (pa.types.is_primitive(plain) or pa.types.is_boolean(plain)):
        values: NDArray[Any] = column.cast(plain).to_numpy(zero_copy_only=False)
    else:
        values = np.empty(len(column), object)
        values[:] = python_values(column, arrow)
    values.flags.writeable = False
    return values


def holds_addresses(arrow: pa.DataType) -> bool:
    if pa.types.is_list(arrow):
        return holds_addresses(arrow.value_type)
    return bool(arrow == pa.binary(ADDRESS_BYTES))


def decode_addresses(value: Any) -> Any:
    if isinstance(value, list):
        return [decode_addresses(item) for item in value]
    return None if value is None else int.from_bytes(value, "big")
