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
"""The field of a stored state that tells what went wrong in the user's code; NULL if nothing did."""
MAX_MESSAGE = 200


@dataclass(frozen=True, slots=True)
class Failed:
    """In the place of a state: what the user's code raised first."""

    message: str


def described(step: str, problem: BaseException) -> str:
    """A line for people. The exception is a stranger's too, and may fail to tell what it is."""
    try:
        text = f"{step}: {type(problem).__name__}: {problem}"
    except Exception:  # noqa: BLE001 - __str__ of a user's exception may raise anything
        text = f"{step}: {type(problem).__name__}"
    return text.encode(errors="replace").decode()[:MAX_MESSAGE]


def isolated(step: str, work: Callable[..., Any], *arguments: Any) -> Any:
    """What the user's code gives, or that it failed: it may raise anything, and must not stop the other queries."""
    try:
        return work(*arguments)
    except Exception as problem:  # noqa: BLE001 - see above
        return Failed(described(step, problem))


@dataclass(frozen=True, slots=True)
class StateForm:
    """The fields of a state as Arrow has them and as Python has them: what comes back is of the form that went in."""

    names: tuple[str, ...]
    types: tuple[pa.DataType, ...]
    kind: type = field(compare=False)
    arrays: Mapping[str, np.dtype[Any]] = field(compare=False)

    @property
    def arrow(self) -> pa.StructType:
        return pa.struct([*zip(self.names, self.types, strict=True), (FAILURE, pa.string())])

    def parts(self, state: Any) -> tuple[Any, ...]:
        """The values of the fields, in their order."""
        if isinstance(state, tuple):
            found: tuple[Any, ...] = state
        elif isinstance(state, dict | Mapping):
            found = tuple(state[name] for name in self.names if name in state)
        elif is_dataclass(state):
            found = tuple(getattr(state, each.name) for each in fields(state))
        else:
            raise TypeError(f"{type(state).__name__} is not a state: return a dict, a tuple or a dataclass")
        if len(found) != len(self.names) or (isinstance(state, Mapping) and len(state) != len(found)):
            raise TypeError(f"a state has the fields {', '.join(self.names)}, and no others")
        return found

    def made(self, parts: Sequence[Any]) -> Any:
        values = dict(zip(self.names, parts, strict=True))
        for name, dtype in self.arrays.items():
            values[name] = None if values[name] is None else np.array(values[name], dtype)
        if self.kind is dict:
            return values
        return tuple(values.values()) if self.kind is tuple else self.kind(**values)

    def stored(self, states: Sequence[Any]) -> pa.StructArray:
        """States as a column. None is a state without rows: NULL. What does not fit its field becomes a failure."""
        rows = [self.row(state) for state in states]
        failures: list[str | None] = [row.message if isinstance(row, Failed) else None for row in rows]
        columns = []
        for place, (name, arrow) in enumerate(zip(self.names, self.types, strict=True)):
            values = [row[place] if isinstance(row, tuple) else None for row in rows]
            columns.append(stored_values(values, name, arrow, failures))
        failed = np.array([message is not None for message in failures], np.bool_)
        if failed.any():
            columns = [pc.if_else(pa.array(failed), pa.scalar(None, one.type), one) for one in columns]
        names = [*self.names, FAILURE]
        missing = pa.array([row is None for row in rows], pa.bool_())
        return pa.StructArray.from_arrays([*columns, pa.array(failures, pa.string())], names, mask=missing)

    def row(self, state: Any) -> tuple[Any, ...] | Failed | None:
        if state is None or isinstance(state, Failed):
            return state
        found = isolated("state", self.parts, state)
        return found if isinstance(found, Failed) else tuple(found)

    def loaded(self, states: pa.StructArray) -> list[Any]:
        """The reverse of `stored`."""
        columns = [loaded_values(states.field(place), arrow) for place, arrow in enumerate(self.types)]
        valid, failures = states.is_valid().to_pylist(), states.field(len(self.names)).to_pylist()
        return [
            None if not is_there else Failed(message) if message is not None else isolated("state", self.made, parts)
            for is_there, message, parts in zip(valid, failures, zip(*columns, strict=True), strict=True)
        ]


# Between Python's values and Arrow's


def stored_values(values: list[Any], name: str, arrow: pa.DataType, failures: list[str | None]) -> pa.Array:
    """All at once where that works; else one by one, so that the same values fail whoever their neighbours are."""
    try:
        return arrow_values(values, arrow)
    except Exception:  # noqa: BLE001 - values are a user's objects: converting them may raise anything
        pass
    for row, value in enumerate(values):
        try:
            arrow_values([value], arrow)
        except Exception as problem:  # noqa: BLE001 - as above
            failures[row] = failures[row] or described(f"the field {name} of the state", problem)
            values[row] = None
    return arrow_values(values, arrow)


def arrow_values(values: list[Any], arrow: pa.DataType) -> pa.Array:
    encode = encoder(arrow)
    if encode is not None:
        values = [None if value is None else encode(value) for value in values]
    plain = plain_type(arrow)
    return pa.array(values, plain) if plain == arrow else pa.array(values, plain).cast(arrow)


def encoder(arrow: pa.DataType) -> Callable[[Any], Any] | None:
    """Arrow alone would cut 1.5 to a whole number, and take a set in whatever order it has today."""
    if pa.types.is_list(arrow):
        return partial(encoded_list, arrow.value_type)
    if pa.types.is_floating(arrow):
        return lambda value: float(value) if type(value) is int else value
    if holds_addresses(arrow):
        return lambda value: address_bytes(operator.index(value))
    return operator.index if pa.types.is_integer(plain_type(arrow)) else None


def encoded_list(arrow: pa.DataType, value: Any) -> Any:
    if (
        isinstance(value, np.ndarray)
        and value.dtype.kind in "if"
        and value.dtype == plain_type(arrow).to_pandas_dtype()
    ):
        return value
    if not isinstance(value, list | tuple | np.ndarray):
        raise TypeError(f"{type(value).__name__} is not a list")
    encode = encoder(arrow)
    return list(value) if encode is None else [None if one is None else encode(one) for one in value]


def plain_type(arrow: pa.DataType) -> pa.DataType:
    """Times are numbers to users."""
    if pa.types.is_list(arrow):
        return pa.list_(plain_type(arrow.value_type))
    return pa.int64() if pa.types.is_timestamp(arrow) else arrow


def loaded_values(column: pa.Array, arrow: pa.DataType, *, nullable: bool = True) -> list[Any]:
    values: list[Any] = column.cast(plain_type(arrow)).to_pylist()
    return [decoded(value) for value in values] if holds_addresses(arrow) else values


def batch_values(column: pa.Array, arrow: pa.DataType, *, nullable: bool) -> NDArray[Any]:
    """Numbers, times and truth values as they are; other values, and all where NULLs are among them, as objects."""
    plain = plain_type(arrow)
    if not nullable and (pa.types.is_primitive(plain) or pa.types.is_boolean(plain)):
        values: NDArray[Any] = column.cast(plain).to_numpy(zero_copy_only=False)
    else:
        values = np.empty(len(column), object)
        values[:] = loaded_values(column, arrow)
    values.flags.writeable = False
    return values


def holds_addresses(arrow: pa.DataType) -> bool:
    if pa.types.is_list(arrow):
        return holds_addresses(arrow.value_type)
    return bool(arrow == pa.binary(ADDRESS_BYTES))


def decoded(value: Any) -> Any:
    if isinstance(value, list):
        return [decoded(one) for one in value]
    return None if value is None else int.from_bytes(value, "big")
