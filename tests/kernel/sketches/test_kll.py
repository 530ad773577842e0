"""KLL sketches: their error after many merges, exactness while they are small, and what others read in their bytes."""

from __future__ import annotations

import math
import resource
import struct
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.kernel.sketches import kll
from headrace.kernel.sketches.kll import ERROR, Kll
from headrace.kernel.sketches.packing import STATE
from headrace.model.errors import DataError

NAN, INF = math.nan, math.inf
SKETCH = Kll()
ROWS, PARTS = 200_000, 1_000
FRACTIONS = np.linspace(0.0, 1.0, 101)
Doubles = np.ndarray[tuple[int], np.dtype[np.float64]]
Combine = Callable[[pa.Array], pa.Array]


def inputs() -> dict[str, Doubles]:
    rng, steps = np.random.default_rng(11), np.arange(ROWS, dtype=np.float64)
    signs = np.where(np.arange(ROWS) % 2, -1.0, 1.0)
    return {
        "sorted": steps,
        "reversed": -steps,
        "random": rng.normal(size=ROWS),
        "constant": np.full(ROWS, 7.0),
        "heavy tail": rng.pareto(1.1, ROWS),
        "few values": rng.integers(0, 5, ROWS).astype(np.float64),
        "alternating extremes": signs * steps,
        "zoom in": signs / (1.0 + steps),
    }


INPUTS = inputs()


def state_of(*values: float | None) -> pa.Array:
    return SKETCH.lift(np.zeros(len(values), np.int64), 1, pa.array(values, pa.float64()))[0]


def into_one(states: pa.Array) -> pa.Array:
    return SKETCH.combine(np.zeros(len(states), np.int64), 1, (states,))[0]


def left_fold(states: pa.Array) -> pa.Array:
    folded = states[:1]
    for row in range(1, len(states)):
        folded = into_one(pa.concat_arrays([folded, states[row : row + 1]]))
    return folded


