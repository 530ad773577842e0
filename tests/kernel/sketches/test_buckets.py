"""Bucket sketches: the error of their values, the same bytes in every order, and what is refused."""

from __future__ import annotations

import math
import resource
import struct
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.kernel.sketches import buckets
from headrace.kernel.sketches.buckets import Buckets, Cuts
from headrace.kernel.sketches.packing import STATE
from headrace.model.errors import DataError

NAN, INF, LEAST = math.nan, math.inf, 5e-324
SKETCH = Buckets()
ROWS = 100_000
FRACTIONS = np.linspace(0.0, 1.0, 101)
Doubles = np.ndarray[tuple[int], np.dtype[np.float64]]


def inputs() -> dict[str, Doubles]:
    rng, steps = np.random.default_rng(11), np.arange(ROWS, dtype=np.float64)
    signs = np.where(np.arange(ROWS) % 2, -1.0, 1.0)
    return {
        "sorted": steps,
        "reversed": -steps,
        "random": rng.normal(size=ROWS),
        "constant": np.full(ROWS, 7.0),
        "heavy tail": rng.pareto(1.1, ROWS),
        "alternating extremes": signs * steps,
        "zoom in": signs / (1.0 + steps),
        "all exponents": signs * 2.0 ** rng.uniform(-1022, 1024, ROWS),
    }


INPUTS = inputs()


def state_of(*values: float | None, sketch: Buckets = SKETCH) -> pa.Array:
    return sketch.lift(np.zeros(len(values), np.int64), 1, pa.array(values, pa.float64()))[0]


def into_one(states: pa.Array) -> pa.Array:
    return SKETCH.combine(np.zeros(len(states), np.int64), 1, (states,))[0]


def exact(data: Doubles) -> Doubles:
    ranks = np.clip(np.ceil(len(data) * FRACTIONS), 1, len(data)).astype(int)
    found: Doubles = np.sort(data)[ranks - 1]
    return found


def check_close(data: Doubles, answers: Doubles, accuracy: float = 0.01) -> None:
    """Below the normal DOUBLEs an answer may be off by one of their steps more."""
    expected = exact(data)
    same = (expected == answers) | (np.isnan(expected) & np.isnan(answers))
    with np.errstate(invalid="ignore"):
        same |= np.abs(answers - expected) <= accuracy * np.abs(expected) + LEAST * (np.abs(expected) < 2.3e-308)
    assert same.all(), list(zip(expected[~same], answers[~same], strict=True))[:5]
    assert repr(answers[[0, -1]] + 0.0) == repr(expected[[0, -1]] + 0.0)


# Errors and order


@pytest.mark.parametrize("name", INPUTS)
@pytest.mark.parametrize("accuracy", [0.001, 0.01, 0.1, 0.5])
def test_answers_are_close(name: str, accuracy: float) -> None:
    sketch = Buckets(accuracy)
    (states,) = sketch.lift(np.zeros(ROWS, np.int64), 1, pa.array(INPUTS[name]))
    check_close(INPUTS[name], buckets.quantiles(states, FRACTIONS)[0], accuracy)


