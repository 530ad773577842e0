"""Aggregates that break a law, each in another way, and the law that they are refused for."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np

from headrace.aggregates.user import UserAggregate, extractor
from tests.aggregates.lawful import (
    Buckets,
    Buffered,
    Mean,
    MeanOfRows,
    Names,
    SumInPlace,
    ThirdGreatest,
    WholeSum,
)
from tests.aggregates.sums import State, Sum


class MeanOfMeans(MeanOfRows):
    def merge(self, left: Mean, right: Mean) -> Mean:
        if not left.rows or not right.rows:
            return right if not left.rows else left
        mean = (left.total / left.rows + right.total / right.rows) / 2
        return Mean(mean * (left.rows + right.rows), left.rows + right.rows)


class Last(Sum):
    equality = "exact"

    def initialize(self) -> State:
        return {"total": None}

    def update(self, state: State, value: float) -> State:
        return {"total": value}

    def merge(self, left: State, right: State) -> State:
        return left if right["total"] is None else right


class OtherFromStorage(WholeSum):
    """What comes back equals what went in, and is merged as something else."""

    def initialize(self) -> State:
        return {"total": np.int64(0)}

    def merge(self, left: State, right: State) -> State:
        return {"total": left["total"] + right["total"] * isinstance(right["total"], np.int64)}


class FirstOnMerge(WholeSum):
    """Rows in any order, parts not."""

    def merge(self, left: State, right: State) -> State:
        return left if left["total"] else right


class RoundedAtEachStep(Sum):
    def update(self, state: State, value: float) -> State:
        return {"total": float(round(state["total"] + value, 1))}


class RoundedOnMerge(Sum):
    def merge(self, left: State, right: State) -> State:
        return {"total": float(round(left["total"] + right["total"]))}


class Difference(WholeSum):
    def merge(self, left: State, right: State) -> State:
        return {"total": abs(left["total"] - right["total"])}


class ChangesLeft(Sum):
    def merge(self, left: State, right: State) -> State:
        left["total"] += right["total"]
        return left


class ChangesRightArray(Names):
    def merge(self, left: State, right: State) -> State:
        right["names"].append("x")
        return super().merge(left, right)


class OutputChanges(ThirdGreatest):
    def output(self, state: State) -> int | None:
        return state["best"].pop() if state["best"] else None


class SharedState(SumInPlace):
    first: ClassVar[State] = {"total": 0.0}

    def initialize(self) -> State:
        return self.first


class NotNeutral(WholeSum):
    def merge(self, left: State, right: State) -> State:
        return {"total": left["total"] + right["total"] + 1}


class OtherBatch(SumInPlace):
    def update_batch(self, state: State, values: np.ndarray[Any, Any]) -> State:
        return {"total": values.sum()}


class BatchThatWrites(SumInPlace):
    def update_batch(self, state: State, values: np.ndarray[Any, Any]) -> State:
        values.sort()
        return {"total": state["total"] + values.sum()}


class SetState(Names):
    def initialize(self) -> State:
        return {"names": set()}


class SetOnMerge(Names):
    def merge(self, left: State, right: State) -> State:
        return {"names": {*left["names"], *right["names"]}}


class Fractions(WholeSum):
    def update(self, state: State, value: int) -> State:
        return {"total": state["total"] + value / 2}


class Undeclared(WholeSum):
    def update(self, state: State, value: int) -> State:
        return {**state, "total": state["total"] + value, "count": 1}


class WrongResult(WholeSum):
    def output(self, state: State) -> str:
        return str(state["total"])


class NoResultForNothing(MeanOfRows):
    def output(self, state: Mean) -> float:
        return state.total / state.rows


class NoReturn(Sum):
    def update(self, state: State, value: float) -> State:
        state["total"] += value
        return None  # type: ignore[return-value]


class ExactDoubles(Sum):
    equality = "exact"


class WrongTruth(WholeSum):
    def update(self, state: State, value: int) -> State:
        return {"total": state["total"] + value % 100}


class TooFar(Buckets):
    error = 1.0


class LossyLow(Buffered):
    def raise_(self, low: State) -> State:
        return {"total": math.fsum(low["values"][:3])}


class WrongExtractor(ThirdGreatest):
    @extractor("BIGINT")
    def first(self, state: State) -> int | None:
        return state["best"][0] if state["best"] else None

    def merge(self, left: State, right: State) -> State:
        if len(left["best"]) + len(right["best"]) < 3:
            return {"best": left["best"] + right["best"]}
        return super().merge(left, right)


REFUSED: Mapping[type[UserAggregate], str] = {
    MeanOfMeans: "parts merge to the whole",
    Last: "the order of rows does not matter",
    OtherFromStorage: "parts merge to the whole",
    FirstOnMerge: "merge is commutative",
    RoundedAtEachStep: "the order of rows does not matter",
    RoundedOnMerge: "a new state is neutral",
    Difference: "parts merge to the whole",
    ChangesLeft: "merge only reads its arguments",
    ChangesRightArray: "merge only reads its arguments",
    OutputChanges: "output only reads the state",
    SharedState: "a new state is new",
    NotNeutral: "a new state is neutral",
    OtherBatch: "update_batch does what update does",
    BatchThatWrites: "update_batch does what update does",
    SetState: "a state survives storage",
    SetOnMerge: "a state survives storage",
    Fractions: "a state survives storage",
    Undeclared: "a state survives storage",
    WrongResult: "there is a result of the declared type",
    NoResultForNothing: "there is a result of the declared type",
    ExactDoubles: "the order of rows does not matter",
    WrongTruth: "the result is right",
    TooFar: "the result is right",
    LossyLow: "the low level loses nothing",
    WrongExtractor: "merge is commutative",
}