def balanced(states: pa.Array) -> pa.Array:
    while len(states) > 1:
        states = SKETCH.combine(np.arange(len(states)) // 2, (len(states) + 1) // 2, (states,))[0]
    return states


def random_tree(states: pa.Array) -> pa.Array:
    rng = np.random.default_rng(5)
    while len(states) > 8:
        count = int(rng.integers(len(states) // 4, len(states)))
        states = SKETCH.combine(rng.integers(0, count, len(states)), count, (states,))[0]
    return into_one(states)


TREES: Mapping[str, Combine] = {
    "at once": into_one,
    "left fold": left_fold,
    "balanced": balanced,
    "random": random_tree,
}


def ranks_of(total: int, fractions: Doubles) -> Doubles:
    return np.clip(np.ceil(total * fractions), 1, total)


def rank_errors(data: Doubles, answers: Doubles) -> Doubles:
    """How far each answer is from the nearest rank; NaN is the last value."""
    ordered, wanted = np.sort(data), ranks_of(len(data), FRACTIONS)
    first = np.searchsorted(ordered, answers) + 1
    last = np.searchsorted(ordered, answers, side="right")
    assert (last >= first).all(), "an answer is no value of the data"
    return np.maximum(0, np.maximum(first - wanted, wanted - last))


# Errors


@pytest.mark.parametrize("name", INPUTS)
def test_lifted_at_once(name: str) -> None:
    (states,) = SKETCH.lift(np.zeros(ROWS, np.int64), 1, pa.array(INPUTS[name]))
    assert rank_errors(INPUTS[name], kll.quantiles(states, FRACTIONS)[0]).max() <= ERROR * ROWS


@pytest.mark.parametrize("tree", TREES)
@pytest.mark.parametrize("name", INPUTS)
def test_a_thousand_merges_keep_the_error(name: str, tree: str) -> None:
    data = INPUTS[name]
    (parts,) = SKETCH.lift(np.arange(ROWS) * PARTS // ROWS, PARTS, pa.array(data))
    states = TREES[tree](parts)
    answers = kll.quantiles(states, FRACTIONS)[0]
    assert kll.counts(states).tolist() == [ROWS]
    assert (answers[0], answers[-1]) == (data.min(), data.max())
    assert rank_errors(data, answers).max() <= ERROR * ROWS
    assert len(states[0].as_py()) < 10_500


def test_coins_are_fair() -> None:
    """Errors of many sketches of one distribution cancel out: 40 times 5 errors of about 0.15% each."""
    fractions, errors = np.array([0.1, 0.3, 0.5, 0.7, 0.9]), []
    for seed in range(40):
        data = np.random.default_rng(seed).integers(0, 1 << 20, 50_000).astype(np.float64)
        (parts,) = SKETCH.lift(np.arange(50_000) % 64, 64, pa.array(data))
        answers = kll.quantiles(balanced(parts), fractions)[0]
        errors.append(np.searchsorted(np.sort(data), answers) / 50_000 - fractions)
    assert np.abs(np.mean(errors)) < 0.0006
    assert 0.0003 < np.sqrt(np.mean(np.square(errors))) < 0.0027


# Small states

values = st.one_of(st.none(), st.floats(width=32), st.sampled_from([NAN, INF, -INF, -0.0, 0.0, 1e308, 5e-324]))


@settings(max_examples=60)
@given(data=st.data(), plain=st.lists(values, max_size=60))
def test_small_states_are_exact(data: st.DataObject, plain: list[float | None]) -> None:
    """And the same bytes, whatever the order and grouping."""
    parts = np.array(data.draw(st.lists(st.integers(0, 4), min_size=len(plain), max_size=len(plain))), np.int64)
    middle = np.array(data.draw(st.lists(st.integers(0, 2), min_size=5, max_size=5)), np.int64)
    (states,) = SKETCH.lift(parts, 5, pa.array(plain, pa.float64()))
    (halfway,) = SKETCH.combine(middle, 3, (states,))
    whole = into_one(halfway)
    assert whole == state_of(*plain) == state_of(*reversed(plain))
    present = np.sort(np.array([value for value in plain if value is not None], np.float64)) + 0.0
    assert kll.counts(whole).tolist() == [len(present)]
    if len(present):
        expected = present[ranks_of(len(present), FRACTIONS).astype(int) - 1]
        assert repr(kll.quantiles(whole, FRACTIONS)[0].tolist()) == repr(expected.tolist())
    else:
        assert whole.to_pylist() == [b""]


@pytest.mark.parametrize("count", [399, 400, 401, 511, 512, 513, 1023, 1024, 1025])
def test_up_to_k_values_are_exact(count: int) -> None:
    data = np.random.default_rng(count).permutation(count).astype(np.float64)
    (parts,) = SKETCH.lift(np.arange(count) % 3, 3, pa.array(data))
    for states in (state_of(*data), into_one(parts)):
        answers = kll.quantiles(states, FRACTIONS)[0]
        assert np.abs(answers - ranks_of(count, FRACTIONS) + 1).max() <= (0 if count <= 400 else 3)


def test_nothing() -> None:
    none = np.zeros(0, np.int64)
    (empty,) = SKETCH.lift(none, 2, pa.array([], pa.float64()))
    assert empty.to_pylist() == [b"", b""]
    assert SKETCH.lift(np.array([0, 0]), 2, pa.array([None, None], pa.float64()))[0] == empty
    assert SKETCH.combine(none, 2, (empty[:0],))[0] == empty
    assert SKETCH.combine(none, 0, (pa.array([], STATE),))[0].to_pylist() == []
    assert kll.counts(empty).tolist() == [0, 0]
    assert np.isnan(kll.quantiles(empty, FRACTIONS)).all()
    assert kll.quantiles(empty, np.zeros(0)).shape == (2, 0)
    assert SKETCH.columns() == (STATE,)


def test_nothing_is_neutral() -> None:
    (states,) = SKETCH.lift(np.arange(5_000) % 2, 2, pa.array(INPUTS["random"][:5_000]))
    both = pa.concat_arrays([states, pa.array([b"", None], STATE)])
    combined = SKETCH.combine(np.array([0, 1, 0, 1]), 2, (both,))[0]
    assert (kll.quantiles(combined, FRACTIONS) == kll.quantiles(states, FRACTIONS)).all()
    assert combined == SKETCH.combine(np.arange(2), 2, (states,))[0] == states


def test_slices_of_columns() -> None:
    column = pa.array([9.0, None, 1.0, 2.0, None, 3.0])[1:]
    (states,) = SKETCH.lift(np.array([0, 0, 1, 1, 1]), 2, column)
    assert kll.quantiles(states[1:], np.array([0.5, 1.0])).tolist() == [[2.0, 3.0]]
    assert SKETCH.combine(np.array([0]), 1, (states[1:],))[0].to_pylist() == states[1:].to_pylist()


def test_the_same_step_gives_the_same_bytes() -> None:
    column, slots = pa.array(INPUTS["random"]), np.arange(ROWS) % 7
    first, second = (SKETCH.lift(slots, 7, column)[0] for _ in range(2))
    assert first == second
    assert into_one(first) == into_one(second)


def test_nan_is_the_greatest() -> None:
    states = state_of(*([NAN] * 300), *range(700))
    assert kll.counts(states).tolist() == [1_000]
    answers = kll.quantiles(states, np.array([0.0, 0.35, 0.7, 0.701, 1.0]))[0]
    assert answers[0] == 0.0
    assert answers[1] == pytest.approx(349, abs=3)
    assert answers[2] == 699.0
    assert np.isnan(answers[3:]).all()
    alone = state_of(NAN, None, NAN)
    assert kll.counts(alone).tolist() == [2]
    assert kll.counts(into_one(pa.concat_arrays([alone, states]))).tolist() == [1_002]
    assert np.isnan(kll.quantiles(alone, np.array([0.0, 1.0]))).all()


def test_fractions_in_any_order() -> None:
    states = state_of(3.0, 1.0, 2.0, -0.0)
    assert kll.quantiles(states, np.array([1.0, 0.0, 0.5, 0.75])).tolist() == [[3.0, 0.0, 1.0, 2.0]]
    assert math.copysign(1.0, kll.quantiles(states, np.array([0.0]))[0, 0]) == 1.0


def test_k_has_a_range() -> None:
    for k in (7, 1 << 16):
        with pytest.raises(ValueError, match="k is from 8 to 65535"):
            Kll(k)
    rough, (fine,) = Kll(8), Kll(65_535).lift(np.zeros(ROWS, np.int64), 1, pa.array(INPUTS["random"]))
    (states,) = rough.lift(np.zeros(ROWS, np.int64), 1, pa.array(INPUTS["random"]))
    assert len(states[0].as_py()) < 1_000 < len(fine[0].as_py())
    assert rank_errors(INPUTS["random"], kll.quantiles(states, FRACTIONS)[0]).max() < 0.4 * ROWS
    assert rank_errors(INPUTS["random"], kll.quantiles(fine, FRACTIONS)[0]).max() < 0.0002 * ROWS


# Bytes of others, and for others


def test_others_read_our_bytes() -> None:
    datasketches = pytest.importorskip("datasketches")
    for count in (1, 2, 50, 400, 401, 5_000, ROWS):
        data = INPUTS["random"][:count]
        (states,) = SKETCH.lift(np.zeros(count, np.int64), 1, pa.array(data))
        theirs = datasketches.kll_doubles_sketch.deserialize(states[0].as_py())
        assert (theirs.n, theirs.k) == (count, SKETCH.k)
        assert (theirs.get_min_value(), theirs.get_max_value()) == (data.min(), data.max())
        assert theirs.get_quantiles(FRACTIONS[1:-1], True) == kll.quantiles(states, FRACTIONS[1:-1])[0].tolist()
        theirs.merge(datasketches.kll_doubles_sketch.deserialize(states[0].as_py()))
        assert kll.counts(pa.array([theirs.serialize()], STATE)).tolist() == [2 * count]


def test_we_read_their_bytes() -> None:
    datasketches = pytest.importorskip("datasketches")
    sketches = []
    for count, k in ((0, 200), (1, 200), (3, 200), (200, 200), (5_000, 200), (100_000, 800)):
        sketch = datasketches.kll_doubles_sketch(k)
        sketch.update(INPUTS["random"][:count])
        sketches.append((sketch, count))
    states = pa.array([sketch.serialize() for sketch, _ in sketches], STATE)
    assert kll.counts(states).tolist() == [count for _, count in sketches]
    answers = kll.quantiles(states, FRACTIONS[1:-1])
    for (sketch, count), row in zip(sketches, answers, strict=True):
        assert not count or sketch.get_quantiles(FRACTIONS[1:-1], True) == row.tolist()
    combined = into_one(states)
    back = datasketches.kll_doubles_sketch.deserialize(combined[0].as_py())
    data = np.concatenate([INPUTS["random"][:count] for _, count in sketches])
    assert back.n == len(data)
    assert rank_errors(data, kll.quantiles(combined, FRACTIONS)[0]).max() <= 0.02 * len(data)
    assert combined[0].as_py()[16:18] == struct.pack("<H", 200), "the least k tells the error"


def test_nans_follow_the_sketch() -> None:
    with_nans, without = state_of(1.0, 2.0, NAN)[0].as_py(), state_of(1.0, 2.0)[0].as_py()
    assert with_nans == without + struct.pack("<q", 1)
    assert state_of(NAN, NAN)[0].as_py()[8:] == struct.pack("<q", 2)
    assert state_of(4.0, NAN)[0].as_py()[8:] == struct.pack("<dq", 4.0, 1)


def test_fractions_beyond_their_range_are_the_extremes() -> None:
    answers = kll.quantiles(state_of(3.0, 1.0, 2.0), np.array([1.5, -1.0, INF]))
    assert answers.tolist() == [[3.0, 1.0, 3.0]]


# Bytes that are no states


def damaged() -> dict[str, bytes]:
    good = bytearray(state_of(*range(1_000))[0].as_py())
    small = bytearray(state_of(1.0, 2.0, 3.0)[0].as_py())

    def changed(state: bytearray, at: int, new: bytes) -> bytes:
        return bytes(state[:at] + new + state[at + len(new) :])

    return {
        "one byte": b"\x05",
        "no items": bytes(good[:20]),
        "a byte less": bytes(good[:-1]),
        "a byte more": bytes(good) + b"\0",
        "no NaNs that follow": bytes(good) + bytes(8),
        "version": changed(good, 1, b"\x09"),
        "family": changed(good, 2, b"\x07"),
        "flags": changed(good, 3, b"\xff"),
        "k": changed(good, 4, b"\0\0"),
        "least k": changed(good, 16, b"\0\0"),
        "count": changed(good, 8, struct.pack("<q", 1_001)),
        "levels": changed(good, 18, b"\xff"),
        "first level": changed(good, 20, struct.pack("<I", 1 << 31)),
        "second level": changed(good, 24, struct.pack("<I", 0)),
        "minimum": changed(small, 24, struct.pack("<d", 2.5)),
        "maximum": changed(small, 32, struct.pack("<d", NAN)),
        "order": changed(small, 40, struct.pack("<dd", 2.0, 1.0)),
        "NaN": changed(small, 48, struct.pack("<d", NAN)),
        "a single NaN": changed(bytearray(state_of(1.0)[0].as_py()), 8, struct.pack("<d", NAN)),
    }


@pytest.mark.parametrize("what", damaged())
def test_other_bytes_are_refused(what: str) -> None:
    states = pa.array([b"", damaged()[what]], STATE)
    for use in (kll.check, kll.counts, into_one, lambda states: kll.quantiles(states, FRACTIONS)):
        with pytest.raises(DataError, match="the bytes of state 1 are not those of a KLL sketch") as refused:
            use(states)
        assert refused.value.code == "sketch-state"


def test_counts_do_not_overflow() -> None:
    huge = b"\x02\x01\x0f\x01\x90\x01\x08\x00" + struct.pack("<q", 1 << 53)
    assert kll.counts(pa.array([huge], STATE)).tolist() == [1 << 53]
    with pytest.raises(DataError, match="state 1"):
        into_one(pa.array([huge, huge], STATE))


def mutated(rng: np.random.Generator, pool: list[bytes]) -> bytes:
    """Flips, cuts, extensions, splices of two states, and bytes of no state at all."""
    state, other = (bytearray(pool[int(place)]) for place in rng.integers(0, len(pool), 2))
    way, at = int(rng.integers(0, 6)), int(rng.integers(0, len(state)))
    if way <= 1:
        for place in rng.integers(0, len(state) if way else min(len(state), 60), int(rng.integers(1, 4))):
            state[place] ^= 1 << int(rng.integers(0, 8))
    elif way == 2:
        state = state[:at]
    elif way == 3:
        state += rng.bytes(int(rng.integers(1, 20)))
    elif way == 4:
        state = state[:at] + other[at:]
    else:
        state = bytearray(rng.bytes(int(rng.integers(1, 80))))
    return bytes(state)


def survive() -> None:
    """Run as a process of its own, in memory that a wrong length would exceed at once."""
    rng = np.random.default_rng(23)
    sizes = (1, 2, 60, 1_000, 30_000)
    pool = [state_of(*INPUTS["random"][:size], *([NAN] * (size % 2)))[0].as_py() for size in sizes]
    fractions, refused = np.array([0.0, 0.25, 0.5, 1.0]), 0
    kll.quantiles(into_one(pa.array(pool, STATE)), fractions)
    used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + (1 << 30),) * 2)
    for _ in range(10_000):
        states = pa.array([mutated(rng, pool), pool[2]], STATE)
        try:
            answers = kll.quantiles(states, fractions)[0]
            combined = into_one(states)
        except DataError as error:
            refused += error.code == "sketch-state"
            continue
        numbers = answers[~np.isnan(answers)]
        assert (np.diff(numbers) >= 0).all()
        assert kll.counts(combined)[0] == kll.counts(states).sum()
    print("refused", refused)


@pytest.mark.skipif(sys.platform != "linux", reason="needs a limit of memory")
def test_mutated_states_give_errors_or_answers() -> None:
    done = subprocess.run([sys.executable, __file__], capture_output=True, text=True, timeout=240, check=False)
    assert done.returncode == 0, done.stderr
    refused = int(done.stdout.split()[-1])
    assert 5_000 < refused < 10_000, "both kinds must have been tried"


if __name__ == "__main__":
    survive()
