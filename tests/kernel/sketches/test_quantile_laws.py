"""What holds for every quantile sketch: nothing, NaN, slices, fractions of any kind, and bytes of any kind."""

from __future__ import annotations

import math

import numpy as np
import pyarrow as pa
import pytest

from headrace.kernel.sketches.packed_bytes import STATE
from tests.kernel.sketches.quantile_cases import FRACTIONS, INF, INPUTS, NAN, SUBJECTS, Subject

subjects = pytest.mark.parametrize("subject", SUBJECTS.values(), ids=SUBJECTS)


@subjects
def test_nothing(subject: Subject) -> None:
    none, sketch = np.zeros(0, np.int64), subject.sketch
    (empty,) = sketch.lift(none, 2, pa.array([], pa.float64()))
    assert empty.to_pylist() == [b"", b""]
    assert sketch.lift(np.array([0, 0]), 2, pa.array([None, None], pa.float64()))[0] == empty
    assert sketch.combine(none, 2, (empty[:0],))[0] == empty
    assert sketch.combine(none, 0, (pa.array([], STATE),))[0].to_pylist() == []
    assert subject.counts(empty).tolist() == [0, 0]
    assert np.isnan(subject.quantiles(empty, FRACTIONS)).all()
    assert subject.quantiles(empty, np.zeros(0)).shape == (2, 0)
    assert sketch.columns() == (STATE,)


@subjects
def test_nothing_is_neutral(subject: Subject) -> None:
    states = subject.lifted(INPUTS["random"][:5_000], 2)
    for both in ([states, pa.array([b"", None], STATE)], [pa.array([b"", None], STATE), states]):
        assert subject.sketch.combine(np.array([0, 1, 0, 1]), 2, (pa.concat_arrays(both),))[0] == states
    assert subject.sketch.combine(np.arange(2), 2, (states,))[0] == states


@subjects
def test_slices_of_columns(subject: Subject) -> None:
    column = pa.array([9.0, None, 1.0, 2.0, None, 4.0])[1:]
    (states,) = subject.sketch.lift(np.array([0, 0, 1, 1, 1]), 2, column)
    assert subject.quantiles(states[1:], np.array([1.0, 0.5])).tolist() == [[4.0, pytest.approx(2.0, rel=0.01)]]
    assert subject.into_one(states[1:]).to_pylist() == states[1:].to_pylist()


@subjects
def test_the_same_step_gives_the_same_bytes(subject: Subject) -> None:
    first, second = (subject.lifted(INPUTS["random"], 7) for _ in range(2))
    assert first == second
    assert subject.into_one(first) == subject.into_one(second)


@subjects
def test_nan_is_the_greatest(subject: Subject) -> None:
    states = subject.state_of(*([NAN] * 300), *range(700))
    assert subject.counts(states).tolist() == [1_000]
    answers = subject.quantiles(states, np.array([0.701, 0.0, 0.35, 0.7, 1.0]))[0]
    assert answers[1] == 0.0
    assert answers[2] == pytest.approx(349, abs=10)
    assert answers[3] == pytest.approx(699, rel=0.0 if subject.by_rank else 0.01)
    assert np.isnan(answers[[0, 4]]).all()
    alone = subject.state_of(NAN, None, NAN)
    assert subject.counts(alone).tolist() == [2]
    assert np.isnan(subject.quantiles(alone, np.array([0.0, 1.0]))).all()
    assert subject.counts(subject.into_one(pa.concat_arrays([alone, states]))).tolist() == [1_002]


@subjects
def test_fractions_in_any_order(subject: Subject) -> None:
    states = subject.state_of(3.0, 1.0, 2.0, -0.0)
    found = subject.quantiles(states, np.array([1.0, 0.0, 0.5, 0.75]))[0].tolist()
    assert found == pytest.approx([3.0, 0.0, 1.0, 2.0], rel=0.0 if subject.by_rank else 0.01)
    assert math.copysign(1.0, subject.quantiles(states, np.array([0.0]))[0, 0]) == 1.0


@subjects
def test_fractions_beyond_their_range_are_the_extremes(subject: Subject) -> None:
    answers = subject.quantiles(subject.state_of(3.0, 1.0, 2.0), np.array([1.5, -1.0, INF]))
    assert answers.tolist() == [[3.0, 1.0, 3.0]]
