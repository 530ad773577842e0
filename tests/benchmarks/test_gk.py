"""Greenwald-Khanna summaries: error and size with and without merges, and the paper's three low levels."""

from __future__ import annotations

import struct

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.sketches import gk
from benchmarks.sketches.gk import HEAVY, LITE, MEDIUM, Gk
from benchmarks.sketches.gk_loops import merge
from headrace.kernel.sketches.packed_bytes import STATE
from headrace.model.errors import DataError
from tests.kernel.sketches.mutations import attack, changed, check_refused, check_survived, needs_limit
from tests.kernel.sketches.quantile_cases import (
    GK,
    INPUTS,
    NAN,
    PARTS,
    ROWS,
    TREES,
    present,
    rank_error,
    ranks_of,
    values,
)

SKETCH = Gk()


# Error and size


@pytest.mark.parametrize("error", [0.001, 0.01, 0.1])
@pytest.mark.parametrize("name", INPUTS)
def test_lifted_at_once(name: str, error: float) -> None:
    (states,) = Gk(error).lift(np.zeros(ROWS, np.int64), 1, pa.array(INPUTS[name]))
    assert rank_error(INPUTS[name], GK.answers(states)) <= gk.bounds(states)[0] <= error
    assert gk.sizes(states)[0] <= 5.0 / error


@pytest.mark.parametrize("tree", TREES)
@pytest.mark.parametrize("name", INPUTS)
def test_a_thousand_merges_keep_the_error(name: str, tree: str) -> None:
    states = TREES[tree](GK, GK.lifted(INPUTS[name], PARTS))
    assert gk.counts(states).tolist() == [ROWS]
    assert rank_error(INPUTS[name], GK.answers(states)) <= gk.bounds(states)[0] <= SKETCH.error


def test_merges_cost_size_and_a_cap_costs_error() -> None:
    data = INPUTS["random"]
    whole, merged = GK.lifted(data), GK.balanced(GK.lifted(data, 128))
    assert gk.sizes(merged)[0] > 3 * gk.sizes(whole)[0]
    capped = gk.cap_states(merged, gk.sizes(whole))
    assert 2 <= gk.sizes(capped)[0] <= gk.sizes(whole)[0]
    assert gk.counts(capped).tolist() == [ROWS]
    assert SKETCH.error < gk.bounds(capped)[0] < 3 * SKETCH.error
    assert rank_error(data, GK.answers(capped)) <= gk.bounds(capped)[0]


def test_caps_of_several_states() -> None:
    (states,) = SKETCH.lift(np.arange(ROWS) % 5 + 1, 7, pa.array(INPUTS["random"]))
    capped = gk.cap_states(states, np.array([5, 5, 1_000, 10, 2, 0, 9]))
    assert gk.counts(capped).tolist() == gk.counts(states).tolist()
    assert capped[2] == states[2]
    assert (gk.sizes(capped) <= np.array([0, 5, 1_000, 10, 2, 2, 0])).all()
    for slot in range(1, 6):
        found = GK.answers(capped[slot : slot + 1])
        assert rank_error(INPUTS["random"][slot - 1 :: 5], found) <= gk.bounds(capped)[slot]


# Low levels


@pytest.mark.parametrize("room", [3, 64, 200])
@pytest.mark.parametrize("variant", [LITE, MEDIUM, HEAVY])
@pytest.mark.parametrize("name", ["sorted", "random", "constant", "zoom in"])
def test_low_levels_keep_the_error(name: str, variant: str, room: int) -> None:
    data = INPUTS[name][:10_000]
    slots, states = SKETCH.lift_low(variant, room, np.arange(10_000) % 2, 3, pa.array(data))
    assert gk.sizes(states).max() <= room
    assert np.bincount(slots, gk.counts(states)).tolist() == [5_000, 5_000]
    (high,) = SKETCH.combine(slots, 3, (states,))
    assert high[2].as_py() == b""
    for slot in range(2):
        found = high[slot : slot + 1]
        assert rank_error(data[slot::2], GK.answers(found)) <= gk.bounds(found)[0] <= SKETCH.error


def test_low_levels_reduce_by_their_work() -> None:
    """[UDAF 7.1]: what more is done at the low level, less is sent to the high one."""
    rows = {
        variant: gk.sizes(
            SKETCH.lift_low(variant, 200, np.zeros(ROWS, np.int64), 1, pa.array(INPUTS["random"]))[1]
        ).sum()
        for variant in (LITE, MEDIUM, HEAVY)
    }
    assert rows[LITE] == ROWS
    assert rows[HEAVY] <= rows[MEDIUM] + 20 < rows[LITE] / 100


def test_the_lite_low_level_sends_values_as_they_came() -> None:
    column = pa.array([3.0, 9.0, None, 1.0, NAN, 2.0, -0.0, 7.0, NAN])
    slots, states = SKETCH.lift_low(LITE, 3, np.array([0, 2, 0, 0, 0, 0, 0, 2, 1]), 3, column)
    assert slots.tolist() == [0, 0, 2, 0, 1]
    assert states[0].as_py()[16:] == struct.pack("<3d", 3.0, 1.0, 2.0)
    assert states[1].as_py()[16:] == struct.pack("<d", 0.0)
    assert states[2].as_py()[16:] == struct.pack("<2d", 9.0, 7.0)
    assert gk.counts(states).tolist() == [3, 1, 2, 1, 1]
    assert gk.quantiles(states, np.array([0.0, 0.5, 1.0]))[0].tolist() == [1.0, 2.0, 3.0]
    assert SKETCH.combine(slots, 3, (states,)) == SKETCH.lift(np.array([0, 2, 0, 0, 0, 0, 0, 2, 1]), 3, column)


