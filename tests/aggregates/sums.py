"""A sum as users would write it, from which most aggregates of the tests differ in one thing, and one of two levels."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from headrace.aggregates.user import UserAggregate

State = dict[str, Any]


class Sum(UserAggregate):
    arguments: ClassVar[Sequence[str]] = ("DOUBLE",)
    returns = "DOUBLE"
    state: ClassVar[Mapping[str, str]] = {"total": "DOUBLE"}
    equality = "close"

    def initialize(self) -> State:
        return {"total": 0.0}

    def update(self, state: State, value: Any) -> State:
        return {"total": state["total"] + value}

    def merge(self, left: State, right: State) -> State:
        return {"total": left["total"] + right["total"]}

    def output(self, state: State) -> Any:
        return state["total"]


class Buffer(Sum):
    """A low level as in [UDAF 4.1], algorithm 1: it keeps values, and says when it is full."""

    name = "buffer"
    state: ClassVar[Mapping[str, str]] = {"values": "ARRAY<DOUBLE>"}

    def initialize(self) -> State:
        return {"values": []}

    def update(self, state: State, value: float) -> State:
        state["values"].append(value)
        return state

    def merge(self, left: State, right: State) -> State:
        return {"values": left["values"] + right["values"]}

    def output(self, state: State) -> float:
        return math.fsum(state["values"])

    def full(self, state: State) -> bool:
        return len(state["values"]) >= 4


class High(Sum):
    """What a buffer goes up to."""

    def raise_(self, low: State) -> State:
        return {"total": math.fsum(low["values"])}
