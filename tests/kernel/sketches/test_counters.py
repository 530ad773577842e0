"""Summaries of counters: bounds after any merges, exactness below the capacity, every type, bytes from elsewhere."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import replace
from decimal import Decimal
from itertools import pairwise
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.kernel.sketches.counters import Counters, compress_rows, hitters, top
from headrace.kernel.sketches.items import encode_items
from headrace.kernel.sketches.packed_bytes import STATE
from headrace.model.arrow import arrow_type
from headrace.model.errors import DataError, HeadraceError
from headrace.model.types import BIGINT, MAX_BIGINT, DataType, decimal
from tests.expressions.batches import TYPES, specials, to_arrow, to_plain, with_hidden
from tests.kernel.sketches.mutations import attack, changed, check_survived, needs_limit

KINDS = [TYPES[name][0] for name in TYPES] + [decimal(38, 38)]
kinds = pytest.mark.parametrize("data_type", KINDS, ids=str)
examples = settings(max_examples=15)
Row = tuple[int, Any, int]
"""Slot, value and weight."""


# What a summary must say


def order(value: Any) -> tuple[bool, Any]:
    """NaN is the greatest."""
    return (True, 0.0) if isinstance(value, float) and math.isnan(value) else (False, value)


def exact(rows: list[Row]) -> Counter[tuple[bool, Any]]:
    counts: Counter[tuple[bool, Any]] = Counter()
    for _, value, weight in rows:
        if value is not None and weight > 0:
            counts[order(value)] += weight
    return counts


def found_in(states: pa.Array, share: float, data_type: DataType) -> list[dict[tuple[bool, Any], tuple[int, int]]]:
    """The hitters of each state with their bounds, in the order in which they come."""
    offsets, items, lower, upper = hitters(states, share, arrow_type(data_type))
    assert items.type == arrow_type(data_type)
    plain = [order(value) for value in to_plain(items, data_type)]
    bounds = list(zip(lower.tolist(), upper.tolist(), strict=True))
    return [dict(zip(plain[begin:end], bounds[begin:end], strict=True)) for begin, end in pairwise(offsets.tolist())]


def lifted(rows: list[Row], count: int, data_type: DataType, summary: Counters) -> pa.Array:
    slots = np.array([slot for slot, _, _ in rows], np.int64)
    values = to_arrow([value for _, value, _ in rows], data_type)
    (states,) = summary.lift(slots, count, values, pa.array([weight for _, _, weight in rows], pa.int64()))
    return states


def merged(states: pa.Array, summary: Counters, random: Random) -> pa.Array:
    """In a random tree down to one."""
    while len(states) > 1:
        count = random.randint(1, len(states) - 1)
        slots = np.array([random.randrange(count) for _ in range(len(states))], np.int64)
        (states,) = summary.combine(slots, count, (states,))
    return states


def check_bounds(state: pa.Array, truth: Counter[tuple[bool, Any]], capacity: int, data_type: DataType) -> None:
    total = sum(truth.values())
    (held,) = found_in(state, 1e-18, data_type)
    assert len(held) <= capacity
    errors = {upper - lower for lower, upper in held.values()}
    assert len(errors) <= 1
    assert max(errors, default=0) * (capacity + 1) <= total
    assert all(lower <= truth[value] <= upper for value, (lower, upper) in held.items())
    assert list(held) == sorted(held, key=lambda value: (-held[value][0], value))
    if len(truth) <= capacity:
        assert {value: lower for value, (lower, _) in held.items()} == truth
    for share in (1 / capacity, max(0.3, 1 / capacity), 1.0):
        (found,) = found_in(state, share, data_type)
        assert {value for value, weight in truth.items() if weight >= share * total} <= found.keys()
        assert found == {value: held[value] for value in found}
        assert all(upper >= share * total * (1 - 1e-12) for _, upper in found.values())


@st.composite
def rows_of(draw: st.DrawFn, data_type: DataType) -> list[Row]:
    corners = draw(st.lists(st.sampled_from([*specials(data_type), None]), min_size=1, max_size=8))
    weights = st.one_of(st.integers(-1, 4), st.integers(0, 10**12))
    return draw(st.lists(st.tuples(st.integers(0, 5), st.sampled_from(corners), weights), max_size=60))


@kinds
@examples
@given(st.data())
def test_bounds_hold_and_no_hitter_is_missing(data_type: DataType, data: st.DataObject) -> None:
    rows, capacity = data.draw(rows_of(data_type)), data.draw(st.integers(1, 5))
    summary, random = Counters(capacity), Random(data.draw(st.integers(0, 99)))
    state = merged(lifted(rows, 6, data_type, summary), summary, random)
    check_bounds(state, exact(rows), capacity, data_type)


@kinds
@examples
@given(st.data())
def test_exact_summaries_are_equal_bytes_in_any_order_and_grouping(data_type: DataType, data: st.DataObject) -> None:
    rows, random = data.draw(rows_of(data_type)), Random(data.draw(st.integers(0, 99)))
    summary = Counters(8)
    at_once = lifted([(0, value, weight) for _, value, weight in rows], 1, data_type, summary)
    shuffled = random.sample(rows, len(rows))
    assert merged(lifted(shuffled, 6, data_type, summary), summary, random).equals(at_once)


@kinds
@examples
@given(st.data())
def test_rows_that_are_put_together_first_are_the_same_bytes(data_type: DataType, data: st.DataObject) -> None:
    rows, summary = data.draw(rows_of(data_type)), Counters(data.draw(st.integers(1, 8)))
    states = lifted(rows, 6, data_type, replace(summary, is_compressed=True))
    assert states.equals(lifted(rows, 6, data_type, summary))


@pytest.mark.parametrize("distinct", [1, 50, 3_000, 10**9])
@pytest.mark.parametrize("slots", [1, 7, 400])
def test_rows_that_push_each_other_out_are_the_same_bytes(slots: int, distinct: int) -> None:
    """In a table of as many places as rows, many values share a place."""
    rng = np.random.default_rng(distinct)
    places, values = rng.integers(0, slots, 5_000), pa.array(rng.integers(-distinct, distinct, 5_000))
    weights = pa.array(rng.integers(-1, 4, 5_000))
    plain = Counters(64).lift(places, slots, values, weights)
    assert Counters(64, is_compressed=True).lift(places, slots, values, weights) == plain


def test_equal_rows_become_one() -> None:
    """
    slot    0  0  1  0  1  0
    value   5  5  5  5  5  6
    weight  1  2  4  0  8  MAX
    """
    slots, values = np.array([0, 0, 1, 0, 1, 0]), encode_items(pa.array([5, 5, 5, 5, 5, 6]))
    found, items, weights = compress_rows(slots, values, np.array([1, 2, 4, 0, 8, MAX_BIGINT]))
    assert list(zip(found, items.codes, weights, strict=True)) == [(0, 5, 3), (1, 5, 12), (0, 6, MAX_BIGINT)]
    slots, values = np.zeros(100_000, np.int64), encode_items(pa.array(np.arange(100_000) % 1_000))
    found, _, weights = compress_rows(slots, values, np.ones(100_000, np.int64))
    assert (len(found), weights.sum()) == (1_000, 100_000)


def test_a_thousand_merges_keep_the_bounds() -> None:
    random, numbers = Random(11), np.random.default_rng(11)
    for skew in (1.05, 1.5):
        keys = (numbers.zipf(skew, 100_000) % 5_000).tolist()
        rows = [(random.randrange(1_001), key, random.randrange(1, 1_500)) for key in keys]
        summary = Counters(32)
        states = lifted(rows, 1_001, BIGINT, summary)
        while len(states) > 1:
            pair = random.sample(range(len(states)), 2)
            (both,) = summary.combine(np.zeros(2, np.int64), 1, (states.take(pa.array(pair)),))
            rest = states.take(pa.array([row for row in range(len(states)) if row not in pair], pa.int64()))
            states = pa.concat_arrays([rest, both])
        check_bounds(states, exact(rows), 32, BIGINT)


def test_cutting_takes_the_greatest_count_without_room_off_all() -> None:
    (state,) = Counters(2).lift(np.zeros(10, np.int64), 1, pa.array([7, 7, 7, 7, 5, 5, 5, 3, 3, 1]))
    found = top(state, 9, pa.int64())
    assert (found.items.to_pylist(), found.lower.tolist(), found.upper.tolist()) == ([7, 5], [2, 1], [4, 3])
    (state,) = Counters(2).lift(np.zeros(3, np.int64), 1, pa.array(["a", "b", "c"]))
    assert len(state[0].as_py()) == 24  # all are cut, but their weight is known
    assert len(hitters(state, 0.1, pa.string()).items) == 0


# Results


def test_the_largest_come_first_and_equal_ones_by_item() -> None:
    values = pa.array(["b", "a", "c", "a", "c", "d", "", None])
    (states,) = Counters().lift(np.array([0, 0, 0, 0, 0, 2, 2, 2]), 3, values)
    found = top(states, 2, pa.string())
    assert (found.offsets.tolist(), found.items.to_pylist()) == ([0, 2, 2, 4], ["a", "c", "", "d"])
    assert hitters(states, 0.4, pa.string()).items.to_pylist() == ["a", "c", "", "d"]
    assert hitters(states[:1], 0.41, pa.string()).offsets.tolist() == [0, 0]


def test_a_share_is_not_lost_to_rounding() -> None:
    # 0.07 * 100 is 7.000000000000001 in DOUBLEs
    (state,) = Counters().lift(np.zeros(2, np.int64), 1, pa.array([1, 2]), pa.array([7, 93]))
    assert hitters(state, 0.07, pa.int64()).items.to_pylist() == [2, 1]
    assert hitters(state, 0.0701, pa.int64()).items.to_pylist() == [2]


def test_equal_doubles_are_one_item() -> None:
    nans = np.array([0x7FF8000000000000, -1, 0x7FF0000000000001], np.int64).view(np.float64)
    values = pa.array(np.concatenate([nans, [0.0, -0.0, -math.inf, math.inf, math.inf, -1.5]]))
    (state,) = Counters().lift(np.zeros(9, np.int64), 1, values)
    found = top(state, 9, pa.float64())
    assert repr(found.items.to_pylist()) == "[nan, 0.0, inf, -inf, -1.5]"
    assert found.lower.tolist() == [3, 2, 2, 1, 1]


def test_weights_stop_at_the_greatest_bigint() -> None:
    weights = pa.array([MAX_BIGINT, MAX_BIGINT, 5, 1])
    (state,) = Counters(1).lift(np.zeros(4, np.int64), 1, pa.array([1, 1, 2, 3]), weights)
    found = top(state, 1, pa.int64())
    assert (found.lower.tolist(), found.upper.tolist()) == ([MAX_BIGINT - 5], [MAX_BIGINT])
    (twice,) = Counters(1).combine(np.zeros(2, np.int64), 1, (pa.concat_arrays([state, state]),))
    assert hitters(twice, 1.0, pa.int64()).items.to_pylist() == [1]


# Nothing


@kinds
def test_nothing_has_no_bytes(data_type: DataType) -> None:
    arrow, summary = arrow_type(data_type), Counters()
    value = specials(data_type)[0]
    nulls = with_hidden([value, value], [True, True], data_type)
    slots = np.array([0, 1])
    for states in (
        summary.lift(slots, 2, nulls),
        summary.lift(slots, 2, to_arrow([value, value], data_type), pa.array([-1, None], pa.int64())),
        summary.lift(slots, 2, to_arrow([value, value], data_type), pa.array([0, 0])),
        summary.lift(slots, 2, pa.nulls(2)),
        summary.lift(slots[:0], 2, nulls[:0]),
    ):
        assert states[0].to_pylist() == [b"", b""]
        assert summary.combine(slots, 2, states)[0].to_pylist() == [b"", b""]
        for found in (hitters(states[0], 0.1, arrow), top(states[0], 3, arrow)):
            assert (found.offsets.tolist(), len(found.items), found.items.type) == ([0, 0, 0], 0, arrow)
    assert len(summary.combine(slots[:0], 0, (pa.array([], STATE),))[0]) == 0


@kinds
def test_nothing_is_neutral(data_type: DataType) -> None:
    summary = Counters(2)
    (states,) = summary.lift(np.zeros(4, np.int64), 2, to_arrow(specials(data_type)[:2] * 2, data_type))
    assert states[1].as_py() == b""
    assert summary.combine(np.array([1, 1]), 2, (states,))[0].to_pylist() == [b"", states[0].as_py()]
    with_null = pa.array([None, states[0].as_py()], STATE)
    assert summary.combine(np.array([0, 0]), 1, (with_null,))[0].equals(states[:1])


def test_a_column_may_begin_in_the_middle() -> None:
    summary = Counters()
    for values in (pa.array([9, 1, 1, None, 2]), pa.array(["x", "a", "a", None, "b"])):
        (states,) = summary.lift(np.zeros(4, np.int64), 1, values[1:])
        again = pa.concat_arrays([pa.array([b"junk"], STATE), states])[1:]
        assert top(again, 1, values.type).lower.tolist() == [2]
        assert summary.combine(np.zeros(1, np.int64), 1, (again,))[0].equals(states)


# Refusals


@pytest.mark.parametrize("capacity", [0, -1, 1 << 40])
def test_sizes_are_checked(capacity: int) -> None:
    with pytest.raises(HeadraceError, match="can't be kept") as refused:
        Counters(capacity)
    assert refused.value.code == "sketch-size"


def test_questions_are_checked() -> None:
    states = pa.array([b""], STATE)
    for share in (0.0, -1.0, 1.5, math.nan):
        with pytest.raises(HeadraceError, match="not a share"):
            hitters(states, share, pa.int64())
    with pytest.raises(HeadraceError, match="can't be listed"):
        top(states, 0, pa.int64())
    with pytest.raises(HeadraceError, match="can't be counted"):
        Counters().lift(np.zeros(1, np.int64), 1, pa.array([1.0], pa.float32()))


def refusal(states: list[bytes], arrow: pa.DataType | None = None) -> str | None:
    """Of the combination, or of a result; other errors are not caught."""
    column = pa.array(states, STATE)
    try:
        if arrow is None:
            Counters().combine(np.zeros(len(states), np.int64), 1, (column,))
        else:
            hitters(column, 0.5, arrow)
    except DataError as problem:
        return str(problem) if problem.code == "sketch-state" else problem.code
    return None


def state_of(values: pa.Array, capacity: int = 256) -> bytes:
    return bytes(Counters(capacity).lift(np.zeros(len(values), np.int64), 1, values)[0][0].as_py())


def test_states_of_another_type_are_refused() -> None:
    number, text = state_of(pa.array([1])), state_of(pa.array(["a"]))
    cents = state_of(pa.array([Decimal("1.00")], pa.decimal128(10, 2)))
    assert "state 2" in (refusal([number, b"", text]) or "")
    assert refusal([number], pa.int64()) is None
    assert refusal([number], pa.float64()) is not None
    assert refusal([cents], pa.decimal128(10, 2)) is None
    assert refusal([cents], pa.decimal128(10, 3)) is not None


def test_bytes_that_no_value_has_are_refused() -> None:
    text = state_of(pa.array(["ab", "cd"]))
    wrong_text = text.replace(b"cd", b"\xffd")
    assert "state 1" in (refusal([text, wrong_text, text]) or "")
    assert refusal([text.replace(b"cd", b"ab")]) is not None  # twice the same
    truth = state_of(pa.array([True]))
    assert refusal([truth[:-1] + b"\x02"]) is not None
    nan = state_of(pa.array([math.nan]))
    assert refusal([nan[:-1] + b"\x01"]) is not None
    cents = state_of(pa.array([Decimal("99.99")], pa.decimal128(4, 2)))
    assert refusal([cents[:-2] + (10_000).to_bytes(2, "big")]) is not None
    assert refusal([cents[:-2] + (9_998).to_bytes(2, "big")]) is None


def test_counts_that_do_not_add_up_are_refused() -> None:
    cut = state_of(pa.array([1, 1, 2, 3]), 1)  # a total of 4, an error of 1, and one count of 1
    assert refusal([cut]) is None
    for place, good, bad in ((8, (3, 100), (-1, 0, 2)), (16, (), (-1, 0, 2)), (24, (2,), (-1, 0, 3))):
        for number in good + bad:
            other = changed(cut, place, number.to_bytes(8, "little", signed=True))
            assert (refusal([other]) is None) == (number in good)


# Any bytes


def use(state: bytes, data_type: DataType) -> None:
    """All that can be made of a state is in order."""
    arrow, column = arrow_type(data_type), pa.array([state], STATE)
    found = hitters(column, 0.01, arrow)
    assert len(to_plain(found.items, data_type)) == found.offsets[-1]
    assert (found.lower > 0).all()
    assert (found.lower <= found.upper).all()
    (combined,) = Counters(4).combine(np.zeros(1, np.int64), 1, (column,))
    again = top(combined, 3, arrow)
    assert len(to_plain(again.items, data_type)) == len(again.lower)


def survive() -> None:
    pools = []
    for data_type in KINDS:
        values = to_arrow(specials(data_type) * 2, data_type)
        pools.append([state_of(values), state_of(values, 3), state_of(values[:1])])

    def use_beside(kind: int, state: bytes) -> None:
        """Beside a state of any type too, which may refuse it."""
        refusal([state, pools[len(state) % len(pools)][0]])
        use(state, KINDS[kind])

    attack(pools, use_beside)


@needs_limit
def test_mutated_states_give_state_errors_or_answers() -> None:
    check_survived(__name__)
