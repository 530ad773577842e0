"""User-defined aggregates: the class that a user writes, and its declaration.

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
from headrace.aggregates.user_states import Failure, StateForm, numpy_values, python_values, run_isolated
from headrace.expressions.columns import RowError
from headrace.expressions.user_calls import of_type
from headrace.model.arrow import arrow_type
from headrace.model.errors import UsageError, nearest
from headrace.model.types import DataType

__all__ = (
    "KIND_PREFIX",
    "DeclaredAggregate",
    "Extractor",
    "Failure",
    "UserAggregate",
    "extractor",
    "has_method",
    "lower_state",
    "require_state",
    "run_isolated",
)
KIND_PREFIX = "user:"
"""What the names of kinds of partials begin with if a user defined them."""
Method = TypeVar("Method", bound=Callable[..., Any])


class UserAggregate:
    """The base class of an aggregate: a few attributes, and initialize, update or update_batch, merge and output.

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
    """Rows that `update_batch` is given before `full` is asked again."""
    examples: ClassVar[Sequence[Sequence[Any]]] = ()
    """Rows of arguments that the law suite tries besides random ones."""

    def initialize(self) -> Any:
        raise NotImplementedError

    def update(self, state: Any, *values: Any) -> Any:
        raise NotImplementedError

    def update_batch(self, state: Any, *columns: Any) -> Any:
        """Fold all rows of a group at once: a read-only NumPy array for each argument."""
        raise NotImplementedError

    def merge(self, left: Any, right: Any) -> Any:
        raise NotImplementedError

    def output(self, state: Any) -> Any:
        raise NotImplementedError

    def full(self, state: Any) -> bool:
        """Return, at the low level, whether to hand the state up and begin with a new one."""
        return False

    def raise_(self, low: Any) -> Any:
        """Convert a state of the low level to one of this level."""
        return low

    def exact(self, *columns: Any) -> Any:
        """Return the true result, from a list for each argument: an oracle for the law suite."""
        raise NotImplementedError

    def distance(self, result: Any, *columns: Any) -> float:
        """Return how far a result is from the truth, to compare with `error`. Default: relative to the truth."""
        truth = self.exact(*columns)
        if result is None or truth is None or result == truth:
            return 0.0 if result == truth else np.inf
        return float(abs(result - truth) / abs(truth)) if truth else np.inf


@dataclass(frozen=True, slots=True)
class Extractor:
    """One of several results of a state. In SQL it is called with the aggregate's arguments, then its parameters."""

    name: str
    parameters: tuple[DataType, ...]
    returns: DataType
    method: str = field(compare=False)


def extractor(returns: str, *parameters: str, name: str | None = None) -> Callable[[Method], Method]:
    """Mark a method `(state, *parameters) -> value` as a result that queries may call."""

    def mark(method: Method) -> Method:
        method.extracts = (name, returns, parameters)  # type: ignore[attr-defined]
        return method

    return mark


# The declaration of a class


@dataclass(frozen=True, slots=True)
class DeclaredAggregate:
    """A class whose declaration was checked. Equal declarations of one name are one aggregate."""

    name: str
    arguments: tuple[DataType, ...]
    returns: DataType
    form: StateForm
    extractors: tuple[Extractor, ...]
    kind: PartialKind
    implementation: UserAggregate = field(compare=False)
    low: DeclaredAggregate | None = None

    def has_method(self, method: str) -> bool:
        return has_method(self.implementation, method)

    @property
    def only_raises(self) -> bool:
        """Whether all rows come through the low level."""
        return self.low is not None and not (self.has_method("update") or self.has_method("update_batch"))

    @property
    def first_level(self) -> DeclaredAggregate:
        """The level that folds rows."""
        return self.low or self

    def columns(self, arrays: Sequence[pa.Array]) -> list[Sequence[Any] | NDArray[Any]]:
        """Return the arguments as the class takes them: lists of Python values, or NumPy arrays."""
        level = self.first_level
        make = numpy_values if level.has_method("update_batch") else python_values
        return [
            make(array, arrow_type(data_type), nullable=level.implementation.takes_null)
            for array, data_type in zip(arrays, self.arguments, strict=True)
        ]

    def fold_rows(self, columns: Sequence[Sequence[Any] | NDArray[Any]]) -> Any:
        """Return the state of one group's rows. A full state of the low level goes up, and a new one begins."""
        low = self.first_level
        rows = len(columns[0])
        step = rows
        if low.has_method("full"):
            step = low.implementation.full_every if low.has_method("update_batch") else 1
        total = None
        state = low.implementation.initialize()
        for begin in range(0, rows, max(step, 1)):
            state = low.update_state(state, [column[begin : begin + step] for column in columns])
            if begin + step < rows and low.implementation.full(state):
                total, state = self.raise_state(total, state), low.implementation.initialize()
        return self.raise_state(total, state)

    def update_state(self, state: Any, columns: Sequence[Sequence[Any] | NDArray[Any]]) -> Any:
        if self.has_method("update_batch"):
            return require_state(self.implementation.update_batch(state, *columns))
        for row in zip(*columns, strict=True):
            state = self.implementation.update(state, *row)
        return require_state(state)

    def raise_state(self, total: Any, low: Any) -> Any:
        state = low if self.low is None else require_state(self.implementation.raise_(low))
        return state if total is None else require_state(self.implementation.merge(total, state))

    def result(self, name: str | None) -> Extractor:
        """Return the extractor of this name; None stands for the output."""
        if name is None:
            return Extractor(self.name, (), self.returns, "output")
        extractors = {extractor.name.lower(): extractor for extractor in self.extractors}
        if name.lower() not in extractors:
            hint = nearest(name, [extractor.name for extractor in self.extractors])
            raise UsageError("udaf", f"{self.name} has no extractor '{name}'", hint=hint)
        return extractors[name.lower()]


def has_method(aggregate: UserAggregate, method: str) -> bool:
    """Return whether the class overrides the method."""
    return getattr(type(aggregate), method) is not getattr(UserAggregate, method)


def lower_state(aggregate: DeclaredAggregate, result: Extractor, state: Any, parameters: Sequence[Any] = ()) -> Any:
    """Return one result as a value of its declared type. NumPy's numbers are as good as Python's."""
    value = getattr(aggregate.implementation, result.method)(state, *parameters)
    value = value.item() if isinstance(value, np.generic) else value
    try:
        return None if value is None else of_type(value, result.returns)
    except RowError:
        raise TypeError(f"{value!r} does not fit {result.returns}") from None


def require_state(state: Any) -> Any:
    """Refuse None, which is what a method without a `return` gives."""
    if state is None:
        raise TypeError("None is not a state: return it")
    return state