@pytest.mark.parametrize("name", INPUTS)
def test_a_thousand_merges_give_the_same_bytes(name: str) -> None:
    (parts,) = SKETCH.lift(np.arange(ROWS) * 1_000 // ROWS, 1_000, pa.array(INPUTS[name]))
    rng = np.random.default_rng(5)
    at_once, mixed = into_one(parts), parts.take(pa.array(rng.permutation(1_000)))
    while len(mixed) > 8:
        count = int(rng.integers(len(mixed) // 4, len(mixed)))
        mixed = SKETCH.combine(rng.integers(0, count, len(mixed)), count, (mixed,))[0]
    folded = parts[:1]
    for row in range(1, 1_000):
        folded = into_one(pa.concat_arrays([folded, parts[row : row + 1]]))
    (lifted,) = SKETCH.lift(np.zeros(ROWS, np.int64), 1, pa.array(INPUTS[name][::-1]))
    assert at_once == into_one(mixed) == folded == lifted
    check_close(INPUTS[name], buckets.quantiles(lifted, FRACTIONS)[0])


values = st.one_of(st.none(), st.floats(), st.sampled_from([NAN, -NAN, INF, -INF, -0.0, 0.0, 1.0, LEAST, -LEAST]))


@settings(max_examples=100)
@given(data=st.data(), plain=st.lists(values, max_size=40))
def test_any_values_in_any_grouping(data: st.DataObject, plain: list[float | None]) -> None:
    parts = np.array(data.draw(st.lists(st.integers(0, 4), min_size=len(plain), max_size=len(plain))), np.int64)
    middle = np.array(data.draw(st.lists(st.integers(0, 2), min_size=5, max_size=5)), np.int64)
    (states,) = SKETCH.lift(parts, 5, pa.array(plain, pa.float64()))
    whole = into_one(SKETCH.combine(middle, 3, (states,))[0])
    assert whole == state_of(*plain) == state_of(*reversed(plain))
    present = np.array([value for value in plain if value is not None], np.float64)
    assert buckets.counts(whole).tolist() == [len(present)]
    if len(present):
        check_close(present, buckets.quantiles(whole, FRACTIONS)[0])
    else:
        assert whole.to_pylist() == [b""]


@settings(max_examples=200)
@given(value=st.floats(allow_nan=False, allow_infinity=False, allow_subnormal=False), steps=st.integers(-2, 2))
def test_every_bucket_is_narrow(value: float, steps: int) -> None:
    """Also where a bucket ends: some DOUBLEs beside each power of 2, and beside each value."""
    for near in (value, math.ldexp(1.0, math.frexp(value)[1] - 1)):
        for _ in range(abs(steps)):
            near = math.nextafter(near, math.copysign(INF, steps))
        if math.isfinite(near):
            middle = buckets.quantiles(state_of(-INF, near, INF), np.array([0.5]))[0, 0]
            assert abs(middle - near) <= 0.01 * abs(near) + LEAST * (abs(near) < 2.3e-308)


def test_bounds_fall_to_the_upper_bucket() -> None:
    cuts = Cuts.of(SKETCH.parts)
    assert (SKETCH.parts, cuts.buckets) == (35, 146_864)
    for bound in cuts.bounds[1:-1]:
        edge = 1.0 + float(bound) / 2.0**52
        below, at = (
            buckets.quantiles(state_of(-INF, value, INF), np.array([0.5]))[0, 0]
            for value in (math.nextafter(edge, 0.0), edge)
        )
        assert below < edge < at


# Special values, and nothing


def test_special_values_are_exact() -> None:
    states = state_of(NAN, INF, -INF, -0.0, INF, NAN, 0.0, None)
    assert buckets.counts(states).tolist() == [7]
    answers = buckets.quantiles(states, np.arange(1, 8) / 7)[0]
    assert repr(answers.tolist()) == "[-inf, 0.0, 0.0, inf, inf, nan, nan]"
    assert repr(buckets.quantiles(state_of(NAN), np.array([0.0, 1.0])).tolist()) == "[[nan, nan]]"


def test_nothing() -> None:
    none = np.zeros(0, np.int64)
    (empty,) = SKETCH.lift(none, 2, pa.array([], pa.float64()))
    assert empty.to_pylist() == [b"", b""]
    assert SKETCH.lift(np.array([0, 0]), 2, pa.array([None, None], pa.float64()))[0] == empty
    assert SKETCH.combine(none, 2, (empty[:0],))[0] == empty
    assert SKETCH.combine(none, 0, (pa.array([], STATE),))[0].to_pylist() == []
    assert buckets.counts(empty).tolist() == [0, 0]
    assert np.isnan(buckets.quantiles(empty, FRACTIONS)).all()
    assert SKETCH.columns() == (STATE,)


def test_slices_of_columns() -> None:
    column = pa.array([9.0, None, 1.0, 2.0, None, 4.0])[1:]
    (states,) = SKETCH.lift(np.array([0, 0, 1, 1, 1]), 2, column)
    assert buckets.quantiles(states[1:], np.array([1.0, 0.5])).tolist() == [[4.0, pytest.approx(2.0, rel=0.01)]]
    both = pa.concat_arrays([states, pa.array([b"", None], STATE)])
    assert SKETCH.combine(np.array([0, 1, 0, 1]), 2, (both,))[0] == states


def test_sizes() -> None:
    rng = np.random.default_rng(3)
    column = pa.array(10.0 ** rng.uniform(0.0, 1.0, ROWS))
    assert len(SKETCH.lift(np.zeros(ROWS, np.int64), 1, column)[0][0].as_py()) < 400
    assert len(state_of(1.0)[0].as_py()) == 28


def test_the_accuracy_has_a_range() -> None:
    for accuracy in (0.0, 0.0009, 0.6, NAN):
        with pytest.raises(ValueError, match=r"from 0\.001 to 0\.5"):
            Buckets(accuracy)


def test_fractions_beyond_their_range_are_the_extremes() -> None:
    answers = buckets.quantiles(state_of(3.0, 1.0, 2.0), np.array([1.5, -1.0, INF]))
    assert answers.tolist() == [[3.0, 1.0, 3.0]]


# Bytes that are no states


def damaged() -> dict[str, bytes]:
    good = state_of(1.0, 2.0, 3.0)[0].as_py()
    heads, rows = good[:24], good[24:]
    return {
        "one byte": b"\x01",
        "no rows": heads,
        "a byte less": good[:-1],
        "a byte more": good + b"\0",
        "version": b"\x02" + good[1:],
        "parts": good[:2] + b"\0\0" + good[4:],
        "parts of other buckets": state_of(1.0, sketch=Buckets(0.02))[0].as_py(),
        "too many rows": good[:4] + b"\xff\xff\xff\xff" + good[8:],
        "minimum": good[:8] + struct.pack("<d", 1.5) + good[16:],
        "maximum": good[:16] + struct.pack("<d", NAN) + good[24:],
        "a count of 0": good[:-1] + b"\0",
        "a long number": good[:-1] + b"\x81\x00",
        "a bucket twice": heads + rows[:4] + b"\0" + rows[5:],
        "a bucket beyond the last": good[:-2] + b"\xff\xff\x7f\x01",
        "too many values": good[:-1] + b"\xff" * 7 + b"\x7f",
    }


@pytest.mark.parametrize("what", damaged())
def test_other_bytes_are_refused(what: str) -> None:
    states = pa.array([b"", state_of(5.0)[0].as_py(), damaged()[what]], STATE)
    for use in (buckets.check, buckets.counts, into_one, lambda states: buckets.quantiles(states, FRACTIONS)):
        with pytest.raises(DataError, match="the bytes of state 2 are not those of a bucket sketch") as refused:
            use(states)
        assert refused.value.code == "sketch-state"


def test_counts_do_not_overflow() -> None:
    huge = state_of(1.0)[0].as_py()[:-1] + b"\xff" * 7 + b"\x0f"
    assert buckets.counts(pa.array([huge], STATE)).tolist() == [(1 << 53) - 1]
    with pytest.raises(DataError, match="state 0"):
        into_one(pa.array([huge, huge], STATE))


def mutated(rng: np.random.Generator, pool: list[bytes]) -> bytes:
    """Flips, cuts, extensions, splices of two states, and bytes of no state at all."""
    state, other = (bytearray(pool[int(place)]) for place in rng.integers(0, len(pool), 2))
    way, at = int(rng.integers(0, 6)), int(rng.integers(0, len(state)))
    if way <= 1:
        for place in rng.integers(0, len(state) if way else min(len(state), 30), int(rng.integers(1, 4))):
            state[place] ^= 1 << int(rng.integers(0, 8))
    elif way == 2:
        state = state[:at]
    elif way == 3:
        state += rng.bytes(int(rng.integers(1, 20)))
    elif way == 4:
        state = state[:at] + other[at:]
    else:
        state = bytearray(pool[0][:4] + rng.bytes(int(rng.integers(1, 80))))
    return bytes(state)


def survive() -> None:
    """Run as a process of its own, in memory that a wrong length would exceed at once."""
    rng = np.random.default_rng(23)
    pool = [state_of(*INPUTS["random"][:size], *([NAN, INF] * (size % 2)))[0].as_py() for size in (1, 2, 61, 3_000)]
    fractions, refused = np.array([0.0, 0.25, 0.5, 1.0]), 0
    buckets.quantiles(into_one(pa.array(pool, STATE)), fractions)
    used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + (1 << 30),) * 2)
    for _ in range(10_000):
        states = pa.array([mutated(rng, pool), pool[2]], STATE)
        try:
            answers = buckets.quantiles(states, fractions)[0]
            combined = into_one(states)
        except DataError as error:
            refused += error.code == "sketch-state"
            continue
        numbers = answers[~np.isnan(answers)]
        assert (numbers[1:] >= numbers[:-1]).all()
        assert buckets.counts(combined)[0] == buckets.counts(states).sum()
    print("refused", refused)


@pytest.mark.skipif(sys.platform != "linux", reason="needs a limit of memory")
def test_mutated_states_give_errors_or_answers() -> None:
    done = subprocess.run([sys.executable, __file__], capture_output=True, text=True, timeout=240, check=False)
    assert done.returncode == 0, done.stderr
    refused = int(done.stdout.split()[-1])
    assert 5_000 < refused < 10_000, "both kinds must have been tried"


if __name__ == "__main__":
    survive()
