"""User-defined aggregates: the class that a person writes, and what it declares.

The vocabulary is that of [UDAF 3.2]: initialize, update (ITERATE), output, `full` (FLUSHME), a `low` class for the
sub-aggregate, extractors for several results of one state.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, TypeVar

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from headrace.aggregates.specification import PartialKind
from headrace.aggregates.user_states import Failed, StateForm, batch_values, isolated, loaded_values
from headrace.expressions.columns import RowError
from headrace.expressions.user_calls import of_type
from headrace.model.arrow import arrow_type
from headrace.model.errors import UsageError, nearest
from headrace.model.types import DataType

__all__ = (
    "KIND_PREFIX",
    "DeclaredAggregate",
    "Extractor",
    "Failed",
    "UserAggregate",
    "extractor",
    "isolated",
    "lowered",
    "offers",
    "there",
)
KIND_PREFIX = "user:"
"""What the names of kinds of partials begin with if a user defined them."""
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


# What a class declares


@dataclass(frozen=True, slots=True)
class DeclaredAggregate:
    """A class whose declaration is sound. Equal declarations of one name are one aggregate."""

    name: str
    arguments: tuple[DataType, ...]
    returns: DataType
    form: StateForm
    extractors: tuple[Extractor, ...]
    kind: PartialKind
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