def test_inserted_values_cost_no_size() -> None:
    """A buffer is not a summary: its values go in one by one, so that nothing is lost by merging."""
    slots, states = SKETCH.lift_low(LITE, 500, np.zeros(ROWS, np.int64), 1, pa.array(INPUTS["random"]))
    (high,) = SKETCH.combine(slots, 1, (states,))
    assert gk.sizes(high)[0] <= 1.5 * gk.sizes(GK.lifted(INPUTS["random"]))[0]


def test_parameters_have_ranges() -> None:
    for error in (0.0, 0.6, NAN):
        with pytest.raises(ValueError, match="above 0 and at most"):
            Gk(error)
    with pytest.raises(ValueError, match="room for 3 rows"):
        SKETCH.lift_low(HEAVY, 2, np.zeros(0, np.int64), 1, pa.array([], pa.float64()))


# Small states


@settings(max_examples=60)
@given(data=st.data(), plain=st.lists(values, max_size=60))
def test_small_states_are_exact(data: st.DataObject, plain: list[float | None]) -> None:
    """In every grouping, though not with the same bytes."""
    whole, kept = GK.drawn_tree(plain, data), present(plain)
    for state in (whole, GK.state_of(*plain)):
        assert gk.counts(state).tolist() == [len(kept)]
        if len(kept):
            assert repr(GK.answers(state).tolist()) == repr(kept[ranks_of(len(kept)) - 1].tolist())
        else:
            assert state.to_pylist() == [b""]


def test_nothing_has_no_rows() -> None:
    empty = pa.array([b"", b""], STATE)
    assert gk.sizes(empty).tolist() == gk.bounds(empty).tolist() == [0, 0]
    for variant in (LITE, MEDIUM, HEAVY):
        slots, states = SKETCH.lift_low(variant, 9, np.zeros(0, np.int64), 2, pa.array([], pa.float64()))
        assert (len(slots), len(states)) == (0, 0)


def test_the_merge_of_the_paper() -> None:
    """[UDAF figure 1] by hand; the two rows of 3 are one only if that is narrow enough."""
    high = np.array([[2.0, 1.0, 0.0], [3.0, 1.0, 1.0], [4.0, 1.0, 0.0]])
    low = np.array([[1.0, 1.0, 0.0], [3.0, 2.0, 1.0], [5.0, 2.0, 0.0]])
    begin, end = [[1, 1, 0], [2, 1, 2]], [[4, 1, 1], [5, 2, 0]]
    for limit, middle in ((5.0, [[3, 3, 2]]), (4.0, [[3, 1, 3], [3, 2, 1]])):
        merged = np.zeros((6, 3))
        count = merge(high, 3, low, 3, limit, merged)
        assert merged[:count].tolist() == begin + middle + end


# Bytes that are no states


def damaged() -> dict[str, bytes]:
    good = GK.bytes_of(1.0, 2.0, 3.0)
    return {
        "one byte": b"\x01",
        "a byte less": good[:-1],
        "a byte more": good + b"\0",
        "version": changed(good, 0, b"\x02"),
        "form": changed(good, 2, b"\x02"),
        "rows": changed(good, 4, b"\xff\xff\xff\xff"),
        "nothing": struct.pack("<hhiq", 1, 3, 0, 0),
        "negative NaNs": changed(good, 8, struct.pack("<q", -1)),
        "order": changed(good, 16, struct.pack("<d", 2.5)),
        "NaN": changed(good, 64, struct.pack("<d", NAN)),
        "NaN in a buffer": struct.pack("<hhiq2d", 1, 1, 2, 0, NAN, 1.0),
        "g of 0": changed(good, 24, struct.pack("<d", 0.0)),
        "g of NaN": changed(good, 24, struct.pack("<d", NAN)),
        "half a value": changed(good, 24, struct.pack("<d", 1.5)),
        "too many values": changed(good, 24, struct.pack("<d", 2.0**53)),
        "negative delta": changed(good, 32, struct.pack("<d", -1.0)),
        "a rank beyond the last": changed(good, 32, struct.pack("<d", 3.0)),
    }


@pytest.mark.parametrize("what", damaged())
def test_other_bytes_are_refused(what: str) -> None:
    uses = (gk.check, gk.counts, gk.sizes, gk.bounds, GK.into_one, GK.answers)
    check_refused("Greenwald", [b"", damaged()[what]], *uses, lambda states: gk.cap_states(states, np.array([2, 2])))


def test_counts_do_not_overflow() -> None:
    huge = struct.pack("<hhiq3d", 1, 3, 1, 0, 7.0, 2.0**53, 0.0)
    assert gk.counts(pa.array([huge], STATE)).tolist() == [1 << 53]
    with pytest.raises(DataError, match="state 0"):
        GK.into_one(pa.array([huge, huge], STATE))


def survive() -> None:
    pool = [GK.bytes_of(*INPUTS["random"][:size], *([NAN] * (size % 2))) for size in (1, 2, 61, 5_000)]
    pool += SKETCH.lift_low(LITE, 40, np.zeros(60, np.int64), 1, pa.array(INPUTS["random"][:60]))[1].to_pylist()

    def use(_kind: int, state: bytes) -> None:
        answers, combined = GK.used(state, pool[2])
        assert (answers[1:] >= answers[:1]).all()
        assert gk.counts(gk.cap_states(combined, np.array([50]))).tolist() == gk.counts(combined).tolist()

    attack([pool], use)


@needs_limit
def test_mutated_states_give_errors_or_answers() -> None:
    check_survived(__name__)
