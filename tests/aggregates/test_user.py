"""States of user-defined aggregates: into Arrow and back, what does not fit, and how rows are folded by two levels."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, ClassVar, NamedTuple

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.aggregates.class_checks import declare, state_type
from headrace.aggregates.law_trials import is_equal
from headrace.aggregates.user import lower_state
from headrace.aggregates.user_states import Failure, StateForm, describe_error, run_isolated
from headrace.model.types import MAX_BIGINT, MIN_BIGINT
from tests.aggregates.sums import Buffer, Sum

BIGINTS = st.integers(MIN_BIGINT, MAX_BIGINT)
DOUBLES = st.floats()
TEXTS = st.text(st.characters(codec="utf-8"), max_size=5)
VALUES: dict[str, st.SearchStrategy[Any]] = {
    "BOOLEAN": st.booleans(),
    "BIGINT": BIGINTS,
    "DOUBLE": DOUBLES,
    "DECIMAL(9, 2)": st.integers(-999_999_999, 999_999_999).map(lambda number: Decimal(number).scaleb(-2)),
    "STRING": TEXTS,
    "TIMESTAMP": BIGINTS,
    "ADDRESS": st.integers(0, 2**128 - 1),
    "BINARY": st.binary(max_size=5),
}
LISTS = {f"ARRAY<{name}>": st.lists(st.none() | values, max_size=4) for name, values in VALUES.items()}
NESTED = {
    f"array< ARRAY<{name}> >": st.lists(st.lists(values, max_size=2), max_size=2) for name, values in VALUES.items()
}
ALL = VALUES | LISTS | NESTED


def form_of(kind: Any, **types: str) -> StateForm:
    return StateForm(tuple(types), tuple(state_type(text, "test") for text in types.values()), kind, {})


# Into Arrow and back


@pytest.mark.parametrize("name", ALL)
@settings(max_examples=20)
@given(data=st.data())
def test_states_come_back_as_they_were(name: str, data: st.DataObject) -> None:
    form = form_of(dict, value=name, other="BIGINT")
    states = data.draw(
        st.lists(
            st.none()
            | st.just(Failure("broken"))
            | st.fixed_dictionaries({"value": st.none() | ALL[name], "other": BIGINTS}),
            max_size=6,
        )
    )
    column = form.to_arrow(states)
    assert column.type == form.arrow
    column.validate(full=True)
    back = form.from_arrow(column)
    assert len(back) == len(states)
    for one, two in zip(back, states, strict=True):
        if isinstance(two, dict):
            assert is_equal(one["value"], two["value"])
            assert one["other"] == two["other"]
        else:
            assert one == two
    assert list(map(repr, form.from_arrow(column[1:]))) == list(map(repr, back[1:]))


class Pair(NamedTuple):
    total: float
    rows: int


@dataclass(kw_only=True)
class Totals:
    total: float
    rows: int


@pytest.mark.parametrize(
    "state", [{"total": 1.5, "rows": 2}, (1.5, 2), Pair(1.5, 2), Totals(total=1.5, rows=2)], ids=str
)
def test_a_state_keeps_its_form(state: Any) -> None:
    form = form_of(type(state), total="DOUBLE", rows="BIGINT")
    (back,) = form.from_arrow(form.to_arrow([state]))
    assert back == state
    assert type(back) is type(state)


def test_an_array_of_numpy_stays_one() -> None:
    class Counts(Sum):
        state: ClassVar[Mapping[str, str]] = {"counts": "ARRAY<BIGINT>"}

        def initialize(self) -> Any:
            return {"counts": np.zeros(3, np.int64)}

    form = declare(Counts).form
    (back,) = form.from_arrow(form.to_arrow([{"counts": np.array([1, 2, 3])}]))
    assert is_equal(back["counts"], np.array([1, 2, 3]))
    back["counts"][0] = 7  # it is the state's own


# What does not fit

MISFITS: dict[str, list[Any]] = {
    "BOOLEAN": [1, "x", 1.0],
    "BIGINT": [1.5, 1.0, "1", 2**63, [1]],
    "DOUBLE": ["1.5", [1.0], 1j, ...],
    "DECIMAL(9, 2)": [1.5, Decimal("0.001"), Decimal(10**8)],
    "STRING": [1, b"\xff", "\ud800"],
    "TIMESTAMP": [1.5, "2026-01-01", 2**63],
    "ADDRESS": [-1, 2**128, 1.5, "10.0.0.1"],
    "ARRAY<BIGINT>": [{1, 2}, [1.5], "12", {1: 2}, 7, np.array([1.5]), [[1]]],
    "ARRAY<STRING>": [{"a"}, "abc", [1]],
}


@pytest.mark.parametrize(
    ("name", "value"), [(name, value) for name, some in MISFITS.items() for value in some], ids=str
)
def test_a_value_that_does_not_fit_fails_its_state_alone(name: str, value: Any) -> None:
    form = form_of(dict, value=name, other="BIGINT")
    good = {"value": None, "other": 5}
    first, second, third = form.from_arrow(form.to_arrow([good, {"value": value, "other": 1}, good]))
    assert first == third == good
    assert isinstance(second, Failure)
    assert second.message.startswith("the field value of the state: ")
    assert form.from_arrow(form.to_arrow([{"value": value, "other": 1}])) == [second]


@pytest.mark.parametrize(
    ("state", "message"),
    [
        ({"value": 1}, "a state has the fields value, other, and no others"),
        ({"value": 1, "other": 2, "more": 3}, "no others"),
        ((1, 2, 3), "no others"),
        (7, "int is not a state"),
        ("ab", "str is not a state"),
    ],
)
def test_a_state_of_another_form_fails(state: Any, message: str) -> None:
    form = form_of(dict, value="BIGINT", other="BIGINT")
    (failure,) = form.from_arrow(form.to_arrow([state]))
    assert isinstance(failure, Failure)
    assert message in failure.message


def test_whole_numbers_fit_doubles_and_numpy_fits_all() -> None:
    form = form_of(tuple, a="DOUBLE", b="BIGINT", c="BOOLEAN", d="ARRAY<DOUBLE>")
    state = (2**60 + 1, np.int64(3), np.bool_(True), [np.float64(0.5), 1])
    assert form.from_arrow(form.to_arrow([state])) == [(float(2**60), 3, True, [0.5, 1.0])]


# Failures


class Silent(Exception):
    def __str__(self) -> str:
        raise RuntimeError("not even this")


def test_a_failure_is_told_whatever_was_raised() -> None:
    assert describe_error("update", ValueError("math domain error")) == "update: ValueError: math domain error"
    assert describe_error("merge", Silent()) == "merge: Silent"
    assert describe_error("update", ValueError("\ud800" * 900)).encode() == b"update: ValueError: " + b"?" * 180
    assert run_isolated("output", lambda: 1 // 0) == Failure(
        "output: ZeroDivisionError: integer division or modulo by zero"
    )


def test_what_is_no_exception_goes_through() -> None:
    def interrupt() -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run_isolated("update", interrupt)


# Folding


class BatchBuffer(Buffer):
    full_every = 3

    def update_batch(self, state: Any, values: Any) -> Any:
        return {"values": state["values"] + values.tolist()}


@pytest.mark.parametrize(
    ("low", "rows", "shipped"),
    [
        (Buffer, 10, [4, 4, 2]),
        (Buffer, 3, [3]),
        (Buffer, 8, [4, 4]),
        (BatchBuffer, 10, [6, 4]),
        (BatchBuffer, 0, [0]),
    ],
)
def test_a_full_state_goes_up_and_a_new_one_begins(low: type[Sum], rows: int, shipped: list[int]) -> None:
    seen: list[int] = []

    def raise_(self: Sum, state: Any) -> Any:
        seen.append(len(state["values"]))
        return {"total": math.fsum(state["values"])}

    aggregate = declare(type("High", (Sum,), {"low": low, "raise_": raise_}))
    column = pa.array([float(row) for row in range(rows)], pa.float64())
    assert aggregate.fold_rows(aggregate.columns([column])) == {"total": float(sum(range(rows)))}
    assert seen == shipped


def test_batches_are_arrays_that_can_not_be_written_to() -> None:
    class Batch(Sum):
        arguments: ClassVar[Sequence[str]] = ("DOUBLE", "BIGINT", "TIMESTAMP", "BOOLEAN", "STRING", "ADDRESS")

        def update_batch(self, state: Any, *columns: Any) -> Any:
            return state

    arrays = [
        pa.array([0.5, 1.5]),
        pa.array([1, 2]),
        pa.array([7, 8], pa.timestamp("us", tz="UTC")),
        pa.array([True, False]),
        pa.array(["a", "b"]),
        pa.array([bytes(15) + b"\x01", bytes(16)], pa.binary(16)),
    ]
    columns = declare(Batch).columns(arrays)
    assert [list(column) for column in columns] == [[0.5, 1.5], [1, 2], [7, 8], [True, False], ["a", "b"], [1, 0]]
    assert [column.dtype.kind for column in columns if isinstance(column, np.ndarray)] == list("fiibOO")
    for column in columns:
        with pytest.raises(ValueError, match="read-only"):
            column[0] = column[1]  # type: ignore[index]


def test_nulls_come_as_none_to_those_who_take_them() -> None:
    rows = declare(type("Rows", (Sum,), {"takes_null": True}))
    batch = declare(type("Batch", (Sum,), {"takes_null": True, "update_batch": lambda self, state, values: state}))
    for one in (rows, batch):
        assert list(one.columns([pa.array([0.5, None])])[0]) == [0.5, None]


# Results


@pytest.mark.parametrize(
    ("returns", "value", "expected"),
    [
        ("DOUBLE", np.float64(0.5), 0.5),
        ("DOUBLE", 3, 3.0),
        ("BIGINT", np.int64(3), 3),
        ("BOOLEAN", np.bool_(True), True),
        ("STRING", None, None),
        ("DECIMAL(5, 2)", Decimal("1.25"), Decimal("1.25")),
    ],
)
def test_a_result_fits_its_type(returns: str, value: Any, expected: Any) -> None:
    aggregate = declare(type("Result", (Sum,), {"returns": returns, "output": lambda self, state: value}))
    result = lower_state(aggregate, aggregate.result(None), {"total": 0.0})
    assert (type(result), result) == (type(expected), expected)


@pytest.mark.parametrize(
    ("returns", "value"),
    [("BIGINT", 0.5), ("BIGINT", True), ("BIGINT", 2**63), ("DOUBLE", "0.5"), ("STRING", 5), ("BOOLEAN", 1)],
)
def test_a_result_that_does_not_fit_is_told(returns: str, value: Any) -> None:
    aggregate = declare(type("Result", (Sum,), {"returns": returns, "output": lambda self, state: value}))
    with pytest.raises(TypeError, match=f"does not fit {returns}"):
        lower_state(aggregate, aggregate.result(None), {"total": 0.0})
