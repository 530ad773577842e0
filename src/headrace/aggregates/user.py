"""User-defined aggregates: the class that a person writes, what it declares, and its states as Arrow structs.

The vocabulary is that of [UDAF 3.2]: initialize, update (ITERATE), output, `full` (FLUSHME), a `low` class for the
sub-aggregate, extractors for several results of one state. States are columns of declared types, never pickles.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields, is_dataclass
from functools import partial
from typing import Any, ClassVar, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from headrace.aggregates.partials import Traits
from headrace.expressions.columns import RowError
from headrace.expressions.user_calls import of_type
from headrace.model.arrow import ADDRESS_BYTES, address_bytes, arrow_type
from headrace.model.errors import UsageError, nearest
from headrace.model.types import DataType

FAILURE = "failure"
"""The field of a stored state that tells what went wrong in the user's code; NULL if nothing did."""
MAX_MESSAGE = 200
Method = TypeVar("Method", bound=Callable[..., Any])


class UserAggregate:
    """What a person writes: a few attributes, and initialize, update (or update_batch, or both), merge and output.

    A state is a dict, a tuple or a dataclass with the fields of `state`. `update` may change the state it is given;
    `merge` and `output` may not. Times are microseconds and addresses are numbers, as in user functions.
    """

    name: ClassVar[str] = ""
    arguments: ClassVar[Sequence[str]] = ()
    returns: ClassVar[str] = ""
    state: ClassVar[Mapping[str, str]] = {}
    equality: ClassVar[str] = "exact"
    error: ClassVar[float] = 0.0
    takes_null: ClassVar[bool] = False
    takes_nan: ClassVar[bool] = False
    fold_cost: ClassVar[float | None] = None
    combine_cost: ClassVar[float | None] = None
    low: ClassVar[type[UserAggregate] | None] = None
    full_every: ClassVar[int] = 128
    """Rows that `update_batch` is given between two questions whether the state is full."""
    examples: ClassVar[Sequence[Sequence[Any]]] = ()
    """Rows of arguments that the law suite tries besides its own."""

    def initialize(self) -> Any:
        raise NotImplementedError

    def update(self, state: Any, *values: Any) -> Any:
        raise NotImplementedError

    def update_batch(self, state: Any, *columns: Any) -> Any:
        """All rows of a group at once: a NumPy array for each argument, which can't be written to."""
        raise NotImplementedError

    def merge(self, left: Any, right: Any) -> Any:
        raise NotImplementedError

    def output(self, state: Any) -> Any:
        raise NotImplementedError

    def full(self, state: Any) -> bool:
        """At the low level: whether to hand the state up and begin anew."""
        return False

    def raise_(self, low: Any) -> Any:
        """A state of the low level as one of this level."""
        return low

    def exact(self, *columns: Any) -> Any:
        """The true result, from a list for each argument: an oracle for the law suite."""
        raise NotImplementedError

    def distance(self, result: Any, *columns: Any) -> float:
        """How far a result is from the truth, to be compared with `error`; a part of the truth unless told."""
        truth = self.exact(*columns)
        if result is None or truth is None or result == truth:
            return 0.0 if result == truth else np.inf
        return float(abs(result - truth) / abs(truth)) if truth else np.inf


@dataclass(frozen=True, slots=True)
class Extractor:
    """One of several results of a state; in SQL it is called with the aggregate's arguments, then its parameters."""

    name: str
    parameters: tuple[DataType, ...]
    returns: DataType
    method: str = field(compare=False)


def extractor(returns: str, *parameters: str, name: str | None = None) -> Callable[[Method], Method]:
    """Makes a method `(state, *parameters) -> value` a result of its own."""

    def mark(method: Method) -> Method:
        method.extracts = (name, returns, parameters)  # type: ignore[attr-defined]
        return method

    return mark


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


# What a class declares


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


@dataclass(frozen=True, slots=True)
class DeclaredAggregate:
    """A class whose declaration is sound. Equal declarations of one name are one aggregate."""

    name: str
    arguments: tuple[DataType, ...]
    returns: DataType
    form: StateForm
    extractors: tuple[Extractor, ...]
    traits: Traits
    implementation: UserAggregate = field(compare=False)
    low: DeclaredAggregate | None = None

    def offers(self, method: str) -> bool:
        return offers(self.implementation, method)

    @property
    def only_raises(self) -> bool:
        """All rows come through the low level."""
        return self.low is not None and not (self.offers("update") or self.offers("update_batch"))

    @property
    def first_level(self) -> DeclaredAggregate:
        """What rows are folded by."""
        return self.low or self

    def columns(self, arrays: Sequence[pa.Array]) -> list[Sequence[Any] | NDArray[Any]]:
        """Arguments as the class takes them: Python's values row by row, or NumPy arrays."""
        level = self.first_level
        make = batch_values if level.offers("update_batch") else loaded_values
        known = zip(arrays, self.arguments, strict=True)
        return [make(array, arrow_type(each), nullable=level.implementation.takes_null) for array, each in known]

    def folded(self, columns: Sequence[Sequence[Any] | NDArray[Any]]) -> Any:
        """The state of one group's rows. A state of the low level that is full goes up, and a new one begins."""
        low = self.first_level
        rows = len(columns[0])
        step = rows
        if low.offers("full"):
            step = low.implementation.full_every if low.offers("update_batch") else 1
        total = None
        state = low.implementation.initialize()
        for begin in range(0, rows, max(step, 1)):
            state = low.updated(state, [column[begin : begin + step] for column in columns])
            if begin + step < rows and low.implementation.full(state):
                total, state = self.raised(total, state), low.implementation.initialize()
        return self.raised(total, state)

    def updated(self, state: Any, columns: Sequence[Sequence[Any] | NDArray[Any]]) -> Any:
        if self.offers("update_batch"):
            return there(self.implementation.update_batch(state, *columns))
        for row in zip(*columns, strict=True):
            state = self.implementation.update(state, *row)
        return there(state)

    def raised(self, total: Any, low: Any) -> Any:
        state = low if self.low is None else there(self.implementation.raise_(low))
        return state if total is None else there(self.implementation.merge(total, state))

    def result(self, name: str | None) -> Extractor:
        """An extractor by its name; without one, the output."""
        if name is None:
            return Extractor(self.name, (), self.returns, "output")
        found = next((each for each in self.extractors if each.name.lower() == name.lower()), None)
        if found is None:
            hint = nearest(name, [each.name for each in self.extractors])
            raise UsageError("udaf", f"{self.name} has no extractor '{name}'", hint=hint)
        return found


def offers(aggregate: UserAggregate, method: str) -> bool:
    return getattr(type(aggregate), method) is not getattr(UserAggregate, method)


def lowered(aggregate: DeclaredAggregate, result: Extractor, state: Any, parameters: Sequence[Any] = ()) -> Any:
    """One result, as a value of its declared type. NumPy's numbers are as good as Python's."""
    value = getattr(aggregate.implementation, result.method)(state, *parameters)
    value = value.item() if isinstance(value, np.generic) else value
    try:
        return None if value is None else of_type(value, result.returns)
    except RowError:
        raise TypeError(f"{value!r} does not fit {result.returns}") from None


def there(state: Any) -> Any:
    """None is what a method without a `return` gives."""
    if state is None:
        raise TypeError("None is not a state: return it")
    return state


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
