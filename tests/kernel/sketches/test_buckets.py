"""Bucket sketches: the error of their values, the same bytes in every order, and what is refused."""

from __future__ import annotations

import math
import struct

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.kernel.sketches import buckets
from headrace.kernel.sketches.buckets import Buckets, bucket_count, octave_cuts
from headrace.kernel.sketches.packed_bytes import STATE
from headrace.model.arrays import Doubles
from headrace.model.errors import DataError
from tests.kernel.sketches.mutations import attack, changed, check_refused, check_survived, needs_limit
from tests.kernel.sketches.quantile_cases import (
    BUCKETS,
    INF,
    INPUTS,
    LEAST,
    NAN,
    PARTS,
    ROWS,
    exact,
    present,
    values,
)

SKETCH = Buckets()
EXPONENTS = np.random.default_rng(11).uniform(-1022, 1024, ROWS)
MORE_INPUTS = INPUTS | {"all exponents": np.where(np.arange(ROWS) % 2, -1.0, 1.0) * 2.0**EXPONENTS}


def check_close(data: Doubles, answers: Doubles, accuracy: float = 0.01) -> None:
    """Below the normal DOUBLEs an answer may be off by one of their steps more."""
    expected = exact(data)
    same = (expected == answers) | (np.isnan(expected) & np.isnan(answers))
    with np.errstate(invalid="ignore"):
        same |= np.abs(answers - expected) <= accuracy * np.abs(expected) + LEAST * (np.abs(expected) < 2.3e-308)
    assert same.all(), list(zip(expected[~same], answers[~same], strict=True))[:5]
    assert repr(answers[[0, -1]] + 0.0) == repr(expected[[0, -1]] + 0.0)


# Errors and order


@pytest.mark.parametrize("name", MORE_INPUTS)
@pytest.mark.parametrize("accuracy", [0.001, 0.01, 0.1, 0.5])
def test_answers_are_close(name: str, accuracy: float) -> None:
    (states,) = Buckets(accuracy).lift(np.zeros(ROWS, np.int64), 1, pa.array(MORE_INPUTS[name]))
    check_close(MORE_INPUTS[name], BUCKETS.answers(states), accuracy)


@pytest.mark.parametrize("name", MORE_INPUTS)
def test_a_thousand_merges_give_the_same_bytes(name: str) -> None:
    parts, lifted = BUCKETS.lifted(MORE_INPUTS[name], PARTS), BUCKETS.lifted(MORE_INPUTS[name][::-1])
    mixed = parts.take(pa.array(np.random.default_rng(5).permutation(PARTS)))
    assert BUCKETS.into_one(parts) == BUCKETS.random_tree(mixed) == BUCKETS.left_fold(parts) == lifted
    check_close(MORE_INPUTS[name], BUCKETS.answers(lifted))


@settings(max_examples=100)
@given(data=st.data(), plain=st.lists(values, max_size=40))
def test_any_values_in_any_grouping(data: st.DataObject, plain: list[float | None]) -> None:
    whole, kept = BUCKETS.drawn_tree(plain, data), present(plain)
    assert whole == BUCKETS.state_of(*plain) == BUCKETS.state_of(*reversed(plain))
    assert buckets.counts(whole).tolist() == [len(kept)]
    if len(kept):
        check_close(kept, BUCKETS.answers(whole))
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
            middle = buckets.quantiles(BUCKETS.state_of(-INF, near, INF), np.array([0.5]))[0, 0]
            assert abs(middle - near) <= 0.01 * abs(near) + LEAST * (abs(near) < 2.3e-308)


def test_bounds_fall_to_the_upper_bucket() -> None:
    cuts = octave_cuts(SKETCH.parts)
    assert (SKETCH.parts, bucket_count(SKETCH.parts)) == (35, 146_864)
    for bound in cuts.bounds[1:-1]:
        edge = 1.0 + float(bound) / 2.0**52
        below, at = (
            buckets.quantiles(BUCKETS.state_of(-INF, value, INF), np.array([0.5]))[0, 0]
            for value in (math.nextafter(edge, 0.0), edge)
        )
        assert below < edge < at


# Special values, and nothing


def test_special_values_are_exact() -> None:
    states = BUCKETS.state_of(NAN, INF, -INF, -0.0, INF, NAN, 0.0, None)
    assert buckets.counts(states).tolist() == [7]
    answers = buckets.quantiles(states, np.arange(1, 8) / 7)[0]
    assert repr(answers.tolist()) == "[-inf, 0.0, 0.0, inf, inf, nan, nan]"
    assert repr(buckets.quantiles(BUCKETS.state_of(NAN), np.array([0.0, 1.0])).tolist()) == "[[nan, nan]]"


def test_sizes() -> None:
    rng = np.random.default_rng(3)
    assert len(BUCKETS.lifted(10.0 ** rng.uniform(0.0, 1.0, ROWS))[0].as_py()) < 400
    assert len(BUCKETS.bytes_of(1.0)) == 28


def test_the_accuracy_has_a_range() -> None:
    for accuracy in (0.0, 0.0009, 0.6, NAN):
        with pytest.raises(ValueError, match=r"from 0\.001 to 0\.5"):
            Buckets(accuracy)


# Bytes that are no states


def damaged() -> dict[str, bytes]:
    good = BUCKETS.bytes_of(1.0, 2.0, 3.0)
    heads, rows = good[:24], good[24:]
    (other,) = Buckets(0.02).lift(np.zeros(1, np.int64), 1, pa.array([1.0]))
    return {
        "one byte": b"\x01",
        "no rows": heads,
        "a byte less": good[:-1],
        "a byte more": good + b"\0",
        "version": changed(good, 0, b"\x02"),
        "parts": changed(good, 2, b"\0\0"),
        "parts of other buckets": other[0].as_py(),
        "too many rows": changed(good, 4, b"\xff\xff\xff\xff"),
        "minimum": changed(good, 8, struct.pack("<d", 1.5)),
        "maximum": changed(good, 16, struct.pack("<d", NAN)),
        "a count of 0": good[:-1] + b"\0",
        "a long number": good[:-1] + b"\x81\x00",
        "a bucket twice": heads + rows[:4] + b"\0" + rows[5:],
        "a bucket beyond the last": good[:-2] + b"\xff\xff\x7f\x01",
        "too many values": good[:-1] + b"\xff" * 7 + b"\x7f",
    }


@pytest.mark.parametrize("what", damaged())
def test_other_bytes_are_refused(what: str) -> None:
    states = [b"", BUCKETS.bytes_of(5.0), damaged()[what]]
    check_refused("bucket sketch", states, buckets.parse, buckets.counts, BUCKETS.into_one, BUCKETS.answers)


def test_counts_do_not_overflow() -> None:
    huge = BUCKETS.bytes_of(1.0)[:-1] + b"\xff" * 7 + b"\x0f"
    assert buckets.counts(pa.array([huge], STATE)).tolist() == [(1 << 53) - 1]
    with pytest.raises(DataError, match="state 0"):
        BUCKETS.into_one(pa.array([huge, huge], STATE))


def survive() -> None:
    sizes = (1, 2, 61, 3_000)
    pool = [BUCKETS.bytes_of(*INPUTS["random"][:size], *([NAN, INF] * (size % 2))) for size in sizes]

    def use(_kind: int, state: bytes) -> None:
        answers, _ = BUCKETS.used(state, pool[2])
        assert (answers[1:] >= answers[:-1]).all()

    attack([pool], use)


@needs_limit
def test_mutated_states_give_errors_or_answers() -> None:
    check_survived(__name__)
