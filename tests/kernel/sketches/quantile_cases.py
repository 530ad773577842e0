"""What the tests of all quantile sketches share: the sketches, inputs, ways to merge, and how exact answers are."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import pyarrow as pa
from hypothesis import strategies as st

from benchmarks.sketches import gk
from headrace.kernel.sketches import buckets, kll
from headrace.kernel.sketches.packed_bytes import STATE
from headrace.kernel.states.columns import Columns, Slots
from headrace.model.arrays import Doubles, Integers

NAN, INF, LEAST = math.nan, math.inf, 5e-324
ROWS, PARTS = 100_000, 1_000
FRACTIONS = np.linspace(0.0, 1.0, 101)
FEW_FRACTIONS = np.array([0.0, 0.25, 0.5, 1.0])


class Sketch(Protocol):
    def columns(self) -> tuple[pa.DataType, ...]: ...

    def lift(self, slots: Slots, count: int, values: pa.Array) -> Columns: ...

    def combine(self, slots: Slots, count: int, states: Columns) -> Columns: ...


@dataclass(frozen=True)
class Subject:
    """A sketch and what reads its states. Answers are near by rank and values of the data, or else near by value."""

    sketch: Sketch
    by_rank: bool
    quantiles: Callable[[pa.Array, Doubles], Doubles]
    counts: Callable[[pa.Array], Integers]

    def lifted(self, values: Doubles, parts: int = 1) -> pa.Array:
        """The states of so many parts, one after the other."""
        return self.sketch.lift(np.arange(len(values)) * parts // max(len(values), 1), parts, pa.array(values))[0]

    def state_of(self, *values: float | None) -> pa.Array:
        return self.sketch.lift(np.zeros(len(values), np.int64), 1, pa.array(values, pa.float64()))[0]

    def bytes_of(self, *values: float | None) -> bytes:
        return bytes(self.state_of(*values)[0].as_py())

    def answers(self, states: pa.Array) -> Doubles:
        """Of the first state."""
        found: Doubles = self.quantiles(states, FRACTIONS)[0]
        return found

    def used(self, state: bytes, other: bytes) -> tuple[Doubles, pa.Array]:
        """The numbers that a state answers, and what it makes with another."""
        states = pa.array([state, other], STATE)
        answers, combined = self.quantiles(states, FEW_FRACTIONS)[0], self.into_one(states)
        assert self.counts(combined)[0] == self.counts(states).sum()
        return answers[~np.isnan(answers)], combined

    # Ways to merge

    def into_one(self, states: pa.Array) -> pa.Array:
        return self.sketch.combine(np.zeros(len(states), np.int64), 1, (states,))[0]

    def left_fold(self, states: pa.Array) -> pa.Array:
        folded = states[:1]
        for row in range(1, len(states)):
            folded = self.into_one(pa.concat_arrays([folded, states[row : row + 1]]))
        return folded

    def balanced(self, states: pa.Array) -> pa.Array:
        while len(states) > 1:
            states = self.sketch.combine(np.arange(len(states)) // 2, (len(states) + 1) // 2, (states,))[0]
        return states

    def random_tree(self, states: pa.Array) -> pa.Array:
        rng = np.random.default_rng(5)
        while len(states) > 8:
            count = int(rng.integers(len(states) // 4, len(states)))
            states = self.sketch.combine(rng.integers(0, count, len(states)), count, (states,))[0]
        return self.into_one(states)

    def drawn_tree(self, plain: list[float | None], data: st.DataObject) -> pa.Array:
        """Values into parts, those into three, and all into one."""
        parts = data.draw(st.lists(st.integers(0, 4), min_size=len(plain), max_size=len(plain)))
        middle = data.draw(st.lists(st.integers(0, 2), min_size=5, max_size=5))
        states = self.sketch.lift(np.array(parts, np.int64), 5, pa.array(plain, pa.float64()))
        return self.into_one(self.sketch.combine(np.array(middle, np.int64), 3, states)[0])


KLL = Subject(kll.Kll(), True, kll.quantiles, kll.counts)
GK = Subject(gk.Gk(), True, gk.quantiles, gk.counts)
BUCKETS = Subject(buckets.Buckets(), False, buckets.quantiles, buckets.counts)
SUBJECTS: Mapping[str, Subject] = {"kll": KLL, "gk": GK, "buckets": BUCKETS}
TREES: Mapping[str, Callable[[Subject, pa.Array], pa.Array]] = {
    "at once": Subject.into_one,
    "left fold": Subject.left_fold,
    "balanced": Subject.balanced,
    "random": Subject.random_tree,
}


# Inputs


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
SPECIAL = [NAN, -NAN, INF, -INF, -0.0, 0.0, 1.0, 1e308, LEAST, -LEAST]
values = st.one_of(st.none(), st.floats(), st.sampled_from(SPECIAL))


# What is exact


def ranks_of(total: int) -> Integers:
    return np.clip(np.ceil(total * FRACTIONS), 1, total).astype(np.int64)


def present(plain: list[float | None]) -> Doubles:
    """In order, NaN last, and with one zero."""
    return np.sort(np.array([value for value in plain if value is not None], np.float64)) + 0.0


def exact(data: Doubles) -> Doubles:
    found: Doubles = np.sort(data)[ranks_of(len(data)) - 1]
    return found


def rank_error(data: Doubles, answers: Doubles) -> float:
    """The largest distance of an answer from its nearest rank, as a part of the values."""
    ordered, wanted = np.sort(data), ranks_of(len(data))
    assert (answers[0], answers[-1]) == (ordered[0], ordered[-1])
    first = np.searchsorted(ordered, answers) + 1
    last = np.searchsorted(ordered, answers, side="right")
    assert (last >= first).all(), "an answer is no value of the data"
    return max(0.0, float(np.maximum(first - wanted, wanted - last).max())) / len(data)
