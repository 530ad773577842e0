"""The contract of a state: how rows fold into partials, how partials combine, and what is lowered from them.

A partial is a few Arrow columns with a row per slot. Both ways into it take slots, so that any number of rows or
partials meets in one. `combine` is associative and commutative; what `lift` makes of no rows is its neutral element.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

import pyarrow as pa

from headrace.expressions.columns import Evaluated
from headrace.kernel.states.columns import Columns, Slots
from headrace.model.expressions import Aggregate


class State(Protocol):
    """The states of one kind of partial. Each call returns one row for each of `count` slots."""

    def columns(self, *arguments: Any, **_none: Any) -> tuple[pa.DataType, ...]:
        """Return the types of its columns, from those of its arguments; count(*) has none."""

    def lift(self, slots: Slots, count: int, *arguments: Any, **_none: Any) -> Columns:
        """Fold rows into slots; NULLs do not count."""

    def combine(self, slots: Slots, count: int, states: Columns) -> Columns:
        """Combine partials into slots."""


Lowering = Callable[..., Evaluated]
"""From an aggregate, and the state of each kind of partial that its specification names, to the results."""


@dataclass(frozen=True, slots=True)
class StateFamily:
    """What one module of states offers: states by kind of partial, and lowerings by aggregate.

    `sized` makes a state of another size than the default, or one that compresses rows first.
    """

    states: Mapping[str, State]
    lowerings: Mapping[str, Lowering] = field(default_factory=dict)
    sized: Mapping[str, Callable[[int, bool], State]] = field(default_factory=dict)


def lower_first_column(_aggregate: Aggregate, state: Columns) -> Evaluated:
    """Return the first column of the state, which is the result."""
    return Evaluated(state[0])


def lower_with_parameters(compute: Callable[..., pa.Array]) -> Lowering:
    """Return a lowering that computes from the state's one column and the aggregate's parameters."""

    def lower(aggregate: Aggregate, state: Columns) -> Evaluated:
        return Evaluated(compute(state[0], *(parameter.value for parameter in aggregate.parameters)))

    return lower
