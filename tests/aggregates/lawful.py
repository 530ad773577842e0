"""Aggregates that keep all laws, of every kind that users may write."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, ClassVar, NamedTuple

import numpy as np

from headrace.aggregates.user import UserAggregate, extractor
from tests.aggregates.sums import Buffer, High, State, Sum


class WholeSum(Sum):
    arguments = ("BIGINT",)
    returns = "BIGINT"
    state: ClassVar[dict[str, str]] = {"total": "BIGINT"}
    equality = "exact"

    def initialize(self) -> State:
        return {"total": 0}

    def exact(self, values: list[int]) -> int:
        return sum(values)


class DecimalSum(WholeSum):
    arguments = ("DECIMAL(9, 2)",)
    returns = "DECIMAL(20, 2)"
    state: ClassVar[dict[str, str]] = {"total": "DECIMAL(20, 2)"}

    def initialize(self) -> State:
        return {"total": Decimal(0)}


class SumInPlace(Sum):
    def update(self, state: State, value: float) -> State:
        state["total"] += value
        return state

    def update_batch(self, state: State, values: np.ndarray[Any, Any]) -> State:
        return {"total": state["total"] + values.sum()}


class Mean(NamedTuple):
    total: float
    rows: int


class MeanOfRows(UserAggregate):
    arguments: ClassVar[Sequence[str]] = ("DOUBLE",)
    returns = "DOUBLE"
    state: ClassVar[dict[str, str]] = {"total": "DOUBLE", "rows": "BIGINT"}
    equality = "close"

    def initialize(self) -> Mean:
        return Mean(0.0, 0)

    def update(self, state: Mean, value: float) -> Mean:
        return Mean(state.total + value, state.rows + 1)

    def merge(self, left: Mean, right: Mean) -> Mean:
        return Mean(left.total + right.total, left.rows + right.rows)

    def output(self, state: Mean) -> float | None:
        return state.total / state.rows if state.rows else None

    def exact(self, values: list[float]) -> float:
        return math.fsum(values) / len(values)


class GeometricMean(MeanOfRows):
    """It takes positive numbers only, so the laws are tried with those."""

    def update(self, state: Mean, value: float) -> Mean:
        return Mean(state.total + math.log(value), state.rows + 1)

    def output(self, state: Mean) -> float | None:
        return math.exp(state.total / state.rows) if state.rows else None

    def exact(self, values: list[float]) -> float:
        return float(np.exp(np.log(values).mean()))


@dataclass
class Ends:
    least: float | None = None
    greatest: float | None = None


class Range(UserAggregate):
    arguments = ("DOUBLE",)
    returns = "DOUBLE"
    state: ClassVar[dict[str, str]] = {"least": "DOUBLE", "greatest": "DOUBLE"}

    def initialize(self) -> Ends:
        return Ends()

    def update(self, state: Ends, value: float) -> Ends:
        return self.merge(state, Ends(value, value))

    def merge(self, left: Ends, right: Ends) -> Ends:
        if left.least is None or right.least is None:
            return right if left.least is None else left
        assert left.greatest is not None
        assert right.greatest is not None
        return Ends(min(left.least, right.least), max(left.greatest, right.greatest))

    def output(self, state: Ends) -> float | None:
        return None if state.least is None or state.greatest is None else state.greatest - state.least

    @extractor("DOUBLE")
    def greatest_of(self, state: Ends) -> float | None:
        return state.greatest


class ThirdGreatest(UserAggregate):
    arguments = ("BIGINT",)
    returns = "BIGINT"
    state: ClassVar[dict[str, str]] = {"best": "ARRAY<BIGINT>"}

    def initialize(self) -> State:
        return {"best": []}

    def update(self, state: State, value: int) -> State:
        return {"best": sorted([*state["best"], value], reverse=True)[:3]}

    def merge(self, left: State, right: State) -> State:
        return {"best": sorted(left["best"] + right["best"], reverse=True)[:3]}

    def output(self, state: State) -> int | None:
        return state["best"][2] if len(state["best"]) == 3 else None

    @extractor("BIGINT", "BIGINT")
    def greatest(self, state: State, place: int) -> int | None:
        return state["best"][place - 1] if place <= len(state["best"]) else None


class Names(UserAggregate):
    arguments = ("STRING",)
    returns = "STRING"
    state: ClassVar[dict[str, str]] = {"names": "ARRAY<STRING>"}

    def initialize(self) -> State:
        return {"names": []}

    def update(self, state: State, value: str) -> State:
        return {"names": sorted({*state["names"], value})}

    def merge(self, left: State, right: State) -> State:
        return {"names": sorted({*left["names"], *right["names"]})}

    def output(self, state: State) -> str:
        return ",".join(state["names"])


class Addresses(Names):
    arguments = ("ADDRESS",)
    returns = "BIGINT"
    state: ClassVar[dict[str, str]] = {"names": "ARRAY<ADDRESS>"}

    def output(self, state: State) -> int:  # type: ignore[override]
        return len(state["names"])


class Packed(WholeSum):
    """A state that its owner packs."""

    state: ClassVar[dict[str, str]] = {"total": "BINARY"}

    def initialize(self) -> State:
        return {"total": b""}

    def update(self, state: State, value: int) -> State:
        return {"total": str(int(state["total"] or 0) + value).encode()}

    def merge(self, left: State, right: State) -> State:
        return self.update(left, int(right["total"])) if right["total"] else left

    def output(self, state: State) -> int:
        return int(state["total"] or 0)


class Nulls(Sum):
    """NULLs count here, and so does NaN."""

    returns = "BIGINT"
    takes_null = True
    takes_nan = True
    state: ClassVar[dict[str, str]] = {"total": "BIGINT"}

    def initialize(self) -> State:
        return {"total": 0}

    def update(self, state: State, value: float | None) -> State:
        return {"total": state["total"] + (value is None or value != value)}


class Weighted(MeanOfRows):
    arguments: ClassVar[Sequence[str]] = ("DOUBLE", "BIGINT")

    def update(self, state: Mean, value: float, weight: int) -> Mean:  # type: ignore[override]
        return Mean(state.total + value * weight, state.rows + weight)

    def exact(self, values: list[float], weights: list[int]) -> float | None:  # type: ignore[override]
        return float(np.dot(values, weights)) / sum(weights) if sum(weights) else None


class Buckets(UserAggregate):
    """A histogram as a NumPy array, and a median of it that is off by half a bucket at most."""

    arguments = ("DOUBLE",)
    returns = "DOUBLE"
    state: ClassVar[dict[str, str]] = {"counts": "ARRAY<BIGINT>"}
    equality = "bounded"
    error = 5.0

    def initialize(self) -> State:
        return {"counts": np.zeros(20, np.int64)}

    def update_batch(self, state: State, values: np.ndarray[Any, Any]) -> State:
        buckets = np.clip(values // 10 + 5, 0, 19).astype(np.int64)
        return {"counts": state["counts"] + np.bincount(buckets, minlength=20)}

    def merge(self, left: State, right: State) -> State:
        return {"counts": left["counts"] + right["counts"]}

    def output(self, state: State) -> float | None:
        reached = np.cumsum(state["counts"])
        return float(np.searchsorted(reached, (reached[-1] + 1) // 2)) * 10 - 45 if reached[-1] else None

    def exact(self, values: list[float]) -> float:
        return sorted(values)[(len(values) - 1) // 2]

    def distance(self, result: Any, values: list[float]) -> float:
        return float(abs(result - self.exact(values)))


class Buffered(High):
    low = Buffer


class OnlyMerges(UserAggregate):
    """A super-aggregate that never meets a row."""

    arguments, returns, equality = ("DOUBLE",), "DOUBLE", "close"
    state: ClassVar[dict[str, str]] = {"total": "DOUBLE"}
    low = Buffer
    initialize, merge, output, raise_ = Sum.initialize, Sum.merge, Sum.output, High.raise_


TAKEN = (
    Sum, WholeSum, DecimalSum, SumInPlace, MeanOfRows, GeometricMean, Range, ThirdGreatest, Names, Addresses, Packed,
    Nulls, Weighted, Buckets, Buffered, OnlyMerges,
)  # fmt: skip
