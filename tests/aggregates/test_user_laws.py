"""What registration takes and what it refuses, and with which counter-example."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from random import Random
from typing import Any, ClassVar, NamedTuple

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.aggregates.declarations import declared
from headrace.aggregates.laws import LAWS, Case, Trial, Violation, cases, equal, shrunk, user_aggregate, violation
from headrace.aggregates.user import UserAggregate, extractor
from headrace.model.errors import UsageError

State = dict[str, Any]


class Sum(UserAggregate):
    """Most of those below differ from it in one thing."""

    name = "total"
    arguments = ("DOUBLE",)
    returns = "DOUBLE"
    state: ClassVar[dict[str, str]] = {"total": "DOUBLE"}
    equality = "close"

    def initialize(self) -> State:
        return {"total": 0.0}

    def update(self, state: State, value: Any) -> State:
        return {"total": state["total"] + value}

    def merge(self, left: State, right: State) -> State:
        return {"total": left["total"] + right["total"]}

    def output(self, state: State) -> Any:
        return state["total"]


# Taken


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
        found = np.clip(values // 10 + 5, 0, 19).astype(np.int64)
        return {"counts": state["counts"] + np.bincount(found, minlength=20)}

    def merge(self, left: State, right: State) -> State:
        return {"counts": left["counts"] + right["counts"]}

    def output(self, state: State) -> float | None:
        reached = np.cumsum(state["counts"])
        return float(np.searchsorted(reached, (reached[-1] + 1) // 2)) * 10 - 45 if reached[-1] else None

    def exact(self, values: list[float]) -> float:
        return sorted(values)[(len(values) - 1) // 2]

    def distance(self, result: Any, values: list[float]) -> float:
        return float(abs(result - self.exact(values)))


class Buffer(Sum):
    """A low level as in [UDAF 4.1], algorithm 1: it keeps values, and says when it is full."""

    name = "buffer"
    state: ClassVar[dict[str, str]] = {"values": "ARRAY<DOUBLE>"}

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


class Buffered(Sum):
    low = Buffer

    def raise_(self, low: State) -> State:
        return {"total": math.fsum(low["values"])}


class OnlyMerges(UserAggregate):
    """A super-aggregate that never meets a row."""

    arguments, returns, equality = ("DOUBLE",), "DOUBLE", "close"
    state: ClassVar[dict[str, str]] = {"total": "DOUBLE"}
    low = Buffer
    initialize, merge, output, raise_ = Sum.initialize, Sum.merge, Sum.output, Buffered.raise_


TAKEN = (
    Sum, WholeSum, DecimalSum, SumInPlace, MeanOfRows, GeometricMean, Range, ThirdGreatest, Names, Addresses, Packed,
    Nulls, Weighted, Buckets, Buffered, OnlyMerges,
)  # fmt: skip


@pytest.mark.parametrize("aggregate", TAKEN)
def test_it_is_taken(aggregate: type[UserAggregate]) -> None:
    assert user_aggregate(aggregate).name == (aggregate.name or aggregate.__name__)


def test_an_object_with_parameters_is_taken() -> None:
    class Power(Sum):
        def __init__(self, exponent: int) -> None:
            self.exponent = exponent

        def update(self, state: State, value: float) -> State:
            return {"total": state["total"] + value**self.exponent}

    assert user_aggregate(Power(2)).implementation.update({"total": 1.0}, 3.0) == {"total": 10.0}


# Refused


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


REFUSED = {
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


def refusal(aggregate: type[UserAggregate]) -> UsageError:
    with pytest.raises(UsageError) as refused:
        user_aggregate(aggregate)
    assert refused.value.code == "udaf-law"
    return refused.value


@pytest.mark.parametrize(("aggregate", "law"), REFUSED.items())
def test_it_is_refused(aggregate: type[UserAggregate], law: str) -> None:
    error = refusal(aggregate)
    assert error.message.endswith(f"breaks the law that {law}")
    assert error.detail is not None
    assert error.detail.startswith("rows ")


def test_every_law_refuses_something() -> None:
    """What is not associative does not merge to the whole either, and two rows show that already."""
    assert LAWS.keys() - set(REFUSED.values()) == {"merge is associative"}
    found = violation("merge is associative", Trial(declared(Difference)), Case((((1,),), ((2,),), ((3,),))))
    assert found == Violation("merge(merge(a, b), c) gives 2, merge(a, merge(b, c)) gives 0")


def test_a_counter_example_is_small_and_shows_both_answers() -> None:
    error = refusal(MeanOfMeans)
    assert error.detail == (
        "rows 0.0 | 0.0 | 1.0: all rows at once gives 0.3333333333333333, merging the parts gives 0.5"
    )
    assert error.hint is not None
    assert "the sum and the count" in error.hint
    assert refusal(Last).detail == "rows 0.0 | 1.0 | none: this order gives 1.0, the reverse gives 0.0"
    assert str(refusal(Last)) == str(refusal(Last))


def test_rounding_is_told_from_mistakes() -> None:
    assert "equality = 'close'" in str(refusal(ExactDoubles))
    assert "equality = 'close'" not in str(refusal(Last))


def test_an_update_without_return_is_told() -> None:
    error = refusal(NoReturn)
    assert "takes none of" in error.message
    assert error.detail is not None
    assert "return it" in error.detail


def test_rows_that_it_takes_may_be_given() -> None:
    class Words(Names):
        def update(self, state: State, value: str) -> State:
            if value not in ("GET", "PUT"):
                raise ValueError(f"{value} is no method")
            return super().update(state, value)

    class Known(Words):
        examples: ClassVar[Sequence[Sequence[Any]]] = (("GET",), ("PUT",))

    error = refusal(Words)
    assert error.hint is not None
    assert "examples" in error.hint
    assert user_aggregate(Known).name == "Known"


def test_the_page_shows_what_happens() -> None:
    page = (Path(__file__).parents[2] / "docs" / "aggregates-user.md").read_text()
    names: dict[str, Any] = {}
    for block in re.findall(r"^```python\n(.*?)^```", page, re.MULTILINE | re.DOTALL):
        exec(block, names)  # noqa: S102 - the page's own example
    assert f"```text\n{names['refusal']}\n```" in page
    laws = page.partition("| law | why |")[2].partition("**Why")[0]
    assert re.findall(r"^\| ([^|-]+) \|", laws, re.MULTILINE) == list(LAWS)


# The suite itself


def test_cases_grow_and_are_the_same_for_a_seed() -> None:
    trial = Trial(declared(Sum))
    first, second = (list(cases(trial, Random(7))) for _ in range(2))
    sizes = [len(case.whole) for case in first]
    assert first == second
    assert sizes[0] == 0
    assert sizes == sorted(sizes)
    assert sizes[-1] == 300


@settings(max_examples=50)
@given(
    st.lists(st.tuples(st.integers(0, 2), st.integers(-50, 50)), min_size=1, max_size=40),
    st.integers(1, 60),
)
def test_what_is_shrunk_still_breaks_and_has_no_row_to_spare(items: list[tuple[int, int]], limit: int) -> None:
    def breaks(case: Case) -> Violation | None:
        return Violation("too much") if sum(abs(row[0]) for row in case.whole) >= limit else None

    first, second, third = (tuple((value,) for part, value in items if part == number) for number in range(3))
    case = Case((first, second, third))
    if breaks(case) is None:
        return
    found = shrunk(Trial(declared(WholeSum)), case, breaks)
    assert breaks(found) is not None
    assert len(found.whole) <= len(case.whole)
    for number, part in enumerate(found.parts):
        for place in range(len(part)):
            parts = list(found.parts)
            parts[number] = part[:place] + part[place + 1 :]
            assert breaks(Case((parts[0], parts[1], parts[2]))) is None


def test_when_two_states_are_the_same() -> None:
    assert equal({"a": 1}, {"a": 1})
    assert equal((1.0, [math.nan]), (1, [np.float64(math.nan)]))
    assert equal(np.array([1, 2]), np.array([1, 2]))
    for one, two in (([1], (1,)), ([1], {1}), (1, True), ("1", 1), (np.array([1]), np.array([1.0])), ([1], [1, 2])):
        assert not equal(one, two)
